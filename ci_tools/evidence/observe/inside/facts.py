"""What the observed code may ask of the machine it believes to be on, and what it did ask, with file and line.

Two cells that agree in every fact that was asked get the same build: that is why asking is written down.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

CHANGES = "changes what observes it"
EXECUTED = "<string>"  # the file name of a setup.py that a build backend runs
HERE = __file__.rpartition("facts.py")[0]
# Python's own library: some of it is frozen into the interpreter.
LIBRARY = (os.path.dirname(threading.__file__) + os.sep, "<frozen ")
IMPORTING = "<frozen importlib"
# As they are before anybody puts others in their place.
close, dumps, getpid, open_file, write = os.close, json.dumps, os.getpid, os.open, os.write


class _Guarded(type):
    """The class of what is not to be changed by the project's code, which is seen to want to."""

    def __setattr__(cls, name: str, value: Any) -> None:
        FACTS.doubt(CHANGES)

    def __delattr__(cls, name: str) -> None:
        FACTS.doubt(CHANGES)


class Facts(metaclass=_Guarded):
    """The cell's answers, and the questions so far."""

    def __init__(self) -> None:
        self.known: Mapping[str, Any] = {}
        self.root = "\0"  # of the source
        self.foreign: tuple[str, ...] = ("",)  # where code lies that is not the project's; at first that is all code
        self.project = ""
        self.asked: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        self.journal = ""

    def begin(self, known: Mapping[str, Any], root: str, project: str, modules: str, journal: str) -> None:
        """Take everything for the project's own code from now on that is neither Python's nor in `modules`."""
        self.known, self.root, self.project = known, root, project
        self.foreign = (*LIBRARY, modules, HERE, os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep)
        self.journal = journal  # last: nothing of this is set again

    def ask(self, name: str) -> Any:
        """Return the cell's answer, and note that it was asked for."""
        self.note(name)
        return self.known.get(name)

    def note(self, name: str) -> None:
        """Note that something was asked for, where the project's code does so if it is the project's code."""
        if not self.asked.get(name):
            self._keep("asked", name, self.place())

    def note_others(self, name: str) -> None:
        """Note that code which is not the project's asked for something."""
        if name not in self.asked:
            self._keep("asked", name, "")

    def variable(self, name: str) -> str:
        """Return a variable that a package reads for the project, and note that it was asked for."""
        self.note(f"env:{name}")
        return os.environ.get(name, "")

    def doubt(self, what: str) -> None:
        """Note that the code wants to know what no cell says."""
        if what not in self.doubts:
            self._keep("doubts", what, self.place())

    def note_import(self, module: str) -> None:
        """Note that a module was imported that only some builds have."""
        if module not in self.imports:
            self._keep("imports", module, self.place())

    def tell(self, **what: Any) -> None:
        """Write down outside of this process what happens, so that no later code of it can take that back."""
        self.write(dumps({**what, "by": getpid()}).encode())

    def write(self, line: bytes) -> None:
        """Write a line into the journal, which is opened each time: a descriptor can be closed, or led elsewhere."""
        if self.journal:
            journal = open_file(self.journal, os.O_WRONLY | os.O_CLOEXEC)
            line += b"\n"
            while line:
                line = line[write(journal, line) :]
            close(journal)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what is not begun yet; the project's code may want to change it later, and is seen to."""
        if getattr(self, "journal", ""):
            self.doubt(CHANGES)
        else:
            super().__setattr__(name, value)

    def _keep(self, table: str, name: str, place: str) -> None:
        found = getattr(self, table)
        if found.get(name) != place:
            found[name] = place
            self.tell(**{table: {name: place}})

    def unknown(self, name: str) -> NoReturn:
        """Note that the code asks a package for what is not simulated, and say so as Python does."""
        if not name.rpartition(".")[2].startswith("__"):
            self.doubt(f"asks for {name}, which is not simulated")
        module, _, attribute = name.rpartition(".")
        msg = f"module {module!r} has no attribute {attribute!r}"
        raise AttributeError(msg)

    def is_own(self, file: str) -> bool:
        """Whether a file of code is the project's: no other code says of itself that it lies anywhere else."""
        return not file.startswith(self.foreign)

    def asks(self) -> bool:
        """Whether it is the project's own code that wants to know, without anybody between."""
        return next((self.is_own(frame.f_code.co_filename) for frame in _frames()), False)

    def lets_ask(self) -> bool:
        """Whether it is the project's own code that wants to know, by Python's library or directly."""
        for frame in _frames():
            file = frame.f_code.co_filename
            if self.is_own(file):
                return True
            if not file.startswith(LIBRARY) or file.startswith(IMPORTING):
                return False
        return threading.current_thread() is not threading.main_thread()  # a thread of whoever started it

    def is_called_in(self, function: str) -> bool:
        """Whether the nearest function that is not of Python's library has that name."""
        others = (frame.f_code for frame in _frames() if not frame.f_code.co_filename.startswith(LIBRARY))
        return next((code.co_name == function for code in others), False)

    def imports_itself(self) -> bool:
        """Whether the import under way is one that the project's own code states."""
        others = (frame.f_code.co_filename for frame in _frames())
        return self.is_own(next((file for file in others if "importlib" not in file), HERE))

    def place(self) -> str:
        """Return the project's line that is being run, `setup.py:12`."""
        own = (frame for frame in _frames() if self.is_own(frame.f_code.co_filename))
        return next((f"{self.shown(frame.f_code.co_filename)}:{frame.f_lineno}" for frame in own), "")

    def shown(self, file: str) -> str:
        """Return a file of the project's as the source names it."""
        return self.project + "setup.py" if file == EXECUTED else file.removeprefix(self.root)


class GuardedModule(ModuleType):
    """A module of this package, whose names the project's code is seen to change."""

    def __setattr__(self, name: str, value: Any) -> None:
        FACTS.doubt(CHANGES)

    def __delattr__(self, name: str) -> None:
        FACTS.doubt(CHANGES)


def _frames() -> Iterator[FrameType]:
    """Yield the calls under way, nearest first, without this package's own."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to see who calls
    while frame:
        if not frame.f_code.co_filename.startswith(HERE):
            yield frame
        frame = frame.f_back


FACTS = Facts()
