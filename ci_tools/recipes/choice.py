"""Cuts a recipe into releases: each has one version, and what the names of the release differ in. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.config.release_names import FREE_THREADED, choose_names, fields_in
from ci_tools.errors import InputError
from ci_tools.model.versions import Python

if TYPE_CHECKING:
    Root = Mapping[str, Any]


class RecipeChoice(NamedTuple):
    """Values of one run in place of those of the recipe; an empty field leaves the recipe's."""

    version: str = ""
    pythons: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()
    cudas: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    rebuild: int | None = None


def cut(root: Root, choice: RecipeChoice, name: str) -> list[dict[str, Any]]:
    """Return the content of a config for each release of the recipe `name`, oldest Python first.

    A release has one version. Where its tag or title names the Python, torch or CUDA, it has one of these, too. Raises
    InputError if the recipe cannot give what is chosen.
    """
    chosen = _choose(root, choice, name)
    pythons = sorted(map(_parse_python, chosen["python"]))
    apart = FREE_THREADED in (chosen.get("release") or {})
    kinds = [[one for one in pythons if one.free_threaded is kind] for kind in (False, True)] if apart else [pythons]
    return [part for kind in kinds if kind for part in _cut_kind(chosen, kind, name)]


def _cut_kind(chosen: dict[str, Any], pythons: Sequence[Python], name: str) -> list[dict[str, Any]]:
    """Return the parts for Pythons whose releases are named alike."""
    if "release" in chosen:
        chosen = {**chosen, "release": choose_names(chosen["release"] or {}, pythons)}
    release = chosen.get("release") or {}
    named = fields_in(f"{release.get('tag', '')} {release.get('title', '')}")
    torches = chosen.get("torch")
    by_python = _split(list(map(str, pythons)), apart=bool(named & {"python", "python_title"}))
    by_torch = _split(torches, apart="torch" in named) if isinstance(torches, list) else [None]
    by_cuda = _split(_cudas(chosen), apart=bool(named & {"cuda", "cuda_version"}))
    parts: list[dict[str, Any]] = []
    for python, torch, cuda in product(by_python, by_torch, by_cuda):
        for version, group in _by_version(chosen, python or [], name).items():
            part = deepcopy({key: value for key, value in chosen.items() if key != "versions"})
            part |= {"version": version} if version else {}
            part |= {"python": group} | ({"torch": torch} if torch else {})
            _set_cuda(part, "cuda", cuda or ())
            parts.append(part)
    return parts


def _parse_python(text: str) -> Python:
    """Return a Python that is chosen; raise InputError if it is not a version. Those of a recipe are checked before."""
    try:
        return Python.parse(text)
    except ValueError as error:
        raise InputError(f'--python: "{text}" is not a version, expected one such as 3.14 or 3.14t') from error


def version_of(root: Root) -> str:
    """Return the version of a release's config: its own, or that of its sdist; "" if only its source says it."""
    sdist = (root.get("source") or {}).get("sdist") or {}
    return str(root.get("version") or sdist.get("version") or "")


def _choose(root: Root, choice: RecipeChoice, name: str) -> dict[str, Any]:
    """Return the content of a recipe with what is chosen in place of its own."""
    chosen = deepcopy(dict(root))
    if choice.version:
        chosen.pop("versions", None)
        chosen["version"] = choice.version
    if choice.pythons:
        chosen["python"] = list(choice.pythons)
    if choice.torches and "torch" not in root:
        raise InputError(f"--torch {choice.torches[0]}: the recipe {name} names no torch, so its wheels depend on none")
    if choice.torches:
        chosen["torch"] = list(choice.torches)
    for key, values in (("cuda", choice.cudas), ("archs", choice.archs)):
        if values and not _cudas(root):
            raise InputError(f"--{key} {values[0]}: the recipe {name} has no CUDA platform")
        _set_cuda(chosen, key, values)
    if choice.rebuild:
        chosen["release"] = {**(chosen.get("release") or {}), "rebuild": choice.rebuild}
    return chosen


def _split(values: Sequence[str] | None, *, apart: bool) -> list[list[str] | None]:
    """Return a list of lists: each value by itself, or all together; [None] for no values."""
    if not values:
        return [None]
    return [[value] for value in values] if apart else [list(values)]


def _by_version(root: Root, pythons: Iterable[str], name: str) -> dict[str, list[str]]:
    """Return the Pythons of each version that the recipe has for them; "" where only the source says it."""
    table = root.get("versions")
    if not isinstance(table, dict):
        return {version_of(root): list(pythons)}
    found: dict[str, list[str]] = {}
    for python in pythons:
        version = next((str(version) for version, served in table.items() if python in served), None)
        if version is None:
            served = ", ".join(f"{version} for {', '.join(served)}" for version, served in table.items())
            msg = f"the recipe {name} has no version for Python {python}, its `versions`: {served}"
            raise InputError(msg, hint="`--version` names one")
        found.setdefault(version, []).append(python)
    return found


def _cudas(root: Root) -> list[str]:
    """Return the CUDA versions that the platforms of a config ask for."""
    tables = [table for table in root["platforms"].values() if isinstance(table, dict)]
    return list(dict.fromkeys(str(version) for table in tables for version in table.get("cuda") or ()))


def _set_cuda(root: dict[str, Any], key: str, values: Sequence[str]) -> None:
    """Set a key of every CUDA platform, if there are values."""
    for table in root["platforms"].values():
        if values and isinstance(table, dict) and "cuda" in table:
            table[key] = list(values)
