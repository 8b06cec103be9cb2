"""The plan: jobs, sites, and for each cell its job or the reason it is skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ci_tools.model.evidence import Project
from ci_tools.model.names import FileName, Name, Sha256
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import HOSTED_MINUTES, NO_CARE, STABLE, Care, Edition, PathSource, Request, ToolchainKind
from ci_tools.model.versions import Minor, Python


class Library(NamedTuple):
    """A library that a wheel must contain, and the device images that the library must contain."""

    member: str  # its path in the wheel, demo/_C.abi3.so
    images: tuple[str, ...] = ()  # sm_90a, compute_100; none for a library without device code


class JobKind(Name):
    """Whether a job compiles anything."""

    PURE = "pure"
    NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One wheel to build, and everything its build depends on."""

    name: str
    kind: JobKind
    platform: Platform | None  # None: any, for the pure wheel
    python: Python  # the oldest it serves
    python_stays: bool  # whether exactly this Python has to build it, since its wheel is only for that
    torch: Minor | None  # the torch whose headers it is built with
    exact_torch: str | None = None  # its whole version, if a name of the release has it
    accelerator: Accelerator | None
    archs: tuple[str, ...]
    runner: tuple[str, ...]  # the labels of the runner, which must have all of them
    container: str | None = None  # the image it is built in
    owner: str | None
    required: bool = True  # whether the release is held back until its wheel is good
    wheel: FileName  # the expected file name
    local: str = ""  # its local version, such as cu130torch2.10
    public: FileName | None = None  # the file name of its copy without a local version, for PyPI
    wheel_platform: str  # its platform tag
    libraries: tuple[Library, ...] | None = None  # the expected compiled libraries; None: unknown
    members: tuple[str, ...] | None = None  # the expected members without dist-info; None: unknown
    spared: tuple[tuple[str, Minor], ...] = ()  # libraries that its package does without on a torch older than this
    requires_torch: str  # the torch specifier for Requires-Dist if the torch axis stays: ">=2.10,<2.11"
    toolchain: ToolchainKind
    env: tuple[tuple[str, str], ...]
    build_requires: tuple[str, ...] = ()  # packages that the build imports but the project does not declare
    drops: tuple[str, ...] = ()  # the names of requirements that neither its build nor its wheel gets
    care: Care = NO_CARE
    minutes: int = HOSTED_MINUTES  # the time limit of its build
    batch: str = ""  # the name of the jobs that one runner builds in turn; "" if it has a runner to itself
    shards: int = 1  # how many runners compile it together, before one links it
    covers: tuple[Cell, ...]

    @property
    def files(self) -> tuple[FileName, ...]:
        """The names of the wheels that it makes: its own, and its copy for PyPI if there is one."""
        return (self.wheel, self.public) if self.public else (self.wheel,)

    @property
    def folder(self) -> str:
        """The index folder of its wheel, `cu130` or `cu130torch2.10`; "" for the pure wheel, which all folders list."""
        if self.kind is JobKind.PURE:
            return ""
        label = self.accelerator.label if self.accelerator else "cpu"
        return f"{label}torch{self.torch}" if self.requires_torch else label

    @property
    def also(self) -> tuple[str, ...]:
        """The other index folders that list its wheel: those of the other accelerator versions it serves."""
        if self.accelerator is None:
            return ()
        served = dict.fromkeys(cell.accelerator.label for cell in self.covers if cell.accelerator)
        torch = f"torch{self.torch}" if self.requires_torch else ""
        return tuple(f"{label}{torch}" for label in served if label != self.accelerator.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One place where a finished wheel is installed and validated: a runner, and a Python on it."""

    name: str  # pure on macos-15, Python 3.10
    job: str  # the job that makes the wheel, or the sdist's
    files: tuple[FileName, ...]  # the wheel and its public copy; for the sdist, itself and the wheel to build from it
    platforms: tuple[Platform, ...]  # the platforms of the request that it represents
    python: Python
    runner: tuple[str, ...]
    gpu: bool = False  # whether that runner has a GPU

    @property
    def tried(self) -> tuple[str, ...]:
        """The files whose receipts record its trials."""
        return self.files[:1] if self.job == SDIST else self.files


class Covered(NamedTuple):
    """A cell, the job whose wheel serves it, and the reason."""

    cell: Cell
    job: str
    reason: str


class Skipped(NamedTuple):
    """A cell that gets no wheel, and the reason."""

    cell: Cell
    reason: str


class Pins(NamedTuple):
    """The inputs of a plan, so that a runner can refuse to build from different ones."""

    source_sha256: Sha256
    commit: str | None  # None if the source is not a git checkout
    catalog_sha256: Sha256
    fatwheel: str
    config_commit: str | None = None  # of the repository with the config, if the source is fetched


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs that serve a request, and for every cell its job or the reason why it has none."""

    request: Request
    project: Project
    pins: Pins
    jobs: tuple[Job, ...]
    sdist: FileName | None  # the expected file name; None: this plan makes none
    covered: tuple[Covered, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    sites: tuple[Site, ...] = ()
    edition: Edition = STABLE

    @property
    def cells(self) -> int:
        """The number of requested cells."""
        return len(self.covered) + len(self.skipped)

    def list_cells(self) -> list[Cell]:
        """Return every requested cell: those that are served, then those that are not."""
        return [*(item.cell for item in self.covered), *(item.cell for item in self.skipped)]

    @property
    def makers(self) -> dict[str, Job]:
        """The job of each wheel, by its file name."""
        return {name: job for job in self.jobs for name in job.files}

    @property
    def stated_commits(self) -> tuple[str, str]:
        """The commits of the source and of the config that a wheel states inside, "" for one that it does not.

        A build that no channel takes states only the commit that its source was fetched at.
        """
        is_released = self.edition.channel is not None
        is_fetched = not isinstance(self.request.source, PathSource)
        source = self.pins.commit if is_released or is_fetched else None
        return source or "", (self.pins.config_commit if is_released else None) or ""


SDIST = "sdist"  # stands in place of a job's name for the sdist
