"""Answers the observed code's questions about the cell's machine, and records each question with file and line.

Two cells with the same answers to all recorded questions get the same build: that is why questions are recorded.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any, NoReturn

CHANGES = "changes its observer"
EXECUTED = "<string>"  # the file name of a setup.py that a build backend runs
HERE = __file__.rpartition("facts.py")[0]
# The standard library: some of it is frozen into the interpreter.
LIBRARY = (os.path.dirname(threading.__file__) + os.sep, "<frozen ")
IMPORTING = "<frozen importlib"
COMMIT = ".git/HEAD"  # stands for all that the commit decides, the files around the source too
SUPPOSED = "supposed:"  # the start of a question whose answer no cell defines, and that has two answers
# ruff: noqa: SIM905 - as words they fit on a page
# Functions of the standard library that ask in their caller's name for an attribute that it chose.
REFLECTION = frozenset(
    "_check_instance _getmembers _importer attrgetter getattr_static getmembers getmembers_static locate "
    "resolve_dotted_attribute resolve_name".split()
)
# References to the originals, before other code replaces them.
close, dumps, getpid, open_file, write = os.close, json.dumps, os.getpid, os.open, os.write


names_of: Callable[[ModuleType], dict[str, Any]] = ModuleType.__dict__["__dict__"].__get__  # of a module, unwatched


class _Guarded(type):
    """The metaclass of objects that the project's code must not change; an attempt is recorded as a doubt."""

    def __setattr__(cls, name: str, value: Any) -> None:
        FACTS.doubt(CHANGES)

    def __delattr__(cls, name: str) -> None:
        FACTS.doubt(CHANGES)


class AskedFacts(metaclass=_Guarded):
    """The cell's answers, and the questions asked so far."""

    def __init__(self) -> None:
        self.known: Mapping[str, Any] = {}
        self.root = "\0"  # of the source
        self.foreign: tuple[str, ...] = ("",)  # folders of code that is not the project's; at first, of all code
        self.project = ""
        self.asked: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        self.reads: dict[str, str] = {}  # the files of the source whose content may decide something
        self.journal = ""

    def begin(self, known: Mapping[str, Any], root: str, project: str, modules: str, journal: str) -> None:
        """From now on, treat all code as the project's, except Python's and that in `modules`."""
        self.known, self.root, self.project = known, root, project
        own = os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep
        self.foreign = (*LIBRARY, modules, HERE, own, known["fork_server"])
        self.journal = journal  # last: after this, no attribute can be set

    def ask(self, name: str) -> Any:
        """Return the cell's answer, and record the question."""
        self.note(name)
        return self.known.get(name)

    def note(self, name: str, place: str = "") -> None:
        """Record a question, with its place if the project's code asks."""
        if not self.asked.get(name):
            self._keep("asked", name, place or self.place())

    def note_others(self, name: str) -> None:
        """Record a question of code that is not the project's."""
        if name not in self.asked:
            self._keep("asked", name, "")

    def variable(self, name: str) -> str:
        """Return a variable that a package reads for the project, and record the question."""
        self.note(f"env:{name}")
        return os.environ.get(name, "")

    def doubt(self, what: str, place: str = "") -> None:
        """Record a doubt: a question of the code that no cell answers. `place` is the line if another one runs."""
        if what not in self.doubts:
            self._keep("doubts", what, place or self.place())

    def suppose(self, what: str) -> bool:
        """Return one of the two answers to a question about the builder; another run gets the other answer."""
        self.note(f"{SUPPOSED}{what}")
        return what in self.known["supposed"]

    def note_import(self, module: str) -> None:
        """Record the import of a module that only some builds have."""
        if module not in self.imports:
            self._keep("imports", module, self.place())

    def note_file(self, path: Any) -> None:
        """Record a file if it is one of the source: what nothing reads or looks at decides nothing."""
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(self.root):
            name = name.removeprefix(self.root)
        elif name.startswith(self.known.get("checkout", "\0")):
            name = COMMIT
        else:
            return
        if name not in self.reads:
            self._keep("reads", name, "")

    def note_git(self) -> None:
        """Record that the project asks git: the commit and the tags decide what it gets to know."""
        self.note_file(self.root + COMMIT)

    def tell(self, **what: Any) -> None:
        """Report an event to the journal, outside this process, so that later code cannot remove it."""
        self.write(dumps({**what, "by": getpid()}).encode())

    def write(self, line: bytes) -> None:
        """Write a line to the journal, opened each time: a kept descriptor could be closed or redirected."""
        if self.journal:
            journal = open_file(self.journal, os.O_WRONLY | os.O_CLOEXEC)
            line += b"\n"
            while line:
                line = line[write(journal, line) :]  # write(2) may take only a part
            close(journal)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute before `begin`; a later attempt by the project's code is recorded as a doubt."""
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
        """Record a request for something in a package that is not simulated, and raise AttributeError."""
        if not name.rpartition(".")[2].startswith("__"):
            self.doubt(f"asks for {name}, which is not simulated")
        module, _, attribute = name.rpartition(".")
        raise AttributeError(f"module {module!r} has no attribute {attribute!r}")

    def is_own(self, file: str) -> bool:
        """Whether a code file is the project's: all other code is in the known folders."""
        return not file.startswith(self.foreign)

    def asks(self) -> bool:
        """Whether the direct caller of this package is the project's own code."""
        return self.is_asked_by(next(list_frames(), None))

    def is_asked_by(self, frame: FrameType | None) -> bool:
        """Whether a frame is the project's own code, or a function that asks for it by name."""
        while frame and frame.f_code.co_name in REFLECTION and frame.f_code.co_filename.startswith(LIBRARY):
            frame = frame.f_back
        return frame is not None and self.is_own(frame.f_code.co_filename)

    def lets_ask(self) -> bool:
        """Whether the caller is the project's own code, directly or through the standard library."""
        foreign, frame = self.foreign, sys._getframe(1)  # noqa: SLF001 - see list_frames, which takes twice as long
        while frame:
            file = frame.f_code.co_filename
            if not file.startswith(HERE):
                if not file.startswith(foreign):
                    return True
                if not file.startswith(LIBRARY) or file.startswith(IMPORTING):
                    return False
            frame = frame.f_back  # type: ignore[assignment]
        return threading.current_thread() is not threading.main_thread()  # a thread that the project may have started

    def is_called_in(self, function: str) -> bool:
        """Whether the nearest function outside the standard library has that name."""
        others = (frame.f_code for frame in list_frames() if not frame.f_code.co_filename.startswith(LIBRARY))
        return next((code.co_name == function for code in others), False)

    def imports_itself(self) -> bool:
        """Whether the project's own code states the current import."""
        others = (frame.f_code.co_filename for frame in list_frames())
        return self.is_own(next((file for file in others if "importlib" not in file), HERE))

    def place(self) -> str:
        """Return the line of the project that is running, such as `setup.py:12`, or ""."""
        own = (frame for frame in list_frames() if self.is_own(frame.f_code.co_filename))
        return next((f"{self.shown(frame.f_code.co_filename)}:{frame.f_lineno}" for frame in own), "")

    def shown(self, file: str) -> str:
        """Return the name of a project's file in the source."""
        return self.project + "setup.py" if file == EXECUTED else file.removeprefix(self.root)


def watch(real: Any, note: Callable[..., object]) -> Any:
    """Return a function that calls `note` with its arguments first, where the project calls it."""

    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            note(*args, **kwargs)
        return real(*args, **kwargs)

    return called


def answer(real: Any, give: Callable[..., Any], asks: Callable[[], bool] | None = None) -> Any:
    """Return a function that the project gets another result of; `asks` says whether it is the project that calls."""
    asks = asks or FACTS.lets_ask

    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        return give(*args, **kwargs) if asks() else real(*args, **kwargs)

    return called


def refuse_file(path: Any) -> NoReturn:
    """Raise FileNotFoundError for a file that the cell does not have."""
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


class GuardedModule(ModuleType):
    """A module of this package; an attempt of the project's code to change it is recorded as a doubt."""

    def __setattr__(self, name: str, value: Any) -> None:
        FACTS.doubt(CHANGES)

    def __delattr__(self, name: str) -> None:
        FACTS.doubt(CHANGES)


def list_frames() -> Iterator[FrameType]:
    """Yield the active frames, nearest first, without this package's own."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only way to see the caller
    while frame:
        if not frame.f_code.co_filename.startswith(HERE):
            yield frame
        frame = frame.f_back


FACTS = AskedFacts()
