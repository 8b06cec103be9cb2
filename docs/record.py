"""Writes what the commands on the pages of examples print, from a run: `python -m docs.record [PAGE…]`.

The files of a page are written to a new folder and its commands are typed there, as the tests do it. What a page shows
of a command is replaced, there and on the front page, unless a line `…` in it stands for lines that somebody left out.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.builders import walkthroughs

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES = Path(__file__).parent / "examples"
FRONT = Path(__file__).parent / "index.md"  # shows blocks of the examples


def record(page: Path) -> dict[str, str]:
    """Run a page's commands, write what they print into it, and return its console blocks as they were and are."""
    text, changed = page.read_text(encoding="utf-8"), {}
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / page.stem
        project.mkdir()
        for block in walkthroughs.read_blocks(page):
            if block.language == "console":
                changed[block.text] = _typed(block.text, project)
            else:
                walkthroughs.write_file(block, project)
    _replace(page, text, changed)
    return changed


def _replace(page: Path, text: str, changed: Mapping[str, str]) -> None:
    for old, new in changed.items():
        text = text.replace(old, new)
    page.write_text(text, encoding="utf-8")


def _typed(console: str, project: Path) -> str:
    """Return a console block with what its commands print now."""
    lines = []
    for command, shown in walkthroughs.commands(console):
        kept = walkthroughs.ANY in shown or command.startswith(("pip ", "git "))
        said = "" if command.startswith("pip ") else walkthroughs.type_quickly(command, project)
        printed = shown if kept else walkthroughs.anonymous(said, project).splitlines()
        lines += [f"$ {command}", *"\n".join(line.rstrip() for line in printed).strip("\n").splitlines()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(EXAMPLES.glob("*.md")):
        _replace(FRONT, FRONT.read_text(encoding="utf-8"), record(path))
