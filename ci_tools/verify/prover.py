"""`plan --prove`: builds the jobs that the plan calls redundant, and compares each with the wheel that replaces it.

A build depends on few properties of its cell: the interpreter, the toolchain, the environment. Cells with the same
values of these share one build. The compared values are cached, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools.build.builder import Workshop, build_key
from ci_tools.build.jobs import toolchains_of
from ci_tools.build.requirements import installed_version
from ci_tools.build.toolchain import TORCH_INCLUDE
from ci_tools.catalog.symbols import missing, tables
from ci_tools.errors import MachineError, Rejected
from ci_tools.machine.context import Outside
from ci_tools.machine.python import create
from ci_tools.machine.runner import host
from ci_tools.machine.workplace import scratch
from ci_tools.model.evidence import Binding, CellEvidence, Extensions
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.platforms import Cell
from ci_tools.model.versions import Minor, Python, name_of_required
from ci_tools.plan.axes import list_only_for
from ci_tools.plan.wheel_names import library_path
from ci_tools.source.project_file import ProjectFile
from ci_tools.verify.fingerprint import (
    Case,
    ClaimVerdict,
    Fingerprint,
    Inputs,
    Proof,
    compare,
    fingerprint,
    read_record,
    write_record,
)
from ci_tools.verify.modules import explain_failed_import, explain_failed_load

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned


def to_json(proofs: Sequence[Proof]) -> list[dict[str, Any]]:
    """Return proofs as JSON values."""
    return [
        {
            "job": proof.job,
            "cells": [str(cell) for cell in proof.cells],
            "compared": proof.compared,
            "outcome": str(proof.verdict),
            "detail": proof.detail,
        }
        for proof in proofs
    ]


def status(proofs: Sequence[Proof]) -> int:
    """Return the exit status of proofs: that of Rejected for a wrong claim, else of MachineError for a failed build."""
    if any(proof.verdict.is_bad for proof in proofs):
        return Rejected.status
    return MachineError.status if any(proof.verdict is ClaimVerdict.BROKEN for proof in proofs) else 0


# ---------------------------------------------------------------- the proof


def prove(planned: Planned, outside: Outside) -> tuple[Proof, ...]:
    """Build the jobs that the plan calls redundant, where this machine can, and compare each with its job's wheel.

    Every covered cell is in exactly one proof; nothing that was not compared is called the same.
    """
    prover = _Prover(planned, outside)
    jobs = map(prover.name_as_built, planned.plan.jobs)
    settled = [(case, prover.settle_without_build(case)) for job in jobs for case in prover.cases(job)]
    waiting = [case for case, proof in settled if proof is None]
    builds = len(waiting) + len({case.job.name for case in waiting})
    outside.reporter.say(f"{builds} builds to compare, less those that an earlier run has finished")
    return tuple(proof or prover.settle_by_build(case) for case, proof in settled)


class _Prover:
    """Proves the claims of one plan."""

    def __init__(self, planned: Planned, outside: Outside) -> None:
        self.planned = planned
        self.outside = outside
        self.tools = toolchains_of(planned, outside)
        self.records = outside.cache / "proofs"
        self.owns: dict[str, Fingerprint | Rejected | MachineError] = {}
        self.platforms = {platform.platform: platform for platform in planned.plan.request.platforms}
        self.shown = {found.platform: found for found in planned.evidence.platforms}

    @cached_property
    def may_see_torch(self) -> bool:
        """Whether the project's build requires torch, or depends on the folder of torch's headers."""
        project = ProjectFile(self.planned.plan.request, self.planned.tree)
        names = set(map(name_of_required, project.build_requires()))
        return "torch" in names or any(TORCH_INCLUDE in line for line in project.lines)

    # -- cases

    def name_as_built(self, job: Job) -> Job:
        """Return a job whose spared libraries have the names that its build gives them, by this Python's suffix."""
        if job.platform is None:
            return job
        suffix = self.planned.catalog.platforms[job.platform].suffix
        planned, own = suffix(job.python), suffix(_builder(job))
        return replace(job, spared=tuple((member.replace(planned, own), target) for member, target in job.spared))

    def cases(self, job: Job) -> Iterator[Case]:
        """Yield a job's covered cells, grouped by the inputs of their builds."""
        covered = [item.cell for item in self.planned.plan.covered if item.job == job.name]
        groups: dict[Inputs, list[Cell]] = {}
        for cell in covered:
            groups.setdefault(self.inputs(cell), []).append(cell)
        sees_torch = any(self.unseen(cell) == "" for cell in job.covers)
        own = self.own_inputs(job, job.torch if sees_torch else None)
        for inputs, cells in groups.items():
            yield Case(job, inputs, own, tuple(cells), self.unseen(cells[0]))

    def inputs(self, cell: Cell) -> Inputs:
        """Return the inputs of a build for one cell only."""
        platform, shown = self.platforms[cell.platform], self.evidence(cell)
        env = {**dict(self.planned.plan.request.build.env), **dict(platform.env), **dict(shown.switches)}
        return Inputs(
            host=self.planned.catalog.platforms[cell.platform].host,
            python=cell.python,
            torch=None if self.unseen(cell) else cell.torch,
            accelerator=cell.accelerator,
            archs=platform.archs if cell.accelerator else (),
            env=tuple(sorted(env.items())),
            build_requires=(*shown.build_requires, *self.planned.plan.request.build.requires),
        )

    def own_inputs(self, job: Job, torch: Minor | None) -> Inputs:
        """Return the inputs of the job's own build."""
        return Inputs(
            host=self.planned.catalog.platforms[job.platform].host if job.platform else host(),
            python=_builder(job),
            torch=torch,
            accelerator=job.accelerator,
            archs=job.archs if job.accelerator else (),
            env=tuple(sorted(dict(job.env).items())),
            build_requires=job.build_requires,
        )

    def evidence(self, cell: Cell) -> CellEvidence:
        return self.shown[cell.platform].of(cell)

    def unseen(self, cell: Cell) -> str:
        """Return why a cell's build certainly does not depend on torch, or "" if it may."""
        shown = self.evidence(cell)
        abi = shown.torch_abi
        asks = any("torch" in what.lower() for what, _ in shown.asked) or "torch" in shown.build_requires
        if asks or self.may_see_torch:
            return ""
        if shown.extensions is Extensions.NONE:  # if the build did compile, its wheel would have another name
            return f"nothing is compiled ({shown.extensions_where})"
        return "" if abi.uses_torch or abi.kind is not Binding.NONE else abi.where

    # -- verdicts

    def settle_without_build(self, case: Case) -> Proof | None:
        """Return the proof of a case that needs no build, or None."""
        if not case.differs_in:
            return case.make_proof("", ClaimVerdict.SAME_INPUT, "the job's own build sees nothing else", case.note)
        if why := self.tools.missing(case.job):
            return case.make_proof("", ClaimVerdict.NOT_EXERCISED, f"the job cannot be built here: {why}")
        if why := self.tools.missing(case.toolchain_job):
            return case.make_proof("", ClaimVerdict.NOT_EXERCISED, why)
        if len(case.differs_in) > 1 and not (case.job.kind is JobKind.PURE and case.unseen):
            why = f"{' and '.join(case.differs_in)} are compared each by itself, not together"
            return case.make_proof("", ClaimVerdict.NOT_EXERCISED, why)
        return None

    def settle_by_build(self, case: Case) -> Proof:
        """Return the proof of a case that needs a build."""
        own = self.own(case.job)
        if isinstance(own, Rejected):
            return case.make_proof("", ClaimVerdict.REJECTED, f"the job's own build: {own.brief}")
        if isinstance(own, MachineError):
            return case.make_proof("", ClaimVerdict.BROKEN, f"at the job's own build: {own.brief}")
        try:
            other = self.build_or_read(case.variant, case.toolchain_job, " and ".join(case.differs_in.values()))
        except Rejected as error:
            # This machine's compiler may be too new for the wheel's tag: then nothing is shown.
            is_too_new = error.message.startswith(f"the wheel does not keep to {case.job.wheel_platform}")
            verdict = ClaimVerdict.NOT_EXERCISED if is_too_new else ClaimVerdict.REJECTED
            return case.make_proof("", verdict, error.brief)
        except MachineError as error:
            return case.make_proof("", ClaimVerdict.BROKEN, error.brief)
        rest, is_loaded = own.without(self.list_spared_members(case)), self.is_resolved(case, own)
        compared, verdict, detail = compare(rest, other, case.claim, is_loaded=is_loaded)
        if case.spared and own.import_error:
            return case.make_proof(compared, ClaimVerdict.REJECTED, own.import_error)
        loaded = f"its other libraries were loaded with torch {own.loaded_with}" if is_loaded else ""
        return case.make_proof(compared, verdict, detail, case.explain_spared(), loaded, case.note)

    def is_resolved(self, case: Case, own: Fingerprint) -> bool:
        """Whether the torch of a case has every symbol of the libraries that it loads: tried, or by the tables.

        They were loaded with the oldest torch that the wheel serves; of a later one the tables of symbols tell.
        """
        torch, kind = case.inputs.torch, case.inputs.accelerator.kind if case.inputs.accelerator else None
        if not case.spared or not own.loaded_with or torch is None:
            return False
        if own.loaded_with.startswith(f"{torch}."):
            return True
        asked = own.without(case.spared).libraries.values()
        return torch in tables().releases and not any(missing(one.symbols, torch, kind) for one in asked)

    def list_spared_members(self, case: Case) -> frozenset[str]:
        """Return the members of the job's wheel that are there only for libraries that the cells do without."""
        cells = {*case.job.covers} if case.spared else set()
        torch = max((cell.torch for cell in cells if cell.torch), default=None)
        shown = next((self.evidence(cell) for cell in cells if cell.torch == torch), None)
        if shown is None or case.job.platform is None:
            return frozenset(case.spared)
        suffix = self.planned.catalog.platforms[case.job.platform].suffix(_builder(case.job))
        named = [one.member for one in shown.spared if library_path(one.member, suffix) in case.spared]
        return frozenset(case.spared) | list_only_for(shown, named)

    # -- wheels

    def own(self, job: Job) -> Fingerprint | Rejected | MachineError:
        """Return the fingerprint of a job's own wheel, or why there is none; the wheel is built once."""
        if job.name not in self.owns:
            try:
                self.owns[job.name] = self.build_or_read(job, job, "as planned")
            except (Rejected, MachineError) as error:
                self.owns[job.name] = error
        return self.owns[job.name]

    def build_or_read(self, job: Job, toolchain_job: Job, how: str) -> Fingerprint:
        """Return the fingerprint of a job's wheel, from an earlier run's record or from a new build."""
        toolchain = self.tools.prepare(toolchain_job)
        # This Python builds a wheel for every Python, whatever the oldest Python is that the wheel serves.
        planned = self.planned
        key = build_key(planned.plan, replace(job, python=_builder(job)), toolchain, planned.tree.git_identity)
        record = self.records / f"{key}.json"
        kept = read_record(record)
        if kept:
            self.outside.reporter.say(f"keep {job.wheel} ({how}): nothing it depends on has changed")
            return kept
        workshop = Workshop(logs=self.records / "logs" / key[:12], outside=self.outside, takes_stored=False)
        title = f"build {job.wheel} ({how})"
        with self.outside.reporter.step(title), scratch() as folder:
            wheel = workshop.build_wheel(job, self.planned.plan, self.planned.tree, toolchain, folder).path
            found = fingerprint(wheel)
            if job.spared and job is toolchain_job:  # the job's own wheel, not one for some of its cells
                found = self.try_import(found, wheel, job, folder)
        write_record(record, found)
        return found

    def try_import(self, found: Fingerprint, wheel: Path, job: Job, folder: Path) -> Fingerprint:
        """Return a fingerprint with why a job's packages need the libraries that they are said to do without, if so.

        They are imported with the oldest torch that the wheel serves, with files in their place that nothing loads; and
        the other libraries are loaded with it.
        """
        oldest = min(cell.torch for cell in job.covers if cell.torch)
        variables = dict(job.env)
        environment = create(Path(sys.executable), folder / "env", folder / "log", self.outside.environ, variables)
        environment.install(f"torch=={oldest.pin}")
        spared = [member for member, _ in job.spared]
        place = environment.python, environment.variables, environment.log
        error = explain_failed_import(wheel, spared, *place)
        lacking = explain_failed_load(wheel, spared, *place) if not error else ""
        loaded = installed_version(environment) if lacking == "" and not error else ""
        return found._replace(import_error=error or lacking or "", loaded_with=loaded)


def _builder(job: Job) -> Python:
    """Return the Python that builds a job: its own, or this one if one wheel serves all Pythons."""
    here = Python(Minor(*sys.version_info[:2]), bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
    return job.python if job.python_stays or here.version < job.python.version else here
