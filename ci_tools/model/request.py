"""What a fatwheel.yml asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ci_tools.model.names import Name
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.versions import Minor, Python

__all__ = [
    "HOSTED_MINUTES",
    "NO_CARE",
    "NO_RUN",
    "SELF_HOSTED",
    "STABLE",
    "Build",
    "Care",
    "Command",
    "Edition",
    "Enabled",
    "GitSource",
    "Globs",
    "GpuTrial",
    "Hook",
    "PathSource",
    "PlatformRequest",
    "Publish",
    "Release",
    "Request",
    "Route",
    "Run",
    "SdistSource",
    "ToolchainKind",
    "Torch",
    "Validation",
]


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
