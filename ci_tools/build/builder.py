"""Builds a job's wheel with the project's own backend, at the same path everywhere, then repairs and relabels it."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import build

from ci_tools import catalog as catalogs
from ci_tools.build import built_with as builtwith
from ci_tools.build import cross, repair
from ci_tools.build.bench.copies import Copies, Installations
from ci_tools.build.bench.shell import Bench, Shell, add_cause, build_error, run_after, search_path
from ci_tools.build.cross import write_settings
from ci_tools.build.cuda_toolkits import link_variables
from ci_tools.build.folders import (
    base_folder,
    link_or_name,
    name_build_folder,
    own_copies,
    own_locks,
    own_temporary,
    refuse_long_paths,
    refuse_stranger,
    sweep,
)
from ci_tools.build.requirements import Needs, job_of_sdist, needs_of_job, needs_of_sdist, provide_headers
from ci_tools.build.sdist import write_with_date
from ci_tools.build.sdk.lending import InstallPlace, put_toolkit
from ci_tools.build.shards.handover import Handed, LayeredStore
from ci_tools.build.shards.listing import ListedBuild
from ci_tools.build.times.watch import watch_units
from ci_tools.build.toolchain import TORCH_INCLUDE, Toolchain, find_level
from ci_tools.build.units.forecast import keep_job
from ci_tools.build.units.launchers import has_launchers, name_place, open_gate, open_launchers, open_store
from ci_tools.build.units.report import UnitReport
from ci_tools.build.units.store import UnitStore
from ci_tools.build.version_files import restate_version
from ci_tools.catalog.accelerators import list_compilers
from ci_tools.errors import FatwheelError, Rejected
from ci_tools.formats.relabel import Label, relabel
from ci_tools.formats.wheel import SBOM, open_wheel
from ci_tools.machine import runner
from ci_tools.machine.context import Outside
from ci_tools.machine.python import create
from ci_tools.machine.storage import hold_lock, naming, write_atomically
from ci_tools.model import edition as editions
from ci_tools.model.files import EPOCH, BuiltWith
from ci_tools.model.plan import SDIST, Job, JobKind, Plan
from ci_tools.model.platforms import name_archs_for_torch
from ci_tools.model.request import Channel
from ci_tools.source.files import Tree
from ci_tools.source.project_file import ProjectFile

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

LEVELS = "how-to/choose-a-toolchain.md#an-older-glibc-than-this-machines"
# the second: sets of texts have the same order in every run
SAME_EVERY_TIME = {"SOURCE_DATE_EPOCH": str(EPOCH), "PYTHONHASHSEED": "0"}


def build_key(plan: Plan, job: Job | None, toolchain: Toolchain, repository: str = "") -> str:
    """Return a hash of everything that the bytes of a job's wheel, or of the sdist, depend on.

    `repository` is the source's `git_identity`.
    """
    request = plan.request
    version = editions.variables(plan.project, plan.edition, request.version, plan.pins.commit)
    inputs = [
        plan.pins.source_sha256,
        repository,
        plan.pins.fatwheel,
        *plan.stated_commits,
        request.subdirectory,
        repr(request.build),
        *request.run.requires,
        toolchain.identity,
        *(f"{name}={value}" for name, value in version.items()),
    ]
    told = job or job_of_sdist(plan)
    own: list[str | None] = [*told.archs, repr(told.env), *told.build_requires] if told else []
    if job:
        python = str(job.python) if job.python_stays else platform.python_version()
        own += [job.wheel, job.public, python, job.requires_torch, job.exact_torch, *job.drops]
    else:
        own += [plan.sdist, repr(told and (told.accelerator, told.torch))]
    return hashlib.sha256(json.dumps([inputs, own]).encode()).hexdigest()


class NewerSystem(Rejected):
    """A wheel that needs a newer system than its platform tag says; `level` is the tag that it keeps to.

    `made` is the wheel as it was compiled, which takes another tag without being compiled again.
    """

    def __init__(self, message: str, *, job: Job, level: str, made: Built) -> None:
        own, wanted = find_level(level), find_level(job.wheel_platform)
        way = f"or build where the glibc is that of {wanted}, such as in one of PyPA's images (`container`)"
        super().__init__(message, hint=f"write `wheel-platform: {own}` at {job.platform}, {way}", page=LEVELS)
        self.job, self.level, self.made = job, level, made


class Built(NamedTuple):
    """A file that was just built, and the tools that built it."""

    path: Path
    built_with: BuiltWith
    seconds: float  # the time of the project's own build


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Builds wheels and sdists on this machine."""

    logs: Path
    outside: Outside
    installations: Installations | None = None  # of the run's other builds
    takes_stored: bool = True  # whether objects may come from the store of compile units
    handed: Handed | None = None  # what shards of the job have compiled

    def build_wheel(
        self, job: Job, plan: Plan, tree: Tree, toolchain: Toolchain, out: Path, compiled: Built | None = None
    ) -> Built:
        """Build the job's wheel into `out`, and beside it its twin for PyPI if it has one; the plan gives the names.

        `compiled` is the wheel as the project's own build has already made it. Raises Rejected if the build fails or
        makes another wheel than planned.
        """
        with self._bench(plan, tree, job.name, job.minutes) as bench:
            made = compiled or self._compile(job, toolchain, bench)
            built_with = builtwith.of_job(job, made.built_with)
            built = self._repair_wheel(made, job, bench) if job.kind is JobKind.NATIVE else made.path
            project, version, rest = built.name.split("-", 2)  # neither has a hyphen (PEP 427, Escaping and Unicode)
            rebuild = plan.request.release.rebuild
            rest = f"{rebuild}-{rest}" if rebuild else rest
            name = f"{project}-{version}{f'+{job.local}' if job.local else ''}-{rest}"
            _refuse_other(name, job.wheel, bench)
            cleaned = repair.strip_own_rpaths(built, bench.scratch / "cleaned", bench.log)
            for member in cleaned:
                what = "looked for libraries in a folder of this machine: that entry of its rpath is removed"
                self.outside.reporter.say(f"{member} {what}")
            labels = {name: job.local} | ({job.public: ""} if job.public else {})
            for each, local in labels.items():
                label = Label(local, job.requires_torch, job.drops, rebuild)
                inside = {SBOM: _sbom(built, job, plan, local, built_with)}
                relabel(built, out / each, label, replaced=cleaned, beside=inside)
            if compiled:
                compiled.path.unlink()
            return made._replace(path=out / name, built_with=built_with)

    def _compile(self, job: Job, toolchain: Toolchain, bench: Bench) -> Built:
        """Return the wheel as the project's own build makes it, with each compile unit taken or compiled."""
        if not has_launchers(job, self.outside):
            needs, told = needs_of_job(job, bench.plan), self._variables(job, toolchain, bench)
            return self._backend("wheel", bench, toolchain, told, needs)
        store = open_store(job, self.outside) if self.takes_stored else None
        if self.handed:
            own = store.folder if store else bench.scratch / "handed"
            store = LayeredStore(folder=own, behind=self.handed.stores)
            store.take_costs()
        made, report = self._make(job, toolchain, bench, store)
        if store:
            keep_job(bench.plan.project.name, job.name, report, store)
        for words in self.handed.list_missing(report) if self.handed else ():
            self.outside.reporter.say(f"{job.name}: {words}")
        return made

    def run_part(
        self, job: Job, planned: Planned, toolchain: Toolchain, listing: ListedBuild, store: UnitStore | None
    ) -> None:
        """Run a job's build with only a listing's own units compiled; raise Rejected if it fails."""
        request = planned.plan.request
        without = replace(request, build=request.build._replace(after=()))  # there is no wheel for it to work on
        with self._bench(replace(planned.plan, request=without), planned.tree, job.name, job.minutes) as bench:
            self._make(job, toolchain, bench, store, listing)

    def _make(
        self, job: Job, toolchain: Toolchain, bench: Bench, store: UnitStore | None, listing: ListedBuild | None = None
    ) -> tuple[Built, UnitReport]:
        """Return the wheel that the project's own build makes with launchers of its compilers, and its units."""
        told, shims = self._variables(job, toolchain, bench), bench.plan.request.build.shims
        gate, project = open_gate(job, store, bench.deadline), bench.plan.project.name
        with (
            open_launchers(bench.scratch, told["PATH"], toolchain.python, project, gate, listing) as launchers,
            watch_units(launchers, job.name, bench.log, self.outside) as book,
        ):
            launchers.shims.put(shims)
            variables, needs = {**launchers.take_over(told), **dict(job.env)}, needs_of_job(job, bench.plan)
            made = self._backend("wheel", bench, toolchain, variables, needs)
            if listing is None:  # else there is no wheel that says it
                compiler = launchers.identify(told, toolkit=False)
                toolkit = launchers.identify(told, toolkit=True) if job.accelerator else ""
                used = made.built_with._replace(compiler_sha256=compiler, toolkit_sha256=toolkit)
                made = made._replace(built_with=used)
            book(made.seconds)
        return made, launchers.report

    def build_sdist(self, plan: Plan, tree: Tree, toolchain: Toolchain, out: Path) -> Built:
        """Build the project's sdist into `out`."""
        with self._bench(plan, tree, SDIST, plan.request.build.timeout_minutes) as bench:
            made = self._backend("sdist", bench, toolchain, self._tell_sdist(plan, bench), needs_of_sdist(plan))
            _refuse_other(made.path.name, plan.sdist, bench)
            with write_atomically(out / made.path.name) as sink:
                write_with_date(made.path, sink, EPOCH)  # gzip and tar state when they were written
            return made._replace(path=out / made.path.name, built_with=builtwith.of_job(None, made.built_with))

    # -- the place

    @contextmanager
    def _bench(self, plan: Plan, tree: Tree, job: str, minutes: int) -> Iterator[Bench]:
        """Yield an empty folder whose path is the same on every machine, used by this run only, and a fresh log.

        nvcc hashes the source's real path into the names of device symbols, so another path gives other bytes; the
        wheels of a project take turns in one folder, so that they can share compiled objects, too.
        """
        base = base_folder()
        scratch = base / f"fatwheel-{SDIST if job == SDIST else 'build'}-{plan.project.name}"
        with hold_lock(own_locks(base) / scratch.name, self.outside.reporter.say), naming(scratch):
            refuse_stranger(scratch)
            sweep(base)
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)  # /tmp is everybody's
            log = self.logs / f"{job}.log"
            log.unlink(missing_ok=True)  # an earlier run's, which would be taken for this one's
            copies = Copies(own_copies(base))
            try:
                deadline = min(time.monotonic() + minutes * 60, self.outside.ends)
                yield Bench(plan, tree, scratch, log, minutes, copies, deadline)
            finally:
                copies.give_back()
                shutil.rmtree(scratch, ignore_errors=True)

    def _variables(self, job: Job, toolchain: Toolchain, bench: Bench) -> dict[str, str]:
        """Return the environment variables of a build; those of the config override all others."""
        jobs = str(self._compilers(job, bench.plan))
        told = {
            **SAME_EVERY_TIME,
            **{name: value for name, value in toolchain.variables.items() if name != "PATH"},
            "MAX_JOBS": jobs,
            "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
            **(job.accelerator.kind.variables(job.accelerator.version) if job.accelerator else {}),
            **name_build_folder(bench.scratch),
        }
        for variable, folder in toolchain.folders:
            place = bench.scratch / name_place(variable, job, self.outside)
            told[variable] = str(self._provide(folder, toolchain, bench, place))
        if toolchain.fetch_headers:
            told[TORCH_INCLUDE] = str(bench.torch_headers)
        path = toolchain.variables.get("PATH") or self.outside.environ.get("PATH", os.defpath)
        shown = search_path(path, bench.scratch / "path", list_compilers())
        homes = (str(Path(told[name]) / "bin") for name, _ in toolchain.folders)
        told["PATH"] = os.pathsep.join([*homes, shown])
        return {**told, **name_archs_for_torch(job.accelerator, job.archs), **link_variables(told), **dict(job.env)}

    def _tell_sdist(self, plan: Plan, bench: Bench) -> dict[str, str]:
        """Return the variables of the sdist's build: those of the job that `job_of_sdist` chooses, and no compiler."""
        job = job_of_sdist(plan)
        if job is None:
            return {**dict(plan.request.build.env), **SAME_EVERY_TIME}
        told = name_archs_for_torch(job.accelerator, job.archs)
        path = search_path(self.outside.environ.get("PATH", os.defpath), bench.scratch / "path", list_compilers())
        if job.accelerator:
            home = put_toolkit(job.accelerator, bench.scratch / "cuda_home")
            told |= {"CUDA_HOME": str(home)}
            path = os.pathsep.join([str(home / "bin"), path])
        return {**told, "PATH": path, **dict(job.env), **SAME_EVERY_TIME}

    def _provide(self, folder: Path, toolchain: Toolchain, bench: Bench, place: Path) -> Path:
        """Put a toolchain's folder where the build sees it: a copy if we fetched it, a link if it is installed.

        A link to the cache would not do: compilers write the real paths of headers into their output, and files that
        one build writes into the cache would be there in every later build.
        """
        if not folder.is_relative_to(self.outside.cache):
            return link_or_name(folder, place)
        over = toolchain.overlays if folder == toolchain.folders[0][1] else ()
        return bench.copies.put(place, folder, *over)

    def _compilers(self, job: Job, plan: Plan) -> int:
        """Return how many compilers run at a time, and report it if memory is the limit."""
        found = runner.compilers(runner.machine(), job.care.job_memory_gib, plan.request.build.max_jobs)
        if found.reason:
            self.outside.reporter.say(f"{job.name}: {found.reason}")
        return found.number

    # -- the backend

    def _place(self, bench: Bench) -> InstallPlace:
        """Return where the requirements of a build come from."""
        request = bench.plan.request
        constraints = bench.source / request.build.constraints if request.build.constraints else None
        catalog = catalogs.load(request.catalog)
        return InstallPlace(bench.scratch, constraints, catalog, self.outside, bench.copies, self.installations)

    def _backend(
        self,
        what: Literal["wheel", "sdist"],
        bench: Bench,
        toolchain: Toolchain,
        variables: Mapping[str, str],
        needs: Needs,
    ) -> Built:
        """Copy the source, run its PEP 517 backend in an isolated environment, and return the built file."""
        request = bench.plan.request
        refuse_long_paths(bench.source, bench.tree.files, self.outside.host)
        bench.tree.copy_as_planned_to(bench.source, bench.plan.pins.source_sha256)
        _restate(bench)  # before the checkout, in which no file is modified then
        bench.tree.make_checkout(bench.source)
        _tell_by_tag(bench)
        # Without a repository of its own, the copy is in none: not in one that this folder may be in.
        variables = {"GIT_CEILING_DIRECTORIES": str(bench.scratch), **variables, **own_temporary(bench.scratch / "tmp")}
        isolated = create(toolchain.python, bench.scratch / "env", bench.log, self.outside.environ, variables)
        told = cross.prepare_environment(isolated, bench.scratch) if toolchain.is_cross else {}
        settings = write_settings(bench.plan.project.backend, isolated, bench.scratch, is_cross=toolchain.is_cross)
        shell = Shell(isolated, bench, bench.deadline, told)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the backend's own warnings are in the log
                project = build.ProjectBuilder(bench.source / request.subdirectory, str(isolated.python), shell.run)
                needs.install(project.build_system_requires, isolated, self._place(bench))
                if toolchain.is_cross:
                    cross.replace_stubs(isolated)
                if toolchain.fetch_headers:
                    provide_headers(toolchain.fetch_headers, isolated, bench.torch_headers, bench.copies)
                if what == "wheel":  # an sdist contains the unchanged source
                    shell.run_hooks("build.before", request.build.before)
                needs.install(project.get_requires_for_build(what), isolated, self._place(bench))
                began = time.monotonic()
                built = Path(project.build(what, bench.scratch / "built", settings))
                seconds = time.monotonic() - began
        except (build.BuildBackendException, build.BuildException) as error:
            raised = getattr(error, "exception", None)
            if isinstance(raised, FatwheelError):  # by the runner, shell.run
                raise raised from None  # it is the error itself that the runner raised
            raise add_cause(Rejected(f"the project cannot be built: {error}; log: {bench.log}")) from error
        except Rejected as error:
            add_cause(error)
            raise
        if what == "wheel":
            run_after(built, shell)
        used = replace(isolated, variables={**isolated.variables, **told})
        return Built(built, builtwith.asked_in(used, self.outside.environ), seconds)

    def _repair_wheel(self, made: Built, job: Job, bench: Bench) -> Path:
        """Return the wheel with its platform tag proven and written; raise Rejected if it does not keep to its tag."""
        wheel = made.path
        _refuse_hollow(made, job, bench)
        if not job.wheel_platform.startswith(("manylinux", "musllinux")):
            return wheel
        out = bench.scratch / "repaired"
        ended = repair.proven(wheel, job, out, bench.log, self.outside.environ)
        if ended.status:
            why, level = repair.judge_level(wheel, job.wheel_platform)
            error = build_error(bench.log, why, ended.start)
            if not level:
                raise error
            kept = made._replace(path=self.logs / wheel.name)
            shutil.move(wheel, kept.path)
            raise NewerSystem(error.message, job=job, level=level, made=kept)
        return next(out.iterdir())


def _sbom(wheel: Path, job: Job, plan: Plan, local: str, built_with: BuiltWith) -> bytes:
    """Return the SBOM of a wheel that was just built."""
    from ci_tools.build.sbom import sbom_of  # noqa: PLC0415 - its library loads longer than many a verb runs

    opened = open_wheel(wheel)
    with opened.archive:
        return sbom_of(job, plan, local, opened.metadata, built_with)


def _restate(bench: Bench) -> None:
    """Write a nightly's version into the copied source; other channels keep the version that the source states."""
    if bench.plan.edition.channel is not Channel.NIGHTLY:
        return
    project = ProjectFile(bench.plan.request, Tree(bench.source, bench.tree.files))
    for name, text in restate_version(project, bench.plan.project.version).items():
        (bench.source / name).write_bytes(text.encode())


def _refuse_hollow(made: Built, job: Job, bench: Bench) -> None:
    """Raise Rejected for a wheel without compiled code: it is for any machine, and the job is for one platform."""
    if not made.path.name.endswith("-any.whl"):
        return
    msg = f"the build of {job.name} compiled nothing: it made {made.path.name}, expected {job.wheel}"
    torch = made.built_with.torch
    asked = f"it had torch {torch} and CUDA {job.accelerator.version}; " if torch and job.accelerator else ""
    raise Rejected(msg, hint=f"{asked}a condition in the project's build was not met; log: {bench.log}")


def _tell_by_tag(bench: Bench) -> None:
    """Give the copy the tag of the version as its only one, where the project's own tool takes no variable."""
    project, checkout = bench.plan.project, bench.tree.checkout
    if project.told_tag and checkout:
        tag = project.told_tag.format(version=project.version)
        checkout.tell(bench.source, checkout.pack_refs([tag], past=False))


def _refuse_other(built: str, planned: str | None, bench: Bench) -> None:
    """Raise Rejected if the built file is not the planned one: its tags or its version differ from the plan."""
    if built == planned:
        return
    project, edition = bench.plan.project, bench.plan.edition
    if edition.channel is Channel.NIGHTLY and f"-{project.version}" not in built:
        msg = f"the build made {built}, expected {project.version} of a nightly: it takes no version from outside"
        hint = "state the version in pyproject.toml, or let the build read BUILD_VERSION"
        raise Rejected(msg, hint=f"{hint}; log: {bench.log}")
    msg = f"the build made {built}, expected {planned}"
    hint = f"the plan reads the source, the build ran it: one of them is wrong; log: {bench.log}"
    raise Rejected(msg, hint=hint, page="explanation/evidence.md#what-evidence-is-worth")
