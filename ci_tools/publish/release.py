"""The verb release: builds, audits, validates and publishes, then installs from the published index."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.builder import NewerSystem
from ci_tools.build.containers.engines import find_usual_level, foretell_levels
from ci_tools.build.jobs import Checks, LeftJob, Look, Made, build, list_left_over, refuse_level, working_in
from ci_tools.build.repair import number_level
from ci_tools.build.toolchain import find_level
from ci_tools.catalog.targets import is_local
from ci_tools.errors import MachineError
from ci_tools.formats import receipts
from ci_tools.github import step as steps
from ci_tools.index.manifest import GENERIC
from ci_tools.index.units import Withheld
from ci_tools.machine.context import Outside
from ci_tools.model.files import Trial
from ci_tools.model.plan import SDIST, Job, JobKind, Plan
from ci_tools.model.request import UNTAGGED
from ci_tools.plan.make import Planned, take_level
from ci_tools.plan.sites import awaiting_gpu
from ci_tools.publish import foresight
from ci_tools.publish.publishing import Destination, folder_edition, publish, refuse_missing_tag, targets_at
from ci_tools.publish.shared_units import share_units
from ci_tools.publish.smart import refuse_unreachable
from ci_tools.publish.targets import Target
from ci_tools.publish.targets.addresses import index_of, targets_of
from ci_tools.publish.transaction import Shown
from ci_tools.verify.files import (
    CHECKS,
    Here,
    audit_files,
    count_outcomes,
    prepare_torch,
    refuse_failures,
    refuse_findings,
    tell_findings,
    try_sdist,
    validate_files,
    validator_of_wheel,
)
from ci_tools.verify.left_out import warn_left_out
from ci_tools.verify.torch_stock import open_stock
from ci_tools.verify.validator import gpu_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The results of a release on this machine."""

    made: tuple[Made, ...]
    published: tuple[Shown, ...]
    withheld: tuple[Withheld, ...]  # incomplete optional platforms
    left: tuple[LeftJob, ...]
    trials: tuple[Trial, ...]
    install: str
    seconds: float


def tell_config(planned: Planned, outside: Outside) -> None:
    """Say that a release is made by a config that its commit has not: a plan only tells it of other files."""
    tree, config = planned.tree, planned.config
    if config and tree.checkout and tree.commit and not tree.checkout.is_committed(str(config)):
        what = f"the config {planned.plan.request.config} is not as in the commit"
        outside.reporter.say(f"warning: {what}: commit it, or nobody can verify these wheels (`fatwheel verify`)")


def release(planned: Planned, to: Destination, out: Path, outside: Outside, *, here: bool) -> Released:
    """Build, audit, validate and publish; then install from a folder that was published to, if there is one.

    Raises MachineError at the start if a job cannot be built on this machine, unless `here` allows building only the
    others; Rejected if a wheel is bad.
    """
    started = time.monotonic()  # the wall clock may be set meanwhile
    tell_config(planned, outside)
    left = list_left_over(planned, outside, here=here)
    without = frozenset(job.name for job, _ in left)
    to = to._replace(addresses=to.addresses or planned.plan.request.publish.targets, without=without)
    targets = _check_targets(planned.plan, to, outside)  # before hours of compiling
    edition = folder_edition(planned.plan.edition)
    jobs = [job for job in planned.plan.jobs if job.name not in without]
    names = [*([SDIST] if planned.plan.sdist else []), *(job.name for job in jobs)]
    takes_level = here and all(map(is_local, to.addresses))  # a newer one than the usual, in folders of this machine
    if not takes_level:
        refuse_level(planned, jobs, outside)
    for line in foretell_levels(jobs, planned.catalog, outside) if takes_level else ():
        outside.reporter.say(line)
    with open_stock() as stock:
        settings = Here(source=planned.tree.root, stock=stock)

        def look(made: Made | None) -> None:
            core = foresight.core_of(planned.plan, edition, made and (made.path, made.receipt))
            foresight.refuse_clash(core, targets, outside.reporter.say)
            if made and not core.items and not to.replace:
                foresight.report_existing(core, targets, outside.reporter.say)
            if made is None or made.built:  # else the files of an earlier run are there, and often their trials
                prepare_torch(jobs, planned.plan.request.validate, settings, out, outside)

        fresh: dict[Path, Made] = {}
        checks = CHECKS._replace(look=look, compiled={} if takes_level else None, made=fresh)
        made, planned = _build_here(planned, names, out, outside, checks)
        made = tuple(fresh.get(one.path, one) for one in made)  # kept, after a level was taken, is what this run built
        jobs = [planned.job(job.name) for job in jobs]
        from_sdist = _try_files(planned, made, settings, out, outside)
        published = publish(out, to, outside)
        with working_in(out, outside):
            found = _find_installation(jobs, planned.plan, to, outside)
            trials = _install_from_index(found, made, planned, settings, out, outside) if found else ()
    return Released(
        made=made,
        published=published.shown,
        withheld=published.withheld,
        left=left,
        trials=(*from_sdist, *trials),
        install=found.command if found else "",
        seconds=time.monotonic() - started,
    )


def _check_targets(plan: Plan, to: Destination, outside: Outside) -> tuple[Target, ...]:
    """Return the targets; raise an error for what can be known to fail before anything is built."""
    targets = targets_at(to, outside)
    refuse_unreachable(foresight.core_of(plan, folder_edition(plan.edition)), targets, outside.reporter.say)
    refuse_missing_tag(plan.edition, f"{plan.project.name} {plan.project.version}", to)
    _refuse_no_gpu(plan, to.without)
    return targets


def _try_files(
    planned: Planned, made: Sequence[Made], settings: Here, out: Path, outside: Outside
) -> tuple[Trial, ...]:
    """Audit and try what was built, and return the trial of the sdist if there is one; raise Rejected if one is bad."""
    with working_in(out, outside):
        wheels = [file.path for file in made if file.path.suffix == ".whl"]
        warn_left_out(planned, wheels, outside)
        findings = audit_files([file.path for file in made], planned.plan, outside)  # the sdist too
        tell_findings(findings, outside)
        refuse_findings(findings)
        from_sdist = (try_sdist(planned, made, out, outside),) if planned.plan.sdist else ()
        refuse_failures({made[0].path.name: from_sdist})
        refuse_failures(validate_files(wheels, planned.plan.request, settings, outside))
    return from_sdist


def _build_here(
    planned: Planned, names: Sequence[str], out: Path, outside: Outside, checks: Checks
) -> tuple[tuple[Made, ...], Planned]:
    """Build the files, and return them with their plan: where that may be, wheels take the level that they need."""
    if checks.compiled is not None:
        planned = _go_on(planned, out, outside)
    try:
        with share_units(planned.plan, names, outside):
            return build(planned, names, out, outside, checks), planned
    except NewerSystem as error:
        taken = None if checks.compiled is None else _take_newer(planned, error.job, error.level, outside)
        if checks.compiled is None or taken is None:
            raise
        left = {name: made for name, made in checks.compiled.items() if made.path.exists()}  # else it is a wheel by now
        compiled = {**left, error.job.name: error.made}
        return _build_here(taken, names, out, outside, checks._replace(compiled=compiled))


def _go_on(planned: Planned, out: Path, outside: Outside) -> Planned:
    """Return the plan with the newer level of a wheel that an earlier run has left: it is not built again."""
    for job in planned.plan.jobs:
        machine = job.wheel_platform.removeprefix(find_usual_level(job, planned.catalog))
        for path in filter(receipts.load, out.glob(f"{job.wheel.rpartition('-')[0]}-manylinux_*{machine}.whl")):
            planned = _take_newer(planned, job, path.stem.rpartition("-")[2], outside) or planned
    return planned


def _take_newer(planned: Planned, job: Job, tag: str, outside: Outside) -> Planned | None:
    """Return the plan with the level of a tag for a job's platform; None if it is no newer, or the config names one."""
    before, level = planned.job(job.name), find_level(tag)
    is_taken = any(text.startswith(f"{job.platform}=") for text in planned.plan.request.run.level)
    is_free = is_taken or find_usual_level(before, planned.catalog)
    if not job.platform or not is_free or number_level(tag) <= number_level(before.wheel_platform):
        return None
    tagged = f"{job.platform}: its wheels are tagged {level}, not {find_level(before.wheel_platform)}"
    outside.reporter.say(f"{tagged}: {job.name}, compiled here, needs that, and an older one in a `container`")
    return take_level(planned, job.platform, level)


def say_clashes(planned: Planned, outside: Outside) -> Look:
    """Return a `Look` that reports a target with another sdist; not in a workflow, whose plan has checked it."""
    plan = planned.plan

    def look(made: Made | None) -> None:
        if steps.is_on(outside.environ):
            return
        released = plan.edition != UNTAGGED
        targets = targets_of([to for to in plan.request.publish.targets if released or is_local(to)], outside)
        core = foresight.core_of(plan, folder_edition(plan.edition), made and (made.path, made.receipt))
        (foresight.say_clash if core.items else foresight.report_existing)(core, targets, outside.reporter.say)

    return look


def _refuse_no_gpu(plan: Plan, without: AbstractSet[str]) -> None:
    """Raise MachineError if a wheel has to be tried on a GPU, and this machine has none."""
    waiting = [job.name for job in awaiting_gpu(plan) if job.name not in without]
    if waiting and not gpu_here():
        msg = f"{', '.join(waiting)} has to be tried on a GPU (`gpu: required`), and no driver answers for one here"
        raise MachineError(msg, hint="release from a machine that has one; --untagged builds without a release")


class _IndexInstallation(NamedTuple):
    requirement: str
    url: str  # of the index

    @property
    def command(self) -> str:
        """Its command."""
        return shlex.join(["pip", "install", "--extra-index-url", self.url, self.requirement])


def _find_installation(jobs: Sequence[Job], plan: Plan, to: Destination, outside: Outside) -> _IndexInstallation | None:
    """Return how to install from the first folder that is published to, or None if there is none."""
    folder = next((address for address in to.addresses if is_local(address)), None)
    if folder is None:
        return None
    # A native wheel if there is any: it says more than the pure one.
    job = next((job for job in reversed(jobs) if job.kind is JobKind.NATIVE), jobs[0])  # the newest Python and torch
    version = f"{plan.project.version}{f'+{job.local}' if job.local else ''}"
    url = index_of(folder, outside).url(folder_edition(plan.edition), job.folder or GENERIC)
    return _IndexInstallation(f"{plan.project.name}=={version}", url)


def _install_from_index(
    what: _IndexInstallation, made: Sequence[Made], planned: Planned, settings: Here, out: Path, outside: Outside
) -> tuple[Trial, ...]:
    """Install from the index as a user would, unless an earlier run did so with the same bytes."""
    validator = validator_of_wheel(made[-1].path, planned.plan.request, settings, outside)
    key = validator.key(" ".join([*sorted(file.receipt.sha256 for file in made), *what]))
    record = out / "index"
    if kept := receipts.load_trials(record, key):
        which = f"the installation of {what.requirement} from the index"
        outside.reporter.say(f"keep {which}: it passed with the same bytes")
        return kept
    with outside.reporter.step(f"install {what.requirement} from {what.url}") as step:
        trials = validator.install_from_index(*what)
        step.result(count_outcomes(trials))
    refuse_failures({"index": trials})
    receipts.save_trials(record, key, trials)
    return trials
