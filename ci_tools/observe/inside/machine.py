"""Makes this machine look like the cell's, but only to the project's own code: all other code sees the real machine.

Python's standard library and setuptools would break on wrong answers; only the project's build code makes decisions.
"""

# ruff: noqa: SIM905 - as words they fit on a page
from __future__ import annotations

import builtins
import codecs
import io
import os
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from ci_tools.observe.inside import chance, facts, files, modules, programs, text
from ci_tools.observe.inside.cell import (
    OS_NAMES,
    SYS_PLATFORMS,
    SYSTEMS,
    cell_suffix,
    compiler_of_python,
    doubt_function,
    machine_name,
    note_place,
    platform_tag,
    python_version,
    show_version,
    version_info,
)
from ci_tools.observe.inside.environ import set_variables
from ci_tools.observe.inside.facts import FACTS, GuardedModule
from ci_tools.observe.inside.python_build import answer_for_distutils, wrap_config_var, wrap_config_vars
from ci_tools.observe.inside.standard_library import drivers
from ci_tools.observe.inside.standard_library.library import LIBRARY
from ci_tools.observe.inside.standard_library.values import differing_values
from ci_tools.observe.inside.torch_names.torch import TORCH

# Functions whose answers no cell defines, by module.
UNSAID: dict[ModuleType, Sequence[str]] = {
    platform: "libc_ver node python_build release version".split(),
    os: "getgroups getlogin getegid geteuid getgid getuid".split(),
}


def prepare() -> None:
    """Do what no fact of a cell changes."""
    LIBRARY.prepare(_answers())


def install_fakes(env: Mapping[str, str], provided: Mapping[str, Sequence[str] | None]) -> None:
    """Show the cell instead of this machine; `provided` are the build's requirements without a fake, see modules."""
    os.umask(0o022)
    set_variables(env)
    codecs.register(_find_codec)
    chance.watch()
    _functions()
    answer_for_distutils()
    files.watch()
    drivers.watch()
    builtins.compile = text.watch_compile(compile)
    modules.watch(provided)
    sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
    LIBRARY.show()
    TORCH.watch_signatures()
    programs.watch()
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}.") and not hasattr(module, "__path__"):
            module.__class__ = GuardedModule


# ---------------------------------------------------------------- sys, os


def _find_codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec that only Windows has, for programs whose answers are plain here."""
    return codecs.lookup("utf-8") if name in {"mbcs", "oem"} and FACTS.ask("os") == "windows" else None


def _doubt_value(name: str, value: Any) -> Callable[[], Any]:
    def answer() -> Any:
        FACTS.doubt(f"asks for {name}, which no cell defines")
        return value

    return answer


def _hexversion() -> int:
    info = version_info()
    return info.major << 24 | info.minor << 16 | 0xF0


def _implementation() -> SimpleNamespace:
    digits = FACTS.ask("python").replace(".", "")
    tag = f"cpython-{digits}"
    return SimpleNamespace(name="cpython", cache_tag=tag, version=version_info(), hexversion=_hexversion())


def _is_gil_enabled() -> Callable[[], bool]:
    if version_info() < (3, 13):
        raise AttributeError("module 'sys' has no attribute '_is_gil_enabled'")
    return lambda: not FACTS.ask("free_threaded")


class _BuiltinNames(tuple):  # type: ignore[type-arg]
    """The built-in modules, which differ between systems; PyPy's `__pypy__` is never in CPython."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        if name == "__pypy__":
            return False
        FACTS.doubt("asks for sys.builtin_module_names, which no cell defines")
        return super().__contains__(name)

    def __iter__(self) -> Iterator[Any]:
        FACTS.doubt("asks for sys.builtin_module_names, which no cell defines")
        return super().__iter__()


def _flags() -> Any:
    if version_info() >= (3, 13):
        FACTS.ask("free_threaded")
    return sys.__dict__["flags"]


class WindowsVersion(NamedTuple):
    """`sys.getwindowsversion()` of the platform's runner."""

    major: int = 10
    minor: int = 0
    build: int = 26100
    platform: int = 2
    service_pack: str = ""


def _answers() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return the cell's values by module and name."""
    names = sys.__dict__
    answers = differing_values()
    answers["sys"] |= {
        "platform": lambda: SYS_PLATFORMS[FACTS.ask("os")],
        "version_info": version_info,
        "version": show_version,
        "hexversion": _hexversion,
        "abiflags": lambda: "t" if FACTS.ask("free_threaded") else "",
        "implementation": _implementation,
        "executable": lambda: FACTS.known["python_program"],
        "flags": _flags,
        "_is_gil_enabled": _is_gil_enabled,
        "getwindowsversion": lambda: WindowsVersion,
        "winver": lambda: FACTS.ask("python"),
        "api_version": _doubt_value("sys.api_version", names["api_version"]),
        "builtin_module_names": lambda: _BuiltinNames(names["builtin_module_names"]),
        "stdlib_module_names": _doubt_value("sys.stdlib_module_names", names["stdlib_module_names"]),
        "thread_info": _doubt_value("sys.thread_info", names["thread_info"]),
    }
    answers["os"] |= {"name": lambda: OS_NAMES.get(FACTS.ask("os"), "posix"), "startfile": lambda: print}
    suffixes = lambda: [cell_suffix(), f".{cell_suffix().rpartition('.')[2]}"]  # noqa: E731 - one of a table
    answers["importlib.machinery"] = {"EXTENSION_SUFFIXES": suffixes}
    return answers


class _Output(io.TextIOWrapper):
    """Standard output and error of the project; on Windows nobody knows their encoding."""

    def __init__(self, real: Any) -> None:
        super().__init__(real.detach(), encoding="utf-8", errors=real.errors, line_buffering=True)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding, a doubt in a cell of Windows."""
        if FACTS.asks() and FACTS.ask("os") == "windows":
            FACTS.doubt("asks for the encoding of its output, which no cell defines")
        return "utf-8"


# ---------------------------------------------------------------- functions that identify the machine


def _functions() -> None:
    for module, names in UNSAID.items():
        for name in names:
            if hasattr(module, name):
                setattr(module, name, doubt_function(f"{module.__name__}.{name}", getattr(module, name)))
    answers: dict[ModuleType, dict[str, Callable[..., Any]]] = {
        platform: _platform_answers(),
        sysconfig: {
            "get_platform": platform_tag,
            "get_python_version": lambda: FACTS.ask("python"),
            "get_default_scheme": lambda: "nt" if FACTS.ask("os") == "windows" else "posix_prefix",
        },
        os: {"uname": lambda: os.uname_result((SYSTEMS[FACTS.ask("os")], "builder", "", "", machine_name()))},
    }
    for module, functions in answers.items():
        for name, give in functions.items():
            setattr(module, name, facts.answer(getattr(module, name), give))
    for name in ("get_path", "get_paths", "get_config_h_filename", "get_makefile_filename"):
        setattr(sysconfig, name, note_place(getattr(sysconfig, name)))
    sysconfig.get_config_vars = wrap_config_vars(sysconfig.get_config_vars)
    sysconfig.get_config_var = wrap_config_var(sysconfig.get_config_var)


def _platform_answers() -> dict[str, Callable[..., Any]]:
    return {
        "freedesktop_os_release": chance.read_release,
        "system": lambda: SYSTEMS[FACTS.ask("os")],
        "machine": machine_name,
        "processor": machine_name,
        "platform": lambda *_, **__: f"{SYSTEMS[FACTS.ask('os')]}-{machine_name()}",
        "python_compiler": compiler_of_python,
        "architecture": lambda *_, **__: ("64bit", ""),
        "python_version": python_version,
        "python_version_tuple": lambda: tuple(python_version().split(".")),
        "python_implementation": lambda: "CPython",
        "uname": lambda: SimpleUname(SYSTEMS[FACTS.ask("os")], "builder", "", "", machine_name(), machine_name()),
        "mac_ver": lambda *_, **__: ("11.0", ("", "", ""), machine_name()) if FACTS.ask("os") == "macos" else ("",) * 3,
        "win32_ver": lambda *_, **__: ("10", "10.0.26100", "SP0", "") if FACTS.ask("os") == "windows" else ("",) * 4,
    }


class SimpleUname(NamedTuple):
    """`platform.uname()` of the platform's runner."""

    system: str
    node: str
    release: str
    version: str
    machine: str
    processor: str
