"""The inputs of a build, and the cells whose builds would have the same: a case that `plan --prove` compares."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.plan import Job, JobKind
from ci_tools.verify.fingerprint import ClaimVerdict, WheelClaim

if TYPE_CHECKING:
    from ci_tools.model.platforms import Accelerator, Cell
    from ci_tools.model.versions import Minor, Python


class Proof(NamedTuple):
    """A comparison for some cells that one wheel is said to serve, and its verdict."""

    job: str
    cells: tuple[Cell, ...]
    compared: str  # empty: nothing was compared
    verdict: ClaimVerdict
    detail: str = ""


class Inputs(NamedTuple):
    """The properties of a cell that its build depends on."""

    host: str
    python: Python
    torch: Minor | None  # None: it does not depend on torch
    accelerator: Accelerator | None
    archs: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    build_requires: tuple[str, ...]

    def besides(self, own: Inputs) -> dict[str, str]:
        """Return in words how this differs from the job's own inputs, by axis."""
        settings = self.env, self.build_requires, self.archs
        found = {
            "host": self.host if self.host != own.host else "",
            "Python": f"Python {self.python}" if self.python != own.python else "",
            "torch": f"torch {self.torch or 'unseen'}" if self.torch != own.torch else "",
            "accelerator": _label(self.accelerator) if self.accelerator != own.accelerator else "",
            "settings": self.settings(own) if settings != (own.env, own.build_requires, own.archs) else "",
        }
        return {axis: words for axis, words in found.items() if words}

    def settings(self, own: Inputs) -> str:
        """Return the variables, requirements or architectures that differ."""
        variables = sorted({name for name, _ in {*self.env} ^ {*own.env}})
        return ", ".join([*variables, *sorted({*self.build_requires} ^ {*own.build_requires})]) or "other archs"


def _label(accelerator: Accelerator | None) -> str:
    return accelerator.label if accelerator else "no accelerator"


class Case(NamedTuple):
    """Cells that one job covers and whose own builds would all have the same inputs."""

    job: Job
    inputs: Inputs
    own: Inputs
    cells: tuple[Cell, ...]
    unseen: str  # why their builds do not depend on torch; empty: they do

    @property
    def differs_in(self) -> dict[str, str]:
        """The axes in which their builds differ from the job's own."""
        return self.inputs.besides(self.own)

    @property
    def claim(self) -> WheelClaim:
        """What must be equal between the job's wheel and theirs."""
        if self.job.kind is JobKind.PURE:
            return WheelClaim.MEMBERS
        return WheelClaim.LOADS if "accelerator" in self.differs_in else WheelClaim.INTERFACE

    @property
    def spared(self) -> tuple[str, ...]:
        """The libraries of the job's wheel that the package does without on the torch of the cells."""
        torch = self.inputs.torch
        return tuple(member for member, target in self.job.spared if torch and torch < target)

    def explain_spared(self) -> str:
        """Return which libraries the cells' own build leaves out, or ""."""
        names = ", ".join(self.spared)
        return f"their own build leaves {names} out, without which the package is imported" if names else ""

    @property
    def variant(self) -> Job:
        """The job rebuilt for these cells. The name is kept: it determines the build directory, hence the bytes."""
        seen = self.inputs
        return replace(
            self.job,
            platform=self.cells[0].platform,
            python=seen.python,
            python_stays=True,
            torch=seen.torch or self.job.torch,
            accelerator=seen.accelerator,
            archs=seen.archs,
            env=seen.env,
            build_requires=seen.build_requires,
        )

    @property
    def toolchain_job(self) -> Job:
        """The job that selects the toolchain: native for the cells' platform, even if nothing is compiled."""
        return replace(self.variant, kind=JobKind.NATIVE)

    @property
    def note(self) -> str:
        """Why cells of several torch versions share one build, or ""."""
        torches = {cell.torch for cell in self.cells}
        return f"its build sees no torch: {self.unseen}" if len(torches) > 1 and self.unseen else ""

    def make_proof(self, compared: str, verdict: ClaimVerdict, *details: str) -> Proof:
        """Return the proof of this case with its verdict."""
        return Proof(self.job.name, self.cells, compared, verdict, "; ".join(filter(None, details)))
