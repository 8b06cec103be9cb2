"""The request: the content of a fatwheel.yml, checked and resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ci_tools.model.names import Name, ProjectName, Sha256
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.versions import Minor, Python


class CatalogRow(NamedTuple):
    """One row that a project adds to the catalog, and where it is written."""

    table: str  # torch, cuda, rocm, xpu or python
    name: str  # the version: 2.16, or 3.16t
    content: str  # the row's other keys as JSON text, sorted
    where: str  # fatwheel.catalog.toml:3

    @property
    def title(self) -> str:
        """The name of what the row describes, such as `torch 2.16`."""
        return f"{TITLES.get(self.table, self.table)} {self.name}"


TITLES = {"torch": "torch", "cuda": "CUDA", "rocm": "ROCm", "xpu": "oneAPI", "python": "Python"}


class Enabled(Name):
    """Whether a platform has jobs: decided by the source, always, or never."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


class ToolchainKind(Name):
    """The source of a job's compiler: the machine, the package index, NVIDIA's archives, or `auto`."""

    SYSTEM = "system"
    PYPI = "pypi"
    REDIST = "redist"
    AUTO = "auto"


class BuildTorch(Name):
    """The torch in a build's environment: the parts that compiling needs, or a whole one that pip installs."""

    PARTS = "parts"
    FULL = "full"


class Globs(NamedTuple):
    """Path patterns in gitignore syntax, relative to the source root: files to include, minus files to exclude."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


# The kinds of a source stay dataclasses: cattrs tells them apart by their keys.
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
    sha256: Sha256


class Patch(NamedTuple):
    """A patch that is applied to the source before anything reads it."""

    file: str  # relative to the config's folder
    reason: str
    where: str  # file:line, for messages
    sha256: str = ""  # of the file


class Torch(NamedTuple):
    """The torch axis: every catalogued release from `lowest` up, or just the `versions` listed."""

    lowest: Minor | None = None
    versions: tuple[Minor, ...] = ()
    last: int | None = None  # how many of the newest were asked for; `versions` are these
    nightly: str | None = None  # the date of the torch nightly that is asked for beside them, or `newest`
    instead_of: str | None = None  # the config's own text, if a run overrides it


HOSTED_MINUTES = 360  # the time limit of a job on a hosted runner (GitHub: usage limits)
SELF_HOSTED = "self-hosted"  # the label that GitHub gives every self-hosted runner


class Care(NamedTuple):
    """Runner preparation: free disk space, swap, and the memory that one compiler needs (None: unknown)."""

    free_disk: bool = False
    swap_gib: int = 0
    job_memory_gib: int | None = None


NO_CARE = Care()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRequest:
    """One platform of the request."""

    platform: Platform
    where: str  # file:line, for the reasons a plan gives
    enabled: Enabled = Enabled.AUTO
    owner: str | None = None
    required: bool = False  # whether a release is held back until its wheels are good
    own_workflow: bool = False  # whether a separate workflow builds its native wheels, and the common one skips them
    native: Globs = field(default_factory=Globs)
    accelerators: tuple[Accelerator, ...] = ()  # empty if the platform has none
    archs: tuple[str, ...] = ()  # CUDA: CudaArch; ROCm: gfx names
    one_per_major: bool = False
    wheel_platform: str  # the wheel's platform tag without the machine, such as manylinux_2_28
    runner: tuple[str, ...] = ()  # the labels of the runner that builds it
    gpu_runner: tuple[str, ...] | None = None  # the labels of the runner that validates its wheels; None: the builder
    container: str | None = None  # the image it is built in
    toolchain: ToolchainKind = ToolchainKind.AUTO
    env: tuple[tuple[str, str], ...] = ()
    care: Care = NO_CARE
    minutes: int = HOSTED_MINUTES  # the time limit of one build


class Unsupported(NamedTuple):
    """Cells for which a package can have no wheel, and the reason; an empty field stands for all."""

    reason: str
    where: str  # file:line
    pythons: tuple[Python, ...] = ()
    torches: tuple[Minor, ...] = ()
    cudas: tuple[Minor, ...] = ()


class Drop(NamedTuple):
    """A requirement that neither the build nor the wheel gets."""

    name: str
    reason: str
    pythons: tuple[Python, ...] = ()  # the Pythons whose wheels do without it; empty: all


class Hook(NamedTuple):
    """One command that runs before or after a build, in the same copy of the source."""

    run: str
    where: str  # file:line, for messages


class Build(NamedTuple):
    """The build settings of every job."""

    before: tuple[Hook, ...] = ()  # run before the backend is called
    after: tuple[Hook, ...] = ()  # run after the backend has built a wheel
    env: tuple[tuple[str, str], ...] = ()
    requires: tuple[str, ...] = ()  # requirements of the build that the project does not declare
    constraints: str | None = None  # path of a pip constraints file in the source
    drop: tuple[Drop, ...] = ()
    sdist: bool = True  # whether a release has the project's sdist
    git: bool = True  # whether a build sees the repository of a source that has one
    reproducible: bool = True  # whether a compiler makes the same bytes in each run
    max_jobs: int | None = None  # None: one per core
    shards: int | None = None  # how many runners compile one wheel; None: as many as its time asks for
    torch: BuildTorch = BuildTorch.PARTS
    shims: tuple[str, ...] = ()  # headers that device code gets in place of torch's
    timeout_minutes: int = HOSTED_MINUTES


class Command(NamedTuple):
    """One command of the validation, run in the environment in which the wheel is installed."""

    run: str
    needs_gpu: bool = False


class GpuTrial(Name):
    """Whether a release waits until its CUDA wheels have passed on a GPU."""

    OPTIONAL = "optional"
    REQUIRED = "required"


class Validation(NamedTuple):
    """The imports and commands that must work after a wheel is installed in a clean environment."""

    torch: str | None = None  # the exact version to install first
    torch_index: str | None = None
    requires: tuple[str, ...] = ()  # requirements that are installed beside the wheel
    imports: tuple[str, ...] | None = None  # None: what the wheel's own files name
    commands: tuple[Command, ...] = ()
    timeout_seconds: int = 600
    gpu_trial: GpuTrial = GpuTrial.OPTIONAL

    @property
    def gpu_commands(self) -> tuple[str, ...]:
        """The commands that need a GPU; a wheel counts as tried on a GPU if one of them passes there."""
        return tuple(command.run for command in self.commands if command.needs_gpu)


class Route(Name):
    """The files for PyPI: the wheels without a local version and the sdist, only the smart sdist, or none."""

    WHEELS = "wheels"
    SMART = "smart"
    NONE = "none"


class Channel(Name):
    """The audience of a release: everybody, testers of candidates, or users of nightlies."""

    STABLE = "stable"
    TEST = "test"
    NIGHTLY = "nightly"


class Edition(NamedTuple):
    """The kind of release of a version; a plan fixes it once for all of its jobs."""

    channel: Channel | None = Channel.STABLE  # None: a commit without the version's tag, which no channel accepts
    candidate: int | None = None  # the N of a tag that ends in -rcN
    date: str | None = None  # of a nightly: 20261121


STABLE = Edition()
UNTAGGED = Edition(None)


class Publish(NamedTuple):
    """The targets of a release."""

    pypi: Route = Route.NONE
    pypi_cuda: Minor | None = None  # the CUDA version whose wheels also go there, without their local version
    targets: tuple[str, ...] = ()
    variants: bool = False  # whether folders and buckets also get its CUDA wheels as wheel variants (PEP 825)


class Release(NamedTuple):
    """The templates of a GitHub Release: its tag and title, of `{name}` and `{version}`, and second names of wheels.

    The other fields that a config may use in them have been replaced by their values.
    """

    tag: str = "v{version}"
    title: str = "{name} {version}"
    local: str | None = None  # a template of the local version of its native wheels; None: accelerator and torch
    exact_torch: bool = False  # whether a name has the whole version of torch, so that a build needs exactly that
    rebuild: int | None = None  # the build number of its wheels (PEP 427)
    untagged: bool = False  # whether a commit without the tag is nevertheless a stable release
    alias: str | None = None  # a template of the local version in a second name of its CUDA wheels


class Run(NamedTuple):
    """The values with which one run overrides the config, in the notation of the command line and the plan."""

    torch: tuple[str, ...] = ()  # 2.15: only the wheels bound to it are built, and added to the release of the version
    gpu_runner: tuple[str, ...] = ()  # linux-cuda=self-hosted,h100
    to: tuple[str, ...] = ()  # the targets: dir:PATH, s3://BUCKET/PREFIX, github:OWNER/REPO, pypi
    level: tuple[str, ...] = ()  # linux-cuda=manylinux_2_36: that of the machine, in a release into a folder
    container: tuple[str, ...] = ()  # IMAGE@sha256:…, in place of the config's: of a build that is repeated
    requires: tuple[str, ...] = ()  # setuptools==80.9.0 --hash=sha256:…: exactly these, for the same reason


NO_RUN = Run()

# Of a config without the section.
BUILD, VALIDATION, PUBLISH, RELEASE = Build(), Validation(), Publish(), Release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The content of one `fatwheel.yml`, checked and resolved against the catalog."""

    name: ProjectName
    config: str  # the config's path in the source, or its name: the same on every machine
    source: PathSource | GitSource | SdistSource
    subdirectory: str = ""  # the folder of pyproject.toml below the source root
    patches: tuple[Patch, ...] = ()
    include: tuple[str, ...] | None = None  # the part of the source that a build may see; None: all of it
    version: str | None = None  # for projects whose version is dynamic
    pythons: tuple[Python, ...]
    torch: Torch | None = None
    platforms: tuple[PlatformRequest, ...]
    unsupported: tuple[Unsupported, ...] = ()
    build: Build = BUILD
    validate: Validation = VALIDATION
    publish: Publish = PUBLISH
    release: Release = RELEASE
    catalog: tuple[CatalogRow, ...] = ()  # the rows that the project adds to the catalog
    run: Run = NO_RUN
