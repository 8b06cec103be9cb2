"""Makes a plan from a request, its evidence and the catalog by the collapse rules: a pure, total function.

Every cell ends in exactly one place, covered by a job or skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ci_tools import __version__
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import cuda_of
from ci_tools.config import commands
from ci_tools.errors import InputError, RejectedInput
from ci_tools.model import edition as editions
from ci_tools.model.evidence import Binding, CellEvidence, Evidence, Spared
from ci_tools.model.names import FileName, VersionText
from ci_tools.model.plan import Covered, Job, JobKind, Library, Pins, Plan, Skipped
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import (
    HOSTED_MINUTES,
    SELF_HOSTED,
    STABLE,
    Care,
    Channel,
    Edition,
    Enabled,
    PlatformRequest,
    Request,
    Route,
    ToolchainKind,
)
from ci_tools.model.versions import Minor, Python, admits
from ci_tools.observe.cells import cells_of, torches_of
from ci_tools.plan.axes import (
    PURE,
    Axes,
    Decision,
    Key,
    choose_builders,
    choose_env,
    choose_image,
    choose_tag,
    decide_torch,
    explain_build,
    find_builds,
    find_spared,
    is_below_limited_api,
    keep_archs,
    oldest_python,
    select_additions,
)
from ci_tools.plan.batches import assign_batches, assign_shards
from ci_tools.plan.contradictions import (
    Refusals,
    explain_two_builds,
    explain_unsupported,
    find_contradictions,
    find_newer_target,
    find_refused_torches,
    find_strange_trial,
    find_unshipped,
    find_warnings,
    read_requires_python,
)
from ci_tools.plan.sites import sites_of
from ci_tools.plan.wheel_names import distribution_of, find_false_tags, library_path, list_platform_tags, local_version


def make_plan(request: Request, evidence: Evidence, catalog: Catalog, edition: Edition = STABLE) -> Plan:
    """Return the plan with the fewest jobs that serve the request, for an edition of the project's version.

    Raises InputError if the source contradicts the request, or two jobs would make the same file.
    """
    version = editions.version(evidence.project.version, edition)
    evidence = replace(evidence, project=evidence.project._replace(version=VersionText(version)))
    planner = _Planner(request, evidence, catalog, edition)
    covered, skipped = planner.decide()
    planner.refuse_contradictions()  # before a job: a job of contradicting facts would fail with a worse message
    covered, skipped = planner.leave_out(covered, skipped)
    jobs = planner.jobs(covered)
    if planner.refuse_one_name_twice(jobs):  # names are known only now: leave out, then plan the rest again
        covered, skipped = planner.leave_out(covered, skipped)
        jobs = planner.jobs(covered)
    sdist = FileName(f"{distribution_of(evidence.project.name)}-{version}.tar.gz") if request.build.sdist else None
    if request.run.torch:
        jobs, covered, skipped = select_additions(jobs, covered, skipped, request)
        sdist = None  # the release has it already
    rate = catalog.source_seconds
    made = tuple(assign_batches(assign_shards(jobs.values(), evidence, rate, request.build.shards), evidence, rate))
    return Plan(
        request=request,
        project=evidence.project,
        pins=Pins(evidence.source_sha256, evidence.commit, catalog.sha256, __version__),
        jobs=made,
        sdist=sdist,
        covered=tuple(Covered(cell, jobs[key].name, reason) for cell, key, reason in covered),
        skipped=tuple(skipped),
        warnings=tuple(dict.fromkeys((*planner.warnings(), *find_strange_trial(request.validate, made, catalog)))),
        sites=sites_of(request, made, sdist),
        edition=edition,
    )


class _Planner:
    """Makes the plan of one request."""

    def __init__(self, request: Request, evidence: Evidence, catalog: Catalog, edition: Edition) -> None:
        self.request = request
        self.refusals = Refusals(request)
        self.edition = edition
        self.evidence = evidence
        self.catalog = catalog
        self.distribution = distribution_of(evidence.project.name)
        self.torches = torches_of(request, catalog)
        self.refused_torches = dict(find_refused_torches(self.torches, evidence.requires_torch, "the project requires"))
        refused = find_refused_torches(self.torches, evidence.builds_with_torch, "its build requires")
        self.unbuilt_torches = dict(refused)
        self.unpublished = {torch for torch in self.torches if torch and not catalog.torch[torch].is_published}
        self.admitted = read_requires_python(evidence.project)
        self.supported = frozenset(python for python in request.pythons if admits(self.admitted, python.version))
        self.platforms = {found.platform: found for found in evidence.platforms}
        self.builders = {platform.platform: choose_builders(platform, catalog) for platform in request.platforms}
        self.known: dict[tuple[Platform, CellEvidence], Axes] = {}
        self.builds: dict[Cell, Axes] = {}  # of the wheel that serves each covered cell
        for platform in request.platforms:
            found = self.platforms[platform.platform]
            for shown in dict.fromkeys((found.shown, *found.apart.values())):  # most cells share their evidence
                self.known[platform.platform, shown] = self.axes_of(platform, found.native_files, shown)

    # -- the axes

    def axes_of(self, request: PlatformRequest, native_files: tuple[str, ...], shown: CellEvidence) -> Axes:
        axes = Axes(
            request,
            native_files,
            shown,
            decide_torch(shown.torch_abi, request, self.torches, self.catalog),
            {},
            {python: choose_tag(python, shown, self.supported) for python in self.request.pythons},
            self.builders[request.platform],
            f"{request.wheel_platform}_{self.catalog.platforms[request.platform].machine}",
        )
        return axes._replace(refused={python: self.refused(python, axes) for python in self.request.pythons})

    def refuse_contradictions(self) -> None:
        """Raise RejectedInput if the source and the request contradict each other."""
        compiled = {found.platform: found.compiled_files for found in self.evidence.platforms}
        problems = [
            problem
            for (platform, _), axes in self.known.items()
            for problem in find_contradictions(axes, self.oldest_torch_beside(axes), compiled[platform])
        ]
        if problems:
            raise RejectedInput(dict.fromkeys(problems), page="how-to/serve-a-platform.md#native-code")

    def leave_out(self, covered: list[Decision], skipped: list[Skipped]) -> tuple[list[Decision], list[Skipped]]:
        """Skip the cells of platforms whose wheels could not serve; raise RejectedInput if no other is left."""
        refusals = self.refusals
        for (platform, _), axes in self.known.items():
            for problem in (
                *find_false_tags(platform, axes.evidence.python_api, self.pythons_of(axes), self.admitted),
                *find_newer_target(axes, self.oldest_torch_beside(axes)),
            ):
                refusals.add(platform, problem)
        refusals.add_hollow(self.evidence)
        refusals.stop({cell.platform for cell, _, _ in covered})
        left = [cell for cell, _, _ in covered if cell.platform in refusals.found]
        kept = [one for one in covered if one[0].platform not in refusals.found]
        return kept, [*skipped, *(Skipped(cell, refusals.explain(cell.platform)) for cell in left)]

    def pythons_of(self, axes: Axes) -> tuple[Python, ...]:
        """Return the Pythons that a build's wheels are asked for and may serve: none where it is known to fail."""
        if not axes.is_native or axes.request.enabled is Enabled.FALSE or axes.evidence.unsupported:
            return ()
        cells = cells_of(self.request, axes.request, self.torches)
        return tuple({one.python: None for one in cells if one.python in self.supported and self.axes(one) is axes})

    def oldest_torch_beside(self, axes: Axes) -> Minor | None:
        """Return the oldest torch that a build's wheels must be for: an installer does not see which they are for."""
        platform = axes.request.platform
        own = {axes.builders[cell.accelerator] for cell, built in self.builds.items() if built is axes}
        torches = (
            cell.torch
            for cell, built in self.builds.items()
            if cell.platform is platform and axes.builders[cell.accelerator] in own
            if built is not axes or self.axes(cell) is axes  # not those that do without one of their libraries
        )
        return min(filter(None, torches), default=self.torches[0])

    def axes(self, cell: Cell) -> Axes:
        """Return the axes of a cell's build: for its own accelerator version, or the oldest of the same major."""
        built = cell._replace(accelerator=self.builders[cell.platform][cell.accelerator])
        return self.known[cell.platform, self.platforms[cell.platform].of(built)]

    def refused(self, python: Python, axes: Axes) -> str:
        """Return why no cell of a Python gets a wheel, or "" if cells may get one."""
        project, request, api = self.evidence.project, axes.request, axes.evidence.python_api
        if request.enabled is Enabled.FALSE:
            return f"switched off by `enabled: false` ({request.where})"
        if python not in self.supported:
            return f"the project requires Python {project.requires_python} ({project.where})"
        if axes.evidence.unsupported:
            what = "its wheel would lack kernels" if axes.evidence.is_hollow else "the project does not build there"
            return f"{what}: {axes.evidence.unsupported}"
        if axes.is_native and is_below_limited_api(python, api):
            return f"the limited API starts at {api.lowest} ({api.where})"
        return ""

    def warnings(self) -> Iterator[str]:
        torch = self.request.torch
        if torch and torch.instead_of:
            named = f"this run names torch {', '.join(map(str, torch.versions))}, the config {torch.instead_of}"
            yield f"{named}: only wheels bound to it are built, for a release that has the others"
        yield from self.refusals.list_warnings()
        yield from self.evidence.warnings
        yield from commands.warnings(self.request.build)
        platforms: dict[str, dict[str, None]] = {}
        for axes in self.known.values():
            if axes.request.enabled is Enabled.FALSE or axes.request.platform in self.refusals.found:
                continue
            unshipped = find_unshipped(axes.request, self.torches, self.catalog) if axes.is_native else ()
            for warning in (*find_warnings(axes, self.request, self.admitted), *unshipped):
                platforms.setdefault(warning, {})[axes.request.platform.value] = None
        yield from (f"{', '.join(names)}: {warning}" for warning, names in platforms.items())

    # -- the cells

    def decide(self) -> tuple[list[Decision], list[Skipped]]:
        """Return every cell with its key and reason, or skipped with a reason."""
        served: list[tuple[Cell, Axes]] = []
        skipped: list[Skipped] = []
        for platform in self.request.platforms:
            for cell in cells_of(self.request, platform, self.torches):
                axes = self.axes(cell)
                if why := self.explain_skip(cell, axes):
                    skipped.append(Skipped(cell, why))
                else:
                    served.append((cell, axes))
        self.builds = find_builds(served)
        reasons: dict[object, str] = {}
        covered: list[Decision] = []
        for cell, axes in served:
            key = self.key(cell, self.builds[cell])
            known = cell.platform, axes.evidence, key._replace(torch=None)
            if known not in reasons:
                reasons[known] = explain_build(key, axes, self.builds[cell])
            covered.append((cell, key, reasons[known] + self.promise(cell, axes)))
        return covered, skipped

    def explain_skip(self, cell: Cell, axes: Axes) -> str:
        """Return why a cell gets no wheel, or "" if it gets one."""
        why = explain_unsupported(cell, self.request.unsupported)
        why = why or axes.refused[cell.python] or self.refused_torches.get(cell.torch, "")
        if why or cell.torch is None:
            return why
        if cell.torch.nightly and self.edition.channel is not Channel.NIGHTLY:
            return f"torch {cell.torch} is a nightly, which only nightlies of the project serve (--nightly DATE)"
        # Where one wheel serves every torch, one torch that the build admits is enough.
        is_buildable = axes.torch.collapses and len(self.unbuilt_torches) < len(self.torches)
        if axes.is_native and cell.torch in self.unbuilt_torches and not is_buildable:
            return self.unbuilt_torches[cell.torch]
        if cell.torch in self.unpublished and (axes.torch.collapses or not axes.is_native) and self.is_shipped(cell):
            return ""
        return self.catalog.explain_missing_torch(cell.torch, cell.platform, cell.accelerator, cell.python)

    def is_shipped(self, cell: Cell) -> bool:
        """Whether a published torch of the request is for the accelerator of a cell; wheels are built with that."""
        published = [torch for torch in self.torches if torch and torch not in self.unpublished]
        return any(self.catalog.ships(torch, cell.platform, cell.accelerator) for torch in published)

    def promise(self, cell: Cell, axes: Axes) -> str:
        """Return what is added to the reason of a cell whose torch is known only by the project's own catalog."""
        where = self.catalog.torch[cell.torch].where if cell.torch else ""
        if not where or not axes.is_native or axes.evidence.torch_abi.kind is not Binding.STABLE:
            return ""
        return f"; for torch {cell.torch} ({where}) promised, not checked: no symbols of it are known"

    def key(self, cell: Cell, axes: Axes) -> Key:
        recipe = axes.evidence.recipe
        if not axes.is_native:
            return Key(recipe=recipe)
        return Key(
            cell.platform,
            axes.builders[cell.accelerator],
            None if axes.torch.collapses else cell.torch,
            axes.tags[cell.python],
            recipe,
        )

    # -- the jobs

    def jobs(self, covered: list[Decision]) -> dict[Key, Job]:
        cells: dict[Key, list[Cell]] = {}
        for cell, key, _ in covered:
            cells.setdefault(key, []).append(cell)
        made = ((key, cells[key], self.builds[cells[key][0]]) for key in sorted(cells, key=self.order))
        jobs = {key: self.native(key, its, axes) if key.platform else self.pure(its, axes) for key, its, axes in made}
        names = [job.name for job in jobs.values()]
        for key, job in jobs.items():
            if names.count(job.name) > 1:  # limited APIs of several Pythons
                jobs[key] = replace(job, name=f"{job.name}-{key.tag.tag.partition('-')[0]}")
        return jobs

    def order(self, key: Key) -> tuple[int, Minor, Minor, Python]:
        """Return the sort key of a job: the pure wheel first, then the request's platforms, then numeric versions."""
        index = [None, *self.platforms].index(key.platform)  # a dict keeps the order of the config
        version = (key.accelerator and key.accelerator.version) or Minor(0, 0)
        return index, version, key.torch or Minor(0, 0), key.tag.python or Python(Minor(0, 0))

    def pure(self, cells: list[Cell], axes: Axes) -> Job:
        shown = axes.evidence
        return Job(
            name=PURE,
            kind=JobKind.PURE,
            platform=None,
            python=oldest_python(cell.python for cell in cells),
            python_stays=False,
            torch=None,
            accelerator=None,
            archs=(),
            runner=self.pure_runner(cells),
            owner=None,
            wheel=self.wheel(f"{shown.pure_tag}-none-any", local=""),
            wheel_platform="any",
            members=shown.members,
            requires_torch="",
            toolchain=ToolchainKind.AUTO,
            env=(*self.request.build.env, *choose_env(self.request.platforms, cells)),
            build_requires=(*shown.build_requires, *self.request.build.requires),
            minutes=min(self.request.build.timeout_minutes, HOSTED_MINUTES),
            covers=tuple(cells),
        )

    def pure_runner(self, cells: list[Cell]) -> tuple[str, ...]:
        """Return the plainest runner that the pure wheel serves: on others the build may compile."""
        plain = self.catalog.platforms[Platform.LINUX_CPU].runner
        served = {cell.platform for cell in cells}
        runners = [platform.runner for platform in self.request.platforms if platform.platform in served]
        return (plain,) if (plain,) in runners else runners[0]

    def native(self, key: Key, cells: list[Cell], axes: Axes) -> Job:
        request, accelerator, shown = axes.request, key.accelerator, axes.evidence
        torch = key.torch or self.oldest_torch([cell for cell in cells if self.axes(cell) is axes])
        patch = self.catalog.torch[torch].patch if torch else None
        local = local_version(self.request.release.local, accelerator, key.torch, axes.archs, patch)
        python = key.tag.python or oldest_python(cell.python for cell in cells)
        suffix = self.catalog.platforms[request.platform].suffix(python)
        tags = f"{key.tag.tag}-{list_platform_tags(axes.wheel_platform)}"
        # Of compilers whose flags nobody reads here, it is not known which libraries have device code.
        is_known = accelerator is None or accelerator.kind.has_known_flags
        built = shown.built if is_known else ()
        libraries = [Library(found.member, found.images) for found in built if found.images is not None]
        return Job(
            name=key.name,
            kind=JobKind.NATIVE,
            platform=request.platform,
            python=python,
            python_stays=key.tag.python is not None,
            torch=torch,
            exact_torch=patch if self.request.release.exact_torch or (torch and torch.nightly) else None,
            accelerator=accelerator,
            archs=axes.archs,
            runner=request.runner,
            container=choose_image(request, accelerator, self.catalog),
            owner=request.owner,
            required=request.required,
            wheel=self.wheel(tags, local),
            local=local,
            public=self.wheel(tags, local="") if self.is_public(accelerator) else None,
            wheel_platform=axes.wheel_platform,
            libraries=tuple(Library(library_path(name, suffix), images) for name, images in libraries) or None,
            members=shown.members and tuple(library_path(member, suffix) for member in shown.members),
            spared=tuple((library_path(one.member, suffix), one.target) for one in self.find_spared(cells, axes)),
            requires_torch=key.torch.requirement if key.torch else "",
            toolchain=request.toolchain,
            env=(*keep_archs(axes), *self.request.build.env, *request.env, *shown.switches),
            build_requires=(*shown.build_requires, *self.request.build.requires),
            care=self.care(request),
            minutes=request.minutes,
            drops=tuple(one.name for one in self.request.build.drop if not one.pythons or python in one.pythons),
            covers=tuple(cells),
        )

    def find_spared(self, cells: list[Cell], built: Axes) -> dict[Spared, None]:
        """Return the libraries that some cells of a job do without."""
        others = (self.axes(cell).evidence for cell in cells if self.axes(cell) is not built)
        return dict.fromkeys(one for other in others for one in find_spared(other, built.evidence))

    def oldest_torch(self, cells: list[Cell]) -> Minor | None:
        """Return the oldest torch of the cells that the build requirements admit, or the oldest of all."""
        torches = {cell.torch for cell in cells if cell.torch} - self.unpublished
        if not torches and cells[0].torch:  # one that nobody has published: its wheel is built with an older torch
            torches = {torch for torch in self.torches if torch} - self.unpublished
        return min(torches - self.unbuilt_torches.keys() or torches, default=None)  # if none, the build says why

    def care(self, request: PlatformRequest) -> Care:
        """Return a native job's runner preparation: in full only if the runner may be a hosted Linux one."""
        may_be_hosted = self.catalog.platforms[request.platform].os == "linux" and SELF_HOSTED not in request.runner
        return request.care if may_be_hosted else Care(job_memory_gib=request.care.job_memory_gib)

    def is_public(self, accelerator: Accelerator | None) -> bool:
        """Whether the wheels of an accelerator go to PyPI as well."""
        publish = self.request.publish
        is_whole = not self.request.run.torch  # PyPI already has a wheel of this name, for another torch
        asked = publish.pypi is Route.WHEELS and self.edition.channel is not Channel.NIGHTLY and is_whole
        cuda = cuda_of(accelerator)
        return asked and cuda is not None and cuda == publish.pypi_cuda

    def refuse_one_name_twice(self, jobs: dict[Key, Job]) -> bool:
        """Refuse a platform with two jobs of the same wheel name, which installers could not tell apart.

        Returns whether a platform is refused. Raises InputError if no other is left, or the name is of two platforms.
        """
        made: dict[str, Key] = {}
        for key, job, name in [(key, one, name) for key, one in jobs.items() for name in one.files]:
            other = made.setdefault(name, key)
            if other is key:
                continue
            if other._replace(recipe=None, platform=None) == key._replace(recipe=None, platform=None):
                shown = [self.axes(one.covers[0]).evidence for one in (jobs[other], job)]
                error = explain_two_builds(jobs[other], job, *shown)
                own = {cell.platform for one in (jobs[other], job) for cell in one.covers}
                self.refusals.add_own(error, own, {cell.platform for one in jobs.values() for cell in one.covers})
                continue
            msg = f"the jobs {jobs[other].name} and {job.name} would both make {name}"
            by_public = "remove `publish: pypi-cuda`" if name == job.public else ""
            raise InputError(msg, hint=by_public or "switch one platform off, or give them different accelerators")
        return bool(self.refusals.found)

    def wheel(self, tag: str, local: str) -> FileName:
        version = f"{self.evidence.project.version}{f'+{local}' if local else ''}"
        rebuild = self.request.release.rebuild
        return FileName(f"{self.distribution}-{version}-{f'{rebuild}-' if rebuild else ''}{tag}.whl")
