"""What a project's source shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.cell import Cell
from ci_tools.model.names import Name
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "OWN_SUFFIX",
    "PURE_TAG",
    "Binding",
    "CellEvidence",
    "Compile",
    "Evidence",
    "Extension",
    "Extensions",
    "PlatformEvidence",
    "Project",
    "PythonApi",
    "TorchAbi",
]


class Project(NamedTuple):
    """What `pyproject.toml` and its kin say of the project."""

    name: str
    version: str
    requires_python: str
    backend: str
    where: str


class Requirement(NamedTuple):
    """The versions of a package that the project asks for, all of them where it says nothing, and where it does."""

    specifier: str = ""
    where: str = ""


ANY_VERSION = Requirement()


class Extensions(Name):
    """Whether the build compiles anything for a platform."""

    NONE = "none"
    SOME = "some"
    UNKNOWN = "unknown"


class Binding(Name):
    """How tightly compiled code binds to an ABI."""

    NONE = "none"  # uses none of it
    STABLE = "stable"  # the stable part only, from a lowest version on
    FULL = "full"  # one binary for each version
    UNKNOWN = "unknown"


class PythonApi(NamedTuple):
    """Which Python C API the compiled code uses; the two `lowest` go with the limited API (PEP 384, PEP 803)."""

    kind: Binding
    where: str
    lowest: Minor | None = None  # abi3: from this Python on, free-threaded ones left out
    lowest_free_threaded: Minor | None = None  # abi3t: from this free-threaded Python on
    builds_older: bool = False  # whether the backend builds older Pythons too, for each its own wheel
    built_by_lowest: bool = False  # whether the wheel is tagged by the Python that builds it: the lowest has to


class TorchAbi(NamedTuple):
    """Which torch ABI the compiled code uses; `target` is TORCH_TARGET_VERSION."""

    kind: Binding
    where: str
    target: Minor | None = None
    uses_torch: bool = False  # whether a header of torch's is known to be included


class Compile(NamedTuple):
    """One call of a compiler, as the project's build makes it."""

    source: str  # relative to the source root, or what the command says
    compiler: str
    flags: tuple[str, ...]


class Extension(NamedTuple):
    """One library that the project's build links, where it lies in the wheel, and how it is made."""

    member: str  # with OWN_SUFFIX where only the Python that builds it can load it
    compiles: tuple[Compile, ...]
    links: tuple[str, ...] = ()  # libraries and flags of the linker
    images: tuple[str, ...] | None = ()  # sm_90a, compute_100; None: not known


OWN_SUFFIX = ".cpython-fatwheel.so"
PURE_TAG = "py3"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """What the source shows of a cell, each with where it was read, or that it was observed."""

    extensions: Extensions
    extensions_where: str
    python_api: PythonApi
    torch_abi: TorchAbi
    pure_tag: str = PURE_TAG  # the interpreter tag of a wheel that is bound to no Python's ABI
    unsupported: str = ""  # why its build would fail, in the project's own words
    asked: tuple[tuple[str, str], ...] = ()  # what its build decides by, and where it asks for it
    switches: tuple[tuple[str, str], ...] = ()  # variables without which its build would leave the kernels out
    switches_where: str = ""
    build_requires: tuple[str, ...] = ()  # what its build imports and the project does not say that it requires
    built: tuple[Extension, ...] = ()
    members: tuple[str, ...] = ()  # of the wheel, dist-info left out; empty: not known
    contents: tuple[str, ...] = ()  # those of them that are not compiled, each with its hash
    metadata: tuple[str, ...] = ()  # the fields of METADATA; empty: not known
    recipe: str = ""  # a hash of all that its build does; empty: not known
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEvidence:
    """What the source shows of one platform: the same for all its cells, but for those that are named apart."""

    platform: Platform
    native_files: tuple[str, ...]
    nearest_files: tuple[str, ...] = ()  # where its globs match nothing, the files that they are most like
    shown: CellEvidence
    apart: Mapping[Cell, CellEvidence] = field(default_factory=dict)

    def of(self, cell: Cell) -> CellEvidence:
        """Return what is shown of one cell."""
        return self.apart.get(cell, self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was read in the source to decide."""

    project: Project
    source_sha256: str
    commit: str  # empty where the source is no git checkout
    platforms: tuple[PlatformEvidence, ...]
    requires_torch: Requirement = ANY_VERSION
    builds_with_torch: Requirement = ANY_VERSION  # by its build requirements
    warnings: tuple[str, ...] = ()
