"""Workflow commands, which GitHub Actions reads from the output of a step (`::error::`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ci_tools.errors import FatwheelError, RejectedInput
from ci_tools.formats.markdown import output, text

MOST = 10  # annotations per step that GitHub shows
MAX_TEXT = 4000  # characters per annotation; GitHub cuts all of a run at 64 kB
MAX_START = 500  # characters kept from the start of a longer text; its end says what went wrong
SPACES = "\t\n\r\xa0"
PLACE = re.compile(r"(?P<file>[^:\n]+):(?P<line>[0-9]+)(:(?P<column>[0-9]+))?")


def annotations_of(error: FatwheelError, title: str = "Fatwheel") -> Iterator[str]:
    """Yield a command for each problem of an error, with its file and line if it names them."""
    if not isinstance(error, RejectedInput):
        yield annotation("error" if error.status else "notice", str(error), title)
        return
    for where, what in error.problems[:MOST]:
        yield annotation("error", what if PLACE.fullmatch(where) else f"{where}: {what}".lstrip(": "), title, where)


def annotation(level: str, message: str, title: str, where: str = "") -> str:
    """Return the command that shows a message on the run's page; `level` is error, warning or notice."""
    place = PLACE.fullmatch(where)
    parts = {"title": title, "file": place["file"], "line": place["line"]} if place else {"title": title}
    if place and place["column"]:
        parts["col"] = place["column"]
    shown = ",".join(f"{name}={_property(value)}" for name, value in parts.items())
    return f"::{level} {shown}::{_data(_cut(message))}"


def summarize(error: FatwheelError) -> str:
    """Return an error as Markdown for the page of a job: its sentence, further lines as they are, and what helps."""
    sentence, *lines = _cut(error.message).splitlines() or [""]
    words = f"<pre>\n{''.join(map(output, lines))}</pre>\n\n" if lines else ""
    more = (f"{text(part)}\n\n" for part in (error.hint, error.standing) if part)
    return f"❌ **{text(sentence)}**\n\n{words}{''.join(more)}"


def stop(token: str) -> str:
    """Return the command that makes GitHub ignore commands in the output, until `resume` with the same token."""
    return f"::stop-commands::{token}"


def resume(token: str) -> str:
    """Return the command that ends the effect of `stop`."""
    return f"::{token}::"


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_START]}\n…\n{text[-(MAX_TEXT - MAX_START) :]}"


def _data(text: str) -> str:
    """Return a text escaped for one line of a command; control and direction characters are shown as escapes."""
    shown = "".join(char if char.isprintable() or char in SPACES else ascii(char)[1:-1] for char in text)
    # the percent sign first: the others add some
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # as actions/toolkit, core/src/command.ts: escapeProperty
    return _data(text).replace(":", "%3A").replace(",", "%2C")
