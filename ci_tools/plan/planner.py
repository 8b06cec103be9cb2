"""Makes a plan from a request, its evidence and the catalog by the collapse rules: a pure, total function.

Every cell ends in exactly one place, covered by a job or skipped, with the reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import __version__
from ci_tools.config import commands
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.evidence.cells import cells_of, torches_of
from ci_tools.model import edition as editions
from ci_tools.model.cell import Cell
from ci_tools.model.evidence import OWN_SUFFIX, Binding, Extensions
from ci_tools.model.names import FileName, VersionText
from ci_tools.model.pep440 import parse_specifiers
from ci_tools.model.plan import (
    Covered,
    Job,
    JobKind,
    Library,
    Pins,
    Plan,
    Skipped,
)
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import (
    HOSTED_MINUTES,
    SELF_HOSTED,
    STABLE,
    Care,
    Channel,
    Enabled,
    Route,
    ToolchainKind,
)
from ci_tools.model.versions import CudaArch, Minor, Python, admits
from ci_tools.plan.sites import sites_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ci_tools.catalog import Catalog
    from ci_tools.model.evidence import (
        CellEvidence,
        Evidence,
        PlatformEvidence,
        PythonApi,
        Requirement,
        TorchAbi,
    )
    from ci_tools.model.request import Edition, PlatformRequest, Request

__all__ = ["PURE", "make_plan"]

PURE = "pure"
MOST_REASONS = 8  # at most this many are shown in an error
OLDER_NAMES = {"manylinux_2_5": "manylinux1", "manylinux_2_12": "manylinux2010", "manylinux_2_17": "manylinux2014"}


def make_plan(request: Request, evidence: Evidence, catalog: Catalog, edition: Edition = STABLE) -> Plan:
    """Return the plan with the fewest jobs that serve the request, for an edition of the project's version.

    Raises InputError if a platform with native code has no owner, the source contradicts the request, or two
    jobs would make the same file.
    """
    version = editions.version(evidence.project.version, edition)
    evidence = replace(evidence, project=evidence.project._replace(version=VersionText(version)))
    planner = _Planner(request, evidence, catalog, edition)
    covered, skipped = planner.decide()
    jobs = planner.jobs(covered)
    planner.refuse_one_name_twice(jobs)
    sdist: FileName | None = FileName(f"{_distribution(evidence.project.name)}-{version}.tar.gz")
    if request.run.torch:
        jobs, covered, skipped = _added(jobs, covered, skipped)
        _refuse_nothing(jobs, skipped, request)
        sdist = None
    return Plan(
        request=request,
        project=evidence.project,
        pins=Pins(evidence.source_sha256, evidence.commit, catalog.sha256, __version__),
        jobs=tuple(jobs.values()),
        sdist=sdist,
        covered=tuple(Covered(cell, jobs[key].name, reason) for cell, key, reason in covered),
        skipped=tuple(skipped),
        warnings=tuple(dict.fromkeys(planner.warnings())),
        sites=sites_of(request, tuple(jobs.values()), sdist),
        edition=edition,
    )


def _added(
    jobs: dict[_Key, Job], covered: list[Decision], skipped: list[Skipped]
) -> tuple[dict[_Key, Job], list[Decision], list[Skipped]]:
    """Return the additions to an existing release: only wheels bound to a torch, as it has all others."""
    bound = {key: job for key, job in jobs.items() if job.requires_torch}
    there = [
        Skipped(cell, f"the release has {jobs[key].wheel}: {why}") for cell, key, why in covered if key not in bound
    ]
    return bound, [decision for decision in covered if decision[1] in bound], [*skipped, *there]


def _refuse_nothing(jobs: dict[_Key, Job], skipped: list[Skipped], request: Request) -> None:
    """Raise InputError if no wheel is bound to the torch that a run names."""
    if not jobs:
        reasons = dict.fromkeys(f"  {cell}: {reason}" for cell, reason in skipped)
        shown = "\n".join(list(reasons)[:MOST_REASONS])
        msg = f"--torch: no wheel is bound to torch {', '.join(request.run.torch)} only, so none can be added:\n{shown}"
        raise InputError(msg, hint="`fatwheel plan` without --torch says what serves each torch")


def _distribution(name: str) -> str:
    """Return the name as sdist file names spell it (PEP 625)."""
    return canonicalize_name(name).replace("-", "_")


class _Tag(NamedTuple):
    """The interpreter and ABI tags of a wheel, and the Python that must build it, unless any Python can."""

    tag: str
    python: Python | None = None


class _Key(NamedTuple):
    """The values that distinguish wheels: cells with the same key share one wheel."""

    platform: Platform | None = None  # None: the pure wheel
    accelerator: Accelerator | None = None
    torch: Minor | None = None
    tag: _Tag = _Tag("py3-none")
    recipe: str | None = None  # the hash of the observed build, if it was observed

    @property
    def name(self) -> str:
        """The job's name: the axes that do not collapse."""
        if self.platform is None:
            return PURE
        parts = [self.platform.value]
        if self.accelerator and self.accelerator.version:
            parts.append(self.accelerator.label)
        parts += [f"torch{self.torch}"] if self.torch else []
        parts += [self.tag.tag.partition("-")[2]] if self.tag.python else []
        return "-".join(parts)


class _Rule(NamedTuple):
    """The decision for one axis: whether it collapses, and the reason for the reader."""

    collapses: bool
    reason: str


class _Axes(NamedTuple):
    """The evidence of some cells of a platform, and the decision for each axis."""

    request: PlatformRequest
    native_files: tuple[str, ...]
    evidence: CellEvidence
    torch: _Rule
    refused: dict[Python, str]  # why a Python gets no wheel, or ""
    tags: dict[Python, _Tag]
    builders: dict[Accelerator | None, Accelerator | None]  # accelerator version → the version that builds for it
    wheel_platform: str

    @property
    def is_native(self) -> bool:
        """Whether the cells get a wheel of their own platform: code is, or might be, compiled for them."""
        compiles = self.evidence.extensions is not Extensions.NONE
        return bool(self.native_files) or compiles or self.request.enabled is Enabled.TRUE


Decision = tuple[Cell, _Key, str]


class _Planner:
    """Makes the plan of one request."""

    def __init__(self, request: Request, evidence: Evidence, catalog: Catalog, edition: Edition) -> None:
        self.request = request
        self.edition = edition
        self.evidence = evidence
        self.catalog = catalog
        self.distribution = _distribution(evidence.project.name)
        self.torches = torches_of(request, catalog)
        self.refused_torches = dict(
            _find_refused_torches(self.torches, evidence.requires_torch, "the project requires")
        )
        self.unbuilt_torches = dict(
            _find_refused_torches(self.torches, evidence.builds_with_torch, "its build requires")
        )
        self.supported = _select_pythons(request, evidence)
        self.platforms = {found.platform: found for found in evidence.platforms}
        self.builders = {platform.platform: _builders(platform, catalog) for platform in request.platforms}
        self.known: dict[tuple[Platform, int], _Axes] = {}
        for platform in request.platforms:
            self.read(platform, self.platforms[platform.platform])
        near = {found.platform: found.nearest_files for found in evidence.platforms}
        known = [(axes, near[axes.request.platform]) for axes in self.known.values()]
        problems = [problem for axes, nearest in known for problem in _contradictions(axes, self.torches, nearest)]
        if problems:
            raise RejectedInput(dict.fromkeys(problems))

    # -- the axes

    def read(self, request: PlatformRequest, found: PlatformEvidence) -> None:
        """Compute the axes for all evidence of a platform."""
        for shown in (found.shown, *found.apart.values()):
            if (request.platform, id(shown)) not in self.known:
                self.known[request.platform, id(shown)] = self.axes_of(request, found.native_files, shown)

    def axes_of(self, request: PlatformRequest, native_files: tuple[str, ...], shown: CellEvidence) -> _Axes:
        axes = _Axes(
            request,
            native_files,
            shown,
            _torch_rule(shown.torch_abi) if self.request.torch else _Rule(collapses=True, reason=""),
            {},
            {python: _tag(python, shown, self.supported) for python in self.request.pythons},
            self.builders[request.platform],
            f"{request.wheel_platform}_{self.catalog.platforms[request.platform].machine}",
        )
        return axes._replace(refused={python: self.refused(python, axes) for python in self.request.pythons})

    def axes(self, cell: Cell) -> _Axes:
        """Return the axes of a cell's build: for its own accelerator version, or the oldest of the same major."""
        built = cell._replace(accelerator=self.builders[cell.platform][cell.accelerator])
        return self.known[cell.platform, id(self.platforms[cell.platform].of(built))]

    def refused(self, python: Python, axes: _Axes) -> str:
        """Return why no cell of a Python gets a wheel, or "" if cells may get one."""
        project, request, api = self.evidence.project, axes.request, axes.evidence.python_api
        if request.enabled is Enabled.FALSE:
            return f"switched off by `enabled: false` ({request.where})"
        if python not in self.supported:
            return f"the project requires Python {project.requires_python} ({project.where})"
        if axes.evidence.unsupported:
            return f"the project does not build there: {axes.evidence.unsupported}"
        if axes.is_native and _below_limited_api(python, api):
            return f"the limited API starts at {api.lowest} ({api.where})"
        return ""

    def warnings(self) -> Iterator[str]:
        torch = self.request.torch
        if torch and torch.instead_of:
            named = f"this run names torch {', '.join(map(str, torch.versions))}, the config {torch.instead_of}"
            yield f"{named}: only wheels bound to it are built, for a release that has the others"
        yield from self.evidence.warnings
        yield from commands.warnings(self.request.build)
        platforms: dict[str, dict[str, None]] = {}
        for axes in self.known.values():
            for warning in _warnings(axes, self.request) if axes.request.enabled is not Enabled.FALSE else ():
                platforms.setdefault(warning, {})[axes.request.platform.value] = None
        yield from (f"{', '.join(names)}: {warning}" for warning, names in platforms.items())

    # -- the cells

    def decide(self) -> tuple[list[Decision], list[Skipped]]:
        """Return every cell with its key and reason, or skipped with a reason."""
        covered: list[Decision] = []
        skipped: list[Skipped] = []
        reasons: dict[tuple[int, _Key], str] = {}
        for platform in self.request.platforms:
            for cell in cells_of(self.request, platform, self.torches):
                axes = self.axes(cell)
                if why := self.explain_skip(cell, axes):
                    skipped.append(Skipped(cell, why))
                    continue
                key = self.key(cell, axes)
                known = id(axes), key._replace(torch=None)
                if known not in reasons:
                    reasons[known] = _reason(key, axes)
                covered.append((cell, key, reasons[known]))
        return covered, skipped

    def explain_skip(self, cell: Cell, axes: _Axes) -> str:
        """Return why a cell gets no wheel, or "" if it gets one."""
        why = axes.refused[cell.python] or self.refused_torches.get(cell.torch, "")
        if why or cell.torch is None:
            return why
        # Where one wheel serves every torch, one torch that the build admits is enough.
        is_buildable = axes.torch.collapses and len(self.unbuilt_torches) < len(self.torches)
        if axes.is_native and cell.torch in self.unbuilt_torches and not is_buildable:
            return self.unbuilt_torches[cell.torch]
        return self.catalog.explain_missing_torch(cell.torch, cell.platform, cell.accelerator, cell.python)

    def key(self, cell: Cell, axes: _Axes) -> _Key:
        recipe = axes.evidence.recipe
        if not axes.is_native:
            return _Key(recipe=recipe)
        return _Key(
            cell.platform,
            axes.builders[cell.accelerator],
            None if axes.torch.collapses else cell.torch,
            axes.tags[cell.python],
            recipe,
        )

    # -- the jobs

    def jobs(self, covered: list[Decision]) -> dict[_Key, Job]:
        cells: dict[_Key, list[Cell]] = {}
        for cell, key, _ in covered:
            cells.setdefault(key, []).append(cell)
        return {key: self.job(key, cells[key]) for key in sorted(cells, key=self.order)}

    def order(self, key: _Key) -> tuple[int, Minor, Minor, Python]:
        """Return the sort key of a job: the pure wheel first, then the request's platforms, then numeric versions."""
        index = [None, *self.platforms].index(key.platform)
        version = (key.accelerator and key.accelerator.version) or Minor(0, 0)
        return index, version, key.torch or Minor(0, 0), key.tag.python or Python(Minor(0, 0))

    def job(self, key: _Key, cells: list[Cell]) -> Job:
        axes = self.axes(cells[0])
        if key.platform is None:
            return self.pure(cells, axes.evidence)
        return self.native(key, cells, axes)

    def pure(self, cells: list[Cell], shown: CellEvidence) -> Job:
        return Job(
            name=PURE,
            kind=JobKind.PURE,
            platform=None,
            python=_oldest_python(cells),
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
            env=(*self.request.build.env, *self.least_env(cells)),
            build_requires=shown.build_requires,
            minutes=min(self.request.build.timeout_minutes, HOSTED_MINUTES),
            covers=tuple(cells),
        )

    def pure_runner(self, cells: list[Cell]) -> tuple[str, ...]:
        """Return the plainest runner that the pure wheel serves: on others the build may compile."""
        plain = self.catalog.platforms[Platform.LINUX_CPU].runner
        served = {cell.platform for cell in cells}
        runners = [platform.runner for platform in self.request.platforms if platform.platform in served]
        return (plain,) if (plain,) in runners else runners[0]

    def least_env(self, cells: list[Cell]) -> tuple[tuple[str, str], ...]:
        """Return the variables of the served platform that sets the fewest: any of them gives the same wheel."""
        served = {cell.platform for cell in cells}
        return min((platform.env for platform in self.request.platforms if platform.platform in served), key=len)

    def native(self, key: _Key, cells: list[Cell], axes: _Axes) -> Job:
        request, accelerator, shown = axes.request, key.accelerator, axes.evidence
        local = (accelerator.label if accelerator else "") + (f"torch{key.torch}" if key.torch else "")
        python = key.tag.python or _oldest_python(cells)
        suffix = self.catalog.platforms[request.platform].suffix(python)
        tags = f"{key.tag.tag}-{_platform_tags(axes.wheel_platform)}"
        libraries = [Library(found.member, found.images) for found in shown.built if found.images is not None]
        return Job(
            name=key.name,
            kind=JobKind.NATIVE,
            platform=request.platform,
            python=python,
            python_stays=key.tag.python is not None,
            torch=key.torch or self.oldest_torch(cells),
            accelerator=accelerator,
            archs=request.archs,
            runner=request.runner,
            container=_image(request, accelerator, self.catalog),
            owner=request.owner,
            required=request.required,
            wheel=self.wheel(tags, local),
            local=local,
            public=self.wheel(tags, local="") if self.is_public(accelerator) else None,
            wheel_platform=axes.wheel_platform,
            libraries=tuple(Library(_library_path(name, suffix), images) for name, images in libraries) or None,
            members=shown.members and tuple(_library_path(member, suffix) for member in shown.members),
            requires_torch=f">={key.torch},<{key.torch.next}" if key.torch else "",
            toolchain=request.toolchain,
            env=(*self.request.build.env, *request.env, *shown.switches),
            build_requires=shown.build_requires,
            care=self.care(request),
            minutes=request.minutes,
            covers=tuple(cells),
        )

    def oldest_torch(self, cells: list[Cell]) -> Minor | None:
        """Return the oldest torch of the cells that the build requirements admit, or the oldest of all."""
        torches = {cell.torch for cell in cells if cell.torch}
        return min(torches - self.unbuilt_torches.keys() or torches, default=None)

    def care(self, request: PlatformRequest) -> Care:
        """Return a native job's runner preparation: in full only if the runner may be a hosted Linux one."""
        may_be_hosted = self.catalog.platforms[request.platform].os == "linux" and SELF_HOSTED not in request.runner
        return request.care if may_be_hosted else Care(job_memory_gib=request.care.job_memory_gib)

    def is_public(self, accelerator: Accelerator | None) -> bool:
        """Whether the wheels of an accelerator go to PyPI as well."""
        publish = self.request.publish
        is_whole = not self.request.run.torch  # PyPI already has a wheel of this name, for another torch
        asked = publish.pypi is Route.WHEELS and self.edition.channel is not Channel.NIGHTLY and is_whole
        cuda = accelerator and accelerator.kind is AcceleratorKind.CUDA and accelerator.version
        return asked and cuda is not None and cuda == publish.pypi_cuda

    def refuse_one_name_twice(self, jobs: dict[_Key, Job]) -> None:
        """Raise InputError for two jobs with the same wheel name: installers could not tell them apart."""
        made: dict[str, _Key] = {}
        names = [(key, job, name) for key, job in jobs.items() for name in (job.wheel, job.public) if name]
        for key, job, name in names:
            other = made.setdefault(name, key)
            if other is key:
                continue
            if other._replace(recipe=None, platform=None) == key._replace(recipe=None, platform=None):
                raise self.two_builds(jobs[other], job)
            msg = f"the jobs {jobs[other].name} and {job.name} would both make {name}"
            by_public = "leave `publish: pypi-cuda` out" if name == job.public else ""
            raise InputError(msg, hint=by_public or "switch one platform off, or give them different accelerators")

    def two_builds(self, one: Job, other: Job) -> InputError:
        """Return the error for two builds that differ although their wheels have the same name."""
        shown = [self.axes(job.covers[0]).evidence for job in (one, other)]
        cells = " and ".join(str(job.covers[0]) for job in (one, other))
        msg = f"{cells} would both install {one.wheel}, but its build differs between them: {_difference(*shown)}"
        asked = ", ".join(f"{what} ({where})" for what, where in shown[1].asked)
        hint = f"the build decides by {asked}" if asked else ""
        return InputError(msg, hint=hint)

    def wheel(self, tag: str, local: str) -> FileName:
        version = f"{self.evidence.project.version}{f'+{local}' if local else ''}"
        return FileName(f"{self.distribution}-{version}-{tag}.whl")


def _library_path(member: str, suffix: str) -> str:
    """Return the path of a library with the suffix of the Python that builds it."""
    return member.replace(OWN_SUFFIX, suffix)


def _difference(one: CellEvidence, other: CellEvidence) -> str:
    """Return the most telling difference between two observed builds."""
    for what, mine, others in (
        ("METADATA", one.metadata or (), other.metadata or ()),
        ("its members", one.members or (), other.members or ()),
        ("how its libraries are compiled", _flags(one), _flags(other)),
    ):
        if different := sorted({*mine} ^ {*others}):
            side = "only in the first" if different[0] in mine else "only in the second"
            return f"{what} ({different[0]} {side})"
    changed = sorted({line.partition(" sha256=")[0] for line in {*one.contents} ^ {*other.contents}})
    return f"the content of its files ({', '.join(changed[:3])})" if changed else "how it is tagged"


def _flags(shown: CellEvidence) -> list[str]:
    return [" ".join((command.source, *command.flags)) for built in shown.built for command in built.compiles]


def _platform_tags(platform: str) -> str:
    """Return a wheel's platform tag, preceded by its legacy alias if it has one, as auditwheel writes it (PEP 600)."""
    for level, older in OLDER_NAMES.items():
        if platform.startswith(f"{level}_"):
            return f"{platform.replace(level, older)}.{platform}"
    return platform


# ---------------------------------------------------------------- the rules, one axis each


def _torch_rule(abi: TorchAbi) -> _Rule:
    if abi.kind is Binding.NONE:
        return _Rule(collapses=True, reason=f"one for every torch ({abi.where})")
    if abi.kind is Binding.STABLE:
        return _Rule(collapses=True, reason=f"one for every torch from {abi.target} up ({abi.where})")
    why = "not the stable ABI" if abi.kind is Binding.FULL else "which torch ABI it needs is not known"
    return _Rule(collapses=False, reason=f"one per torch: {why} ({abi.where})")


def _tag(python: Python, shown: CellEvidence, asked: Collection[Python]) -> _Tag:
    """Return the tag of the wheel that serves a Python: limited API (PEP 384, PEP 803) or version-specific."""
    api = shown.python_api
    if api.kind is Binding.NONE:
        return _Tag(f"{shown.pure_tag}-none")
    limited = api.lowest_free_threaded
    builder = min((one for one in asked if one.free_threaded and limited and one.version >= limited), default=None)
    if limited and builder and python.version >= limited and (python.free_threaded or api.lowest == limited):
        return _Tag(f"cp{limited.digits}-{'abi3.abi3t' if api.lowest else 'abi3t'}", builder)
    if api.lowest and python.version >= api.lowest and not python.free_threaded:
        return _Tag(f"cp{api.lowest.digits}-abi3", Python(api.lowest) if api.built_by_lowest else None)
    return _Tag(f"{python.interpreter_tag}-{python.abi_tag}", python)


def _python_reason(tag: _Tag, api: PythonApi) -> str:
    """Return which Pythons a wheel serves, and why."""
    if api.kind is Binding.NONE:
        return f"one for every Python: no Python symbol declared ({api.where})"
    if api.kind is not Binding.STABLE:
        why = "no limited API declared" if api.kind is Binding.FULL else "the declared Python API is not understood"
        return f"one per Python: {why} ({api.where})"
    if tag.python is None or tag.tag.endswith("-abi3"):
        return f"one for every Python from {api.lowest} up: limited API ({api.where})"
    if "abi3t" in tag.tag:
        which = (
            "every Python, free-threaded or not," if api.lowest == api.lowest_free_threaded else "free-threaded Python"
        )
        return f"one for {which} from {api.lowest_free_threaded} up: limited API ({api.where})"
    return f"Python {tag.python} apart: the limited API does not reach it ({api.where})"


def _builders(request: PlatformRequest, catalog: Catalog) -> dict[Accelerator | None, Accelerator | None]:
    """Map each CUDA version to the version that builds for it: itself, or with `one-per-major` its major's oldest."""
    archs = [CudaArch.parse(arch) for arch in request.archs] if request.one_per_major else []
    oldest: dict[int, Accelerator] = {}
    for accelerator in request.accelerators if request.one_per_major else ():
        version = accelerator.version
        if version and version.major not in oldest and all(map(catalog.cuda[version].knows, archs)):
            oldest[version.major] = accelerator
    builders: dict[Accelerator | None, Accelerator | None] = {None: None}
    for accelerator in request.accelerators:
        major = accelerator.version.major if accelerator.version else 0
        builders[accelerator] = oldest.get(major, accelerator)
    return builders


def _below_limited_api(python: Python, api: PythonApi) -> bool:
    """Whether a Python is too old for wheels that must use the limited API."""
    return bool(api.lowest and not api.builds_older and python.version < api.lowest and not python.free_threaded)


def _reason(key: _Key, axes: _Axes) -> str:
    """Return why one wheel serves the cells of a key."""
    found = axes.evidence
    if key.platform is None:
        globs = "its native globs match no file" if axes.request.native.include else "it has no native globs"
        return f"no native code: {globs}, and nothing is compiled ({found.extensions_where})"
    if axes.native_files:
        first, more = axes.native_files[0], len(axes.native_files) - 1
        native = f"native code: {first}{f' and {more} more' if more else ''}"
    elif found.extensions is Extensions.NONE:
        native = f"`enabled: true` ({axes.request.where})"
    else:
        native = f"native code: {found.extensions_where}"
    parts = [native, _archs(key, axes), _python_reason(key.tag, found.python_api), axes.torch.reason]
    parts += [found.switches_where] if found.switches else []
    return "; ".join(part for part in parts if part)


def _archs(key: _Key, axes: _Axes) -> str:
    if key.accelerator is None or key.accelerator.kind is AcceleratorKind.XPU:
        return ""
    served = [str(asked.version) for asked, built in axes.builders.items() if asked and built == key.accelerator]
    minors = f", for CUDA {', '.join(served)} (`one-per-major`)" if axes.request.one_per_major else ""
    images = sorted({image for built in axes.evidence.built for image in built.images or ()})
    return f"one fatbinary for {' '.join(images or axes.request.archs)}{minors}"


# ---------------------------------------------------------------- other parts of a plan


def _select_pythons(request: Request, evidence: Evidence) -> frozenset[Python]:
    """Return the requested Pythons that `requires-python` admits: one admitted patch release is enough."""
    project = evidence.project
    try:
        specifier = parse_specifiers(project.requires_python)
    except ValueError:  # also raised for more digits than Python converts
        msg = f'{project.where}: requires-python is "{project.requires_python}", expected a specifier such as >=3.10'
        raise InputError(msg) from None
    return frozenset(python for python in request.pythons if admits(specifier, python.version))


def _find_refused_torches(
    torches: Iterable[Minor | None], asked: Requirement, who: str
) -> Iterator[tuple[Minor | None, str]]:
    """Yield the torch versions without a patch release that the project's requirement admits, and why."""
    try:
        specifier = parse_specifiers(asked.specifier or "")
    except ValueError:  # raised for more digits than Python converts
        msg = f"{asked.where}: the versions of torch that it requires are no versions (PEP 440)"
        raise InputError(msg) from None
    for torch in torches:
        if torch and not admits(specifier, torch):
            yield torch, f"{who} torch {asked.specifier} ({asked.where})"


def _warnings(axes: _Axes, request: Request) -> Iterator[str]:
    """Yield the warnings of a platform: unknown or inconsistent evidence."""
    found = axes.evidence
    if found.unsupported:
        yield f"not built for some cells: {found.unsupported}"
        return
    yield from found.warnings
    if not axes.is_native:
        return
    if found.extensions is Extensions.UNKNOWN:
        yield f"{found.extensions_where}, so the platform counts as native"
    if found.extensions is Extensions.UNKNOWN and found.python_api.where == found.extensions_where:
        return  # one reason for everything unknown
    if axes.native_files and found.extensions is Extensions.NONE:
        yield f"native code ({axes.native_files[0]}), but nothing is compiled ({found.extensions_where})"
    if found.torch_abi.kind is Binding.UNKNOWN and request.torch:
        yield axes.torch.reason
    if found.python_api.kind is Binding.UNKNOWN:
        yield _python_reason(_Tag(""), found.python_api)


def _image(request: PlatformRequest, accelerator: Accelerator | None, catalog: Catalog) -> str | None:
    """Return the image of a job; if the default image lacks a needed CUDA toolkit, the image that has it."""
    facts, image = catalog.platforms[request.platform], request.container
    if accelerator is None or accelerator.version is None:
        return image
    cuda = catalog.cuda.get(accelerator.version) if accelerator.kind is AcceleratorKind.CUDA else None
    brings = request.toolchain is ToolchainKind.SYSTEM or (cuda and not cuda.pypi)
    if cuda and cuda.has_image and brings and request.toolchain is not ToolchainKind.PYPI and image == facts.container:
        image = facts.toolkit_container
    return image and image.replace("{version}", str(accelerator.version))


def _oldest_python(cells: Iterable[Cell]) -> Python:
    """Return the oldest Python of the cells, preferably not free-threaded."""
    return min((cell.python for cell in cells), key=lambda python: (python.free_threaded, python.version))


def _unsaid(request: PlatformRequest) -> Iterator[str]:
    """Yield the settings that a platform with native code lacks."""
    if not request.owner:
        yield 'no owner, expected `owner: "@org/team"`'
    if request.platform is not Platform.LINUX_ROCM:
        return  # the schema requires versions and architectures for CUDA
    if not any(accelerator.version for accelerator in request.accelerators):
        yield 'no version of ROCm, expected such as `rocm: ["7.2"]`'
    elif not request.archs:
        yield "no architectures, expected such as `archs: [gfx90a, gfx942]`"


def _contradictions(axes: _Axes, torches: tuple[Minor | None, ...], nearest: Iterable[str]) -> Iterator[Problem]:
    """Yield contradictions between source and request; `nearest` are the files most like globs without a match."""
    request, found = axes.request, axes.evidence
    if request.enabled is Enabled.FALSE or not axes.is_native or found.unsupported:
        return
    where = f"{request.where}:1"
    shown = axes.native_files[0] if axes.native_files else found.extensions_where
    is_empty = not axes.native_files and found.extensions is Extensions.NONE
    what_it_has = "is enabled, though nothing is compiled for it," if is_empty else f"has native code ({shown})"
    if request.native.include and is_empty:
        globs, near = " ".join(request.native.include), ", ".join(nearest)
        others = f"; the nearest: {near}" if near else ", and there is no source that a compiler takes"
        yield Problem(where, f"{request.platform} is enabled, but its native globs match no file: {globs}{others}")
        return
    for what in _unsaid(request):
        yield Problem(where, f"{request.platform} {what_it_has} and {what}")
    target, oldest = found.torch_abi.target, torches[0]
    if found.torch_abi.uses_torch and oldest is None:
        expected = 'expected `torch: {lowest: "2.10"}` or a list'
        yield Problem(where, f"{request.platform} uses torch ({found.torch_abi.where}), {expected}")
    if target and oldest and oldest < target:
        needs = f"the source needs {target} ({found.torch_abi.where})"
        what = f"{request.platform} is asked to serve torch {oldest}, but {needs}"
        yield Problem(where, what)
