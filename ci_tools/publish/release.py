"""The verbs that follow a plan: build, audit, validate, publish, and release, which is all of them."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.build import (
    builder,
    headers,
    room,
    toolchain,
)
from ci_tools.build.builder import Workshop, build_key
from ci_tools.build.sdist import audit_sdist, unpacked
from ci_tools.errors import InputError, MachineError, Rejected, nearest
from ci_tools.formats import receipts
from ci_tools.formats.wheel import differing
from ci_tools.github import step as steps
from ci_tools.machine.python import find
from ci_tools.machine.storage import (
    MADE,
    UNFINISHED,
    locked,
    sha256_of,
    write_atomically,
)
from ci_tools.machine.workplace import scratch
from ci_tools.model.files import (
    Finding,
    Level,
    Outcome,
    Receipt,
    Trial,
    Validated,
)
from ci_tools.model.plan import SDIST, JobKind
from ci_tools.model.request import UNTAGGED, Validation
from ci_tools.plan import plan_file
from ci_tools.plan.plan_file import PLAN
from ci_tools.plan.planner import PURE
from ci_tools.plan.sites import awaiting_gpu
from ci_tools.publish import foresight
from ci_tools.publish.index.manifest import GENERIC
from ci_tools.publish.publishing import (
    LOCAL,
    in_folder,
    publish,
    refuse_untagged,
    targets_at,
)
from ci_tools.publish.targets.addresses import index_of, targets_of
from ci_tools.verify.audit import audit, device_images
from ci_tools.verify.validator import (
    Validator,
    gpu_here,
    has_gpu,
    own_imports,
    own_python,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ci_tools.machine.context import Outside
    from ci_tools.model.files import BuiltWith
    from ci_tools.model.plan import Job, Plan, Site
    from ci_tools.model.request import Request
    from ci_tools.model.versions import Python
    from ci_tools.plan.make import Planned
    from ci_tools.publish.index.wheel_index import WheelIndex
    from ci_tools.publish.publishing import Destination
    from ci_tools.publish.transaction import Shown
    from ci_tools.publish.units import Withheld

__all__ = [
    "Here",
    "Left",
    "Made",
    "Released",
    "audit_files",
    "build",
    "planned_files",
    "refuse_failures",
    "release",
    "validate_files",
    "validate_sites",
]


MOST_REBUILT = 600  # seconds a build may take to be done once more, from the sdist
FORETOLD = ("tags", "prediction", "fatbinary")  # the rules that hold a wheel against what its plan says of it
FROM_SDIST = "from the sdist"  # the place of a trial that builds a wheel once more
SDIST_TOOLS = toolchain.Toolchain(identity=SDIST, python=Path(sys.executable))


class Made(NamedTuple):
    """A finished file, its receipt, and whether this run built it."""

    path: Path
    receipt: Receipt
    built: bool


Look: TypeAlias = "Callable[[Made | None], None]"  # is shown the sdist before anything is compiled, if there is one


class Left(NamedTuple):
    """A job this machine cannot build, and why."""

    job: Job
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What a release did on this machine."""

    made: tuple[Made, ...]
    published: tuple[Shown, ...]
    withheld: tuple[Withheld, ...]  # optional platforms that are not whole
    left: tuple[Left, ...]
    trials: tuple[Trial, ...]
    install: str
    seconds: float


# ---------------------------------------------------------------- build


def build(
    planned: Planned,
    names: Sequence[str],
    out: Path,
    outside: Outside,
    look: Look | None = None,
    *,
    keep_going: bool = False,
) -> tuple[Made, ...]:
    """Build the named jobs (`sdist` is one of them) into `out`, or reuse what is there and would be the same.

    The sdist comes first, and `look` is shown it: what it raises ends the build. Without a `look`, it is said what the
    config's targets would refuse. With `keep_going`, a job that fails stops no other, each is audited as well, and
    nothing is left of a bad one; what failed is raised at the end. Raises InputError where `out` is a file, or holds
    files of the source, MachineError where a disk has no room.
    """
    _refuse_place(out, planned)
    if SDIST in names and not planned.plan.sdist:
        msg = "the plan makes no sdist: it adds wheels to a release, which has one"
        raise InputError(msg)
    jobs = [planned.job(name) for name in names if name != SDIST]
    look = look or _clashes_said(planned, outside)
    _refuse_machine(planned, jobs, out, outside)
    with _working_in(out, outside):
        with write_atomically(out / PLAN) as file:
            file.write(plan_file.dumps(planned.plan).encode())
        if keep_going:
            look(None)
            return _built_one_by_one(planned, [*([None] if SDIST in names else []), *jobs], out, outside)
        sdists = tuple(_finished(planned, None, out, outside)) if SDIST in names else ()
        for made in sdists or [None]:
            look(made)
        return (*sdists, *(made for job in jobs for made in _finished(planned, job, out, outside)))


def _clashes_said(planned: Planned, outside: Outside) -> Look:
    """Return what says of an sdist that a target of the config has another one; in a workflow its plan has asked."""
    plan = planned.plan

    def look(made: Made | None) -> None:
        if steps.is_on(outside.environ):
            return
        released = plan.edition != UNTAGGED
        targets = targets_of([to for to in plan.request.publish.targets if released or to.startswith(LOCAL)], outside)
        core = foresight.core_of(plan, in_folder(plan.edition), made and (made.path, made.receipt))
        (foresight.say_clash if made else foresight.say_held)(core, targets, outside.reporter.say)

    return look


def _built_one_by_one(planned: Planned, jobs: Sequence[Job | None], out: Path, outside: Outside) -> tuple[Made, ...]:
    """Build and audit each job; raise Rejected with all that failed once there is none left."""
    made: list[Made] = []
    failed: list[Rejected | MachineError] = []
    for job in jobs:
        names = [job.wheel, job.public] if job else [planned.plan.sdist]
        try:
            files = tuple(_finished(planned, job, out, outside))
            refuse_findings(audit_files([file.path for file in files], planned.plan, outside), planned.plan)
        except (Rejected, MachineError) as error:
            for path in (out / name for name in names if name):
                path.unlink(missing_ok=True)
                receipts.path_of(path).unlink(missing_ok=True)
            outside.reporter.say(f"{job.name if job else SDIST} failed, the others are built all the same")
            failed.append(error)
        else:
            made += files
    if failed:
        hints = dict.fromkeys(error.hint for error in failed if error.hint)
        raise Rejected("\n".join(error.message for error in failed), hint="; ".join(hints))
    return tuple(made)


def _refuse_place(out: Path, planned: Planned) -> None:
    """Refuse to write where the source lies: what is made would hide it, or become a part of it."""
    place, root = out.resolve(), planned.tree.root.resolve()
    if out.exists() and not out.is_dir():
        msg = f"--out: {out} is a file, expected a folder"
        raise InputError(msg)
    inside = (name for name in planned.tree.files if (root / name).is_relative_to(place))
    name = next(inside, None)
    if name:
        msg = f"--out: {out} holds the source ({name}), expected a folder of its own such as dist"
        raise InputError(msg)


def _refuse_machine(planned: Planned, jobs: Sequence[Job], out: Path, outside: Outside) -> None:
    """Raise MachineError where the disks have no room for some jobs; say which wheels may not keep to their tags."""
    room.refuse_no_room(room.needs_of(jobs, planned.tree, builder.base_folder(), outside.cache, out))
    for tag in dict.fromkeys(job.wheel_platform for job in jobs if job.kind is JobKind.NATIVE):
        if doubt := toolchain.libc_doubt(tag, toolchain.libc()):
            outside.reporter.say(f"warning: {doubt}")


def _refuse_headers(planned: Planned, job: Job, tools: toolchain.Toolchain, outside: Outside) -> None:
    """Raise MachineError where a job's sources surely include what its compiler will not find."""
    compiles = headers.compiles_of(job, planned.evidence)
    if compiles:
        home = dict(tools.folders).get("CUDA_HOME")
        # nvcc looks in both: a toolkit of conda has no more than the second (its nvcc.profile).
        toolkit = [home / "include", *sorted(home.glob("targets/*/include"))] if home else []
        folders = [*headers.folders_of(tools.python), *toolkit]
        asked = headers.asked_for(planned.tree, compiles, cuda=home is not None)
        headers.refuse_missing(asked, "c++", folders, outside.environ)


@contextmanager
def _working_in(out: Path, outside: Outside) -> Iterator[None]:
    """Keep other runs out of the folder we write to, and the folder, if we make it, out of the source it may lie in."""
    if not out.exists() or all(map(_is_ours, out.iterdir())):
        with write_atomically(out / ".gitignore") as file:
            file.write(MADE)
    with locked(out / ".fatwheel", outside.reporter.say):
        for folder in (out, out / "receipts"):
            for left in folder.glob(f".*{UNFINISHED}"):  # by a run that was killed: nobody else writes here now
                left.unlink(missing_ok=True)
        yield


def _is_ours(path: Path) -> bool:
    """Whether something lies in a release folder: another machine may have left it, without its mark."""
    return path.name in {PLAN, "receipts", "logs"} or path.name.endswith((".whl", ".tar.gz"))


def _workshop(out: Path, outside: Outside) -> Workshop:
    return Workshop(logs=out / "logs", outside=outside)


def _toolchains(planned: Planned, outside: Outside) -> toolchain.Toolchains:
    return toolchain.Toolchains(planned.catalog, outside)


def _finished(planned: Planned, job: Job | None, out: Path, outside: Outside) -> Iterator[Made]:
    """Yield the wheels of a job, or the sdist: what is there if it is of the very same inputs, else new ones."""
    plan, tree = planned.plan, planned.tree
    name = job.wheel if job else plan.sdist
    names = [name, job.public] if job and job.public else [name]
    tools = _toolchains(planned, outside).prepare(job) if job else SDIST_TOOLS
    key = build_key(plan, job, tools)
    kept = [(out / each, receipt) for each in names if (receipt := receipts.load(out / each)) and receipt.key == key]
    if len(kept) == len(names):
        outside.reporter.say(f"keep {', '.join(names)}: nothing it depends on has changed")
        yield from (Made(path, receipt, built=False) for path, receipt in kept)
        return
    started, workshop = time.monotonic(), _workshop(out, outside)
    with outside.reporter.step(f"build {name}"), _of_its_owner(job):
        if job:
            _refuse_headers(planned, job, tools, outside)
            built = workshop.build_wheel(job, plan, tree, tools, out)
            _refuse_surprise(built.path, job, outside)
        else:
            built = workshop.build_sdist(plan, tree, tools.python, out)
    archs = " ".join(device_images(built.path, outside.cache / "audit")) if job and job.accelerator else ""
    built_with, seconds = built.built_with._replace(archs=archs), time.monotonic() - started
    receipt = _receipt(plan, job, key, seconds, built_with)
    yield from (_noted(built.path.with_name(each), receipt) for each in names)


@contextmanager
def _of_its_owner(job: Job | None) -> Iterator[None]:
    """Say with a failure who looks after what failed."""
    try:
        yield
    except Rejected as error:
        if job is None or not job.owner:
            raise
        whose = f"{job.owner} looks after {job.platform}"
        raise Rejected(error.message, hint="; ".join(filter(None, (error.hint, whose)))) from None


def _refuse_surprise(path: Path, job: Job, outside: Outside) -> None:
    """Refuse a wheel whose tags, members or architectures are not the plan's: one of the two read the source wrong."""
    limits, work = catalogs.load().limits, outside.cache / "audit"
    findings = audit(path, job=job, limits=limits, work=work, only=FORETOLD)
    surprises = [finding for finding in findings if finding.level is Level.ERROR]
    if surprises:
        path.unlink()
        shown = "\n".join(map(_shown, surprises))
        raise Rejected(shown, hint="the plan foretold another wheel: `fatwheel plan --explain` says why")


def _receipt(plan: Plan, job: Job | None, key: str, seconds: float, built_with: BuiltWith) -> Receipt:
    """Return the receipt of what a job built, of no file yet."""
    return Receipt(
        file="",
        sha256="",
        size=0,
        project=plan.project.name,
        version=plan.project.version,
        job=job.name if job else SDIST,
        source=plan.pins.source_sha256,
        key=key,
        seconds=round(seconds, 1),
        built_with=built_with,
    )


def _noted(path: Path, receipt: Receipt) -> Made:
    """Write the receipt of a file that was just built."""
    own = replace(receipt, file=path.name, sha256=sha256_of(path), size=path.stat().st_size)
    return Made(path, receipts.save(path, own), built=True)


# ---------------------------------------------------------------- audit


def planned_files(plan: Plan, folder: Path) -> tuple[Path, ...]:
    """Return those files of a plan that a folder has."""
    names = (plan.sdist, *(name for job in plan.jobs for name in (job.wheel, job.public) if name))
    return tuple(folder / name for name in names if (folder / name).is_file())


def audit_files(paths: Iterable[Path], plan: Plan | None, outside: Outside) -> tuple[Finding, ...]:
    """Audit wheels, and sdists where there is a plan, each against what the plan says of a file of its name."""
    found: list[Finding] = []
    for path in paths:
        _refuse_no_file(path)
        with outside.reporter.step(f"audit {path.name}") as step:
            findings = _audited(path, plan, outside)
            step.result(_verdict(findings))
        found += findings
    return tuple(found)


def _verdict(findings: Sequence[Finding]) -> str:
    errors = sum(finding.level is Level.ERROR for finding in findings)
    warnings = len(findings) - errors
    parts = [f"{errors} wrong"] * bool(errors) + [f"{warnings} to look at"] * bool(warnings)
    return ", ".join(parts) or "good"


def _audited(path: Path, plan: Plan | None, outside: Outside) -> tuple[Finding, ...]:
    """Audit one file and note it in its receipt; a file the plan does not know is no good for it.

    Without a plan less is looked at: what was found then is added, and what was found with its plan stays.
    """
    jobs = {job.wheel: job for job in plan.jobs} if plan else {}
    jobs |= {job.public: replace(job, wheel=job.public, local="") for job in plan.jobs if job.public} if plan else {}
    if plan and path.name == plan.sdist:
        findings = audit_sdist(path, plan.project)
    else:
        work, limits = outside.cache / "audit", catalogs.load().limits
        to_pypi = plan_file.goes_to_pypi(plan, path.name) if plan else None
        findings = audit(path, job=jobs.get(path.name), limits=limits, work=work, to_pypi=to_pypi)
        if plan and path.name not in jobs:
            findings = (*findings, _not_planned(path, jobs))
    receipt = receipts.load(path)
    if receipt and plan:
        receipts.save(path, replace(receipt, findings=findings, audited=True))
    elif receipt:
        receipts.save(path, replace(receipt, findings=tuple(dict.fromkeys((*receipt.findings, *findings)))))
    return findings


def _not_planned(path: Path, jobs: Mapping[str, Job]) -> Finding:
    message = f"the plan has no such wheel, {nearest(path.name, jobs)}"
    return Finding(path.name, "planned", Level.ERROR, message, path.name, "a wheel of the plan")


def _refuse_no_file(path: Path) -> None:
    if path.is_dir():
        msg = f"{path} is a folder, expected wheels"
        raise InputError(msg, hint=f"name them: {path}/*.whl")
    if not path.is_file():
        names = [str(other) for other in path.parent.glob("*.whl")] if path.parent.is_dir() else []
        msg = f"there is no {path}{', ' + nearest(str(path), names) if names else ''}"
        raise InputError(msg)


# ---------------------------------------------------------------- validate


class Here(NamedTuple):
    """How wheels are tried on this machine."""

    python: Python | None = None  # None: the wheel's own, or the one that runs us
    source: Path | None = None  # where the scripts lie that the config's commands run
    where: str = ""  # a site of the plan; empty: this kind of machine and its Python


def validate_files(
    paths: Iterable[Path], request: Request | None, here: Here, outside: Outside
) -> dict[str, tuple[Trial, ...]]:
    """Install each wheel in a clean environment and run what the config says; without one, import what it installs."""
    return {path.name: _validate(path, request, here, outside) for path in paths}


def validate_sites(
    sites: Sequence[Site], plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]]:
    """Try what some sites of the plan try, one after the other; one that cannot be tried here stops no other.

    Raises MachineError with all that could not be tried once there is none left.
    """
    tried: dict[str, tuple[Trial, ...]] = {}
    failed: list[InputError | MachineError] = []
    for found in (_tried_or_why(site, plan, folder, outside, planned) for site in sites):
        if isinstance(found, dict):
            tried |= {name: (*tried.get(name, ()), *trials) for name, trials in found.items()}
        else:
            failed.append(found)
    if failed:
        refuse_failures(tried, plan)
        raise failed[0] if not failed[1:] else MachineError("\n".join(error.message for error in failed))
    return tried


def _tried_or_why(
    site: Site, plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]] | InputError | MachineError:
    """Return what came of the trials at a site, or why none could be made."""
    try:
        return validate_site(site, plan, folder, outside, planned)
    except (InputError, MachineError) as error:
        return error


def validate_site(
    site: Site, plan: Plan, folder: Path, outside: Outside, planned: Callable[[], Planned]
) -> dict[str, tuple[Trial, ...]]:
    """Try what a site of the plan tries, from the folder that has it; `planned` is asked for the source.

    Raises MachineError where this machine is not what the site asks for.
    """
    if site.gpu and not has_gpu():
        msg = f'"{site.name}" has to have a GPU, and no driver answers for one here'
        raise MachineError(msg, hint="the config's `gpu-runner` is to name a runner that has one")
    for name in site.files:
        _refuse_no_file(folder / name)
    with _working_in(folder, outside):
        source = planned()
        if site.job != SDIST:
            here = Here(site.python, source.tree.root, site.name)
            return validate_files((folder / name for name in site.files), plan.request, here, outside)
        made = [_kept(folder / name) for name in site.files]
        return {made[0].path.name: (_sdist_trial(source, made, folder, outside, site.name),)}


def _kept(path: Path) -> Made:
    """Return a file that another machine has built; raise InputError where it has no receipt."""
    receipt = receipts.load(path)
    if receipt is None:
        msg = f"{path} has no receipt of its present bytes"
        raise InputError(msg, hint="`fatwheel build` leaves one beside what it builds, in receipts/")
    return Made(path, receipt, built=False)


def _validate(path: Path, request: Request | None, here: Here, outside: Outside) -> tuple[Trial, ...]:
    _refuse_no_file(path)
    validation = request.validate if request else Validation(imports=own_imports(path))
    validator = _validator(validation, here.python or own_python(path.name), path.parent, outside)
    validator = replace(validator, source=here.source and here.source.resolve())
    where, key = here.where or validator.where, validator.key(sha256_of(path))
    receipt = receipts.load(path)
    # At a site, the receipt came from another machine, where the project's code ran: what it says was tried, is tried.
    kept = receipt and not here.where and receipt.at(where)
    if kept and kept.key == key and kept.trials and not kept.failed:
        outside.reporter.say(f"keep the validation of {path.name}: it passed with these very bytes")
        return kept.trials
    with outside.reporter.step(f"validate {path.name}") as step:
        trials = validator.from_file(path)
        step.result(_outcomes(trials))
    if request and receipt and canonicalize_name(request.name) == canonicalize_name(receipt.project):
        receipts.save(path, receipt.with_place(Validated(where, key, trials, gpu_here())))
    return trials


def _validator(validation: Validation, python: Python | None, out: Path, outside: Outside) -> Validator:
    interpreter = find(python, outside.environ) if python else Path(sys.executable)
    if interpreter is None:
        msg = f"Python {python} is not on this machine"
        raise MachineError(msg)
    logs = out / "logs"
    return Validator(validation=validation, interpreter=interpreter, logs=logs, outside=outside, gpu=has_gpu())


def _outcomes(trials: Sequence[Trial]) -> str:
    counts = {outcome: sum(trial.outcome is outcome for trial in trials) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)


def refuse_failures(trials: Mapping[str, Sequence[Trial]], plan: Plan | None = None) -> None:
    """Raise Rejected with every failed trial, and who looks after what failed."""
    failed = [(wheel, trial) for wheel, tried in trials.items() for trial in tried if trial.outcome is Outcome.FAILED]
    if failed:
        shown = "\n".join(f"{wheel}: {trial.what}: {trial.detail}" for wheel, trial in failed)
        raise Rejected(shown, hint=_whose({wheel for wheel, _ in failed}, plan))


def _sdist_trial(planned: Planned, made: Sequence[Made], out: Path, outside: Outside, where: str = FROM_SDIST) -> Trial:
    """Build a wheel from the unpacked sdist, unless an earlier run did, and compare it with the source's own.

    The pure one where there is one: it is the quickest.
    """
    sdist, wheels = made[0], made[1:]
    wheel = next((wheel for wheel in wheels if wheel.receipt.job == PURE), wheels[0])
    what = f"build {wheel.path.name} from {sdist.path.name}"
    if wheel.receipt.seconds > MOST_REBUILT:
        return Trial(what, Outcome.NOT_EXERCISED, f"it takes {wheel.receipt.seconds:.0f} seconds to build")
    key = f"{sdist.receipt.sha256}-{wheel.receipt.sha256}"
    kept = receipts.load(sdist.path)
    place = kept and kept.at(FROM_SDIST)
    if where == FROM_SDIST and kept and place and place.key == key and place.trials and kept.is_sound:
        return place.trials[0]  # not at a site: see _validate
    with outside.reporter.step(what) as step, scratch() as folder:
        trial = _same_wheel(planned, sdist, wheel, folder, out / "from-sdist", outside)
        step.result(str(trial.outcome))
    trial = trial._replace(what=what)
    if kept:
        receipts.save(sdist.path, kept.with_place(Validated(where, key, (trial,))))
    return trial


def _same_wheel(planned: Planned, sdist: Made, own: Made, folder: Path, out: Path, outside: Outside) -> Trial:
    plan, job = planned.plan, planned.job(own.receipt.job)
    tree = unpacked(sdist.path, folder / "source")
    constraints = plan.request.build.constraints
    if constraints:  # held to the same pins, which an sdist need not hold
        (tree.root / constraints).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / constraints).write_text(planned.tree.text(constraints), encoding="utf-8")
        tree = replace(tree, files=tuple(sorted({*tree.files, constraints})))
    alone = replace(plan.request.build, before=(), after=())  # who builds from an sdist runs none of ours
    request = replace(plan.request, subdirectory="", include=(), build=alone)
    from_sdist = replace(plan, request=request, pins=plan.pins._replace(source_sha256=tree.sha256))
    tools = _toolchains(planned, outside).prepare(job)
    try:
        wheel = _workshop(out, outside).build_wheel(job, from_sdist, tree, tools, folder).path
    except Rejected as error:
        return Trial("", Outcome.FAILED, str(error))
    if sha256_of(wheel) == own.receipt.sha256:
        return Trial("", Outcome.PASSED)
    detail = f"it differs from the source's in {', '.join(differing(wheel, own.path))}"
    if plan.request.build != alone:
        return Trial("", Outcome.NOT_EXERCISED, f"{detail}; build.before and build.after are not run for an sdist")
    return Trial("", Outcome.FAILED, detail)


# ---------------------------------------------------------------- release


def release(planned: Planned, to: Destination, out: Path, outside: Outside, *, here: bool) -> Released:
    """Build, audit, validate, publish, and install from a folder that it is published to, if there is one.

    Raises MachineError at the start where a job cannot be built on this machine, unless `here` says to go on
    with the rest; Rejected where a wheel is bad.
    """
    started = time.monotonic()
    left = _left_over(planned, outside, here=here)
    without = frozenset(job.name for job, _ in left)
    to = to._replace(addresses=to.addresses or planned.plan.request.publish.targets, without=without)
    targets = targets_at(to, outside)  # what cannot be published to is known before anything is built
    refuse_untagged(planned.plan.edition, f"{planned.plan.project.name} {planned.plan.project.version}", to)
    _refuse_no_gpu(planned.plan, without)
    jobs = [job for job in planned.plan.jobs if job not in {job for job, _ in left}]

    def look(made: Made | None) -> None:
        core = foresight.core_of(planned.plan, in_folder(planned.plan.edition), made and (made.path, made.receipt))
        foresight.refuse_clash(core, targets, outside.reporter.say)

    names = [*([SDIST] if planned.plan.sdist else []), *(job.name for job in jobs)]
    made = build(planned, names, out, outside, look)
    with _working_in(out, outside):
        wheels = [file.path for file in made if file.path.suffix == ".whl"]
        refuse_findings(audit_files([file.path for file in made], planned.plan, outside))
        from_sdist = (_sdist_trial(planned, made, out, outside),) if planned.plan.sdist else ()
        refuse_failures({made[0].path.name: from_sdist})
        refuse_failures(validate_files(wheels, planned.plan.request, Here(source=planned.tree.root), outside))
    published = publish(out, to, outside)
    with _working_in(out, outside):
        trials, install = _tried(planned, made, jobs, to, out, outside)
    return Released(
        made=made,
        published=published.shown,
        withheld=published.withheld,
        left=left,
        trials=(*from_sdist, *trials),
        install=install,
        seconds=time.monotonic() - started,
    )


def _refuse_no_gpu(plan: Plan, without: AbstractSet[str]) -> None:
    """Raise MachineError where a wheel has to be tried on a GPU, and this machine has none."""
    waiting = [job.name for job in awaiting_gpu(plan) if job.name not in without]
    if waiting and not gpu_here():
        msg = f"{', '.join(waiting)} has to be tried on a GPU (`gpu: required`), and no driver answers for one here"
        raise MachineError(msg, hint="release from a machine that has one; --untagged builds without a release")


def _tried(
    planned: Planned, made: Sequence[Made], jobs: Sequence[Job], to: Destination, out: Path, outside: Outside
) -> tuple[tuple[Trial, ...], str]:
    """Install from the first folder that the release went to; return what came of it, and the command."""
    plan = planned.plan
    folder = next((address for address in to.addresses if address.startswith("dir:")), "")
    if not folder:
        return (), ""
    requirement, index = _most_specific(jobs, plan, index_of(folder, outside))
    trials = _installed(made, requirement, index, planned, out, outside)
    return trials, shlex.join(["pip", "install", "--extra-index-url", index, requirement])


def _left_over(planned: Planned, outside: Outside, *, here: bool) -> tuple[Left, ...]:
    """Return the jobs this machine cannot build; raise MachineError where it has to build them, or can build none."""
    tools, jobs = _toolchains(planned, outside), planned.plan.jobs
    if not jobs:
        msg = f"{planned.plan.request.config}: every cell is skipped, there is nothing to build"
        raise InputError(msg, hint="`fatwheel plan` gives the reasons")
    reasons = ((job, tools.missing(job)) for job in jobs)
    left = tuple(Left(job, reason) for job, reason in reasons if reason)
    if left and (not here or len(left) == len(jobs)):
        lines = "\n".join(f"  {job.name}: {reason}" for job, reason in left)
        msg = f"this machine cannot build {len(left)} of {len(jobs)} jobs:\n{lines}"
        raise MachineError(msg, hint="" if here else "--here goes on with the rest, and says so")
    return left


def refuse_findings(findings: Sequence[Finding], plan: Plan | None = None) -> None:
    """Raise Rejected with every finding that is an error, and who looks after what it was found in."""
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    if errors:
        raise Rejected("\n".join(map(_shown, errors)), hint=_whose({finding.wheel for finding in errors}, plan))


def _whose(files: AbstractSet[str], plan: Plan | None) -> str:
    """Return who looks after the platforms that some files are of."""
    jobs = (job for job in plan.jobs if files & {job.wheel, job.public}) if plan else ()
    return "; ".join(dict.fromkeys(f"{job.owner} looks after {job.platform}" for job in jobs if job.owner))


def _shown(finding: Finding) -> str:
    what = f"{finding.wheel}: {finding.rule}: {finding.message}"
    return f"{what} (found {finding.found}, expected {finding.expected})"


def _most_specific(jobs: Sequence[Job], plan: Plan, index: WheelIndex) -> tuple[str, str]:
    """Return the requirement and the index address of a wheel that was made here: a native one if there is any."""
    job = next((job for job in reversed(jobs) if job.kind is JobKind.NATIVE), jobs[0])
    version = f"{plan.project.version}{f'+{job.local}' if job.local else ''}"
    return f"{plan.project.name}=={version}", index.url(in_folder(plan.edition), job.folder or GENERIC)


def _installed(
    made: Sequence[Made], requirement: str, index: str, planned: Planned, out: Path, outside: Outside
) -> tuple[Trial, ...]:
    """Install from the index as a user would, unless an earlier run did so with these very bytes."""
    validator = _validator(planned.plan.request.validate, own_python(made[-1].path.name), out, outside)
    validator = replace(validator, source=planned.tree.root.resolve())
    key = validator.key(" ".join([*sorted(file.receipt.sha256 for file in made), requirement, index]))
    record = out / "index"
    kept = receipts.load_trials(record, key)
    if kept:
        outside.reporter.say(f"keep the installation of {requirement} from the index: it passed with these very bytes")
        return kept
    with outside.reporter.step(f"install {requirement} from {index}") as step:
        trials = validator.from_index(requirement, index)
        step.result(_outcomes(trials))
    refuse_failures({"index": trials})
    receipts.save_trials(record, key, trials)
    return trials
