"""The nouns of Fatwheel as frozen values: request, cell, evidence, job, plan, receipt, finding.

Nothing here reads a file, a clock or the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packaging.specifiers import SpecifierSet

__all__ = [
    "HOSTED_MINUTES",
    "NOT_ASKED",
    "NO_CARE",
    "NO_RUN",
    "OWN_SUFFIX",
    "PURE_TAG",
    "SDIST",
    "SELF_HOSTED",
    "Accelerator",
    "AcceleratorKind",
    "Binding",
    "Build",
    "BuiltWith",
    "Care",
    "Cell",
    "CellEvidence",
    "Command",
    "Compile",
    "Covered",
    "CudaArch",
    "Enabled",
    "Evidence",
    "Extension",
    "Extensions",
    "Finding",
    "GfxArch",
    "GitSource",
    "Globs",
    "GpuTrial",
    "Hook",
    "Job",
    "JobKind",
    "Level",
    "Library",
    "Minor",
    "Outcome",
    "PathSource",
    "Pins",
    "Plan",
    "Platform",
    "PlatformEvidence",
    "PlatformRequest",
    "Project",
    "Publish",
    "Python",
    "PythonApi",
    "Receipt",
    "Release",
    "Request",
    "Route",
    "Run",
    "SdistSource",
    "Site",
    "Skipped",
    "ToolchainKind",
    "Torch",
    "TorchAbi",
    "Trial",
    "Validated",
    "Validation",
    "admits",
]


class Name(str, Enum):
    """A closed set of names that print as themselves (`enum.StrEnum` of Python 3.11)."""

    def __str__(self) -> str:
        """Return the name as users write it."""
        return str(self.value)


# ---------------------------------------------------------------- versions


class Minor(NamedTuple):
    """A `major.minor` version of Python, torch, CUDA or ROCm; orders as numbers."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Minor:
        """Read `13.0`; raise ValueError for anything else."""
        match = re.fullmatch(r"(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})", text)
        if match is None:
            msg = f'"{text}" is not a version such as 13.0'
            raise ValueError(msg)
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        """Return `13.0`."""
        return f"{self.major}.{self.minor}"

    @property
    def digits(self) -> str:
        """The version without its dot, as in `cu130` and `cp312`."""
        return f"{self.major}{self.minor}"

    @property
    def next(self) -> Minor:
        """The first version that is not this one any more."""
        return Minor(self.major, self.minor + 1)


NEWEST_PATCH = 999  # newer than any patch release there will be


def admits(specifier: SpecifierSet, version: Minor) -> bool:
    """Return whether a specifier admits some release of a minor version (PEP 440).

    What it admits changes at the releases that it names, so those are tried, their neighbours, and both ends.
    """
    named = (re.match(rf"{version.major}\.{version.minor}\.(\d+)", one.version) for one in specifier)
    patches = {max(int(match[1]) + step, 0) for match in named if match for step in (-1, 0, 1)}
    releases = [f"{version}.{patch}" for patch in sorted({0, NEWEST_PATCH, *patches})]
    # With pre-releases: a Python or a torch that is still one is asked for by that.
    return any(specifier.contains(release, prereleases=True) for release in releases)


class Python(NamedTuple):
    """A Python minor version, free-threaded (PEP 703) or not."""

    version: Minor
    free_threaded: bool = False

    @classmethod
    def parse(cls, text: str) -> Python:
        """Read `3.14` or `3.14t`; raise ValueError for anything else."""
        return cls(Minor.parse(text.removesuffix("t")), text.endswith("t"))

    def __str__(self) -> str:
        """Return `3.14t`."""
        return f"{self.version}{'t' if self.free_threaded else ''}"

    @property
    def interpreter_tag(self) -> str:
        """The wheel's Python tag, `cp314` (PEP 425)."""
        return f"cp{self.version.digits}"

    @property
    def abi_tag(self) -> str:
        """The wheel's ABI tag, `cp314t` for free-threaded (PEP 703)."""
        return f"{self.interpreter_tag}{'t' if self.free_threaded else ''}"


class CudaArch(NamedTuple):
    """One entry of `TORCH_CUDA_ARCH_LIST`: a compute capability, its variant, and whether PTX rides along."""

    capability: Minor
    variant: str = ""  # "a": this chip only; "f": this chip's family (CUDA 12.9 and later)
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> CudaArch:
        """Read `9.0`, `9.0a` or `10.0+PTX`; raise ValueError for anything else."""
        match = re.fullmatch(r"(\d{1,2}\.\d)([af]?)(\+PTX)?", text)
        if match is None:
            msg = f'"{text}" is not an architecture such as 9.0, 9.0a or 10.0+PTX'
            raise ValueError(msg)
        return cls(Minor.parse(match[1]), match[2], match[3] is not None)

    def __str__(self) -> str:
        """Return `10.0+PTX`."""
        return f"{self.capability}{self.variant}{'+PTX' if self.ptx else ''}"

    @property
    def sm(self) -> str:
        """The name of its machine code (SASS), `sm_100a`."""
        return f"sm_{self.capability.digits}{self.variant}"

    @property
    def compute(self) -> str:
        """The name of its virtual code (PTX), `compute_100a`."""
        return f"compute_{self.capability.digits}{self.variant}"


class GfxArch(NamedTuple):
    """One entry of `PYTORCH_ROCM_ARCH`: a processor, or a generic target, and the features it is for or is not for.

    Code without features runs whatever their setting; LLVM calls this a target ID.
    """

    processor: str
    features: tuple[str, ...] = ()  # "xnack+"

    @classmethod
    def parse(cls, text: str) -> GfxArch:
        """Read `gfx942`, `gfx9-4-generic` or `gfx90a:xnack+`; raise ValueError for anything else."""
        processor, *features = text.split(":")
        if GFX.fullmatch(processor) is None or not all(re.fullmatch(r"[a-z]+[+-]", feature) for feature in features):
            msg = f'"{text}" is not an architecture such as gfx942, gfx9-4-generic or gfx90a:xnack+'
            raise ValueError(msg)
        return cls(processor, tuple(sorted(features)))

    def __str__(self) -> str:
        """Return `gfx90a:sramecc-:xnack+`, the features in the order in which compilers write them."""
        return ":".join((self.processor, *self.features))

    @property
    def named(self) -> tuple[str, ...]:
        """Its features, whether they are to be on or off."""
        return tuple(feature[:-1] for feature in self.features)

    @property
    def capability(self) -> Minor:
        """What torch says of such a GPU where it says the compute capability of others, 9.4 for gfx942."""
        found = GFX.fullmatch(self.processor)
        return Minor(int(found["major"]), int(found["minor"] or found["part"] or 0)) if found else Minor(0, 0)


GFX = re.compile(r"gfx(?P<major>\d{1,2}?)((?P<minor>\d)[0-9a-f]|(-(?P<part>\d))?-generic)")


# ---------------------------------------------------------------- platforms


class Platform(Name):
    """The platforms a request can name."""

    LINUX_CUDA = "linux-cuda"
    LINUX_CUDA_AARCH64 = "linux-cuda-aarch64"
    LINUX_ROCM = "linux-rocm"
    LINUX_XPU = "linux-xpu"
    LINUX_CPU = "linux-cpu"
    LINUX_AARCH64 = "linux-aarch64"
    MACOS_ARM64 = "macos-arm64"
    WINDOWS = "windows"
    WINDOWS_CUDA = "windows-cuda"


class AcceleratorKind(Name):
    """The maker's software stack a wheel is compiled for."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"


class Accelerator(NamedTuple):
    """An accelerator's software stack and its version, where the stack has one."""

    kind: AcceleratorKind
    version: Minor | None = None

    @property
    def label(self) -> str:
        """What local versions and index folders say: `cu130`, `rocm7.1`, `xpu`."""
        if self.kind is AcceleratorKind.CUDA and self.version:
            return f"cu{self.version.digits}"
        return f"{self.kind}{self.version or ''}"


# ---------------------------------------------------------------- the request


class Enabled(Name):
    """Whether a platform has a job: as the source shows, always, or never."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


class ToolchainKind(Name):
    """Where a job's compiler comes from: the machine, the package index, or the first of both that has it."""

    SYSTEM = "system"
    PYPI = "pypi"
    AUTO = "auto"


class Globs(NamedTuple):
    """Path patterns in gitignore syntax, relative to the source root: what is meant, less what is not."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PathSource:
    """A source tree on this machine."""

    path: str  # relative to the config's folder


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """A git repository at a ref, which the plan pins to a commit."""

    url: str
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SdistSource:
    """A source distribution from the package index, pinned by its sha256."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The torch axis: every catalogued release from `lowest` up, or just the `versions` listed."""

    lowest: Minor | None = None
    versions: tuple[Minor, ...] = ()
    instead_of: str = ""  # what the config says, where a run names others


HOSTED_MINUTES = 360  # then a hosted runner ends a job
SELF_HOSTED = "self-hosted"  # the label that GitHub gives each runner of one's own


class Care(NamedTuple):
    """What a small runner gets before a build, and what one compiler takes at most; 0: none, or not known."""

    free_disk: bool = False
    swap_gib: int = 0
    job_memory_gib: int = 0


NO_CARE = Care()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRequest:
    """One platform of the request."""

    platform: Platform
    where: str  # file:line, for the reasons a plan gives
    enabled: Enabled = Enabled.AUTO
    owner: str = ""
    required: bool = False  # whether nothing of a release appears without it
    own_workflow: bool = (
        False  # whether a workflow of its own builds its native wheels, and that of all leaves them out
    )
    native: Globs = field(default_factory=Globs)
    accelerators: tuple[Accelerator, ...] = ()  # empty where the platform has none
    archs: tuple[str, ...] = ()  # CUDA: CudaArch; ROCm: gfx names
    one_per_major: bool = False
    wheel_platform: str  # the wheel's platform tag without the machine, such as manylinux_2_28
    runner: tuple[str, ...] = ()  # the labels of the runner that builds it
    gpu_runner: tuple[str, ...] = ()  # those of the runner that tries its wheels; empty: the one that builds
    container: str = ""  # the image it is built in; empty: none
    toolchain: ToolchainKind = ToolchainKind.AUTO
    env: tuple[tuple[str, str], ...] = ()
    care: Care = NO_CARE
    minutes: int = HOSTED_MINUTES  # for one build


class Hook(NamedTuple):
    """One command that runs beside a build, in the copy of the source that the build sees."""

    run: str
    where: str  # file:line, for what is said of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """How every job is built."""

    before: tuple[Hook, ...] = ()  # before the backend is asked for anything
    after: tuple[Hook, ...] = ()  # once it has made a wheel
    env: tuple[tuple[str, str], ...] = ()
    constraints: str = ""  # path of a pip constraints file in the source
    max_jobs: int = 0  # 0: one per core
    timeout_minutes: int = HOSTED_MINUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of the validation, run in the environment the wheel was installed into."""

    run: str
    needs_gpu: bool = False


class GpuTrial(Name):
    """Whether a release waits until its CUDA wheels have been tried on a GPU."""

    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What must work once a wheel is installed in a clean environment."""

    torch: str = ""  # exact version; empty: no torch is installed first
    torch_index: str = ""
    imports: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    timeout_seconds: int = 600
    gpu_trial: GpuTrial = GpuTrial.OPTIONAL

    @property
    def gpu_commands(self) -> tuple[str, ...]:
        """The commands that need a GPU: one of them has to pass on a GPU to be a trial on it."""
        return tuple(command.run for command in self.commands if command.needs_gpu)


class Route(Name):
    """What PyPI gets: the wheels without a local version and the sdist, the smart sdist alone, or nothing."""

    WHEELS = "wheels"
    SMART = "smart"
    NONE = "none"


class Channel(Name):
    """Who a release is for: everybody, those who try a candidate, or those who take what last night gave."""

    STABLE = "stable"
    TEST = "test"
    NIGHTLY = "nightly"


class Edition(NamedTuple):
    """Which release of a version it is; a plan fixes it once for all of its jobs."""

    channel: Channel | None = Channel.STABLE  # None: a commit without the version's tag, which no channel takes
    candidate: int = 0  # the N of a tag that ends in -rcN; 0: none
    date: str = ""  # of a nightly: 20261121


STABLE = Edition()
UNTAGGED = Edition(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Where a release goes."""

    pypi: Route = Route.NONE
    pypi_cuda: Minor | None = None  # the CUDA version whose wheels go there as well, without their local version
    targets: tuple[str, ...] = ()
    variants: bool = False  # whether folders and buckets get its CUDA wheels as wheel variants (PEP 825) as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The templates a GitHub Release is named by; `{name}`, `{version}` and the like are filled in."""

    tag: str = "v{version}"
    title: str = "{name} {version}"
    untagged: bool = False  # whether a commit without the tag is a stable release all the same


class Run(NamedTuple):
    """What one run says in place of the config, as the command line and a plan spell it."""

    torch: tuple[str, ...] = ()  # 2.15: only the wheels bound to it are built, and added to the release of the version
    gpu_runner: tuple[str, ...] = ()  # linux-cuda=self-hosted,h100


NO_RUN = Run()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one `fatwheel.yml` asks for, checked and resolved against the catalog."""

    name: str
    config: str  # the config's path in the source, or its name: the same on every machine
    source: PathSource | GitSource | SdistSource
    subdirectory: str = ""  # where pyproject.toml lies below the source root
    include: tuple[str, ...] = ()  # what of the source a build may see; empty: all of it
    version: str = ""  # for projects whose version is dynamic
    pythons: tuple[Python, ...]
    torch: Torch | None = None
    platforms: tuple[PlatformRequest, ...]
    build: Build = Build()
    validate: Validation = Validation()
    publish: Publish = Publish()
    release: Release = Release()
    run: Run = NO_RUN


# ---------------------------------------------------------------- the evidence


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


# ---------------------------------------------------------------- the plan


class Cell(NamedTuple):
    """One point of the request."""

    platform: Platform
    accelerator: Accelerator | None
    torch: Minor | None
    python: Python

    def __str__(self) -> str:
        """Return `linux-cuda / cu130 / torch2.10 / cp312`."""
        accelerator = f" / {self.accelerator.label}" if self.accelerator else ""
        torch = f" / torch{self.torch}" if self.torch else ""
        return f"{self.platform}{accelerator}{torch} / {self.python.abi_tag}"


class Library(NamedTuple):
    """A library that a wheel is to hold, and the device images it is to hold in turn."""

    member: str  # its path in the wheel, demo/_C.abi3.so
    images: tuple[str, ...] = ()  # sm_90a, compute_100; none for a library without device code


class JobKind(Name):
    """Whether a job compiles."""

    PURE = "pure"
    NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One wheel to build, and all that its build depends on."""

    name: str
    kind: JobKind
    platform: Platform | None  # None: any, for the pure wheel
    python: Python  # the oldest it serves
    python_stays: bool  # its wheel is for that very Python, so that one builds it
    torch: Minor | None  # the torch whose headers it is built with
    accelerator: Accelerator | None
    archs: tuple[str, ...]
    runner: tuple[str, ...]  # labels, all of which it has
    container: str = ""  # the image it is built in; empty: none
    owner: str
    required: bool = True  # whether nothing of the release appears without it
    wheel: str  # the expected file name
    local: str = ""  # the local version it is given, cu130torch2.10
    public: str = ""  # the file name of its twin without a local version, for PyPI; empty: it has none
    wheel_platform: str  # its platform tag
    libraries: tuple[Library, ...] = ()  # what its compiled code is to be; empty: not known
    members: tuple[str, ...] = ()  # what is to be in it besides dist-info; empty: not known
    requires_torch: str  # what Requires-Dist narrows to where the torch axis stays: ">=2.10,<2.11"
    toolchain: ToolchainKind
    env: tuple[tuple[str, str], ...]
    build_requires: tuple[str, ...] = ()  # what the build imports, besides what the project says that it requires
    care: Care = NO_CARE
    minutes: int = HOSTED_MINUTES  # for its build
    covers: tuple[Cell, ...]

    @property
    def folder(self) -> str:
        """The index folder its wheel lies in, `cu130` or `cu130torch2.10`; none for the pure wheel, which all list."""
        if self.kind is JobKind.PURE:
            return ""
        label = self.accelerator.label if self.accelerator else "cpu"
        return f"{label}torch{self.torch}" if self.requires_torch else label

    @property
    def also(self) -> tuple[str, ...]:
        """The other index folders that list its wheel: those of the accelerator versions it serves besides its own."""
        if self.accelerator is None:
            return ()
        served = dict.fromkeys(cell.accelerator.label for cell in self.covers if cell.accelerator)
        torch = f"torch{self.torch}" if self.requires_torch else ""
        return tuple(f"{label}{torch}" for label in served if label != self.accelerator.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place where a finished wheel is installed and tried: a runner, and a Python on it."""

    name: str  # pure on macos-15, Python 3.10
    job: str  # the job that makes the wheel, or the sdist's
    files: tuple[str, ...]  # the wheel and its twin; of the sdist's, itself and the wheel that it is to give
    platforms: tuple[Platform, ...]  # those of the request whose users it stands for
    python: Python
    runner: tuple[str, ...]
    gpu: bool = False  # whether that runner has a GPU

    @property
    def tried(self) -> tuple[str, ...]:
        """The files whose receipts it notes."""
        return self.files[:1] if self.job == SDIST else self.files


class Covered(NamedTuple):
    """A cell, the job whose wheel serves it, and why that wheel does."""

    cell: Cell
    job: str
    reason: str


class Skipped(NamedTuple):
    """A cell that gets no wheel, and why."""

    cell: Cell
    reason: str


class Pins(NamedTuple):
    """What a plan was made from, so that a runner can refuse a difference."""

    source_sha256: str
    commit: str
    catalog_sha256: str
    fatwheel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs that serve a request, and for every cell its job or the reason it has none."""

    request: Request
    project: Project
    pins: Pins
    jobs: tuple[Job, ...]
    sdist: str  # the expected file name
    covered: tuple[Covered, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    sites: tuple[Site, ...] = ()
    edition: Edition = STABLE

    @property
    def cells(self) -> int:
        """The number of cells asked for."""
        return len(self.covered) + len(self.skipped)


# ---------------------------------------------------------------- what is known of a finished file

SDIST = "sdist"  # what takes a job's name where a file is the sdist
NUMBER = r"[0-9]+(\.[0-9]+)*"
# Of an index: `cu130torch2.10`; `variants` has the wheel variants, and empty is its root, whose files all list.
FOLDER = re.compile(rf"((cpu|xpu|(cu|rocm){NUMBER})(torch{NUMBER})?|variants)?")


class Level(Name):
    """How bad a finding is: an error keeps a wheel from being published."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """One thing an audit found wrong with a wheel."""

    wheel: str
    rule: str
    level: Level
    message: str
    found: str
    expected: str


class Outcome(Name):
    """What a trial showed; what was not exercised has not passed."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_EXERCISED = "not exercised"


class Trial(NamedTuple):
    """One thing tried with an installed wheel."""

    what: str
    outcome: Outcome
    detail: str = ""


class Validated(NamedTuple):
    """What was tried with a file at one place."""

    where: str  # a site of the plan, or this kind of machine and its Python: linux-x86_64, Python 3.12
    key: str  # a hash of what the trials were run with
    trials: tuple[Trial, ...]
    gpu: str = ""  # the device and its driver, as that machine answered; empty: no driver answered

    @property
    def failed(self) -> tuple[Trial, ...]:
        """What did not work there."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.FAILED)


class BuiltWith(NamedTuple):
    """What a file was really built with, as the build itself was asked; empty where nothing answered, or had a part."""

    compiler: str = ""  # c++ (Debian 12.2.0-14) 12.2.0
    toolkit: str = ""  # CUDA 13.0 (nvcc V13.0.88)
    archs: str = ""  # the device images that the finished wheel holds: sm_90 sm_100 compute_100
    torch: str = ""  # 2.10.0+cpu
    python: str = ""  # CPython 3.12.4
    image: str = ""  # of the container or of the hosted runner, and its system


NOT_ASKED = BuiltWith()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What is known of one finished file: which job made it from what, and what it has been through."""

    file: str
    sha256: str
    size: int  # bytes
    project: str
    version: str
    job: str
    source: str  # the sha256 of the source tree it was built from
    key: str  # a hash of all that its bytes depend on
    seconds: float  # what the build took
    findings: tuple[Finding, ...] = ()
    audited: bool = False
    validated: tuple[Validated, ...] = ()
    built_with: BuiltWith = NOT_ASKED

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that was tried with it, anywhere."""
        return tuple(trial for place in self.validated for trial in place.trials)

    def at(self, where: str) -> Validated | None:
        """Return what was tried with it at a place; None where nothing was."""
        return next((place for place in self.validated if place.where == where), None)

    def with_place(self, place: Validated) -> Receipt:
        """Return the receipt with what was tried at a place, instead of what was tried there before."""
        others = (other for other in self.validated if other.where != place.where)
        return replace(self, validated=(*others, place))

    def gpu(self, commands: Collection[str]) -> str:
        """Return the GPU that one of some commands passed on, with its driver; nothing where none did on any."""
        passed = (
            place.gpu
            for place in self.validated
            for trial in place.trials
            if trial.outcome is Outcome.PASSED and trial.what in commands
        )
        return next(filter(None, passed), "")

    @property
    def is_sound(self) -> bool:
        """Whether it was audited, and nothing that was looked at or tried was wrong."""
        bad = any(finding.level is Level.ERROR for finding in self.findings)
        return self.audited and not bad and not any(trial.outcome is Outcome.FAILED for trial in self.trials)

    @property
    def is_good(self) -> bool:
        """Whether it is sound, and something that was tried has passed."""
        return self.is_sound and any(trial.outcome is Outcome.PASSED for trial in self.trials)
