"""What differs between systems under one name of the standard library, where no table of names can tell.

A path of the observed build is this machine's in any case. So `os.sep` joins and splits as it does here, and compares
as it would in the cell.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ci_tools.observe.inside.chance import getrlimit
from ci_tools.observe.inside.facts import FACTS, names_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Names whose values here are those of Linux and macOS:
NOT_OF_WINDOWS = {
    "array": "array",
    "asyncio": "get_event_loop_policy new_event_loop",
    "ctypes": "alignment",
    "pathlib": "PosixPath WindowsPath",
    "posixpath": "normcase splitdrive",
    "struct": "Struct",
    "sysconfig": "get_preferred_scheme get_scheme_names",
    "tempfile": "gettempdir gettempdirb",
}
# Names whose values here are those of Linux:
OF_LINUX_ALONE = {
    "locale": "getdefaultlocale getencoding getlocale getpreferredencoding localeconv nl_langinfo setlocale",
    "mimetypes": "guess_all_extensions guess_extension guess_type init knownfiles",
    "multiprocessing": "get_all_start_methods get_context get_start_method",
    "posixpath": "supports_unicode_filenames",
    "signal": "Signals strsignal valid_signals",
    "time": "get_clock_info",
}
# Names whose values are those of this machine:
OF_NO_CELL = {
    "inspect": "getattr_static",
    "os": "ctermid get_exec_path get_terminal_size",
    "resource": "getrusage prlimit",
    "time": "altzone daylight timezone tzname",
}
KNOWN_IN = (
    (NOT_OF_WINDOWS, frozenset({"linux", "macos"})),
    (OF_LINUX_ALONE, frozenset({"linux"})),
    (OF_NO_CELL, frozenset()),
)


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

    def __repr__(self) -> str:
        return repr(self.shown())


def _word(here: str, windows: str) -> Callable[[], Word]:
    word = Word(here)
    word.windows = windows
    return lambda: word


def _by_system(here: Any, windows: Any) -> Callable[[], Any]:
    return lambda: windows if FACTS.ask("os") == "windows" else here


def _by_system_lately(module: str, name: str, windows: Callable[[Any], int]) -> Callable[[], Any]:
    """Return a module's own function, or another one on Windows; the module is imported by then."""
    return lambda: windows if FACTS.ask("os") == "windows" else names_of(sys.modules[module])[name]


def _calculate_on_windows(form: Any) -> int:
    """Return `struct.calcsize`: a long has 4 bytes on Windows (docs.python.org/3/library/struct.html)."""
    import struct

    text = form if isinstance(form, str) else bytes(form).decode()
    is_native = not text.startswith(("=", "<", ">", "!"))
    return struct.calcsize(text.replace("l", "i").replace("L", "I") if is_native else text)


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


def differing_values() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return the answers by module and name."""
    paths = {"sep": _word("/", "\\"), "altsep": _by_system(None, "/"), "pathsep": _word(":", ";")}
    paths |= {"devnull": _word("/dev/null", "nul"), "defpath": _word("/bin:/usr/bin", ".;C:\\bin")}
    answers: dict[str, dict[str, Callable[[], Any]]] = {
        "os": {**paths, "linesep": _word("\n", "\r\n")},
        "posixpath": {**paths, "__name__": _by_system("posixpath", "ntpath")},
        "shutil": {"_WINDOWS": _by_system(False, True)},
        "subprocess": {"_mswindows": _by_system(False, True)},
        "mimetypes": {"_winreg": _by_system(None, _WindowsObject("mimetypes._winreg"))},
        "resource": {"getrlimit": lambda: getrlimit, "setrlimit": lambda: lambda *_: None},
        "ctypes": {"sizeof": _by_system_lately("ctypes", "sizeof", _size_on_windows)},
        "struct": {"calcsize": _by_system_lately("struct", "calcsize", _calculate_on_windows)},
        "sys": {
            "getfilesystemencodeerrors": lambda: _by_system("surrogateescape", "surrogatepass"),
            "platlibdir": _by_system("lib", "DLLs"),
        },
    }
    for table, systems in KNOWN_IN:
        for module, names in table.items():
            for name in names.split():
                answers.setdefault(module, {})[name] = _doubtful(module, name, systems)
    return answers


def _doubtful(module: str, name: str, systems: frozenset[str]) -> Callable[[], Any]:
    """Return a function that gives this machine's value, with a doubt in the cells of other systems."""

    def answer() -> Any:
        if not systems or FACTS.ask("os") not in systems:
            FACTS.doubt(f"asks for {module}.{name}, which no cell defines")
        names = names_of(sys.modules[module])
        if name not in names:
            msg = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(msg)
        return names[name]

    return answer


class _WindowsObject:
    """An object of Windows: it exists, and to use it is a doubt."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        FACTS.unknown(f"{self.name}.{name}")
