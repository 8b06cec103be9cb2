"""Reads maturin's configuration: `[tool.maturin]`, and the pyo3 features in Cargo.toml; maturin always compiles."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ci_tools.model.evidence import Binding, Extensions, PythonApi, TorchAbi
from ci_tools.model.versions import Minor, parse_specifiers
from ci_tools.source.backends.facts import CellFacts, Read, oldest
from ci_tools.source.files import Tree
from ci_tools.source.project_file import ProjectFile, TomlFile

UNBUILT = ("benches", "examples", "tests")  # folders of a crate that a build of its library does not compile


class UsedCrate(NamedTuple):
    """A crate that a build depends on: its requested features, and the file and key that name it."""

    features: frozenset[str]
    file: TomlFile
    key: str
    for_some: bool = False  # whether only some machines use it

    @property
    def where(self) -> str:
        """The place that names it, `file:line`."""
        return str(self.file.place(self.key))


class Crate:
    """One Cargo.toml of the source, with the workspace that it belongs to."""

    def __init__(self, tree: Tree, path: str, read: Callable[[str], TomlFile] | None = None) -> None:
        self.tree = tree
        self.read = read or functools.cache(functools.partial(TomlFile.of, tree))  # each file once
        self.file = self.read(path)
        self.folder = str(PurePosixPath(path).parent)
        self.features: dict[str, Any] = self.file.table("features")

    def dependencies(self) -> Iterator[tuple[str, dict[str, Any], bool]]:
        """Yield each dependency's name, its table, and whether only some machines use it."""
        for name, said in self.file.table("dependencies").items():
            yield name, self.whole(name, said), False
        for target in self.file.table("target"):
            for name, said in self.file.table("target", target, "dependencies").items():
                yield name, self.whole(name, said), True

    def whole(self, name: str, said: object) -> dict[str, Any]:
        """Return a dependency's table, with the values inherited from its workspace."""
        own = said if isinstance(said, dict) else {}
        if not own.get("workspace"):
            return {**own, "folder": self.folder}
        root = self.workspace
        shared = root.value("workspace", "dependencies", name) if root else None
        shared = shared if isinstance(shared, dict) else {}
        features = [*shared.get("features", ()), *own.get("features", ())]
        folder = str(PurePosixPath(root.path).parent) if root else self.folder
        return {**shared, **own, "features": features, "folder": folder}

    @functools.cached_property
    def workspace(self) -> TomlFile | None:
        """Return the workspace root: the one that is named, or the nearest Cargo.toml above with a [workspace]."""
        named = self.file.value("package", "workspace")
        if isinstance(named, str):
            return self.read(_join_path(self.folder, f"{named}/Cargo.toml"))
        folder = PurePosixPath(self.folder)
        for above in (folder, *folder.parents):
            file = self.read(str(above / "Cargo.toml"))
            if file.value("workspace") is not None:
                return file
        return None

    def stated(self, key: str) -> str:
        """Return the crate's version, or another key, which may be its workspace's; "" if neither states one."""
        own = self.file.value("package", key)
        if isinstance(own, dict) and own.get("workspace") and self.workspace:
            own = self.workspace.value("workspace", "package", key)
        return own if isinstance(own, str) else ""

    def is_library(self) -> bool:
        """Whether the crate builds a library that Python could load."""
        kinds = self.file.value("lib", "crate-type") or self.file.value("lib", "crate_type") or ()
        return "cdylib" in kinds

    def is_program(self) -> bool:
        """Whether the crate builds a program."""
        tree, folder = self.tree, _join_path(self.folder, "src/bin")
        is_there = _join_path(self.folder, "src/main.rs") in tree.names or bool(self.file.value("bin"))
        return is_there or any(name.startswith(f"{folder}/") for name in tree.files)  # Cargo's own layout of a package


def list_outside(crate: Crate) -> Iterator[str]:
    """Yield the folders whose files no build of a crate compiles: other crates, examples, benchmarks and tests.

    None is known where a build script leads out of its crate.
    """
    crates, queue = {crate.folder: crate}, [crate]
    for one in queue:  # it grows in this loop
        built = one.file.table("build-dependencies").items()
        for said in (*(said for _, said, _ in one.dependencies()), *(one.whole(name, said) for name, said in built)):
            folder = _join_path(str(said["folder"]), str(said.get("path", ".")))
            if said.get("path") and folder not in crates:
                crates[folder] = Crate(crate.tree, _join_path(folder, "Cargo.toml"), crate.read)
                queue.append(crates[folder])
    scripts = {folder: one.tree.text(_join_path(folder, "build.rs")) for folder, one in crates.items()}
    if any(".." in text or "DIR" in text.replace("OUT_DIR", "") for text in scripts.values()):
        return
    files = crate.tree.files
    others = {name.removesuffix("/Cargo.toml") for name in files if name.endswith("/Cargo.toml")}
    tops = {name.partition("/")[0] for name in files if "/" in name}
    outside = others - crates.keys() if "." in crates else {*tops, *others} - crates.keys()
    yield from (one for one in outside if not any(f"{folder}/".startswith(f"{one}/") for folder in crates))
    for folder, text in scripts.items():
        yield from (_join_path(folder, name) for name in UNBUILT if name not in text)


def used(crate: Crate, asked: Iterable[str], *, defaults: bool) -> dict[str, UsedCrate]:
    """Return the crates, by name, that a build of `crate` with the features `asked` depends on.

    Crates in the source are followed; a crate from a registry has only the features that are named here.
    """
    found: dict[str, UsedCrate] = {}
    crates = {crate.file.path: crate}
    features = {crate.file.path: {*asked, *(("default",) if defaults else ())}}
    for_some: set[str] = set()  # crates that only some machines use
    queue = [crate.file.path]
    for path in queue:  # the queue grows until no crate is asked for another feature
        for one in _dependencies_of(crates[path], features[path]):
            is_for_some = one.used.for_some or path in for_some
            found[one.name] = _merge_uses(found.get(one.name), one.used._replace(for_some=is_for_some))
            if one.path:
                for_some |= {one.path} if is_for_some and one.path not in features else set()
                crates[one.path] = crates.get(one.path) or Crate(crate.tree, one.path, crate.read)
                before = features.get(one.path)
                features[one.path] = (before or set()) | one.features
                queue += [one.path] if before != features[one.path] else []
    return found


class _Asked(NamedTuple):
    """A dependency as one crate asks for it: its name, and its Cargo.toml's path if it is in the source."""

    name: str
    path: str
    features: frozenset[str]
    used: UsedCrate


def _dependencies_of(crate: Crate, features: set[str]) -> Iterator[_Asked]:
    of_crates = _resolve_features(crate, features)
    for key, said, for_some in crate.dependencies():
        if said.get("optional") and key not in of_crates.turned_on:
            continue
        wanted = frozenset({*map(str, said.get("features", ())), *of_crates.features.get(key, ())})
        plain = said.get("default-features", said.get("default_features", True))
        whole = wanted | ({"default"} if plain else frozenset())
        path = said.get("path")
        file = _join_path(str(said["folder"]), f"{path}/Cargo.toml") if isinstance(path, str) else ""
        own = file if file in crate.tree.names else ""
        yield _Asked(str(said.get("package", key)), own, whole, UsedCrate(wanted, crate.file, key, for_some))


def _merge_uses(one: UsedCrate | None, other: UsedCrate) -> UsedCrate:
    """Return both uses as one; it is for some machines only if both are, or if one such use adds features."""
    if one is None:
        return other
    named = other if other.features - one.features else one
    adds = (one.for_some and one.features - other.features) or (other.for_some and other.features - one.features)
    for_some = bool(adds) or (one.for_some and other.for_some)
    return named._replace(features=one.features | other.features, for_some=for_some)


class _OfCrates(NamedTuple):
    """The optional dependencies that features turn on, and the features requested of dependencies."""

    turned_on: set[str]
    features: dict[str, set[str]]


def _resolve_features(crate: Crate, features: Iterable[str]) -> _OfCrates:
    found = _OfCrates(set(), {})
    queue = list(features)
    for feature in queue:  # the queue grows in this loop
        name, slash, of_it = feature.partition("/")
        if slash:
            found.features.setdefault(name.removesuffix("?"), set()).add(of_it)
            found.turned_on.update(() if name.endswith("?") else (name,))
        elif feature.startswith("dep:"):
            found.turned_on.add(feature.removeprefix("dep:"))
        else:
            found.turned_on.update(() if feature in crate.features else (feature,))
            queue += [item for item in map(str, crate.features.get(feature, ())) if item not in queue]
    return found


def _join_path(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


# ---------------------------------------------------------------- maturin

LIMITED = re.compile(r"abi3t?(-py3\d+)?")  # features of pyo3
MANIFESTS = ("Cargo.toml", "rust/Cargo.toml")  # its default places
PYO3 = ("pyo3-ffi", "pyo3")  # in the order in which maturin looks for features
UNBOUND = frozenset({"cffi", "uniffi"})  # they load the library themselves, so the wheel's tag names no Python
TORCH = ("tch", "torch-sys", "pyo3-tch")  # crates that link torch's own C++ libraries
OWN_ARGUMENTS = ("cargo-extra-args", "config", "rustc-extra-args", "unstable-flags")
FIRST_ABI3 = Minor(3, 2)
FIRST_ABI3T = Minor(3, 15)


class Limited(NamedTuple):
    """The lowest Pythons of the limited API that a build asks pyo3 for."""

    lowest: Minor | None
    lowest_free_threaded: Minor | None


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read:
    """Return the facts about maturin's build of a cell."""
    where = f"{project.place('build-system', 'build-backend')}: maturin compiles"
    crate = find_crate(project)
    if crate is None:
        api = PythonApi(Binding.UNKNOWN, f"{project.place('tool', 'maturin')}: its Cargo.toml is not in the source")
        return Read(Extensions.SOME, where, api)
    has_defaults = project.value("tool", "maturin", "no-default-features") is not True
    crates = used(crate, _features(project, crate, cell), defaults=has_defaults)
    api = _find_doubt(project, env, crates) or _python_api(project, crate, crates)
    outside = tuple(sorted(list_outside(crate)))
    return Read(Extensions.SOME, where, api, next(_torch(crates), None), outside=outside)


def find_crate(project: ProjectFile) -> Crate | None:
    """Return the crate that maturin compiles; None if its Cargo.toml is not in the source."""
    named = project.value("tool", "maturin", "manifest-path")
    for path in (str(named),) if named else MANIFESTS:
        if project.path(path) in project.tree.names:
            return Crate(project.tree, project.path(path))
    return None


# ---------------------------------------------------------------- the features


def _features(project: ProjectFile, crate: Crate, cell: CellFacts) -> Iterator[str]:
    """Yield the features that maturin asks Cargo for in a cell."""
    if project.value("tool", "maturin", "all-features") is True:
        yield from crate.features
    for said in project.list("tool", "maturin", "features"):
        if isinstance(said, str):
            yield said
        elif isinstance(said, dict) and _holds(said, cell):
            yield str(said.get("feature", ""))


def _holds(condition: Mapping[str, Any], cell: CellFacts) -> bool:
    try:
        versions = parse_specifiers(str(condition.get("python-version", "")))
    except ValueError:  # also more digits than Python converts
        return False
    # maturin compares only `3.12`, so a patch release in the condition never holds: `versions.admits` would say more.
    is_cpython = str(condition.get("python-implementation", "cpython")).lower() == "cpython"
    return is_cpython and versions.contains(str(cell.python.version), prereleases=True)


# ---------------------------------------------------------------- against which Python


def _find_doubt(project: ProjectFile, env: Mapping[str, str], crates: Mapping[str, UsedCrate]) -> PythonApi | None:
    """Return the API as UNKNOWN if settings outside the source's tables can change the features, or None."""
    if "MATURIN_PEP517_ARGS" in env:
        return PythonApi(Binding.UNKNOWN, f"{project.place('tool', 'maturin')}: MATURIN_PEP517_ARGS adds to it")
    for key in OWN_ARGUMENTS:
        if "feature" in str(project.value("tool", "maturin", key) or ""):
            return PythonApi(Binding.UNKNOWN, f"{project.place('tool', 'maturin', key)}: {key} may ask for features")
    for name in PYO3:
        if name in crates and crates[name].for_some:
            return PythonApi(Binding.UNKNOWN, f"{crates[name].where}: {name} is used only on some machines")
    return None


def _python_api(project: ProjectFile, crate: Crate, crates: Mapping[str, UsedCrate]) -> PythonApi:
    """Return the API for the kind of bindings that is named or that maturin detects."""
    bindings = project.text("tool", "maturin", "bindings")
    where = str(project.place("tool", "maturin", "bindings") if bindings else crate.file.place("crate-type"))
    pyo3 = next((crates[name] for name in reversed(PYO3) if name in crates), None)
    kind = bindings or _detect_bindings(crate, pyo3, crates)
    if kind in UNBOUND or (kind == "bin" and pyo3 is None):
        return PythonApi(Binding.NONE, f"{where}: bindings {kind}")
    if kind == "bin":
        return PythonApi(Binding.FULL, f"{pyo3.where if pyo3 else where}: a program that uses pyo3")
    if kind and pyo3:
        return _pyo3_api(project, crates, pyo3)
    return PythonApi(Binding.UNKNOWN, f"{crate.file.path}:1: which bindings it makes is not known")


def _detect_bindings(crate: Crate, pyo3: UsedCrate | None, crates: Mapping[str, UsedCrate]) -> str:
    if pyo3:
        return "bin" if crate.is_program() and not crate.is_library() else "pyo3"
    if "uniffi" in crates:
        return "uniffi"
    if crate.is_library():
        return "cffi"
    return "bin" if crate.is_program() else ""


def _pyo3_api(project: ProjectFile, crates: Mapping[str, UsedCrate], pyo3: UsedCrate) -> PythonApi:
    limited = _abi3_floors(project, crates)
    if limited.lowest is None and limited.lowest_free_threaded is None:
        return PythonApi(Binding.FULL, f"{pyo3.where}: pyo3 without abi3")
    named = next(crates[name] for name in PYO3 if _asks_for("abi3t?", crates.get(name)))
    # An abi3t library is an abi3 library as well, and has both tags (PEP 803).
    lowest = limited.lowest or limited.lowest_free_threaded
    where = f"{named.where}: pyo3 with {', '.join(sorted(filter(LIMITED.fullmatch, named.features)))}"
    unversioned = limited.lowest is not None and _lowest("abi3", named.features) is None
    free = limited.lowest_free_threaded
    # For a Python older than the feature's, pyo3 refuses to compile: "cannot set a minimum Python version 3.12 higher
    # than the interpreter version 3.11" (pyo3-build-config).
    return PythonApi(Binding.STABLE, where, lowest, free, built_by_lowest=unversioned)


def _abi3_floors(project: ProjectFile, crates: Mapping[str, UsedCrate]) -> Limited:
    """Return the lowest Pythons; if the features name no version, it is the Python that builds."""
    features = [
        next((crates[name].features for name in PYO3 if _asks_for(kind, crates.get(name))), frozenset[str]())
        for kind in ("abi3", "abi3t")
    ]
    abi3, abi3t = _lowest("abi3", features[0]), _lowest("abi3t", features[1])
    plain = abi3 or (oldest(project, FIRST_ABI3) if features[0] else None)
    free = max(abi3t, FIRST_ABI3T) if abi3t else None
    free = free or (oldest(project, FIRST_ABI3T, free_threaded=True) if features[1] else None)
    return Limited(plain, free)


def _asks_for(kind: str, crate: UsedCrate | None) -> bool:
    return crate is not None and any(re.fullmatch(rf"{kind}(-py3\d+)?", feature) for feature in crate.features)


def _lowest(kind: str, features: frozenset[str]) -> Minor | None:
    matches = (re.fullmatch(rf"{kind}-py3(\d+)", feature) for feature in features)
    return min((Minor(3, int(match[1])) for match in matches if match), default=None)


# ---------------------------------------------------------------- torch


def _torch(crates: Mapping[str, UsedCrate]) -> Iterator[TorchAbi]:
    for name in TORCH:
        if name in crates:
            yield TorchAbi(Binding.UNKNOWN, f"{crates[name].where}: the crate {name} links torch", uses_torch=True)
