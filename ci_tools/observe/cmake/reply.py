"""Reads the reply of cmake's file API (cmake-file-api(7), codemodel version 2): the targets of a configured project."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.model.evidence import Compile
from ci_tools.sandbox.leftovers import read_safely

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERY = ".cmake/api/v1/query/codemodel-v2"
REPLY = ".cmake/api/v1/reply"
MOST = 64 << 20  # bytes of one file
LINKED = frozenset({"EXECUTABLE", "MODULE_LIBRARY", "SHARED_LIBRARY"})
COMPILED = LINKED | {"STATIC_LIBRARY", "OBJECT_LIBRARY"}
LINKS_TORCH = "-DFATWHEEL_LINKS_TORCH"  # the stand-in for torch gives it to every target that links torch


class CmakeTarget(NamedTuple):
    """A target that compiles something: its kind, its file, its compiler calls, and what its linker gets."""

    name: str
    kind: str
    file: str
    compiles: tuple[Compile, ...]
    links: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # names of targets that are built before it
    is_installed: bool = False

    @property
    def is_linked(self) -> bool:
        """Whether it is a library or a program of its own."""
        return self.kind in LINKED


def read_targets(build: Path, source: str) -> tuple[CmakeTarget, ...] | None:
    """Return the targets that compile sources, relative to the folder `source`; None without a readable reply."""
    try:
        return tuple(_read_all(build / REPLY, source))
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError):
        return None  # the project's own commands can write there, too


def _read_all(reply: Path, source: str) -> Iterator[CmakeTarget]:
    (index,) = reply.glob("index-*.json")
    (model,) = (one for one in _load(index)["objects"] if one["kind"] == "codemodel")
    model = _load(reply / model["jsonFile"])
    targets = model["configurations"][0]["targets"]
    top = str(model["paths"]["source"])  # of the first CMakeLists.txt: the files' paths are relative to it
    names = {str(one["id"]): str(one["name"]) for one in targets}
    for one in targets:
        found = _load(reply / one["jsonFile"])
        if found["type"] in COMPILED:
            yield _target(found, top, source, names)


def _load(path: Path) -> dict[str, Any]:
    content = read_safely(path, MOST)
    if content is None:
        raise ValueError(f"{path.name} cannot be read")
    value: dict[str, Any] = json.loads(content)
    return value


def _target(found: dict[str, Any], top: str, source: str, targets: dict[str, str]) -> CmakeTarget:
    flags = [tuple(_flags(group)) for group in found.get("compileGroups", ())]
    languages = [str(group["language"]) for group in found.get("compileGroups", ())]
    compiled = [one for one in found.get("sources", ()) if "compileGroupIndex" in one]
    names = {one["path"]: posixpath.normpath(posixpath.join(top, one["path"])) for one in compiled}
    return CmakeTarget(
        str(found["name"]),
        str(found["type"]),
        str(found.get("nameOnDisk", found["name"])),
        tuple(
            Compile(
                posixpath.relpath(names[one["path"]], source),
                languages[one["compileGroupIndex"]],
                flags[one["compileGroupIndex"]],
            )
            for one in compiled
        ),
        tuple(str(one["fragment"]) for one in found.get("link", {}).get("commandFragments", ())),
        tuple(targets[str(one["id"])] for one in found.get("dependencies", ()) if one["id"] in targets),
        "install" in found,
    )


def _flags(group: dict[str, Any]) -> Iterator[str]:
    for one in group.get("compileCommandFragments", ()):
        yield from str(one["fragment"]).split()
    yield from (f"-D{one['define']}" for one in group.get("defines", ()))
