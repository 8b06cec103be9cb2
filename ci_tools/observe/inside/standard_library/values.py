"""What differs between systems under one name of the standard library, where no table of names can tell.

A path of the observed build is this machine's in any case. So `os.sep` joins and splits as it does here, and compares
as it would in the cell.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

from ci_tools.observe.inside.chance import getrlimit
from ci_tools.observe.inside.facts import FACTS, names_of
from ci_tools.observe.inside.standard_library import drivers

# By systems, "linux macos": the names whose values there are those of this machine. Those below "" have no cell's.
KNOWN_IN: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
# Modules whose numbers are the system's, and those that Linux, macOS and Windows have in common.
NUMBERED = frozenset({"errno", "fcntl", "mmap", "os", "resource", "select", "signal", "socket", "termios"})
COMMON = re.compile(
    r"errno\.E(?!AGAIN|DEADL|WOULD)\w+|signal\.SIG(?:INT|TERM|SEGV|ILL|FPE)|socket\.(?:AF_INET|SOCK_(?:STREAM|DGRAM)"
    r"|IPPROTO_\w+)|os\.(?:SEEK_\w+|[FRWX]_OK|O_(?:RDONLY|WRONLY|RDWR))"
)
LAST_COMMON_ERROR = 34  # ERANGE: each system has numbered its own after it


class Word(str):
    """A word that differs between systems: used, it is this machine's; compared, printed or hashed, the cell's."""

    __slots__ = ("windows",)
    windows: str

    def shown(self) -> str:
        """Return what the cell has."""
        return self.windows if FACTS.asks() and FACTS.ask("os") == "windows" else str.__str__(self)

    def __eq__(self, other: object) -> bool:
        return self.shown() == other

    def __ne__(self, other: object) -> bool:
        return self.shown() != other

    def __hash__(self) -> int:
        return hash(self.shown())

    def __contains__(self, part: object) -> bool:
        return part in self.shown()  # type: ignore[operator]

    def __len__(self) -> int:
        return len(self.shown())

    def __repr__(self) -> str:
        return repr(self.shown())


class Number(int):
    """A number of this machine's system: handed on, it is that; decided by, it is a doubt in the cells of others."""

    def __new__(cls, value: int, name: str) -> Number:
        made = super().__new__(cls, value)
        made.name = name
        return made

    name: str


def _decide_by(method: str) -> Callable[..., Any]:
    real = getattr(int, method)

    def decide(self: Number, *others: Any) -> Any:
        error = sys.exc_info()[1]
        is_of_error = isinstance(error, OSError) and others == (error.errno,)
        if FACTS.asks() and not is_of_error and FACTS.ask("os") != "linux":
            FACTS.doubt(f"decides by the number of {self.name}, which differs between systems")
        return real(self, *others)

    return decide


for _method in "eq ne lt le gt ge hash bool repr format add sub mod and".split():  # noqa: SIM905 - as words
    setattr(Number, f"__{_method}__", _decide_by(f"__{_method}__"))


def list_numbers(module: Any) -> dict[str, Callable[[], Number]]:
    """Return what gives the numbers of a module that not all systems have in common, by name."""
    name = str(names_of(module)["__name__"])
    found = names_of(module).items() if name in NUMBERED else ()
    return {
        key: functools.partial(Number, int(value), f"{name}.{key}")
        for key, value in found
        if isinstance(value, int)
        and key.isupper()
        and not (COMMON.fullmatch(f"{name}.{key}") and (name != "errno" or value <= LAST_COMMON_ERROR))
    }


def _word(here: str, windows: str) -> Callable[[], Word]:
    word = Word(here)
    word.windows = windows
    return lambda: word


def _by_system(here: Any, windows: Any) -> Callable[[], Any]:
    return lambda: windows if FACTS.ask("os") == "windows" else here


def _by_system_lately(module: str, name: str, windows: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a module's own function, or another one on Windows; the module is imported by then."""
    return lambda: windows if FACTS.ask("os") == "windows" else names_of(sys.modules[module])[name]


def _calculate_on_windows(form: Any) -> int:
    """Return `struct.calcsize`: a long has 4 bytes on Windows (docs.python.org/3/library/struct.html)."""
    import struct

    text = form if isinstance(form, str) else bytes(form).decode()
    is_native = not text.startswith(("=", "<", ">", "!"))
    return struct.calcsize(text.replace("l", "i").replace("L", "I") if is_native else text)


def _normalise_on_windows(path: Any) -> Word:
    """Return a path that is compared as `ntpath.normcase` makes it."""
    word = Word(os.fsdecode(path))
    word.windows = str.__str__(word).replace("/", "\\").lower()
    return word


def _size_on_windows(kind: Any) -> int:
    """Return `ctypes.sizeof` of a simple type; for others it is this machine's, with a doubt."""
    import ctypes

    if kind in {ctypes.c_long, ctypes.c_ulong}:
        return ctypes.sizeof(ctypes.c_int)
    if kind is ctypes.c_wchar:
        return ctypes.sizeof(ctypes.c_short)
    if getattr(kind, "__module__", "") != "ctypes":
        FACTS.doubt("asks ctypes for the size of a type of its own, which no cell defines")
    return ctypes.sizeof(kind)


def _read_parameters(name: str) -> Callable[..., Any]:
    """Return a function of `inspect`: the parameters of the standard library's own are those of its Python."""

    def read(function: Any, *args: Any, **kwargs: Any) -> Any:
        module = str(getattr(function, "__module__", "")).partition(".")[0]
        if FACTS.asks() and module in names_of(sys)["stdlib_module_names"]:
            FACTS.doubt(f"reads the parameters of a function of {module}, which not every Python has")
        return names_of(sys.modules["inspect"])[name](function, *args, **kwargs)

    return read


@functools.cache  # a class, by which a project may ask what it got
def _open_library() -> Any:
    return drivers.open_library(names_of(sys.modules["ctypes"])["CDLL"])


def _find_library() -> Any:
    return drivers.find_library(names_of(sys.modules["ctypes.util"])["find_library"])


def differing_values() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return the answers by module and name."""
    paths = {"sep": _word("/", "\\"), "altsep": _by_system(None, "/"), "pathsep": _word(":", ";")}
    paths |= {"devnull": _word("/dev/null", "nul"), "defpath": _word("/bin:/usr/bin", ".;C:\\bin")}
    answers: dict[str, dict[str, Callable[[], Any]]] = {
        "os": {**paths, "linesep": _word("\n", "\r\n")},
        "posixpath": {
            **paths,
            "__name__": _by_system("posixpath", "ntpath"),
            "normcase": _by_system_lately("posixpath", "normcase", _normalise_on_windows),
        },
        "shutil": {"_WINDOWS": _by_system(False, True)},
        "subprocess": {"_mswindows": _by_system(False, True)},
        "mimetypes": {"_winreg": _by_system(None, _WindowsObject("mimetypes._winreg"))},
        "resource": {"getrlimit": lambda: getrlimit, "setrlimit": lambda: lambda *_: None},
        "ctypes": {
            "sizeof": _by_system_lately("ctypes", "sizeof", _size_on_windows),
            "CDLL": _open_library,
            "cdll": lambda: sys.modules["ctypes"].LibraryLoader(_open_library()),
        },
        "ctypes.util": {"find_library": _find_library},
        "inspect": {name: functools.partial(_read_parameters, name) for name in ("getfullargspec", "signature")},
        "struct": {"calcsize": _by_system_lately("struct", "calcsize", _calculate_on_windows)},
        "sys": {
            "getfilesystemencodeerrors": lambda: _by_system("surrogateescape", "surrogatepass"),
            "platlibdir": _by_system("lib", "DLLs"),
        },
    }
    for systems, table in KNOWN_IN.items():
        for module, names in table.items():
            for name in names.split():
                answers.setdefault(module, {})[name] = _doubtful(module, name, systems.split())
    return answers


def _doubtful(module: str, name: str, systems: Collection[str]) -> Callable[[], Any]:
    """Return a function that gives this machine's value, with a doubt in the cells of other systems."""

    def answer() -> Any:
        if not systems or FACTS.ask("os") not in systems:
            FACTS.doubt(f"asks for {module}.{name}, which no cell defines")
        names = names_of(sys.modules[module])
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return names[name]

    return answer


class _WindowsObject:
    """An object of Windows: it exists, and to use it is a doubt."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        FACTS.unknown(f"{self.name}.{name}")
