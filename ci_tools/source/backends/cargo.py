"""Reads Cargo.toml: the crates and features that a build uses, as far as the source's own crates name them."""

from __future__ import annotations

import functools
import posixpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.source.project_file import TomlFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.source.files import Tree


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


class Files:
    """The Cargo.toml files of a tree, each read once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.read: dict[str, TomlFile] = {}

    def of(self, path: str) -> TomlFile:
        """Return a file; empty if it does not exist."""
        if path not in self.read:
            self.read[path] = TomlFile.of(self.tree, path)
        return self.read[path]


class Crate:
    """One Cargo.toml of the source, with the workspace that it belongs to."""

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.file = files.of(path)
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
            return self.files.of(_join_path(self.folder, f"{named}/Cargo.toml"))
        folder = PurePosixPath(self.folder)
        for above in (folder, *folder.parents):
            file = self.files.of(str(above / "Cargo.toml"))
            if file.value("workspace") is not None:
                return file
        return None

    def version(self) -> str:
        """Return the crate's version, which may be its workspace's; "" if neither states one."""
        own = self.file.value("package", "version")
        if isinstance(own, dict) and own.get("workspace") and self.workspace:
            own = self.workspace.value("workspace", "package", "version")
        return own if isinstance(own, str) else ""

    def is_library(self) -> bool:
        """Whether the crate builds a library that Python could load."""
        kinds = self.file.value("lib", "crate-type") or self.file.value("lib", "crate_type") or ()
        return "cdylib" in kinds

    def is_program(self) -> bool:
        """Whether the crate builds a program."""
        tree, folder = self.files.tree, _join_path(self.folder, "src/bin")
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
                crates[folder] = Crate(crate.files, _join_path(folder, "Cargo.toml"))
                queue.append(crates[folder])
    scripts = {folder: one.files.tree.text(_join_path(folder, "build.rs")) for folder, one in crates.items()}
    if any(".." in text or "DIR" in text.replace("OUT_DIR", "") for text in scripts.values()):
        return
    files = crate.files.tree.files
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
                crates[one.path] = crates.get(one.path) or Crate(crate.files, one.path)
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
        own = file if file in crate.files.tree.names else ""
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
