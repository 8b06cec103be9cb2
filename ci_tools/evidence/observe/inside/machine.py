"""Makes this machine look like the cell's, but only to the project's own code: all other code sees the real machine.

Python's standard library and setuptools would break on wrong answers; only the project's build code makes decisions.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import platform
import sys
import sysconfig
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.evidence.observe.inside import (
    chance,
    files,
    modules,
    programs,
)
from ci_tools.evidence.observe.inside.facts import FACTS, GuardedModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

SYS_PLATFORMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}
SYSTEMS = {"linux": "Linux", "macos": "Darwin", "windows": "Windows"}
OS_NAMES = {"windows": "nt"}
PLATFORMS = {"linux": "linux-{}", "macos": "macosx-11.0-{}", "windows": "win-{}"}
SUFFIXES = {
    "linux": ".cpython-{digits}{thread}-{machine}-linux-gnu.so",
    "macos": ".cpython-{digits}{thread}-darwin.so",
    "windows": ".cp{digits}{thread}-win_{machine}.pyd",
}
# ruff: noqa: SIM905 - as words they fit on a page
# Variables that do not change a build: whatever their values, the result is the same.
INDIFFERENT = frozenset("CMAKE_BUILD_PARALLEL_LEVEL HOME MAX_JOBS PATH SOURCE_DATE_EPOCH TMPDIR".split())
FOR_OUR_TOOLS = ("FATWHEEL_", "SETUPTOOLS_EXT_SUFFIX")
OF_WINDOWS = frozenset("APPDATA COMSPEC OS PROGRAMFILES SYSTEMROOT VCINSTALLDIR VSINSTALLDIR WINDIR".split())
LATEST = 99  # a minor version that no Python 3 will reach
COPIES = "subst_vars"  # a function of distutils that copies all variables and uses few
NOT_ON_WINDOWS = (
    "environb fork getegid geteuid getgid getloadavg getpgid getsid getuid mkfifo sched_getaffinity sysconf uname"
).split()
# Functions whose answers no cell defines, by module.
UNSAID: dict[ModuleType, Sequence[str]] = {
    platform: "freedesktop_os_release libc_ver node python_build python_compiler release version".split(),
    os: "getgroups getlogin getegid geteuid getgid getuid sysconf".split(),
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


def install_fakes(env: Mapping[str, str], provided: Sequence[str]) -> None:
    """Show the cell instead of this machine; `provided` are the requirements of the cell's build without a fake."""
    _variables(env)
    chance.watch()
    _functions()
    _distutils()
    files.watch()
    modules.watch(provided)
    sys.__class__ = _Sys
    os.__class__ = _Os
    importlib.machinery.__class__ = _Machinery
    programs.watch()
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}.") and not hasattr(module, "__path__"):
            module.__class__ = GuardedModule


# ---------------------------------------------------------------- sys, os


def _or_real(name: str, answer: Callable[[], Any]) -> property:
    """Return an attribute with the cell's value for the project and this machine's value for all other code."""

    def read(module: ModuleType) -> Any:
        if FACTS.asks():
            return answer()
        if name in module.__dict__:
            return module.__dict__[name]
        return _no_attribute(module, name)

    def write(module: ModuleType, value: Any) -> None:
        module.__dict__[name] = value

    return property(read, write)


def _no_attribute(module: ModuleType, name: str) -> Any:
    msg = f"module {module.__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def _doubt_value(name: str, value: Callable[[], Any]) -> Callable[[], Any]:
    def answer() -> Any:
        FACTS.doubt(f"asks for {name}, which no cell says")
        return value()

    return answer


def _ordinary(_: type, *args: Any) -> ModuleType:
    """Make an ordinary module: Python's import creates every new module as `type(sys)(name)`."""
    return ModuleType(*args)


def _real_sys(name: str) -> Callable[[], Any]:
    return lambda: sys.__dict__[name]


def _hexversion() -> int:
    info = version_info()
    return info.major << 24 | info.minor << 16 | 0xF0


def _implementation() -> SimpleNamespace:
    digits = FACTS.ask("python").replace(".", "")
    tag = f"cpython-{digits}"
    return SimpleNamespace(name="cpython", cache_tag=tag, version=version_info(), hexversion=_hexversion())


def _windows_value(module: ModuleType, name: str, value: Any) -> Any:
    return value if FACTS.ask("os") == "windows" else _no_attribute(module, name)


def _is_gil_enabled() -> Callable[[], bool]:
    if version_info() < (3, 13):
        return _no_attribute(sys, "_is_gil_enabled")
    return lambda: not FACTS.ask("free_threaded")


class _BuiltinNames(tuple):  # type: ignore[type-arg]
    """The built-in modules, which differ between systems; PyPy's `__pypy__` is never in CPython."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        if name == "__pypy__":
            return False
        FACTS.doubt("asks for sys.builtin_module_names, which no cell says")
        return super().__contains__(name)

    def __iter__(self) -> Iterator[Any]:
        FACTS.doubt("asks for sys.builtin_module_names, which no cell says")
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


class _Sys(ModuleType):
    """The module `sys`, with the cell's values for the project's code."""

    __new__ = _ordinary
    platform = _or_real("platform", lambda: SYS_PLATFORMS[FACTS.ask("os")])
    version_info = _or_real("version_info", version_info)
    version = _or_real("version", lambda: f"{_version()} (main)")
    hexversion = _or_real("hexversion", _hexversion)
    abiflags = _or_real("abiflags", lambda: "t" if FACTS.ask("free_threaded") else "")
    implementation = _or_real("implementation", _implementation)
    executable = _or_real("executable", lambda: FACTS.known["python_program"])
    flags = _or_real("flags", _flags)
    _is_gil_enabled = _or_real("_is_gil_enabled", _is_gil_enabled)
    getwindowsversion = _or_real("getwindowsversion", lambda: _windows_value(sys, "getwindowsversion", WindowsVersion))
    winver = _or_real("winver", lambda: _windows_value(sys, "winver", FACTS.ask("python")))
    api_version = _or_real("api_version", _doubt_value("sys.api_version", _real_sys("api_version")))
    builtin_module_names = _or_real("builtin_module_names", lambda: _BuiltinNames(sys.__dict__["builtin_module_names"]))
    stdlib_module_names = _or_real(
        "stdlib_module_names", _doubt_value("sys.stdlib_module_names", _real_sys("stdlib_module_names"))
    )
    thread_info = _or_real("thread_info", _doubt_value("sys.thread_info", _real_sys("thread_info")))


def _there(name: str) -> property:
    def answer() -> Any:
        if FACTS.ask("os") == "windows" or name not in os.__dict__:
            return _no_attribute(os, name)
        return os.__dict__[name]

    return _or_real(name, answer)


_Os = type(
    "_Os",
    (ModuleType,),
    {
        "__doc__": "The module `os`, of which the project's code sees the cell's.",
        "name": _or_real("name", lambda: OS_NAMES.get(FACTS.ask("os"), "posix")),
        "startfile": _or_real("startfile", lambda: _windows_value(os, "startfile", print)),
        **{name: _there(name) for name in NOT_ON_WINDOWS},
    },
)


class _Machinery(ModuleType):
    """The module `importlib.machinery`, with the cell's suffixes for the project's code."""

    EXTENSION_SUFFIXES = _or_real("EXTENSION_SUFFIXES", lambda: [_suffix(), f".{_suffix().rpartition('.')[2]}"])


def _version() -> str:
    return ".".join(map(str, version_info()[:3]))


# ---------------------------------------------------------------- functions that identify the machine


def _functions() -> None:
    for module, names in UNSAID.items():
        for name in names:
            if hasattr(module, name):
                setattr(module, name, _unsaid(f"{module.__name__}.{name}", getattr(module, name)))
    answers: dict[ModuleType, dict[str, Callable[..., Any]]] = {
        platform: _platform_answers(),
        sysconfig: {
            "get_platform": _get_platform,
            "get_python_version": lambda: FACTS.ask("python"),
            "get_default_scheme": lambda: "nt" if FACTS.ask("os") == "windows" else "posix_prefix",
        },
        os: {"uname": lambda: os.uname_result((SYSTEMS[FACTS.ask("os")], "builder", "", "", _machine()))},
    }
    for module, functions in answers.items():
        for name, answer in functions.items():
            setattr(module, name, _for_the_project(getattr(module, name), answer))
    for name in ("get_path", "get_paths", "get_config_h_filename", "get_makefile_filename"):
        setattr(sysconfig, name, _where(getattr(sysconfig, name)))
    sysconfig.get_config_vars = _config_vars(sysconfig.get_config_vars)
    sysconfig.get_config_var = _config_var(sysconfig.get_config_var)


def _platform_answers() -> dict[str, Callable[..., Any]]:
    return {
        "system": lambda: SYSTEMS[FACTS.ask("os")],
        "machine": _machine,
        "processor": _machine,
        "platform": lambda *_, **__: f"{SYSTEMS[FACTS.ask('os')]}-{_machine()}",
        "architecture": lambda *_, **__: ("64bit", ""),
        "python_version": _version,
        "python_version_tuple": lambda: tuple(_version().split(".")),
        "python_implementation": lambda: "CPython",
        "uname": lambda: SimpleUname(SYSTEMS[FACTS.ask("os")], "builder", "", "", _machine(), _machine()),
        "mac_ver": lambda *_, **__: ("11.0", ("", "", ""), _machine()) if FACTS.ask("os") == "macos" else ("",) * 3,
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


def _get_platform() -> str:
    return PLATFORMS[FACTS.ask("os")].format(FACTS.ask("machine"))


def _machine() -> str:
    machine: str = FACTS.ask("machine")
    return machine.upper() if FACTS.known["os"] == "windows" else machine


def _unsaid(name: str, real: Any) -> Any:
    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            FACTS.doubt(f"asks for {name}(), which no cell says")
        return real(*args, **kwargs)

    return called


def _for_the_project(real: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs) if FACTS.lets_ask() else real(*args, **kwargs)

    return called


def _where(real: Any) -> Any:
    """Record that a folder depends on the system and the version of Python."""

    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            FACTS.ask("python")
            FACTS.ask("os")
        return real(*args, **kwargs)

    return called


# ---------------------------------------------------------------- how Python was built


def _cell_config() -> dict[str, Callable[[], Any]]:
    """Return the build configuration of the cell's Python, as far as builds ask for it."""
    return {
        "EXT_SUFFIX": _suffix,
        "SO": _suffix,
        "SOABI": lambda: _suffix().split(".")[1],
        "MACOSX_DEPLOYMENT_TARGET": lambda: "11.0" if FACTS.ask("os") == "macos" else None,
        "MULTIARCH": lambda: f"{FACTS.ask('machine')}-linux-gnu" if FACTS.ask("os") == "linux" else None,
        "Py_DEBUG": lambda: 0,
        "SHLIB_SUFFIX": lambda: ".so",
        "VERSION": lambda: FACTS.ask("python"),
        "py_version": _version,
        "py_version_nodot": lambda: FACTS.ask("python").replace(".", ""),
        "py_version_short": lambda: FACTS.ask("python"),
    }


def _suffix() -> str:
    thread = "t" if FACTS.ask("free_threaded") else ""
    digits = FACTS.ask("python").replace(".", "")
    return SUFFIXES[FACTS.ask("os")].format(digits=digits, thread=thread, machine=FACTS.ask("machine"))


def _config_var(real: Callable[[str], Any]) -> Callable[[str], Any]:
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
        FACTS.doubt(f"asks sysconfig for {name}, which no cell says")
    return value


def _config_vars(real: Any) -> Any:
    """Answer a project that reads one variable or all, or changes some for distutils."""

    @functools.wraps(real)
    def called(*names: str) -> Any:
        if not FACTS.lets_ask():
            return real(*names)
        return [sysconfig.get_config_var(name) for name in names] if names else _Vars(real())

    return called


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


def _distutils() -> None:
    """Answer for the functions of setuptools, distutils and packaging that describe the machine."""
    import packaging.markers
    import packaging.tags
    from setuptools.command import bdist_wheel

    def answered(module: Any, **answers: Callable[..., Any]) -> None:
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, _directly(getattr(module, name), answer))

    for module in _twice("distutils.util"):
        answered(module, get_platform=_get_platform, get_host_platform=_get_platform)
    for module in _twice("distutils.ccompiler"):
        answered(module, get_default_compiler=lambda *_: _compiler_type())
    for module in _twice("distutils.sysconfig"):
        answered(module, get_config_var=sysconfig.get_config_var, get_config_vars=sysconfig.get_config_vars)
        module.get_python_inc = _where(module.get_python_inc)
        module.get_python_lib = _where(module.get_python_lib)
    for module in _twice("distutils.spawn"):
        module.find_executable = files.which(module.find_executable)
    answered(packaging.markers, default_environment=_markers)
    packaging.markers.Marker.evaluate = _wrap_evaluate(packaging.markers.Marker.evaluate)
    every_tag = {name: _every_tag(getattr(packaging.tags, name)) for name in ("cpython_tags", "sys_tags")}
    bdist_wheel.tags = SimpleNamespace(**{**vars(packaging.tags), **every_tag})
    unsaid = {
        bdist_wheel: ("get_abi_tag", "get_platform"),
        packaging.tags: (
            "compatible_tags cpython_tags generic_tags interpreter_name interpreter_version mac_platforms "
            "platform_tags sys_tags"
        ).split(),
    }
    for module, names in unsaid.items():
        for name in names:
            setattr(module, name, _unsaid(f"{module.__name__}.{name}", getattr(module, name)))


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


def _directly(real: Any, answer: Callable[..., Any]) -> Any:
    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        return answer(*args, **kwargs) if FACTS.asks() else real(*args, **kwargs)

    return called


def _compiler_type() -> str:
    return "msvc" if FACTS.ask("os") == "windows" else "unix"


def _markers() -> dict[str, str]:
    """Return the environment against which markers are evaluated (PEP 508)."""
    return {
        "implementation_name": "cpython",
        "implementation_version": _version(),
        "os_name": OS_NAMES.get(FACTS.ask("os"), "posix"),
        "platform_machine": _machine(),
        "platform_release": "",
        "platform_system": SYSTEMS[FACTS.ask("os")],
        "platform_version": "",
        "python_full_version": _version(),
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


# ---------------------------------------------------------------- variables


def _read(name: str) -> None:
    """Record that a variable is read, also by other code: setuptools reads some for the project."""
    if name in INDIFFERENT or name.startswith(FOR_OUR_TOOLS):
        return
    if FACTS.lets_ask():
        FACTS.note(f"env:{name}")
        if name in OF_WINDOWS and FACTS.ask("os") == "windows":
            FACTS.doubt(f"asks for {name}, which no cell says")
    elif not FACTS.is_called_in(COPIES):
        FACTS.note_others(f"env:{name}")


class _Environ(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - the class of os.environ
    """Variables that record their readers."""

    def __getitem__(self, name: Any) -> Any:
        _read(os.fsdecode(name))
        return super().__getitem__(name)

    def __contains__(self, name: Any) -> bool:
        _read(os.fsdecode(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[Any]:
        if FACTS.lets_ask():
            FACTS.note("env")
        return super().__iter__()

    def __len__(self) -> int:
        if FACTS.lets_ask():
            FACTS.note("env")
        return super().__len__()


def _variables(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.environ.__class__ = _Environ
    if hasattr(os, "environb"):
        os.environb.__class__ = _Environ
