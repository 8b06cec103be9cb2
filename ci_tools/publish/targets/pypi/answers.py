"""The answers of an index's server, as text for people."""

from __future__ import annotations

from ci_tools.formats.wheel import CONTROL

MAX_SAID = 400  # characters of a server's message
UNAUTHORISED = (401, 403)
AGAIN = "run the same command again: it continues where it stopped"


def clean_text(text: str) -> str:
    """Return a server's message as one short line, without terminal control characters."""
    return CONTROL.sub(" ", " ".join(text.split()))[:MAX_SAID]
