"""The known facts of a finished file: findings, trials and its receipt."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from ci_tools.model.names import FileName, Name, ProjectName, Sha256, VersionText

# 1980-01-01, the earliest date in a zip file: the date of every written file, of a checkout as of an unpacked sdist.
EPOCH = 315532800
# Of a copied source: zip files are given local time, and west of Greenwich EPOCH is in 1979, which zipfile refuses.
COPIED = EPOCH + 86400


class Level(Name):
    """The severity of a finding: an error prevents the publication of a wheel."""

    ERROR = "error"
    WARNING = "warning"


class WheelMembers(NamedTuple):
    """A wheel of a project, and the size and checksum of each of its members."""

    project: str
    wheel: str
    members: dict[str, tuple[int, int]]


class Finding(NamedTuple):
    """One thing an audit found wrong with a wheel."""

    wheel: str
    rule: str
    level: Level
    message: str
    found: str
    expected: str
    effect: str = ""  # what happens to a user: "the import fails on 3.12"
    command: str = ""  # one that shows it


class Outcome(Name):
    """The outcome of a trial; a trial that was not exercised has not passed."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_EXERCISED = "not exercised"


class Trial(NamedTuple):
    """One test of an installed wheel, such as an import or a command."""

    what: str
    outcome: Outcome
    detail: str = ""


class Validated(NamedTuple):
    """The trials of a file at one place."""

    where: str  # a site of the plan, or this kind of machine and its Python: linux-x86_64, Python 3.12
    key: str  # a hash of everything the trials depend on
    trials: tuple[Trial, ...]
    gpu: str | None = None  # the device and its driver, as that machine reports them; None: no driver answered

    @property
    def failures(self) -> tuple[Trial, ...]:
        """The trials that failed there."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.FAILED)


class Resolved(NamedTuple):
    """A build requirement as it was installed; `sha256` is that of its archive, "" if the installer does not tell."""

    name: str
    version: str
    sha256: str = ""


class BuiltWith(NamedTuple):
    """The tools that really built a file, as reported by the build; a field is empty if unknown or not used."""

    compiler: str = ""  # c++ (Debian 12.2.0-14) 12.2.0
    toolkit: str = ""  # CUDA 13.0 (nvcc V13.0.88)
    archs: str = ""  # the device images in the finished wheel: sm_90 sm_100 compute_100
    torch: str = ""  # 2.10.0+cpu
    python: str = ""  # CPython 3.12.4
    image: str = ""  # the image of the container or hosted runner, and its operating system
    compiler_sha256: str = ""  # of the content of the compiler's programs and of the libraries that they load
    toolkit_sha256: str = ""  # the same of the toolkit
    requires: tuple[Resolved, ...] = ()
    libc: str = ""  # glibc 2.36
    flags: str = ""  # the compiler's options that Python's own build left to extensions


NOT_ASKED = BuiltWith()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The record of one finished file: the job and the source it was built from, and its audits and trials."""

    file: FileName
    sha256: Sha256
    size: int  # bytes
    project: ProjectName
    version: VersionText
    job: str
    source: Sha256  # the sha256 of the source tree it was built from
    key: str  # a hash of everything its bytes depend on
    seconds: float  # the duration of the build
    findings: tuple[Finding, ...] = ()
    audited: bool = False
    validated: tuple[Validated, ...] = ()
    built_with: BuiltWith = NOT_ASKED
    made_from: tuple[tuple[str, str], ...] = ()  # `plan_file.list_origin`, and the address of its checkout

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All its trials, at any place."""
        return tuple(trial for place in self.validated for trial in place.trials)

    def at(self, where: str) -> Validated | None:
        """Return its trials at a place; None if there are none."""
        return next((place for place in self.validated if place.where == where), None)

    def add_place(self, place: Validated) -> Receipt:
        """Return the receipt with the trials at a place, which replace earlier ones there."""
        others = (other for other in self.validated if other.where != place.where)
        return replace(self, validated=(*others, place))

    def gpu(self, commands: Collection[str]) -> str | None:
        """Return the GPU, with its driver, on which one of these commands passed; None if none passed on a GPU."""
        passed = (
            place.gpu
            for place in self.validated
            for trial in place.trials
            if trial.outcome is Outcome.PASSED and trial.what in commands
        )
        return next(filter(None, passed), None)

    @property
    def is_sound(self) -> bool:
        """Whether the file was audited, without an error and without a failed trial."""
        bad = any(finding.level is Level.ERROR for finding in self.findings)
        return self.audited and not bad and not any(trial.outcome is Outcome.FAILED for trial in self.trials)

    @property
    def is_good(self) -> bool:
        """Whether the file is sound and at least one trial passed."""
        return self.is_sound and any(trial.outcome is Outcome.PASSED for trial in self.trials)
