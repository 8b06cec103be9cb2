"""What is known of a finished file: findings, trials, its receipt."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["NOT_ASKED", "BuiltWith", "Finding", "Level", "Outcome", "Receipt", "Trial", "Validated"]

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
    def failures(self) -> tuple[Trial, ...]:
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

    def add_place(self, place: Validated) -> Receipt:
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
