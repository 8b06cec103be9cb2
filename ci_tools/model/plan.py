"""What is decided: jobs, sites, and the fate of each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ci_tools.model.cell import Cell
from ci_tools.model.evidence import Project
from ci_tools.model.names import Name
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import HOSTED_MINUTES, NO_CARE, STABLE, Care, Edition, Request, ToolchainKind
from ci_tools.model.versions import Minor, Python

__all__ = ["SDIST", "Covered", "Job", "JobKind", "Library", "Pins", "Plan", "Site", "Skipped"]


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


SDIST = "sdist"  # what takes a job's name where a file is the sdist
