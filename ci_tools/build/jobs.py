"""Builds the jobs of a plan into a folder, and keeps the files there whose inputs have not changed."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from packaging.utils import canonicalize_name

from ci_tools.addresses import redact
from ci_tools.build import folders, headers, room, toolchain
from ci_tools.build.bench.copies import Installations, open_installations
from ci_tools.build.builder import LEVELS, Built, NewerSystem, Workshop, build_key
from ci_tools.build.containers.builds import Container, open_container
from ci_tools.build.containers.engines import choose
from ci_tools.build.cross import is_cross, read_backend
from ci_tools.build.requirements import refuse_other_torch
from ci_tools.build.sdist import add_sources, list_lacking, refuse_lacking
from ci_tools.build.shards.handover import SHARDS, read_handovers
from ci_tools.errors import InputError, MachineError, Problem, Rejected, TimeLimit
from ci_tools.formats import receipts
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import MADE, UNFINISHED, hold_lock, sha256_of, write_atomically
from ci_tools.model.evidence import Extensions
from ci_tools.model.files import BuiltWith, Receipt
from ci_tools.model.names import FileName
from ci_tools.model.plan import SDIST, Job, JobKind, Plan
from ci_tools.plan import plan_file
from ci_tools.plan.plan_file import PLAN
from ci_tools.source import git
from ci_tools.source.backends import SETUPTOOLS
from ci_tools.source.includes import Includes, SourceLine

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned


FOR_TESTS = re.compile(r"(^|/)(tests?|docs?|examples?|benchmarks?)/")
LOCK = ".fatwheel"  # the name that an output folder is locked under
OLD_RECEIPT = 60.0  # seconds; a trial or an audit writes one in milliseconds, beside another run that builds
NEEDS_NEWER = (2, 34)  # the glibc of the oldest distributions whose GCC, 11, needs symbols that 2.28 lacks


class Made(NamedTuple):
    """A finished file, its receipt, and whether this run built it."""

    path: Path
    receipt: Receipt
    built: bool
    own_seconds: float = 0.0  # of the receipt's: those of the project's own build, if it ran now


Look: TypeAlias = "Callable[[Made | None], None]"  # called with the sdist (None: no sdist) before anything is compiled


class Checks(NamedTuple):
    """The checks on a file that was just built: `verify.files.CHECKS`, or those with another `look`."""

    accept: Callable[[Path, Job, Outside], None]  # raises Rejected if a wheel differs from the planned one
    images: Callable[[Path, Outside], str]  # returns the device images in a wheel: sm_90 compute_100
    audit: Callable[[Sequence[Path], Plan, Outside], None]  # raises Rejected if the audit finds an error
    look: Look = lambda _: None
    links: bool = False  # whether jobs take what shards have compiled, which is in `out`
    compiled: Mapping[str, Built] | None = None  # by job, wheels refused for their level only; None: no other is given
    made: dict[Path, Made] | None = None  # where it is one, what this run builds is added to it


class LeftJob(NamedTuple):
    """A job this machine cannot build, and why."""

    job: Job
    reason: str


def build(
    planned: Planned, names: Sequence[str], out: Path, outside: Outside, checks: Checks, *, keep_going: bool = False
) -> tuple[Made, ...]:
    """Build the named jobs (`sdist` is one of them) into `out`; keep the files there whose inputs have not changed.

    The sdist is built first and passed to `checks.look`; an exception raised there ends the build. With `keep_going`,
    a failed job does not stop the others, every job is audited as well, and the files of a bad job are deleted; all
    failures are raised at the end. Raises InputError if `out` is a file or holds files of the source, MachineError if
    a disk has too little space.
    """
    refuse_place(out, planned)
    if SDIST in names and not planned.plan.sdist:
        raise InputError("the plan makes no sdist: it adds wheels to a release, which has one")
    jobs = [planned.job(name) for name in names if name != SDIST]
    own = _refuse_machine(planned, jobs, out, outside, takes_level=checks.compiled is not None)
    for job, python in own if not keep_going else ():
        refuse_other_torch(job, python, planned, outside)
    with working_in(out, outside), open_installations(folders.own_copies(folders.base_folder())) as installations:
        workshop = workshop_in(out, outside, installations if len(names) > 1 else None)
        with write_atomically(out / PLAN) as file:
            file.write(plan_file.dumps(planned.plan).encode())
        if keep_going:
            checks.look(None)
            named = [*([None] if SDIST in names else []), *jobs]
            return _build_one_by_one(planned, named, out, workshop, checks)
        sdists = tuple(_build_or_keep(planned, None, out, workshop, checks)) if SDIST in names else ()
        for made in sdists or [None]:
            checks.look(made)
        done = (
            _build_or_keep(planned, job, out, workshop, checks, (checks.compiled or {}).get(job.name)) for job in jobs
        )
        return (*sdists, *(made for files in done for made in files))


def _build_one_by_one(
    planned: Planned, jobs: Sequence[Job | None], out: Path, workshop: Workshop, checks: Checks
) -> tuple[Made, ...]:
    """Build and audit each job; after the last one, raise Rejected with all failures."""
    made: list[Made] = []
    outside = workshop.outside
    failed: list[Rejected | MachineError] = []
    for job in jobs:
        names = [job.wheel, job.public] if job else [planned.plan.sdist]
        try:
            files = tuple(_build_or_keep(planned, job, out, workshop, checks))
            checks.audit([file.path for file in files], planned.plan, outside)
        except (Rejected, MachineError) as error:
            for path in (out / name for name in names if name):
                path.unlink(missing_ok=True)  # a bad file must not be published by a later command
                receipts.path_of(path).unlink(missing_ok=True)
            outside.reporter.say(f"{job.name if job else SDIST} failed; the others are still built")
            failed.append(error)
        else:
            made += files
    if failed:
        hints = dict.fromkeys(error.hint for error in failed if error.hint)
        kind = TimeLimit if {*map(type, failed)} == {TimeLimit} else Rejected
        raise kind("\n".join(error.message for error in failed), hint="; ".join(hints))
    return tuple(made)


def refuse_place(out: Path, planned: Planned) -> None:
    """Raise InputError if `out` is a file, contains the source, or is another project's: its files would be mixed.

    Of two plans in one folder the second takes the first one's place, and nothing of that would be published.
    """
    place, root = out.resolve(), planned.tree.root.resolve()
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file, expected a folder")
    inside = (name for name in planned.tree.files if (root / name).is_relative_to(place))
    name = next(inside, None)
    if name:
        raise InputError(f"--out: {out} holds the source ({name}), expected a folder of its own such as dist")
    own, other = planned.plan.project.name, plan_file.project_in(out / PLAN)
    if other and canonicalize_name(other) != canonicalize_name(own):
        hint = f"`--out {out / own}` keeps them apart; `fatwheel publish` then publishes each folder"
        raise InputError(f"--out: {out} holds the plan of {other}, expected a folder for {own} alone", hint=hint)


def _refuse_machine(
    planned: Planned, jobs: Sequence[Job], out: Path, outside: Outside, *, takes_level: bool
) -> list[tuple[Job, Path]]:
    """Return the jobs that have no wheel yet and whose build this machine's own Python runs, with that Python.

    Raises MachineError if a disk has too little space; warns about wheels that may not keep to their tags.
    """
    torch, places = planned.plan.request.build.torch, room.BuildFolders(folders.base_folder(), outside.cache, out)
    includes = headers.all_includes(planned.tree) if any(job.accelerator for job in jobs) else ()
    room.refuse_no_room(room.needs_of(jobs, planned.tree, places, includes, torch=torch))  # before an hour of work
    chosen = {job.name: choose(job, planned.catalog, outside) for job in jobs}
    for name, choice in chosen.items():
        if choice:
            outside.reporter.say(choice.describe(name))
    own = [job for job in jobs if not chosen[job.name]]
    if not takes_level:
        _warn(planned, own, outside)
    pythons = [(job, toolchains_of(planned, outside).interpreter_of(job)) for job in own]
    return [(job, python) for job, python in pythons if python and not (out / job.wheel).exists()]


def _warn(planned: Planned, jobs: Sequence[Job], outside: Outside) -> None:
    """Say which wheels of this machine's compilers may not keep to their tags, and what to write."""
    for doubt in dict.fromkeys(filter(None, map(toolchains_of(planned, outside).doubt, jobs))):
        outside.reporter.say(f"warning: {doubt}")


def open_job_container(planned: Planned, job: Job, out: Path, outside: Outside) -> Container | None:
    """Return the container that a job is built in; None if it needs none, or if none can be had, which it reports."""
    choice = choose(job, planned.catalog, outside)
    if choice is None:
        return None
    try:
        return open_container(choice, out, outside)
    except MachineError as error:
        outside.reporter.say(f"{error.message}; so {job.name} is built without it, by this machine's own compilers")
        _warn(planned, [job], outside)
        return None


def _refuse_headers(planned: Planned, job: Job, tools: toolchain.Toolchain, outside: Outside) -> None:
    """Raise MachineError if a job's sources certainly include a header that its compiler will not find."""
    compiles = headers.compiles_of(job, planned.evidence)
    if compiles:
        home = dict(tools.folders).get("CUDA_HOME")
        # nvcc searches both: a toolkit from conda has only the second (see its nvcc.profile).
        toolkit = [home / "include", *sorted(home.glob("targets/*/include"))] if home else []
        toolkit += [overlay / "include" for overlay in tools.overlays]
        folders = [*headers.folders_of(tools.python), *toolkit]
        asked = headers.asked_for(planned.tree, compiles, cuda=home is not None)
        headers.refuse_missing(asked, "c++", folders, outside.environ)


def refuse_level(planned: Planned, jobs: Iterable[Job], outside: Outside) -> None:
    """Raise MachineError for jobs whose wheels, compiled here, will certainly not keep to their level of glibc."""
    here = toolchain.libc()
    own, problems = toolchain.find_level(here), []
    for job in jobs:
        doubt = toolchain.libc_doubt(job.wheel_platform, here) if job.kind is JobKind.NATIVE else ""
        if not doubt or tuple(map(int, own.split("_")[1:])) < NEEDS_NEWER or choose(job, planned.catalog, outside):
            continue
        if found := headers.find_newer_symbols(planned.tree, headers.compiles_of(job, planned.evidence)):
            what = f"includes {found[0]}, and what this machine compiles of it with {here} needs newer libraries"
            problems.append(Problem(str(found[1]), f"{what}: {job.name} is to keep to {job.wheel_platform}"))
    if problems:
        way = "build it in one of PyPA's images (`container`), where the glibc is older"
        hint = f"{way}; or write `wheel-platform: {own}`; for a release into a folder, `--here` finds the oldest level"
        raise MachineError("\n".join(dict.fromkeys(map(str, problems))), hint=hint, page=LEVELS)


@contextmanager
def working_in(out: Path, outside: Outside) -> Iterator[None]:
    """Lock the output folder against other runs; a folder we make gets a .gitignore, since it may lie in the source."""
    with hold_lock(out / LOCK, outside.reporter.say):
        _sweep(out)
        if all(map(_is_ours, out.iterdir())):  # in a folder with a person's files, it would hide theirs from git
            with write_atomically(out / ".gitignore") as file:  # under the lock: another run would remove it unfinished
                file.write(MADE)
        yield


def _sweep(out: Path) -> None:
    """Remove the unfinished files of runs that were killed; the lock is held, but receipts are written without it."""
    pattern, since = f".*{UNFINISHED}", time.time() - OLD_RECEIPT
    for left in (*out.glob(pattern), *(out / "receipts").glob(pattern)):
        with suppress(FileNotFoundError):  # it was finished meanwhile
            if left.parent == out or left.stat().st_mtime < since:
                left.unlink()


def _is_ours(path: Path) -> bool:
    """Whether a path belongs in a release folder: another machine may have written it without our .gitignore."""
    return path.name in {PLAN, "receipts", "logs", SHARDS, f"{LOCK}.lock"} or path.name.endswith((".whl", ".tar.gz"))


def workshop_in(out: Path, outside: Outside, installations: Installations | None = None) -> Workshop:
    """Return a workshop that builds into a folder and writes its logs there."""
    return Workshop(logs=out / "logs", outside=outside, installations=installations)


def toolchains_of(planned: Planned, outside: Outside) -> toolchain.Toolchains:
    """Return the toolchains that the jobs of a plan may need."""
    backend = read_backend(planned.plan.request, planned.tree)
    return toolchain.Toolchains(planned.catalog, outside, backend)


def _build_or_keep(
    planned: Planned, job: Job | None, out: Path, workshop: Workshop, checks: Checks, compiled: Built | None = None
) -> Iterator[Made]:
    """Yield the wheels of a job, or the sdist: the existing files if their inputs are the same, else new ones."""
    plan, tree, outside = planned.plan, planned.tree, workshop.outside
    names = [name for name in (job.files if job else (plan.sdist,)) if name]
    container = open_job_container(planned, job, out, outside) if job else None
    tools = choose_tools(planned, job, container, outside)
    key = build_key(plan, job, tools, tree.git_identity)
    kept = [(out / each, receipt) for each in names if (receipt := receipts.load(out / each)) and receipt.key == key]
    if len(kept) == len(names):
        outside.reporter.say(f"keep {', '.join(names)}: nothing it depends on has changed")
        yield from (Made(path, receipt, built=False) for path, receipt in kept)
        return
    started = time.monotonic()
    with outside.reporter.step(f"build {names[0]}"), _add_owner_hint(job, outside):
        if job and container:
            built = container.build_wheel(job, planned, out, links=checks.links)
        elif job:
            _refuse_headers(planned, job, tools, outside)
            if checks.links and job.kind is JobKind.NATIVE:
                workshop = _take_handed(workshop, planned, job, tools, out)
            built = workshop.build_wheel(job, plan, tree, tools, out, compiled)
            checks.accept(built.path, job, outside)
        else:
            built = workshop.build_sdist(plan, tree, tools, out)
            _complete_sdist(planned, built.path, outside)
    archs = checks.images(built.path, outside) if job and job.accelerator else ""
    built_with, before = built.built_with._replace(archs=archs), compiled.seconds if compiled else 0.0
    seconds = before + time.monotonic() - started  # the first attempt counts, too
    for number, each in enumerate(names):
        made = _write_receipt(built.path.with_name(each), planned, job, (key, seconds, built_with), outside)
        made = made._replace(own_seconds=0.0 if number else built.seconds)  # its twin for PyPI is a copy
        if checks.made is not None:
            checks.made[made.path] = made
        yield made


def name_inputs(planned: Planned, job: Job, tools: toolchain.Toolchain) -> dict[str, str]:
    """Return what the bytes of a job's wheel depend on, the most telling first."""
    plan = planned.plan
    found = {"source": plan.pins.source_sha256, "compiler or Python": f"{tools.identity}, Python {job.python}"}
    return {**found, "config, commit or version of Fatwheel": build_key(plan, job, tools, planned.tree.git_identity)}


def _take_handed(workshop: Workshop, planned: Planned, job: Job, tools: toolchain.Toolchain, out: Path) -> Workshop:
    """Return a workshop that takes what shards of a job handed over, and report what it does not take."""
    handed = read_handovers(out / SHARDS, job.name, name_inputs(planned, job, tools))
    for words in handed.describe():
        workshop.outside.reporter.say(f"{job.name}: {words}")
    return replace(workshop, handed=handed)


def _complete_sdist(planned: Planned, sdist: Path, outside: Outside) -> None:
    """Add the sources of the other platforms to an sdist; raise Rejected if it lacks one, or one's header.

    A header under a condition may be needed, and is reported. A build may fetch a submodule's files by itself, so that
    the sdist needs none of them.
    """
    tree, folder = planned.tree, planned.plan.request.subdirectory
    fetched = tuple(f"{path}/" for path in re.findall(r"(?m)^\s*path\s*=\s*(.*\S)", tree.text(".gitmodules")))
    shown = [one for found in planned.evidence.platforms for one in (found.shown, *found.apart.values())]
    compiled = [call.source for one in shown for library in one.built for call in library.compiles]
    sources = [name for name in dict.fromkeys(compiled) if name in tree.names and not name.startswith(fetched)]
    # Other backends pack what is in the checkout, whatever the build names.
    if planned.plan.project.backend in SETUPTOOLS and (added := add_sources(sdist, sources, tree, folder)):
        outside.reporter.say(f"{sdist.name} gets what other platforms compile as well: {', '.join(added)}")
    includes = Includes(tree)
    included = {name: SourceLine(name, 1) for name in sources} | headers.certain_files(includes, sources)
    own = {name: place for name, place in included.items() if not name.startswith(fetched)}
    possible = {name: at for name, at in headers.possible_files(includes, sources).items() if name not in included}
    for name in list_lacking(sdist, (name for name in possible if not name.startswith(fetched)), folder):
        outside.reporter.say(f"warning: {possible[name]} may include {name}, and {sdist.name} lacks it")
    if any(one.extensions is Extensions.SOME and not one.built for one in shown):
        unseen = [name for name in tree.files if Path(name).suffix in headers.NATIVE and not FOR_TESTS.search(name)]
        if lacking := list_lacking(sdist, (name for name in unseen if not name.startswith(fetched)), folder):
            outside.reporter.say(f"warning: {sdist.name} lacks {', '.join(lacking[:4])}: who builds it may need it")
    try:
        refuse_lacking(sdist, own, folder)
    except Rejected:
        sdist.unlink()
        raise


def choose_tools(
    planned: Planned, job: Job | None, container: Container | None, outside: Outside
) -> toolchain.Toolchain:
    """Return the tools of a job, or of the sdist if there is none."""
    if container:
        return toolchain.Toolchain(identity=container.identity, python=Path(sys.executable))
    if job:
        return toolchains_of(planned, outside).prepare(job, headers.all_includes(planned.tree))
    return toolchain.Toolchain(identity=SDIST, python=toolchain.choose_sdist_python(planned.plan, outside.environ))


@contextmanager
def _add_owner_hint(job: Job | None, outside: Outside) -> Iterator[None]:
    """Add to a failure's hint who looks after the platform that failed: on GitHub, where others than they see it."""
    try:
        yield
    except Rejected as error:
        is_taken = isinstance(error, NewerSystem)  # a release into a folder may give the wheel another level
        if is_taken or not (job and job.owner and steps.is_on(outside.environ)):
            raise
        error.hint = "; ".join(filter(None, (error.hint, f"{job.owner} looks after {job.platform}")))
        raise


def _write_receipt(
    path: Path, planned: Planned, job: Job | None, made: tuple[str, float, BuiltWith], outside: Outside
) -> Made:
    """Write the receipt of a file that a job has just built, and return both; `made` is its key, time and tools."""
    plan, (key, seconds, built_with) = planned.plan, made
    address = git.origin(planned.tree.root, outside.environ) or ""
    receipt = Receipt(
        file=FileName(path.name),
        sha256=sha256_of(path),
        size=path.stat().st_size,
        project=plan.project.name,
        version=plan.project.version,
        job=job.name if job else SDIST,
        source=plan.pins.source_sha256,
        key=key,
        seconds=round(seconds, 1),
        built_with=built_with,
        made_from=(*plan_file.list_origin(plan), *([("source:address", redact(address))] if address else [])),
    )
    return Made(path, receipts.save(path, receipt), built=True)


def list_left_over(planned: Planned, outside: Outside, *, here: bool) -> tuple[LeftJob, ...]:
    """Return the jobs this machine cannot build; raise MachineError if it must build them all, or can build none.

    With `here`, those that it would have to compile for another machine are among them.
    """
    tools, jobs = toolchains_of(planned, outside), planned.plan.jobs
    if not jobs:
        msg = f"{planned.plan.request.config}: every cell is skipped, there is nothing to build"
        raise InputError(msg, hint="`fatwheel plan` gives the reasons")
    of_others = {job: _explain_other_machine(job, planned, outside, here=here) for job in jobs}
    inside = {job for job in jobs if choose(job, planned.catalog, outside)}
    reasons = ((job, "" if job in inside else tools.missing(job) or of_others[job]) for job in jobs)
    left = tuple(LeftJob(job, reason) for job, reason in reasons if reason)
    if left and (not here or len(left) == len(jobs)):
        lines = "\n".join(f"  {job.name}: {reason}" for job, reason in left)
        msg = f"this machine cannot build {len(left)} of {len(jobs)} jobs:\n{lines}"
        hint = "" if here else "--here goes on with the rest, and says so"
        raise MachineError(msg, hint=hint, page="how-to/choose-a-toolchain.md#what-this-machine-cannot-build")
    return left


def _explain_other_machine(job: Job, planned: Planned, outside: Outside, *, here: bool) -> str:
    """Return why a job is left to another machine that this one has the tools for, or "" if it is not."""
    platforms = planned.catalog.platforms
    if here and is_cross(job, planned.catalog, outside.host):
        return f"it is for another machine than this {outside.host}; `fatwheel build --job {job.name}` compiles it here"
    served = {platforms[cell.platform].host for cell in job.covers}
    own = {asked.platform: {*asked.env} for asked in planned.plan.request.platforms}  # what may be why it compiles
    native = (each.platform for each in planned.plan.jobs if each.platform)
    compiled = {platforms[platform].host for platform in native if own[platform] <= {*job.env}}
    if job.kind is JobKind.NATIVE or outside.host in served or outside.host not in compiled:
        return ""
    where = " or ".join(sorted(served))
    return f"the source compiles on {outside.host}, and this wheel has nothing compiled: it is built on {where}"
