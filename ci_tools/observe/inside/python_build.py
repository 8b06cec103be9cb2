"""How the cell's Python was built, as sysconfig, distutils and packaging tell it to the project's own code."""

# ruff: noqa: SIM905 - as words they fit on a page
from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sysconfig
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from ci_tools.observe.inside import files
from ci_tools.observe.inside.cell import (
    OS_NAMES,
    SYS_PLATFORMS,
    SYSTEMS,
    cell_suffix,
    doubt_function,
    machine_name,
    note_place,
    platform_tag,
    python_version,
)
from ci_tools.observe.inside.facts import FACTS, answer

LATEST = 99  # a minor version that no Python 3 will reach
# The oldest glibc of a builder, and versions that no builder has yet; the older names of tags (PEP 600).
OLDEST_LIBC, NEWEST_LIBC, NEWEST_MACOS = 17, 60, 40
LIBC_NAMES = {17: ("manylinux2014",), 12: ("manylinux2010",), 5: ("manylinux1",)}


def _cell_config() -> dict[str, Callable[[], Any]]:
    """Return the build configuration of the cell's Python, as far as builds ask for it."""
    return {
        "EXE": lambda: ".exe" if FACTS.ask("os") == "windows" else "",
        "EXT_SUFFIX": cell_suffix,
        "SO": cell_suffix,
        "SOABI": lambda: cell_suffix().split(".")[1],
        "MACOSX_DEPLOYMENT_TARGET": lambda: "11.0" if FACTS.ask("os") == "macos" else None,
        "MULTIARCH": lambda: f"{FACTS.ask('machine')}-linux-gnu" if FACTS.ask("os") == "linux" else None,
        "Py_DEBUG": lambda: 0,
        "SHLIB_SUFFIX": lambda: ".so",
        "VERSION": lambda: FACTS.ask("python"),
        "py_version": python_version,
        "py_version_nodot": lambda: FACTS.ask("python").replace(".", ""),
        "py_version_short": lambda: FACTS.ask("python"),
    }


def wrap_config_var(real: Callable[[str], Any]) -> Callable[[str], Any]:
    """Answer with the cell's values, `Py_GIL_DISABLED` even to setuptools: it refuses the limited API without a GIL."""
    of_cell = _cell_config()

    @functools.wraps(real)
    def called(name: str) -> Any:
        if name == "Py_GIL_DISABLED":
            return int(FACTS.ask("free_threaded"))
        if not FACTS.lets_ask():
            return real(name)
        return of_cell[name]() if name in of_cell else _common_value(name, real(name))

    return called


def _common_value(name: str, value: Any) -> Any:
    """Return a value that is common to all Pythons of the version, or of the unused compiler; others are a doubt."""
    FACTS.ask("python")
    if value is not None and not isinstance(value, str):
        FACTS.doubt(f"asks sysconfig for {name}, which no cell defines")
    return value


def wrap_config_vars(real: Any) -> Any:
    """Answer a project that reads one variable or all, or changes some for distutils."""
    return answer(real, lambda *names: [sysconfig.get_config_var(name) for name in names] if names else _Vars(real()))


class _Vars(dict):  # type: ignore[type-arg]
    """All variables, with the cell's values where known; values written into it are seen by all code."""

    def __init__(self, real: dict[str, Any]) -> None:
        super().__init__(real)
        self.real = real
        of_cell = _cell_config()
        self.update({name: of_cell[name]() for name in of_cell.keys() & real.keys()})
        if "Py_GIL_DISABLED" in real or FACTS.known["free_threaded"]:
            super().__setitem__("Py_GIL_DISABLED", int(FACTS.ask("free_threaded")))

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.real[name] = value


def answer_for_distutils() -> None:
    """Answer for the functions of setuptools, distutils and packaging that describe the machine."""
    import packaging.markers
    import packaging.tags
    from setuptools.command import bdist_wheel

    def answered(module: Any, **answers: Callable[..., Any]) -> None:
        for name, give in answers.items():
            if hasattr(module, name):
                setattr(module, name, answer(getattr(module, name), give, FACTS.asks))

    for module in _twice("distutils.util"):
        answered(module, get_platform=platform_tag, get_host_platform=platform_tag)
    for module in _twice("distutils.ccompiler"):
        answered(module, get_default_compiler=lambda *_: "msvc" if FACTS.ask("os") == "windows" else "unix")
    for module in _twice("distutils.sysconfig"):
        answered(module, get_config_var=sysconfig.get_config_var, get_config_vars=sysconfig.get_config_vars)
        module.get_python_inc = note_place(module.get_python_inc)
        module.get_python_lib = note_place(module.get_python_lib)
    for module in _twice("distutils.spawn"):
        module.find_executable = files.which(module.find_executable)
    answered(packaging.markers, default_environment=_markers)
    answered(packaging.tags, platform_tags=_platform_tags)
    packaging.markers.Marker.evaluate = _wrap_evaluate(packaging.markers.Marker.evaluate)
    every_tag = {name: _every_tag(getattr(packaging.tags, name)) for name in ("cpython_tags", "sys_tags")}
    bdist_wheel.tags = SimpleNamespace(**{**vars(packaging.tags), **every_tag})
    unsaid = {
        bdist_wheel: ("get_abi_tag", "get_platform"),
        packaging.tags: (
            "compatible_tags cpython_tags generic_tags interpreter_name interpreter_version mac_platforms sys_tags"
        ).split(),
    }
    for module, names in unsaid.items():
        for name in names:
            setattr(module, name, doubt_function(f"{module.__name__}.{name}", getattr(module, name)))


def _platform_tags() -> Iterator[str]:
    """Yield the tags of the cell's builder, newest first: a new one has all those of an old one."""
    system, machine = FACTS.ask("os"), FACTS.ask("machine")
    if system == "linux" and FACTS.suppose("the builder has musl"):
        newest = 2 if FACTS.suppose("the builder's libc is new") else 1
        yield from (f"musllinux_1_{minor}_{machine}" for minor in range(newest, -1, -1))
    elif system == "linux":
        newest = NEWEST_LIBC if FACTS.suppose("the builder's libc is new") else OLDEST_LIBC
        for minor in range(newest, (5 if machine == "x86_64" else OLDEST_LIBC) - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            yield from (f"{name}_{machine}" for name in LIBC_NAMES.get(minor, ()))
    elif system == "macos":
        for major in range(NEWEST_MACOS if FACTS.suppose("the builder's macOS is new") else 11, 10, -1):
            yield from (f"macosx_{major}_0_{kind}" for kind in (machine, "universal2"))
    if system != "macos":
        yield platform_tag().replace("-", "_")


def _every_tag(real: Any) -> Any:
    """Add later Pythons' tags: setuptools refuses tags later than the running Python, which is not the cell's."""
    from packaging.tags import Tag

    def tags(*args: Any, platforms: Any = ("any",), **kwargs: Any) -> Iterator[Any]:
        yield from real(*args, **({**kwargs, "platforms": platforms} if kwargs else {}))
        for minor in range(2, LATEST + 1):
            yield from (Tag(f"cp3{minor}", "abi3", platform) for platform in platforms)

    return tags


def _twice(name: str) -> list[Any]:
    """Return a module of distutils under Python's name and under setuptools' name."""
    names = (name, f"setuptools._{name}")
    return [importlib.import_module(one) for one in names if importlib.util.find_spec(one)]


def _markers() -> dict[str, str]:
    """Return the environment against which markers are evaluated (PEP 508)."""
    return {
        "implementation_name": "cpython",
        "implementation_version": python_version(),
        "os_name": OS_NAMES.get(FACTS.ask("os"), "posix"),
        "platform_machine": machine_name(),
        "platform_release": "",
        "platform_system": SYSTEMS[FACTS.ask("os")],
        "platform_version": "",
        "python_full_version": python_version(),
        "platform_python_implementation": "CPython",
        "python_version": FACTS.ask("python"),
        "sys_platform": SYS_PLATFORMS[FACTS.ask("os")],
    }


def _wrap_evaluate(real: Any) -> Any:
    @functools.wraps(real)
    def evaluate(self: Any, environment: Any = None, *args: Any, **kwargs: Any) -> Any:
        if FACTS.asks():
            environment = {**_markers(), **(environment or {})}
        return real(self, environment, *args, **kwargs)

    return evaluate
