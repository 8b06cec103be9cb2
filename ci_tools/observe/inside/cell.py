"""The cell's Python, system and processor, in the spellings of Python's own modules."""

from __future__ import annotations

import dis
import sys
from typing import Any, NamedTuple

from ci_tools.observe.inside.facts import FACTS, list_frames, watch

SYS_PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}
SYSTEMS = {"linux": "Linux", "macos": "Darwin", "windows": "Windows"}
OS_NAMES = {"windows": "nt"}
PLATFORMS = {"linux": "linux-{}", "macos": "macosx-11.0-{}", "windows": "win-{}"}
SUFFIXES = {
    "linux": ".cpython-{digits}{thread}-{machine}-linux-gnu.so",
    "macos": ".cpython-{digits}{thread}-darwin.so",
    "windows": ".cp{digits}{thread}-win_{machine}.pyd",
}


class VersionInfo(NamedTuple):
    """`sys.version_info` of the cell's Python."""

    major: int
    minor: int
    micro: int = 0
    releaselevel: str = "final"
    serial: int = 0


def version_info() -> VersionInfo:
    """Return the version of the cell's Python."""
    major, minor = map(int, FACTS.ask("python").split("."))
    return VersionInfo(major, minor)


def python_version() -> str:
    """Return `3.12.0`."""
    return ".".join(map(str, version_info()[:3]))


def python_tags() -> tuple[str, str]:
    """Return the tags of interpreter and ABI of a wheel for the cell's Python."""
    interpreter = f"cp{FACTS.ask('python').replace('.', '')}"
    return interpreter, f"{interpreter}{'t' if FACTS.ask('free_threaded') else ''}"


def platform_tag() -> str:
    """Return `sysconfig.get_platform()` of the cell's builder."""
    return PLATFORMS[FACTS.ask("os")].format(FACTS.ask("machine"))


def machine_name() -> str:
    """Return `platform.machine()` of the cell's builder."""
    machine: str = FACTS.ask("machine")
    return machine.upper() if FACTS.known["os"] == "windows" else machine


def doubt_function(name: str, real: Any) -> Any:
    """Record a doubt when the project calls a function whose answer no cell defines."""

    def note(*_: Any, **__: Any) -> None:
        asker = sys._getframe(2).f_code.co_filename  # noqa: SLF001 - the only way to see who asks
        if not asker.endswith("/tarfile.py"):  # which gives files away as root
            FACTS.doubt(f"asks for {name}(), which no cell defines")

    return watch(real, note)


def note_place(real: Any) -> Any:
    """Record that a folder depends on the system and the version of Python."""
    return watch(real, lambda *_, **__: (FACTS.ask("python"), FACTS.ask("os")))


def cell_suffix() -> str:
    """Return the suffix of extension modules for the cell's Python."""
    thread = "t" if FACTS.ask("free_threaded") else ""
    digits = FACTS.ask("python").replace(".", "")
    return SUFFIXES[FACTS.ask("os")].format(digits=digits, thread=thread, machine=FACTS.ask("machine"))


# ---------------------------------------------------------------- the compiler that made the cell's Python

# Its kind and its age differ between builders of one cell. So it is tried twice, as old as a builder's can be and as
# new: what both lead to depends on neither.
# The old and the new text of `platform.python_compiler()`: of python.org, manylinux, uv, Apple and distributions.
TEXTS = {
    "gcc": ("GCC 8.5.0 20210514 (Red Hat 8.5.0-28)", "GCC 16.1.0"),
    "clang": ("Clang 12.0.0 (clang-1200.0.32.29)", "Clang 23.1.0 "),
    "msvc": ("MSC v.1900 64 bit ({machine})", "MSC v.1960 64 bit ({machine})"),
}
KINDS = {"macos": "clang", "windows": "msvc"}  # on Linux it is one of two
ANY_OF_THEM = "".join(f" [{text}]" for two in TEXTS.values() for text in two)
BUILT_OF = "(main)"  # the branch of Python's own repository
FREE_THREADED = "experimental free-threading build "  # from 3.14 on without its first word


def compiler_of_python(*_: object) -> str:
    """Return `platform.python_compiler()` of the cell's Python."""
    kind = KINDS.get(FACTS.ask("os"), "")
    kind = kind or ("clang" if FACTS.suppose("clang has compiled Python") else "gcc")
    old, new = TEXTS[kind]
    return (new if FACTS.suppose("a new compiler has compiled Python") else old).format(machine=machine_name())


class Version(str):
    """`sys.version`, in which some projects look for the compiler of Python."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        if str.__contains__(self, part) or not FACTS.asks():  # type: ignore[operator]
            return str.__contains__(self, part)  # type: ignore[operator]
        some = f"{self}{ANY_OF_THEM}"
        return part in some.format(machine="AMD64") + some.format(machine="ARM64") and part in self.whole()  # type: ignore[operator]

    def find(self, *args: Any) -> int:
        """Return where a part starts, or -1."""
        found = str.find(self, *args)
        return self.whole().find(*args) if found < 0 and FACTS.asks() else found

    def whole(self) -> str:
        """Return the text with the compiler."""
        return f"{self} [{compiler_of_python()}]"


class VersionWords:
    """`sys.version` in a line that only looks for a word in it: no number of a Python decides about `conda`."""

    def __contains__(self, part: object) -> bool:
        is_word = isinstance(part, str) and part.isalpha() and part not in FREE_THREADED
        return part in (Version(BUILT_OF) if is_word else _read_version())


def show_version() -> Version | VersionWords:
    """Return `sys.version` of the cell's Python, or what can be looked for in it."""
    frame = next(list_frames())
    after = [one.opname for one in dis.get_instructions(frame.f_code) if one.offset >= frame.f_lasti]
    return VersionWords() if after[:2] == ["LOAD_ATTR", "CONTAINS_OP"] else _read_version()


def _read_version() -> Version:
    is_free_threaded = version_info() >= (3, 13) and FACTS.ask("free_threaded")
    build = FREE_THREADED.removeprefix("" if version_info() < (3, 14) else "experimental ")
    return Version(f"{python_version()} {build if is_free_threaded else ''}{BUILT_OF}")
