"""The cell's Python, system and processor, in the spellings of Python's own modules."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ci_tools.observe.inside.facts import FACTS, watch

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
        return str.__contains__(self, part) or (FACTS.asks() and part in self.whole())  # type: ignore[operator]

    def find(self, *args: Any) -> int:
        """Return where a part starts, or -1."""
        found = str.find(self, *args)
        return self.whole().find(*args) if found < 0 and FACTS.asks() else found

    def whole(self) -> str:
        """Return the text with the compiler."""
        return f"{self} [{compiler_of_python()}]"
