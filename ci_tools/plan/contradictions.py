"""Finds where a request and its evidence contradict each other, and warns where the evidence is not certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from packaging.specifiers import SpecifierSet

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators import read_label
from ci_tools.catalog.accelerators.cuda import cuda_of
from ci_tools.errors import InputError, Problem, RejectedInput, close_names
from ci_tools.model.evidence import (
    Binding,
    CellEvidence,
    Evidence,
    Extensions,
    LeftOut,
    PlatformEvidence,
    Project,
    Requirement,
)
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Cell, Platform
from ci_tools.model.request import Enabled, Globs, PlatformRequest, Request, Unsupported, Validation
from ci_tools.model.versions import Minor, admits, parse_specifiers
from ci_tools.plan.axes import Axes, WheelTag, python_reason
from ci_tools.plan.wheel_names import warn_of_tag

MAX_NEAREST = 3  # at most this many files are named in a message
NO_OWNER = (
    "its native code has no owner, so nobody is notified when it fails; "
    'an `owner: "@org/team"` at the top of the config owns every platform'
)


def explain_two_builds(one: Job, other: Job, *shown: CellEvidence) -> InputError:
    """Return the error for two builds that differ although their wheels have the same name, each with its evidence."""
    cells = " and ".join(str(job.covers[0]) for job in (one, other))
    msg = f"{cells} would both install {one.wheel}, but its build differs between them: {_describe_difference(*shown)}"
    first, second = (job.covers[0] for job in (one, other))
    if first._replace(python=second.python) == second:  # they differ in nothing but the Python
        hint = (
            "its label says that one wheel is for every Python: ask for only one Python, whose wheel installs on "
            "the others too, or let the build label its wheels by their Python"
        )
        return InputError(msg, hint=hint)
    asked = ", ".join(f"{what} ({where})" for what, where in shown[1].asked)
    return InputError(msg, hint=f"the build decides by {asked}" if asked else "")


def _describe_difference(one: CellEvidence, other: CellEvidence) -> str:
    """Return the most telling difference between two observed builds."""
    for what, mine, others in (
        ("METADATA", one.metadata or (), other.metadata or ()),
        ("its members", one.members or (), other.members or ()),
        ("how its libraries are compiled", _flags(one), _flags(other)),
        ("how cmake is called", one.configured, other.configured),
        ("the sources that it writes", one.written, other.written),
    ):
        if different := sorted({*mine} ^ {*others}):
            side = "only in the first" if different[0] in mine else "only in the second"
            return f"{what} ({different[0]} {side})"
    changed = sorted({line.partition(" sha256=")[0] for line in {*one.contents} ^ {*other.contents}})
    return f"the content of its files ({', '.join(changed[:3])})" if changed else "how it is tagged"


def _flags(shown: CellEvidence) -> list[str]:
    return [" ".join((command.source, *command.flags)) for built in shown.built for command in built.compiles]


def read_requires_python(project: Project) -> SpecifierSet:
    """Return the Pythons that the project admits."""
    try:
        return parse_specifiers(project.requires_python)
    except ValueError as error:  # also raised for more digits than Python converts
        msg = f'{project.where}: requires-python is "{project.requires_python}", expected a specifier such as >=3.10'
        raise InputError(msg) from error


def find_refused_torches(
    torches: Iterable[Minor | None], asked: Requirement, who: str
) -> Iterator[tuple[Minor | None, str]]:
    """Yield the torch versions without a patch release that the project's requirement admits, and why."""
    try:
        specifier = parse_specifiers(asked.specifier or "")
    except ValueError as error:  # raised for more digits than Python converts
        raise InputError(f"{asked.where}: its requirement of torch is not a valid specifier (PEP 440)") from error
    for torch in torches:
        if torch and not admits(specifier, torch):
            yield torch, f"{who} torch {asked.specifier} ({asked.where})"


def find_warnings(axes: Axes, request: Request, admitted: SpecifierSet) -> Iterator[str]:
    """Yield the warnings of a platform: unknown or inconsistent evidence."""
    found = axes.evidence
    if found.unsupported:
        yield f"not built for some cells: {found.unsupported}"
        return
    is_empty = axes.native_files and found.extensions is Extensions.NONE
    yield from (one for one in found.warnings if not (is_empty and one.startswith("no kernel is compiled")))
    if not axes.is_native:
        return
    if not axes.request.owner:
        yield NO_OWNER
    if found.extensions is Extensions.UNKNOWN:
        yield f"{found.extensions_where}, so the platform counts as native"
    if found.doubt:
        yield f"{found.doubt}, so wheels share only what that cannot change"
    if found.extensions is Extensions.UNKNOWN and found.python_api.where == found.extensions_where:
        return  # one reason for everything unknown
    if is_empty:
        yield f"native code ({axes.native_files[0]}), but nothing is compiled ({found.extensions_where})"
    if found.torch_abi.kind is Binding.UNKNOWN and request.torch:
        yield axes.torch.reason
    yield from warn_of_tag(found.python_api, admitted)
    if found.python_api.kind is Binding.UNKNOWN:
        yield python_reason(WheelTag(""), found.python_api)  # for an unknown API the reason does not depend on the tag


def find_strange_trial(validation: Validation, jobs: Iterable[Job], catalog: Catalog) -> Iterator[str]:
    """Yield a warning if the torch of the trials is one that none of the plan's wheels is for."""
    public, _, label = (validation.torch or "").partition("+")
    served = {job: its for job in jobs if job.torch and (its := [cell for cell in job.covers if cell.torch])}
    cells = [cell for job, its in served.items() if _takes_torch(job, its, public) for cell in its]
    if not public or not served:
        return
    torches = sorted({cell.torch for its in served.values() for cell in its if cell.torch})
    labels = sorted({cell.accelerator.label for cell in cells if cell.accelerator})
    if not cells:
        what, own = f"torch {public}, but no wheel is for it, only for", catalog.torch[torches[-1]].patch
        what = f"{what} {', '.join(map(str, torches))}"
    elif read_label(label) and label not in labels:
        what, own = f"torch {validation.torch}, but no wheel is for {label}", f"{public}+{(labels or ['cpu'])[-1]}"
    else:
        return
    yield f'`validate` tries with {what}; write `validate: {{torch: "{own}"}}`, or ask for that one too'


def _takes_torch(job: Job, cells: Iterable[Cell], torch: str) -> bool:
    """Whether a wheel is for a torch: it requires that one, or is for every torch from its oldest on."""
    oldest = min(cell.torch for cell in cells if cell.torch)  # the stable ABI serves every later torch
    return bool(torch) and parse_specifiers(job.requires_torch or f">={oldest}").contains(torch, prereleases=True)


def find_unshipped(request: PlatformRequest, torches: Iterable[Minor | None], catalog: Catalog) -> Iterator[str]:
    """Yield a warning for each accelerator version of a platform that no torch of the request is built for."""
    asked = [torch for torch in torches if torch]  # a request without torch has [None]
    host = catalog.platforms[request.platform].host
    for one in request.accelerators:
        if not one.version or not asked or any(catalog.ships(torch, request.platform, one) for torch in asked):
            continue
        shipped = catalog.torch[max(asked)].accelerators.get((host, one.kind), frozenset())
        has = [f'"{version}"' for version in sorted(filter(None, shipped))]
        there = f"torch {max(asked)} has {one.kind}: [{', '.join(has)}]" if has else f"torch {max(asked)} has none"
        yield f"no torch of the request is built for {one.kind} {one.version}; {there}"


def _unsaid(request: PlatformRequest) -> Iterator[str]:
    """Yield the settings that a platform with native code lacks."""
    for kind, version in request.accelerators:
        if kind.is_versioned and not version:
            yield f"no version of {kind.named}, expected those to serve as a list at the key `{kind}`"
        elif kind.usual_archs and not request.archs:
            yield f"no architectures, expected something like `archs: [{', '.join(kind.usual_archs[:2])}]`"
            return


def _find_nearest(globs: Globs, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files whose names are closest to globs that match none."""
    names = list(files)
    # Below difflib's 0.6: a glob's stars match no letters.
    close = (close_names(glob, names, count=MAX_NEAREST, cutoff=0.4) for glob in globs.include[:MAX_NEAREST])
    return tuple(dict.fromkeys(name for found in close for name in found))[:MAX_NEAREST]


def find_contradictions(axes: Axes, oldest: Minor | None, compiled: Iterable[str]) -> Iterator[Problem]:
    """Yield contradictions between source and request.

    `oldest` is the oldest torch of the build's own cells; `compiled` are the source's files that a compiler takes.
    """
    request, found = axes.request, axes.evidence
    if request.enabled is Enabled.FALSE or not axes.is_native or found.unsupported:
        return
    where = f"{request.where}:1"  # request.where is file:line; editors want a column
    shown = axes.native_files[0] if axes.native_files else found.extensions_where
    is_empty = not axes.native_files and found.extensions is Extensions.NONE
    what_it_has = "is enabled, though nothing is compiled for it," if is_empty else f"has native code ({shown})"
    if request.native.include and is_empty:
        globs, near = " ".join(request.native.include), ", ".join(_find_nearest(request.native, compiled))
        others = f"; the nearest: {near}" if near else ", and the source has no file to compile"
        yield Problem(where, f"{request.platform} is enabled, but its native globs match no file: {globs}{others}")
        return
    for what in _unsaid(request):
        yield Problem(where, f"{request.platform} {what_it_has} and {what}")
    if found.torch_abi.uses_torch and oldest is None:
        expected = 'expected `torch: {lowest: "2.10"}` or a list'
        is_known = found.torch_abi.kind is not Binding.UNKNOWN
        what = "uses torch" if is_known else "may be built in another way for each torch"
        yield Problem(where, f"{request.platform} {what} ({found.torch_abi.where}), {expected}")


def find_newer_target(axes: Axes, oldest: Minor | None) -> Iterator[Problem]:
    """Yield why a build's wheels cannot serve the oldest torch of its own cells."""
    target = axes.evidence.torch_abi.target
    is_asked = axes.request.enabled is not Enabled.FALSE and axes.is_native and not axes.evidence.unsupported
    if is_asked and target and oldest and oldest < target:
        needs = f"the source needs {target} ({axes.evidence.torch_abi.where})"
        what = f"{axes.request.platform} is asked to serve torch {oldest}, but {needs}"
        yield Problem(f"{axes.request.where}:1", what)


class Refusals:
    """The platforms whose wheels could not serve, each with why: the others keep their plan, unless one is required."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.found: dict[Platform, dict[Problem, str]] = {}  # with a hint

    def add(self, platform: Platform, problem: Problem, hint: str = "") -> None:
        """Refuse a platform."""
        self.found.setdefault(platform, {})[problem] = hint

    def add_own(self, error: InputError, platforms: AbstractSet[Platform], served: AbstractSet[Platform]) -> None:
        """Refuse the platform that an error is of; raise it if that one is required, or no other would be served."""
        required = {one.platform for one in self.request.platforms if one.required}
        # Of two platforms, it is not known which one to leave out.
        if len(platforms) > 1 or platforms & required or not served - platforms - self.found.keys():
            raise error
        self.add(next(iter(platforms)), Problem("", error.message), error.hint)

    def add_hollow(self, evidence: Evidence) -> None:
        """Refuse platforms with sources behind a condition that none of their cells meets."""
        off = {one.platform for one in self.request.platforms if one.enabled is Enabled.FALSE}
        for found in (one for one in evidence.platforms if one.platform not in off):
            own = found.platform
            for left in _find_left_out(found):
                self.add(own, _describe_left_out(own, left), _explain_ways_out(own, left))

    def stop(self, served: AbstractSet[Platform]) -> None:
        """Raise RejectedInput if a required platform is refused, or each of those that would be served."""
        required = {one.platform for one in self.request.platforms if one.required}
        if not self.found or (served - self.found.keys() and not required & self.found.keys()):
            return
        problems = {problem: hint for found in self.found.values() for problem, hint in found.items()}
        hint = next(filter(None, problems.values()), "")
        page = "understand-a-skipped-or-native-cell.md#hollow-wheels" if hint else "serve-a-platform.md#native-code"
        raise RejectedInput(problems, hint=hint, page=f"how-to/{page}")

    def explain(self, platform: Platform) -> str:
        """Return why a platform is refused; "" if it is not."""
        return "; ".join(str(problem) for problem in self.found.get(platform, ()))

    def list_warnings(self) -> Iterator[str]:
        """Yield a warning for each refused platform, with what to do about it."""
        for platform, problems in self.found.items():
            hint = next(filter(None, problems.values()), "")
            yield f"{platform}: not built: {self.explain(platform)}{f'; {hint}' if hint else ''}"


def _find_left_out(found: PlatformEvidence) -> Iterator[LeftOut]:
    """Yield the sources of a platform that are behind a condition, and that no build of its cells compiles."""
    shown = (found.shown, *found.apart.values())
    compiled = {command.source for one in shown for library in one.built for command in library.compiles}
    is_everywhere = all(one.left_out for one in shown)
    for left in dict.fromkeys(left for one in shown for left in one.left_out):
        if left.source not in compiled and (is_everywhere or not left.pattern):
            yield left


def _describe_left_out(platform: Platform, left: LeftOut) -> Problem:
    variables = " and ".join(map("=".join, left.switches))
    condition = f"with {variables}, which no cell sets" if left.switches else "where the build finds a GPU"
    if left.definition and not left.switches:
        condition = f"with {left.definition}, which its setup.py does not give cmake"
    what = f"{left.source} is compiled only {condition}, so every wheel of {platform} would lack it"
    return Problem(left.where, what)


def _explain_ways_out(platform: Platform, left: LeftOut) -> str:
    """Return what to do about a source that every wheel of a platform would lack."""
    env = ", ".join(f'{name}: "{value}"' for name, value in left.switches)
    in_config = f"set it in the config, `{platform}: {{env: {{{env}}}}}`"
    own = "let a variable ask for it too, such as FORCE_CUDA: builders have no GPU (`fatwheel advise` tries it)"
    asked = "have setup.py pass on CMAKE_ARGS: builders have no GPU" if left.definition else own
    by_variable = in_config if left.switches else asked
    excluded = f'"{left.pattern}"' if left.pattern else left.source
    return f"{by_variable}; or exclude it, if the wheels are to do without: `native: {{exclude: [{excluded}], …}}`"


def explain_unsupported(cell: Cell, unsupported: Iterable[Unsupported]) -> str:
    """Return why the config says that a cell can have no wheel, or "" if it does not."""
    cuda = cuda_of(cell.accelerator)
    for one in unsupported:
        asked = ((cell.python, one.pythons), (cell.torch, one.torches), (cuda, one.cudas))
        if all(not values or value in values for value, values in asked):  # an axis that a row leaves out means any
            return f"{one.reason} ({one.where})"
    return ""
