"""Reads maturin's configuration: `[tool.maturin]`, and the pyo3 features in Cargo.toml; maturin always compiles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.model.evidence import Binding, Extensions, PythonApi, TorchAbi
from ci_tools.model.pep440 import parse_specifiers
from ci_tools.model.versions import Minor
from ci_tools.source.backends.cargo import Crate, Files, UsedCrate, list_outside, used
from ci_tools.source.backends.facts import Read, oldest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.source.backends.facts import CellFacts
    from ci_tools.source.project_file import ProjectFile

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
            return Crate(Files(project.tree), project.path(path))
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
    where = f"{named.where}: pyo3 with {', '.join(sorted(filter(_is_limited, named.features)))}"
    unversioned = limited.lowest is not None and _lowest("abi3", named.features) is None
    free = limited.lowest_free_threaded
    # For a Python older than the feature's, pyo3 refuses to compile: "cannot set a minimum Python version 3.12 higher
    # than the interpreter version 3.11" (pyo3-build-config).
    return PythonApi(Binding.STABLE, where, lowest, free, built_by_lowest=unversioned)


def _is_limited(feature: str) -> bool:
    return re.fullmatch(r"abi3t?(-py3\d+)?", feature) is not None


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
