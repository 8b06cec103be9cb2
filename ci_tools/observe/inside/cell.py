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
