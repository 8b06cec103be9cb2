"""Watches imports: the modules and packages that the cell's build could import, and their versions."""

from __future__ import annotations

import builtins
import functools
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from packaging.version import Version

from ci_tools.observe.inside import chance, facts
from ci_tools.observe.inside.facts import FACTS, names_of
from ci_tools.observe.inside.fakes import FAKED, FOLDER, FakesFinder
from ci_tools.observe.inside.standard_library.library import LIBRARY
from ci_tools.observe.inside.torch_names.torch import TORCH

if TYPE_CHECKING:
    Provided = Mapping[str, Sequence[str] | None]

# ruff: noqa: SIM905 - as words they fit on a page
# Modules that a build has because torch requires them.
BROUGHT_BY_TORCH = frozenset(
    "caffe2 cuda filelock fsspec functorch jinja2 markupsafe mpmath networkx nvidia sympy torchgen triton "
    "typing_extensions yaml".split()
)
OF_CUDA = frozenset({"cuda", "nvidia"})
STOOD_IN_FOR = frozenset({"Cython", "cython", "ninja", "numpy", "psutil", "pybind11", "torch"})
VERSIONED = {"cython": "Cython", "numpy": "numpy", "pybind11": "pybind11"}  # fakes that say their version, by package
# Fakes that are there where the project requires them, and a package that comes with one and has none.
OF_DRIVER = "pynvml"  # a build that imagines a GPU has it, too
PLUGINS = frozenset(
    {"cffi", "cppy", "expandvars", "pkgconfig", OF_DRIVER, "setuptools_rust", "setuptools_scm", "vcs_versioning"}
)
OBSERVER = "ci_tools"
# Modules that later Pythons have, and the package that they come from.
FILLED = {"tomllib": "setuptools._vendor.tomli"}
OWN = frozenset({"packaging", "setuptools"})
_WHAT, _PLACE = "__fatwheel_what__", "__fatwheel_place__"


def watch(provided: Provided) -> None:
    """Intercept every import that the project's code states, and every query for a package.

    `provided` are the requirements of the cell's build without a fake, and their modules; None: not known.
    """
    builtins.__import__ = _watch_find(builtins.__import__)
    for name in [name for name in sys.modules if name.partition(".")[0] in STOOD_IN_FOR]:
        del sys.modules[name]  # setuptools looks for Cython as it is imported: it found a file without the fake's names
    sys.meta_path[:0] = [_Absent(), FakesFinder()]
    sys.meta_path.append(_MissingModule(provided))
    importlib.import_module = _watch_find(importlib.import_module)
    importlib.util.find_spec = _watch_find(importlib.util.find_spec)
    pkgutil.iter_modules = _doubt_listing("pkgutil.iter_modules()", pkgutil.iter_modules)
    for name in ("distribution", "version", "metadata", "requires", "files"):
        setattr(importlib.metadata, name, _fake_metadata(name, getattr(importlib.metadata, name), provided))
    importlib.metadata.distributions = _list_installed(importlib.metadata.distributions)
    for name in ("packages_distributions", "entry_points"):
        if hasattr(importlib.metadata, name):
            real = getattr(importlib.metadata, name)
            setattr(importlib.metadata, name, _doubt_listing(f"importlib.metadata.{name}()", real))


def provide(requirements: Any) -> None:
    """Add what a backend of the project's own asks for beside the requirements that it declares."""
    finder = next(one for one in sys.meta_path if isinstance(one, _MissingModule))
    for text in requirements or ():
        name = re.split(r"[^\w.-]", str(text).strip())[0].lower().replace("_", "-").replace(".", "-")
        if name not in FACTS.known["simulated"] and name not in finder.provided:
            finder.provided[name] = None


def _watch_find(real: Any) -> Any:
    """Check a module's name before it is imported or taken from `sys.modules`: other code may have imported it."""

    def find(name: str, *args: Any, **kwargs: Any) -> Any:
        try:
            _look(name)
        except ModuleNotFoundError:
            if real.__name__ == "find_spec":
                return None
            raise
        found = real(name, *args, **kwargs)
        LIBRARY.show()
        TORCH.show()
        return found

    return facts.answer(real, find, FACTS.asks)


def _look(name: str) -> None:
    """Record an import's question; raise ModuleNotFoundError for a module of this machine that the cell lacks."""
    top = name.partition(".")[0]
    if top == OBSERVER:
        FACTS.doubt("imports its observer")
    if top in chance.MODULES:
        FACTS.note("chance")
    if top in STOOD_IN_FOR:
        FACTS.note_import(top)
    if top == "torch" and TORCH.is_missing(name):
        _refuse(name)
    if top in STOOD_IN_FOR | PLUGINS and name not in FAKED:
        FACTS.doubt(f"imports {name}, which is not simulated")
    if top in BROUGHT_BY_TORCH and not _is_without_cuda(top):
        FACTS.doubt(f"imports {top}, which torch may bring and is not simulated")
    is_of_driver = top == OF_DRIVER and FACTS.ask("gpu")
    if LIBRARY.is_missing(name) or (top in PLUGINS - {*FACTS.known["plugins"]} and not is_of_driver):
        _refuse(name)
    if name in FILLED:
        _fill(name)
    elif LIBRARY.is_of_some_hosts(name):
        FACTS.doubt(f"imports {name}, which not every Python has that Fatwheel runs on")


def _refuse(name: str) -> NoReturn:
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _fill(name: str) -> None:
    """Import what stands for a module that this Python lacks."""
    if name not in sys.modules and name not in names_of(sys)["stdlib_module_names"]:
        sys.modules[name] = importlib.import_module(FILLED[name])


def _is_without_cuda(name: str) -> bool:
    """Whether a package has CUDA's libraries and the cell's torch is not built for CUDA."""
    return name in OF_CUDA and FACTS.ask("accelerator")["kind"] != "cuda"


class _Absent:
    """Finder for imports by setuptools or others for the project: the cell's Python may lack the module."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if FACTS.imports_itself() and not _is_by_fake():
            _look(name)
        return None


def _is_by_fake() -> bool:
    """Whether one of the fakes states the current import: it is there whatever the cell has."""
    frame = sys._getframe(2)  # noqa: SLF001 - the only way to see who imports
    while frame.f_back and ("importlib" in frame.f_code.co_filename or _is_observers(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(f"{FOLDER}/")


def _is_observers(file: str) -> bool:
    return file.startswith(facts.HERE) and not file.startswith(f"{FOLDER}/")


class _Unknown:
    """The loader of a module that the build has and nobody here knows: only a use of it is a doubt."""

    def __init__(self, what: str, place: str, **known: Any) -> None:
        self.what, self.place, self.known = what, place, known

    def create_module(self, _: object) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let each use of the module be a doubt."""
        vars(module).update({_WHAT: self.what, _PLACE: self.place}, **self.known)
        module.__class__ = _UnknownModule


class _UnknownModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if FACTS.lets_ask() or (name == "__path__" and FACTS.imports_itself()):  # of a module in it
            FACTS.doubt(vars(self)[_WHAT], vars(self)[_PLACE])
        raise AttributeError(name)


class _MissingModule:
    """Finder for modules that no other finder has: missing in the build too, unless the build installs them."""

    def __init__(self, provided: Provided) -> None:
        self.provided = dict(provided)

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        is_own = FACTS.imports_itself() and "." not in name
        if FACTS.imports_itself() and name == "pkg_resources":
            return ModuleSpec(name, _stand_in_for_pkg_resources())
        if is_own and (name in sys.stdlib_module_names or LIBRARY.knows(name)):
            FACTS.doubt(f"imports {name}, which this Python does not have")
        elif is_own and (package := self._find_package(name)):
            what = f"imports {name}, which comes from {package} and is not simulated"
            return ModuleSpec(name, _Unknown(what, FACTS.place()))
        return None

    def _find_package(self, name: str) -> str:
        """Return the requirement that brings a module, "" if none does; what is not known is tried both ways."""
        for package, modules in self.provided.items():
            if modules is not None and name in modules:
                return package
        unknown = ", ".join(package for package, modules in self.provided.items() if modules is None)
        return unknown if unknown and FACTS.suppose(f"{unknown} brings a module {name}") else ""


class _DistributionNotFoundError(Exception):
    """The DistributionNotFound of pkg_resources."""


def _stand_in_for_pkg_resources() -> _Unknown:
    """Return what a setuptools that has pkg_resources brings: there, its parse_version is the class of packaging."""
    if FACTS.known["capped"]:
        what = "imports pkg_resources, whose use is not simulated"
        known = {"DistributionNotFound": _DistributionNotFoundError, "get_distribution": _get_distribution}
        return _Unknown(what, FACTS.place(), parse_version=Version, __path__=[], **known)
    msg = "No module named 'pkg_resources': setuptools 82 dropped it, a constraint setuptools<82 brings it back"
    raise ModuleNotFoundError(msg, name="pkg_resources")


def _get_distribution(name: str) -> SimpleNamespace:
    """Return a package that the cell's build has, as pkg_resources does; raise its DistributionNotFound for another."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise _DistributionNotFoundError(name) from None
    return SimpleNamespace(project_name=name, key=name.lower(), version=version, parsed_version=Version(version))


# ---------------------------------------------------------------- installed packages


def remember_entry_points() -> None:
    """Read the entry points of the packages that are there now only once: setuptools asks for them at each step."""
    known = {_folder(package): package.entry_points for package in importlib.metadata.distributions()}
    read = importlib.metadata.Distribution.entry_points.fget

    def entry_points(self: Any) -> Any:
        folder = _folder(self)
        return known[folder] if folder in known else read(self)

    importlib.metadata.Distribution.entry_points = property(entry_points)
    importlib.metadata.entry_points = remember_all(importlib.metadata.entry_points)


def remember_all(real: Any) -> Any:
    """Return a function that finds the entry points of all packages as now, while no others can be imported."""
    places, finders, known = list(sys.path), _finders(), real()
    select = functools.cache(lambda selected: known.select(**dict(selected)))

    @functools.wraps(real)
    def entry_points(**selected: Any) -> Any:
        others = [place for place in sys.path if place not in places]
        is_known = [place for place in sys.path if place in places] == places and _finders() == finders
        if not is_known or (others and any(importlib.metadata.distributions(path=others))):
            return real(**selected)
        found = select(tuple(selected.items()))
        return type(found)(found)

    return entry_points


def _finders() -> list[Any]:
    """Return what finds packages."""
    return [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]


def _folder(package: Any) -> str:
    """Return where a package's metadata lies; there is no public name for it."""
    return str(getattr(package, "_path", ""))


def _fake_metadata(function: str, real: Any, provided: Provided) -> Any:
    """Answer for torch; record a doubt for other packages that only a build has."""

    @functools.wraps(real)
    def asked(name: str) -> Any:
        if not FACTS.lets_ask():
            return real(name)
        key = name.lower().replace("-", "_")
        if key == "torch" and function == "version":
            FACTS.note_import("torch")
            FACTS.ask("accelerator")
            return FACTS.ask("torch")
        if function == "version" and name.lower() in VERSIONED:
            FACTS.note_import(VERSIONED[name.lower()])
            return sys.modules["importlib"].import_module(VERSIONED[name.lower()]).__version__
        top = "nvidia" if key.startswith("nvidia_") else key
        names = {each.lower() for each in (*STOOD_IN_FOR, *BROUGHT_BY_TORCH, *OWN, *FACTS.known["plugins"])}
        installed = FACTS.known["installed"]
        is_open = bool(provided) if installed is None else key.replace("_", "-") in installed
        if (top in names and not _is_without_cuda(top)) or is_open:
            FACTS.doubt(f"asks importlib.metadata for {name}, which is not simulated")
        raise importlib.metadata.PackageNotFoundError(name)

    return asked


class _Installed(importlib.metadata.Distribution):
    """A package that the cell's build has: of what it is, only the name is known."""

    def __init__(self, name: str) -> None:
        self.package = name

    def read_text(self, filename: str) -> str | None:
        """Return the metadata, with a version that is a doubt to ask for."""
        return f"Metadata-Version: 2.1\nName: {self.package}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return FACTS.unknown(f"importlib.metadata.distribution({self.package!r}).locate_file")

    @property
    def version(self) -> str:
        """The version, as the module itself says it."""
        return str(importlib.metadata.version(self.package))


def _list_installed(real: Any) -> Any:
    """List the packages that the cell's build has, where its requirements and what they bring are known."""

    @functools.wraps(real)
    def distributions(**kwargs: Any) -> Any:
        if not FACTS.lets_ask() or kwargs:
            return real(**kwargs)
        if FACTS.known["installed"] is None or "torch" in FACTS.imports:  # whose requirements are not known
            FACTS.doubt("lists what is installed by importlib.metadata.distributions(), which no cell defines")
            return real()
        return map(_Installed, FACTS.known["installed"])

    return distributions


def _doubt_listing(name: str, real: Any) -> Any:
    def note(*args: Any, **kwargs: Any) -> None:
        if not (args or kwargs.get("path")):
            FACTS.doubt(f"lists what is installed by {name}, which no cell defines")

    return facts.watch(real, note)
