"""What the observed code may ask of the machine it believes to be on, and what it did ask, with file and line.

Two cells that agree in every fact that was asked get the same build: that is why asking is written down.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

EXECUTED = "<string>"  # the file name of a setup.py that a build backend runs
NEAR = 8  # how many calls lie between the project's line and what it asks, through os, pathlib or subprocess


class Facts:
    """The cell's answers, and the questions so far."""

    def __init__(self) -> None:
        self.known: Mapping[str, Any] = {}
        self.root = "\0"  # of the source; before one is known no file lies below it
        self.project = ""
        self.asked: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.imports: dict[str, str] = {}

    def ask(self, name: str) -> Any:
        """Return the cell's answer, and note that it was asked for."""
        self.asked.setdefault(name, self.place())
        return self.known.get(name)

    def variable(self, name: str) -> str:
        """Return a variable that a package reads for the project, and note that it was asked for."""
        self.asked.setdefault(f"env:{name}", self.place())
        return os.environ.get(name, "")

    def doubt(self, what: str) -> None:
        """Note that the code wants to know what no cell says."""
        self.doubts.setdefault(what, self.place())

    def unknown(self, name: str) -> NoReturn:
        """Note that the code asks a package for what is not simulated, and say so as Python does."""
        if not name.rpartition(".")[2].startswith("__"):
            self.doubt(f"asks for {name}, which is not simulated")
        module, _, attribute = name.rpartition(".")
        msg = f"module {module!r} has no attribute {attribute!r}"
        raise AttributeError(msg)

    def is_own(self, file: str) -> bool:
        """Whether a file of code is the project's."""
        return file == EXECUTED or file.startswith(self.root)

    def asks(self, calls: int = 1) -> bool:
        """Whether the project's own code is among the nearest `calls` that lead to whoever wants to know."""
        return any(self.is_own(frame.f_code.co_filename) for frame, _ in zip(_frames(), range(calls), strict=False))

    def imports_itself(self) -> bool:
        """Whether the import under way is one that the project's own code states."""
        others = (frame.f_code.co_filename for frame in _frames())
        return self.is_own(next((file for file in others if "importlib" not in file), ""))

    def place(self) -> str:
        """Return the project's line that is being run, `setup.py:12`."""
        own = (frame for frame in _frames() if self.is_own(frame.f_code.co_filename))
        return next((f"{self.shown(frame.f_code.co_filename)}:{frame.f_lineno}" for frame in own), "")

    def shown(self, file: str) -> str:
        """Return a file of the project's as the source names it."""
        return self.project + "setup.py" if file == EXECUTED else file.removeprefix(self.root)


def _frames() -> Iterator[FrameType]:
    """Yield the calls under way, nearest first, without this package's own."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to see who calls
    while frame:
        if not frame.f_code.co_filename.startswith(HERE):
            yield frame
        frame = frame.f_back


HERE = __file__.rpartition("facts.py")[0]
FACTS = Facts()
