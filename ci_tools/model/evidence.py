"""The evidence that a project's source gives: its metadata, extensions and ABIs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ci_tools.model.names import Name, ProjectName, Sha256, VersionText
from ci_tools.model.platforms import Cell, Platform
from ci_tools.model.versions import Minor

NO_GPU = "as it finds no GPU, which no builder has"  # the end of such a failure's text


class Project(NamedTuple):
    """The project's metadata, from `pyproject.toml`, `setup.cfg` or `setup.py`."""

    name: ProjectName
    version: VersionText
    requires_python: str
    backend: str
    where: str
    told: str = ""  # the answer of the project's own tool about the version, which its builds get
    told_tag: str = ""  # the template of a tag that gives it to them, where no variable does
    hides_git: bool = False  # whether builds see no repository, as the version has a label where they do


class Requirement(NamedTuple):
    """The versions of a package that the project requires (None: any), and the place where it says so."""

    specifier: str | None = None
    where: str = ""


ANY_VERSION = Requirement()


class Extensions(Name):
    """Whether the build compiles anything for a platform."""

    NONE = "none"
    SOME = "some"
    UNKNOWN = "unknown"


class Binding(Name):
    """How tightly compiled code binds to an ABI."""

    NONE = "none"  # it does not use the ABI
    STABLE = "stable"  # it uses only the stable part, from a lowest version on
    FULL = "full"  # it needs one binary for each version
    UNKNOWN = "unknown"


class Mislabel(NamedTuple):
    """Why the tag that a build gives its wheel is not true."""

    what: str
    is_certain: bool  # False: the audit of the wheel decides
    way_out: str = ""  # what would make it true, where that is not a tag of setuptools


class PythonApi(NamedTuple):
    """The Python C API of the compiled code; both `lowest` belong to the limited API (PEP 384, PEP 803)."""

    kind: Binding
    where: str
    lowest: Minor | None = None  # abi3: from this Python on, except free-threaded ones
    lowest_free_threaded: Minor | None = None  # abi3t: from this free-threaded Python on
    builds_older: bool = False  # whether the backend also builds a separate wheel for each older Python
    built_by_lowest: bool = False  # whether the building Python sets the wheel's tag, so the lowest has to build it
    named_by_builder: bool = False  # whether a library is named for the building Python, so the oldest has to build it
    label: Minor | None = None  # the Python in the wheel's abi3 tag, where that is lower than `lowest`
    tagged_at: str = ""  # the line that tags the wheel
    tag: str = ""  # of interpreter and ABI, where the build gives one that neither Python nor the limited API predicts
    mislabel: Mislabel | None = None


def name_tag(api: PythonApi) -> str:
    """Return the tag of interpreter and ABI that a build gives its wheel."""
    lowest = api.label or api.lowest
    return f"cp{lowest.digits}-abi3" if api.kind is Binding.STABLE and lowest else api.tag or "py3-none"


def read_tag(tag: str, where: str) -> PythonApi:
    """Return the Python API that an interpreter and ABI tag stand for."""
    if NO_ABI.fullmatch(tag):
        return PythonApi(Binding.NONE, where)
    if match := ABI3.fullmatch(tag):
        return PythonApi(Binding.STABLE, where, Minor(3, int(match[1])))
    return PythonApi(Binding.FULL, where, tag=tag)


def explain_false_tag(api: PythonApi) -> str:
    """Return why the tag of a wheel is certain not to be true, and what to change; "" if it may be."""
    if api.mislabel is None or not api.mislabel.is_certain:
        return ""
    return f"the wheel is tagged {name_tag(api)}, though {api.mislabel.what}: {explain_way_out(api)}"


def explain_way_out(api: PythonApi) -> str:
    """Return what to change about a tag that is not true."""
    if api.mislabel and api.mislabel.way_out:
        return f"expected {api.mislabel.way_out}"
    if api.kind is Binding.STABLE and api.lowest:
        if PY_API in api.where:
            nanobind = "from cp312 on nanobind's STABLE_ABI, with Python's component Development.SABIModule"
            asked = f"USE_SABI {api.lowest} (or {nanobind}) for each module, on each system"
            return f"expected {asked}, or no wheel.{PY_API}"
        macro = f"0x03{api.lowest.minor:02X}0000"  # 3.12 is 0x030C0000
        return f"expected py_limited_api=True and Py_LIMITED_API {macro} for what is compiled, or no tag of its own"
    return "expected no tag of its own, or one that is true (get_tag and root_is_pure of bdist_wheel)"


class TorchAbi(NamedTuple):
    """The torch ABI of the compiled code; `target` is TORCH_TARGET_VERSION."""

    kind: Binding
    where: str
    target: Minor | None = None
    uses_torch: bool = False  # whether the code is known to include a torch header


class Compile(NamedTuple):
    """One call of a compiler by the project's build."""

    source: str  # relative to the source root, or as written in the command
    compiler: str
    flags: tuple[str, ...]


class Extension(NamedTuple):
    """One library that the project's build links: its path in the wheel, and the compiler calls that create it."""

    member: str  # with OWN_SUFFIX if only the Python that builds it can load it
    compiles: tuple[Compile, ...]
    links: tuple[str, ...] = ()  # libraries and flags of the linker
    images: tuple[str, ...] | None = ()  # sm_90a, compute_100; None: unknown


class Spared(NamedTuple):
    """A library that its package does without where it cannot be loaded, as on a torch older than its target."""

    member: str
    target: Minor  # of the stable ABI
    where: str  # the place that loads it, and passes over it if that fails


class LeftOut(NamedTuple):
    """A source behind a condition that the build does not meet, and the place of the condition."""

    source: str
    where: str
    switches: tuple[tuple[str, str], ...] = ()  # the variables that meet it; none: only a GPU on the builder does
    pattern: str = ""  # of all sources behind the condition, of which this is one; empty: it is the only one
    definition: str = ""  # what cmake would have to be given, where that is the condition


OWN_SUFFIX = ".cpython-fatwheel.so"
PURE_TAG = "py3"
PY_API = "py-api"  # the setting of scikit-build-core that tags a wheel
ABI3 = re.compile(r"cp3(\d{1,2})-abi3")
NO_ABI = re.compile(r"py[\w.]+-none")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """The evidence about a cell; each `where` names the place in the source, or says that a build was observed."""

    extensions: Extensions
    extensions_where: str
    python_api: PythonApi
    torch_abi: TorchAbi
    pure_tag: str = PURE_TAG  # the interpreter tag of a wheel that does not depend on a Python ABI
    doubt: str = ""  # why only some of its axes are known: it counts as native, whatever the answer
    unsupported: str | None = None  # why its build would fail, in the project's own words
    asked: tuple[tuple[str, str], ...] = ()  # facts on which its build depends, each with the place of the query
    off: tuple[tuple[str, str], ...] = ()  # switches that its build leaves off by default, each with its place
    switches: tuple[tuple[str, str], ...] = ()  # variables without which its build would skip the kernels
    switches_where: str = ""
    build_requires: tuple[str, ...] = ()  # packages that its build imports but the project does not declare
    built: tuple[Extension, ...] = ()
    archs: tuple[str, ...] = ()  # the GPU architectures of its libraries, where those are not the request's
    spared: tuple[Spared, ...] = ()
    left_out: tuple[LeftOut, ...] = ()  # sources of a platform that this build of it does not compile
    members: tuple[str, ...] | None = None  # of the wheel, without dist-info; None: unknown
    contents: tuple[str, ...] = ()  # those members that are not compiled, each with its hash
    written: tuple[str, ...] = ()  # the sources that its build writes or changes, each with its hash
    configured: tuple[str, ...] = ()  # the calls of cmake: changed variables, and arguments
    metadata: tuple[str, ...] | None = None  # the fields of METADATA; None: unknown
    recipe: str | None = None  # a hash of everything its build does; None: unknown
    warnings: tuple[str, ...] = ()

    @property
    def is_hollow(self) -> bool:
        """Whether a cell is unsupported because its wheel would lack kernels: its build itself succeeds."""
        return bool(self.unsupported) and self.recipe is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEvidence:
    """The evidence about one platform: the same for all its cells, except those in `apart`."""

    platform: Platform
    native_files: tuple[str, ...]
    compiled_files: tuple[str, ...] = ()  # if its globs match nothing, the files that a compiler takes
    shown: CellEvidence
    apart: Mapping[Cell, CellEvidence] = field(default_factory=dict)

    def of(self, cell: Cell) -> CellEvidence:
        """Return the evidence about one cell."""
        return self.apart.get(cell, self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence from the source on which a plan is based."""

    project: Project
    source_sha256: Sha256
    commit: str | None  # None if the source is not a git checkout
    platforms: tuple[PlatformEvidence, ...]
    requires_torch: Requirement = ANY_VERSION
    builds_with_torch: Requirement = ANY_VERSION  # from its build requirements
    warnings: tuple[str, ...] = ()
    release_tags: tuple[str, ...] | None = None  # the commit's, of which its own tool makes the version, if of any
