"""Makes the machine look like the cell's, for the project's own code alone: all other code keeps seeing the real one.

Python's library and setuptools would break if they were lied to; a project's build code is what decides.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.observer.facts import FACTS, NEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec

SYS_PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}
SYSTEMS = {"linux": "Linux", "macos": "Darwin", "windows": "Windows"}
OS_NAMES = {"windows": "nt"}
PLATFORMS = {"linux": "linux-{}", "macos": "macosx-11.0-{}", "windows": "win-{}"}
SUFFIXES = {
    "linux": ".cpython-{digits}{thread}-{machine}-linux-gnu.so",
    "macos": ".cpython-{digits}{thread}-darwin.so",
    "windows": ".cp{digits}{thread}-win_{machine}.pyd",
}
# Modules of Python's library that not every version has: the first that has it, and the first that has it no more.
LIBRARY: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "asynchat": ((3, 0), (3, 12)),
    "asyncore": ((3, 0), (3, 12)),
    "cgi": ((3, 0), (3, 13)),
    "imp": ((3, 0), (3, 12)),
    "pipes": ((3, 0), (3, 13)),
    "tomllib": ((3, 11), (4, 0)),
}
# Programs that only make a build quicker, or that tell of a GPU.
INDIFFERENT_PROGRAMS = frozenset({"ccache", "sccache", "nvidia-smi", "rocm-smi", "rocminfo"})
ACCELERATOR_PROGRAMS = frozenset({"hipcc", "hipconfig", "nvcc"})
USUAL_PLACES = ("/usr/local/cuda", "/opt/rocm", "/opt/intel")  # of toolkits that a job names by a variable
# What a build is told and does not decide by: whatever its value, the same is built.
INDIFFERENT = frozenset({"CMAKE_BUILD_PARALLEL_LEVEL", "HOME", "MAX_JOBS", "PATH", "TMPDIR"})
FOR_OUR_TOOLS = ("FATWHEEL_", "SETUPTOOLS_EXT_SUFFIX")


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


def put_on(env: Mapping[str, str], provided: Sequence[str]) -> None:
    """Show the cell instead of this machine; `provided` are the modules that the cell's build has and this one not."""
    _variables(env)
    sys.__class__ = _Sys
    os.__class__ = _Os
    _functions()
    sys.meta_path.insert(0, _Absent())
    sys.meta_path.append(_Missing(provided))
    sys.addaudithook(_heard)


# ---------------------------------------------------------------- sys, os, platform, sysconfig


class _Sys(ModuleType):
    """The module `sys`, of which the project's code sees the cell's."""

    def __new__(cls, *args: Any) -> ModuleType:  # type: ignore[misc]
        """Make an ordinary module: Python's import makes every new one as `type(sys)(name)`."""
        return ModuleType(*args)

    @property
    def platform(self) -> str:
        return SYS_PLATFORMS[FACTS.ask("os")] if FACTS.asks() else str(self.__dict__["platform"])

    @property
    def version_info(self) -> Any:
        return version_info() if FACTS.asks() else self.__dict__["version_info"]

    @property
    def version(self) -> str:
        return f"{_version()} (main)" if FACTS.asks() else str(self.__dict__["version"])

    @property
    def hexversion(self) -> int:
        info = version_info() if FACTS.asks() else None
        return info.major << 24 | info.minor << 16 | 0xF0 if info else int(self.__dict__["hexversion"])

    @property
    def abiflags(self) -> str:
        return ("t" if FACTS.ask("free_threaded") else "") if FACTS.asks() else str(self.__dict__["abiflags"])

    def __getattr__(self, name: str) -> Any:
        """Return what only Windows has."""
        if name == "getwindowsversion" and FACTS.asks() and FACTS.ask("os") == "windows":
            return lambda: WindowsVersion()  # noqa: PLW0108 - a function, not a class
        msg = f"module 'sys' has no attribute {name!r}"
        raise AttributeError(msg)


class WindowsVersion(NamedTuple):
    """`sys.getwindowsversion()` of the platform's runner."""

    major: int = 10
    minor: int = 0
    build: int = 26100
    platform: int = 2
    service_pack: str = ""


class _Os(ModuleType):
    """The module `os`, of which the project's code sees the cell's."""

    @property
    def name(self) -> str:
        return OS_NAMES.get(FACTS.ask("os"), "posix") if FACTS.asks() else str(self.__dict__["name"])


def _version() -> str:
    return ".".join(map(str, version_info()[:3]))


def _functions() -> None:
    """Replace the functions that tell what machine this is."""
    answers: dict[ModuleType, dict[str, Callable[..., Any]]] = {
        platform: {
            "system": lambda: SYSTEMS[FACTS.ask("os")],
            "machine": _machine,
            "processor": _machine,
            "platform": lambda *_, **__: f"{SYSTEMS[FACTS.ask('os')]}-{_machine()}",
            "architecture": lambda *_, **__: ("64bit", ""),
            "python_version": _version,
            "python_version_tuple": lambda: tuple(_version().split(".")),
            "python_implementation": lambda: "CPython",
            "uname": lambda: platform.uname_result(SYSTEMS[FACTS.ask("os")], "builder", "", "", _machine()),  # type: ignore[call-arg]
            "mac_ver": lambda *_, **__: ("11.0", ("", "", ""), _machine()) if FACTS.ask("os") == "macos" else ("",) * 3,
            **{name: _unknown(f"platform.{name}") for name in ("libc_ver", "node", "release", "version")},
        },
        sysconfig: {
            "get_platform": lambda: PLATFORMS[FACTS.ask("os")].format(_machine()),
            "get_python_version": lambda: FACTS.ask("python"),
        },
        os: {
            "uname": lambda: os.uname_result((SYSTEMS[FACTS.ask("os")], "builder", "", "", _machine())),
            "cpu_count": lambda: 1,
        },
    }
    for module, functions in answers.items():
        for name, answer in functions.items():
            setattr(module, name, _for_the_project(getattr(module, name), answer))
    sysconfig.get_config_var = _config_var(sysconfig.get_config_var)
    os.path.exists = _looked(os.path.exists)
    os.path.isfile = _looked(os.path.isfile)
    os.path.isdir = _looked(os.path.isdir)
    shutil.which = _which(shutil.which)


def _machine() -> str:
    machine: str = FACTS.ask("machine")
    return machine.upper() if FACTS.known["os"] == "windows" else machine


def _unknown(name: str) -> Callable[..., str]:
    def answer(*_: object, **__: object) -> str:
        FACTS.doubt(f"asks for {name}(), which no cell says")
        return ""

    return answer


def _for_the_project(real: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs) if FACTS.asks() else real(*args, **kwargs)

    return called


def _config_var(real: Callable[[str], Any]) -> Callable[[str], Any]:
    """Setuptools refuses the limited API where there is no GIL, so that one answer is the cell's for everybody."""

    @functools.wraps(real)
    def called(name: str) -> Any:
        if name == "Py_GIL_DISABLED":
            return int(FACTS.ask("free_threaded"))
        if name in {"EXT_SUFFIX", "SO", "SOABI"} and FACTS.asks(NEAR):
            suffix = _suffix()
            return suffix.split(".")[1] if name == "SOABI" else suffix
        if name == "py_version_nodot" and FACTS.asks():
            return FACTS.ask("python").replace(".", "")
        return real(name)

    return called


def _suffix() -> str:
    thread = "t" if FACTS.ask("free_threaded") else ""
    digits = FACTS.ask("python").replace(".", "")
    return SUFFIXES[FACTS.ask("os")].format(digits=digits, thread=thread, machine=FACTS.ask("machine"))


def _looked(real: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Let nothing be there for the project that lies on this machine outside the source."""

    @functools.wraps(real)
    def called(path: Any) -> bool:
        if FACTS.asks() and not _is_ours(path):
            _doubt_place(path)
            return False
        return real(path)

    return called


def _which(real: Callable[..., str | None]) -> Callable[..., str | None]:
    """Doubt where the project looks for a program that a builder may have or not."""

    @functools.wraps(real)
    def called(cmd: Any, *args: Any, **kwargs: Any) -> str | None:
        found = real(cmd, *args, **kwargs)
        if found is None and FACTS.asks() and os.path.basename(str(cmd)) not in INDIFFERENT_PROGRAMS:
            if str(cmd) in ACCELERATOR_PROGRAMS:
                FACTS.ask("accelerator")
            else:
                FACTS.doubt(f"looks for the program {cmd}")
        return found

    return called


def _doubt_place(path: object) -> None:
    """Note what the project looks for on its machine; a toolkit in its usual place is there by a variable alone."""
    name = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
    if name.startswith(USUAL_PLACES):
        FACTS.ask("accelerator")
    elif not name.startswith(FACTS.known["around"]):  # a job builds in a folder where nothing else lies
        FACTS.doubt(f"looks for {name}, which is not in the source")


def _is_ours(path: object) -> bool:
    """Whether a path belongs to the source, to the folders of this observation or to Python itself."""
    try:
        full = os.path.abspath(os.fspath(path))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return True  # not a path: the real function says so
    name = os.fsdecode(full)
    if name.startswith(FACTS.known["accelerator_home"] or "\0"):
        FACTS.ask("accelerator")
    return name == os.devnull or name.startswith(tuple(FACTS.known["folders"]))


# ---------------------------------------------------------------- variables


class _Environ(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - the class of os.environ
    """Variables that note who reads them."""

    def __getitem__(self, name: str) -> str:
        if name not in INDIFFERENT and not name.startswith(FOR_OUR_TOOLS) and FACTS.asks(4):
            FACTS.asked.setdefault(f"env:{name}", FACTS.place())
        return str(super().__getitem__(name))

    def __iter__(self) -> Iterator[str]:
        if FACTS.asks(2):
            FACTS.asked.setdefault("env", FACTS.place())
        return super().__iter__()


def _variables(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.environ.__class__ = _Environ


# ---------------------------------------------------------------- which modules there are


class _Absent:
    """Modules of Python's library that the cell's Python does not have."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name not in LIBRARY or not FACTS.asks(NEAR):
            return None
        first, last = LIBRARY[name]
        if first <= version_info()[:2] < last:
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)  # noqa: EM102, TRY003 - as Python says it


class _Missing:
    """What nothing else finds: not there in the build either, unless the build would have installed it."""

    def __init__(self, provided: Sequence[str]) -> None:
        self.provided = provided

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        is_own = FACTS.asks(NEAR) and "." not in name
        if is_own and name not in sys.stdlib_module_names and self.provided:
            FACTS.doubt(f"imports {name}, which may come from {', '.join(self.provided)} and is not simulated")
        if is_own and name in sys.stdlib_module_names and name not in LIBRARY:
            FACTS.doubt(f"imports {name}, which this Python does not have")
        return None


def simulated(name: str) -> bool:
    """Whether a module of that name can be had here."""
    return importlib.util.find_spec(name) is not None


# ---------------------------------------------------------------- what Python itself tells of


def _heard(event: str, details: tuple[Any, ...]) -> None:
    """Note the commands that the project runs, the files outside it that it reads, and the network."""
    if event == "subprocess.Popen":
        _ran(details[0] or details[1])
    elif event == "os.system":
        _ran(details[0])
    elif event == "open" and isinstance(details[0], (str, bytes, Path)):
        _opened(details[0], details[1])
    elif event in {"socket.connect", "socket.getaddrinfo", "urllib.Request"} and FACTS.place():
        FACTS.doubt("opens the network, so what it builds depends on what it finds there")
    elif event == "import" and FACTS.imports_itself():
        FACTS.imports.setdefault(str(details[0]).partition(".")[0], FACTS.place())


def _ran(command: object) -> None:
    words = command.split() if isinstance(command, str) else command
    first = words[0] if isinstance(words, (list, tuple)) and words else words
    program = os.path.basename(os.fsdecode(first)) if isinstance(first, (str, bytes, Path)) else "a command"
    if program in FACTS.known["tools"]:
        if program in {"hipcc", "hipconfig", "nvcc"}:
            FACTS.ask("accelerator")
    elif program in {"nvidia-smi", "rocm-smi", "rocminfo"}:
        FACTS.ask("gpu")
    elif FACTS.place():
        FACTS.doubt(f"runs {program}, whose answer no cell says")


def _opened(path: object, mode: object) -> None:
    if FACTS.asks(NEAR) and not _is_ours(path) and not set(str(mode)) & set("wax+"):
        FACTS.doubt(f"reads {os.fsdecode(path)}, which is not in the source")  # type: ignore[arg-type]


def quiet() -> None:
    """Let nothing that the project leaves running outlive it."""
    for process in list(getattr(subprocess, "_active", None) or ()):
        process.kill()
