"""From a request, its evidence and the catalog to a plan: the collapse rules, pure and total.

Every cell ends in exactly one place: covered by a job, or skipped, each with the reason.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from ci_tools import __version__
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.model import (
    Accelerator,
    AcceleratorKind,
    Binding,
    Cell,
    Covered,
    CudaArch,
    Enabled,
    Extensions,
    Job,
    JobKind,
    Minor,
    Pins,
    Plan,
    Platform,
    Python,
    Skipped,
    ToolchainKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.catalog import Catalog
    from ci_tools.model import Evidence, PlatformEvidence, PlatformRequest, PythonApi, Request, TorchAbi

__all__ = ["make_plan"]

PURE = "pure"


def make_plan(request: Request, evidence: Evidence, catalog: Catalog) -> Plan:
    """Return the fewest jobs that serve the request.

    Raises InputError where a platform with native code has no owner, the source contradicts the request, or two
    jobs would make the same file.
    """
    planner = _Planner(request, evidence, catalog)
    covered, skipped = planner.decide()
    jobs = planner.jobs(covered)
    _refuse_one_name_twice(jobs)
    return Plan(
        request=request,
        project=evidence.project,
        pins=Pins(evidence.source_sha256, evidence.commit, catalog.sha256, __version__),
        jobs=jobs,
        sdist=f"{_distribution(evidence.project.name)}-{evidence.project.version}.tar.gz",
        covered=tuple(Covered(cell, key.name, key_reason) for cell, key, key_reason in covered),
        skipped=tuple(skipped),
        warnings=tuple(dict.fromkeys(planner.warnings())),
    )


def _distribution(name: str) -> str:
    """Return the name as file names spell it (PEP 625)."""
    return canonicalize_name(name).replace("-", "_")


class _Key(NamedTuple):
    """What makes a wheel distinct: cells with the same key share one wheel."""

    platform: Platform | None = None  # None: the pure wheel
    accelerator: Accelerator | None = None
    torch: Minor | None = None
    python: Python | None = None

    @property
    def name(self) -> str:
        """The job's name: the axes that stay."""
        if self.platform is None:
            return PURE
        parts = [self.platform.value]
        if self.accelerator and self.accelerator.version:
            parts.append(self.accelerator.label)
        parts += [f"torch{self.torch}"] if self.torch else []
        parts += [self.python.abi_tag] if self.python else []
        return "-".join(parts)


class _Rule(NamedTuple):
    """What became of one axis: whether it collapsed, and the reason a person reads."""

    collapses: bool
    reason: str


class _Axes(NamedTuple):
    """The platform's evidence, turned into what each axis does."""

    request: PlatformRequest
    evidence: PlatformEvidence
    torch: _Rule
    python: _Rule
    builders: dict[Accelerator, Accelerator]  # which accelerator version builds for which


Decision = tuple[Cell, _Key, str]


class _Planner:
    """One request on its way to a plan."""

    def __init__(self, request: Request, evidence: Evidence, catalog: Catalog) -> None:
        self.request = request
        self.evidence = evidence
        self.catalog = catalog
        self.axes = {
            platform.platform: self.axes_of(platform, found)
            for platform, found in zip(request.platforms, evidence.platforms, strict=True)
        }
        self.torches = _torches(request, catalog)
        self.supported = _supported(evidence)
        problems = [problem for axes in self.axes.values() for problem in _contradictions(axes, self.torches)]
        if problems:
            raise RejectedInput(problems)

    # -- the axes

    def axes_of(self, request: PlatformRequest, found: PlatformEvidence) -> _Axes:
        return _Axes(
            request,
            found,
            _torch_rule(found.torch_abi) if self.request.torch else _Rule(collapses=True, reason=""),
            _python_rule(found.python_api),
            _builders(request, self.catalog),
        )

    def warnings(self) -> Iterator[str]:
        for axes in self.axes.values():
            name = axes.request.platform
            if axes.request.enabled is Enabled.FALSE:
                continue
            if axes.evidence.extensions is Extensions.UNKNOWN:
                yield f"{name}: {axes.evidence.extensions_where}, so the platform counts as native"
            if axes.evidence.is_native and axes.evidence.torch_abi.kind is Binding.UNKNOWN and self.request.torch:
                yield f"{name}: {axes.torch.reason}"
            if axes.evidence.is_native and axes.evidence.torch_abi.kind is not Binding.NONE and not self.request.torch:
                yield f"{name}: {axes.evidence.torch_abi.where}, but the request names no torch"
            if axes.evidence.is_native and axes.evidence.python_api.kind is Binding.UNKNOWN:
                yield f"{name}: {axes.python.reason}"

    # -- the cells

    def cells(self, axes: _Axes) -> Iterator[Cell]:
        accelerators = axes.request.accelerators or (None,)
        for accelerator, torch, python in product(accelerators, self.torches, self.request.pythons):
            yield Cell(axes.request.platform, accelerator, torch, python)

    def decide(self) -> tuple[list[Decision], list[Skipped]]:
        """Give every cell a key and a reason, or skip it with one."""
        covered: list[Decision] = []
        skipped: list[Skipped] = []
        for axes in self.axes.values():
            reasons: dict[_Key, str] = {}
            for cell in self.cells(axes):
                if why := self.unserved(cell, axes):
                    skipped.append(Skipped(cell, why))
                    continue
                key = self.key(cell, axes)
                reason = reasons.get(key) or reasons.setdefault(key, _reason(key, axes))
                covered.append((cell, key, reason))
        return covered, skipped

    def unserved(self, cell: Cell, axes: _Axes) -> str:
        """Return why a cell gets no wheel, or nothing."""
        if axes.request.enabled is Enabled.FALSE:
            return f"switched off by `enabled: false` ({axes.request.where})"
        if not self.supported[cell.python]:
            return (
                f"the project requires Python {self.evidence.project.requires_python} ({self.evidence.project.where})"
            )
        if axes.evidence.is_native and _below_limited_api(cell.python, axes.evidence.python_api):
            return f"the limited API starts at {axes.evidence.python_api.lowest} ({axes.evidence.python_api.where})"
        if cell.torch is None:
            return ""
        return self.catalog.not_shipped(cell.torch, cell.platform, cell.accelerator, cell.python)

    def key(self, cell: Cell, axes: _Axes) -> _Key:
        if not axes.evidence.is_native and axes.request.enabled is not Enabled.TRUE:
            return _Key()
        apart = _stays_apart(cell.python, axes.evidence.python_api, self.catalog.free_threaded_stable_abi)
        return _Key(
            cell.platform,
            axes.builders[cell.accelerator] if cell.accelerator else None,
            None if axes.torch.collapses else cell.torch,
            cell.python if apart else None,
        )

    # -- the jobs

    def jobs(self, covered: list[Decision]) -> tuple[Job, ...]:
        cells: dict[_Key, list[Cell]] = {}
        for cell, key, _ in covered:
            cells.setdefault(key, []).append(cell)
        return tuple(self.job(key, cells[key]) for key in sorted(cells, key=self.order))

    def order(self, key: _Key) -> tuple[int, Minor, Minor, Python]:
        """Return what jobs sort by: the pure wheel first, then the request's platforms, then versions as numbers."""
        index = [None, *self.axes].index(key.platform)
        version = (key.accelerator and key.accelerator.version) or Minor(0, 0)
        return index, version, key.torch or Minor(0, 0), key.python or Python(Minor(0, 0))

    def job(self, key: _Key, cells: list[Cell]) -> Job:
        if key.platform is None:
            return self.pure(cells)
        return self.native(key, cells, self.axes[key.platform])

    def pure(self, cells: list[Cell]) -> Job:
        return Job(
            name=PURE,
            kind=JobKind.PURE,
            platform=None,
            python=_oldest_python(cells),
            python_stays=False,
            torch=None,
            accelerator=None,
            archs=(),
            runner=self.catalog.platforms[Platform.LINUX_CPU].runner,
            owner="",
            wheel=self.wheel("py3-none-any", local=""),
            wheel_platform="any",
            requires_torch="",
            toolchain=ToolchainKind.AUTO,
            env=self.request.build.env,
            covers=tuple(cells),
        )

    def native(self, key: _Key, cells: list[Cell], axes: _Axes) -> Job:
        request, accelerator = axes.request, key.accelerator
        platform = f"{request.wheel_platform}_{self.catalog.platforms[request.platform].machine}"
        local = (accelerator.label if accelerator else "") + (f"torch{key.torch}" if key.torch else "")
        return Job(
            name=key.name,
            kind=JobKind.NATIVE,
            platform=request.platform,
            python=key.python or _oldest_python(cells),
            python_stays=key.python is not None,
            torch=min(cell.torch for cell in cells if cell.torch) if self.request.torch else None,
            accelerator=accelerator,
            archs=request.archs,
            runner=request.runner,
            owner=request.owner,
            wheel=self.wheel(f"{_python_tags(key.python, axes.evidence.python_api)}-{platform}", local),
            wheel_platform=platform,
            requires_torch=f">={key.torch},<{key.torch.next}" if key.torch else "",
            toolchain=request.toolchain,
            env=(*self.request.build.env, *request.env),
            covers=tuple(cells),
        )

    def wheel(self, tag: str, local: str) -> str:
        project = self.evidence.project
        return f"{_distribution(project.name)}-{project.version}{f'+{local}' if local else ''}-{tag}.whl"


# ---------------------------------------------------------------- the rules, one axis each


def _torch_rule(abi: TorchAbi) -> _Rule:
    if abi.kind is Binding.NONE:
        return _Rule(collapses=True, reason=f"one for every torch ({abi.where})")
    if abi.kind is Binding.STABLE:
        return _Rule(collapses=True, reason=f"one for every torch from {abi.target} up ({abi.where})")
    why = "not the stable ABI" if abi.kind is Binding.FULL else "which torch ABI it needs is not known"
    return _Rule(collapses=False, reason=f"one per torch: {why} ({abi.where})")


def _python_rule(api: PythonApi) -> _Rule:
    if api.kind is Binding.NONE:
        return _Rule(collapses=True, reason=f"one for every Python: no Python symbol declared ({api.where})")
    if api.kind is Binding.STABLE:
        return _Rule(collapses=True, reason=f"one for every Python from {api.lowest} up: limited API ({api.where})")
    why = "no limited API declared" if api.kind is Binding.FULL else "the declared Python API is not understood"
    return _Rule(collapses=False, reason=f"one per Python: {why} ({api.where})")


def _builders(request: PlatformRequest, catalog: Catalog) -> dict[Accelerator, Accelerator]:
    """Map each CUDA version to the one that builds for it: itself, or the oldest of its major if asked for."""
    if not request.one_per_major:
        return {accelerator: accelerator for accelerator in request.accelerators}
    archs = [CudaArch.parse(arch) for arch in request.archs]
    oldest: dict[int, Accelerator] = {}
    for accelerator in request.accelerators:
        version = accelerator.version
        if version and version.major not in oldest and all(catalog.cuda[version].knows(arch) for arch in archs):
            oldest[version.major] = accelerator
    return {
        accelerator: oldest.get(accelerator.version.major, accelerator) if accelerator.version else accelerator
        for accelerator in request.accelerators
    }


def _stays_apart(python: Python, api: PythonApi, free_threaded_stable_abi: Minor) -> bool:
    """Whether a Python needs a wheel of its own."""
    if api.kind is Binding.NONE:
        return False
    if api.kind is Binding.STABLE:
        return python.free_threaded and python.version < free_threaded_stable_abi
    return True


def _below_limited_api(python: Python, api: PythonApi) -> bool:
    return api.lowest is not None and python.version < api.lowest and not python.free_threaded


def _python_tags(python: Python | None, api: PythonApi) -> str:
    """Return the interpreter and ABI tags of a wheel."""
    if python:
        return f"{python.interpreter_tag}-{python.abi_tag}"
    return f"cp{api.lowest.digits}-abi3" if api.lowest else "py3-none"


def _reason(key: _Key, axes: _Axes) -> str:
    """Say why one wheel serves the cells of a key."""
    found = axes.evidence
    if key.platform is None:
        globs = "its native globs match no file" if axes.request.native.include else "it has no native globs"
        return f"no native code: {globs}, and nothing is compiled ({found.extensions_where})"
    if found.native_files:
        first, more = found.native_files[0], len(found.native_files) - 1
        native = f"native code: {first}{f' and {more} more' if more else ''}"
    elif found.extensions is Extensions.NONE:
        native = f"`enabled: true` ({axes.request.where})"
    else:
        native = f"native code: {found.extensions_where}"
    parts = [native, _archs(key, axes), axes.python.reason, axes.torch.reason]
    return "; ".join(part for part in parts if part)


def _archs(key: _Key, axes: _Axes) -> str:
    if key.accelerator is None or key.accelerator.kind is not AcceleratorKind.CUDA:
        return ""
    served = [str(asked.version) for asked, builder in axes.builders.items() if builder == key.accelerator]
    minors = f", for CUDA {', '.join(served)} (`one-per-major`)" if axes.request.one_per_major else ""
    return f"one fatbinary for {' '.join(axes.request.archs)}{minors}"


# ---------------------------------------------------------------- what else a plan needs to know


def _torches(request: Request, catalog: Catalog) -> tuple[Minor | None, ...]:
    if request.torch is None:
        return (None,)
    lowest = request.torch.lowest
    return request.torch.versions or tuple(sorted(torch for torch in catalog.torch if lowest and torch >= lowest))


def _supported(evidence: Evidence) -> dict[Python, bool]:
    """Return a table that says of any Python whether `requires-python` admits it."""
    project = evidence.project
    try:
        specifier = SpecifierSet(project.requires_python)
    except InvalidSpecifier:
        msg = f'{project.where}: requires-python is "{project.requires_python}", expected a specifier such as >=3.10'
        raise InputError(msg) from None
    return _Supported(specifier)


class _Supported(dict[Python, bool]):
    """Answers from the specifier once for each Python."""

    def __init__(self, specifier: SpecifierSet) -> None:
        super().__init__()
        self.specifier = specifier

    def __missing__(self, python: Python) -> bool:
        # A minor version is served when some patch release of it is; 999 stands for the newest one.
        served = any(f"{python.version}.{patch}" in self.specifier for patch in (0, 999))
        return self.setdefault(python, served)


def _oldest_python(cells: Iterable[Cell]) -> Python:
    """Return the oldest Python of the cells, not free-threaded where there is a choice."""
    return min((cell.python for cell in cells), key=lambda python: (python.free_threaded, python.version))


def _contradictions(axes: _Axes, torches: tuple[Minor | None, ...]) -> Iterator[Problem]:
    """Yield what the source and the request cannot both mean."""
    request, found = axes.request, axes.evidence
    if request.enabled is Enabled.FALSE:
        return
    native = found.is_native or request.enabled is Enabled.TRUE
    where = f"{request.where}:1"
    if native and not request.owner:
        shown = found.native_files[0] if found.native_files else found.extensions_where
        yield Problem(
            where, f'{request.platform} has native code ({shown}) and no owner, expected `owner: "@org/team"`'
        )
    if native and request.native.include and not found.native_files and found.extensions is Extensions.NONE:
        globs = " ".join(request.native.include)
        yield Problem(where, f"{request.platform} is enabled, but its native globs match no file: {globs}")
    target, oldest = found.torch_abi.target, torches[0]
    if native and target and oldest and oldest < target:
        needs = f"the source needs {target} ({found.torch_abi.where})"
        what = f"{request.platform} is asked to serve torch {oldest}, but {needs}"
        yield Problem(where, what)


def _refuse_one_name_twice(jobs: Iterable[Job]) -> None:
    """Refuse two jobs whose wheels would have one file name: installers could not tell them apart."""
    made: dict[str, str] = {}
    for job in jobs:
        if job.wheel in made:
            msg = f"the jobs {made[job.wheel]} and {job.name} would both make {job.wheel}"
            raise InputError(msg, hint="switch one platform off, or give them different accelerators")
        made[job.wheel] = job.name
