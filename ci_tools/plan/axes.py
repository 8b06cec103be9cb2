"""The rules by which cells share a wheel, one for each axis, and each rule's reason for the reader.

Then the cells that a wheel with more libraries serves, and the wheels that a run adds to a release.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.errors import InputError
from ci_tools.model.evidence import OWN_SUFFIX, Binding, CellEvidence, Extensions, PythonApi, Spared, TorchAbi
from ci_tools.model.plan import Job, Skipped
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import Enabled, PlatformRequest, Request, ToolchainKind
from ci_tools.model.versions import CudaArch, Minor, Python

PURE = "pure"  # the job of the wheel for every platform


class WheelTag(NamedTuple):
    """The interpreter and ABI tags of a wheel, and the Python that must build it, unless any Python can."""

    tag: str
    python: Python | None = None


class Key(NamedTuple):
    """The values that distinguish wheels: cells with the same key share one wheel."""

    platform: Platform | None = None  # None: the pure wheel
    accelerator: Accelerator | None = None
    torch: Minor | None = None
    tag: WheelTag = WheelTag("py3-none")
    recipe: str | None = None  # the hash of the observed build, if it was observed

    @property
    def name(self) -> str:
        """The job's name: the axes that do not collapse."""
        if self.platform is None:
            return PURE
        parts = [self.platform.value]
        if self.accelerator and self.accelerator.version:
            parts.append(self.accelerator.label)  # cu130
        parts += [f"torch{self.torch}"] if self.torch else []
        interpreter, _, abi = self.tag.tag.partition("-")
        parts += [interpreter if abi == "none" else abi] if self.tag.python and interpreter.startswith("cp") else []
        return "-".join(parts)


class Rule(NamedTuple):
    """The decision for one axis: whether it collapses, and the reason for the reader."""

    collapses: bool
    reason: str


class Axes(NamedTuple):
    """The evidence of some cells of a platform, and the decision for each axis."""

    request: PlatformRequest
    native_files: tuple[str, ...]
    evidence: CellEvidence
    torch: Rule
    refused: dict[Python, str]  # why a Python gets no wheel, or ""
    tags: dict[Python, WheelTag]
    builders: dict[Accelerator | None, Accelerator | None]  # accelerator version → the version that builds for it
    wheel_platform: str

    @property
    def is_native(self) -> bool:
        """Whether the cells get a wheel of their own platform: code is, or might be, compiled for them."""
        compiles = self.evidence.extensions is not Extensions.NONE
        return bool(self.native_files) or compiles or self.request.enabled is Enabled.TRUE

    @property
    def archs(self) -> tuple[str, ...]:
        """The GPU architectures of the wheels: those that the project chooses itself, or else the request's."""
        return self.evidence.archs or self.request.archs


Decision = tuple[Cell, Key, str]  # a covered cell, the key of its wheel, and the reason


# ---------------------------------------------------------------- the rules, one axis each


def decide_torch(abi: TorchAbi, request: PlatformRequest, torches: Iterable[Minor | None], catalog: Catalog) -> Rule:
    """Return whether one wheel serves every torch, and why; a request without torch leaves nothing to decide."""
    runtimes = _find_sycl_runtimes(request, torches, catalog)
    if not any(torches):
        return Rule(collapses=True, reason="")  # there is no axis
    # Torch loads its own libsycl, and its number is in the library's soname.
    if len(runtimes) > 1 and abi.kind in {Binding.NONE, Binding.STABLE}:
        which = ", ".join(f"libsycl.so.{number} from torch {torch} on" for number, torch in runtimes.items())
        return Rule(collapses=False, reason=f"one per torch: they run with different runtimes of SYCL, {which}")
    if abi.kind is Binding.NONE:
        return Rule(collapses=True, reason=f"one for every torch ({abi.where})")
    if abi.kind is Binding.STABLE:
        return Rule(collapses=True, reason=f"one for every torch from {abi.target} up ({abi.where})")
    why = "not the stable ABI" if abi.kind is Binding.FULL else "which torch ABI it needs is not known"
    return Rule(collapses=False, reason=f"one per torch: {why} ({abi.where})")


def _find_sycl_runtimes(
    request: PlatformRequest, torches: Iterable[Minor | None], catalog: Catalog
) -> dict[int, Minor]:
    """Return the number of each runtime of SYCL that torches of a platform for XPU require, and the oldest of each."""
    oldest: dict[int, Minor] = {}
    for torch in sorted(filter(None, torches)) if any(one.kind == XPU for one in request.accelerators) else ():
        found = catalog.find_oneapi(torch)
        if found and any(catalog.ships(torch, request.platform, one) for one in request.accelerators):
            oldest.setdefault(found.sycl, torch)
    return oldest


def choose_tag(python: Python, shown: CellEvidence, asked: Collection[Python]) -> WheelTag:
    """Return the tag of the wheel that serves a Python: limited API (PEP 384, PEP 803) or version-specific."""
    api = shown.python_api
    if api.tag:
        return WheelTag(api.tag, python)
    if api.kind is Binding.NONE:
        return WheelTag(f"{shown.pure_tag}-none", oldest_python(asked or [python]) if api.named_by_builder else None)
    limited = api.lowest_free_threaded
    builder = min((one for one in asked if one.free_threaded and limited and one.version >= limited), default=None)
    if limited and builder and python.version >= limited and (python.free_threaded or api.lowest == limited):
        return WheelTag(f"cp{limited.digits}-{'abi3.abi3t' if api.lowest else 'abi3t'}", builder)
    if api.lowest and python.version >= api.lowest and not python.free_threaded:
        served = [one for one in asked if one.version >= api.lowest and not one.free_threaded]
        builder = (
            oldest_python(served or [python])
            if api.named_by_builder
            else Python(api.lowest)
            if api.built_by_lowest
            else None
        )
        return WheelTag(f"cp{(api.label or api.lowest).digits}-abi3", builder)
    return WheelTag(f"{python.interpreter_tag}-{python.abi_tag}", python)


def oldest_python(pythons: Iterable[Python]) -> Python:
    """Return the oldest Python, preferably not free-threaded."""
    return min(pythons, key=lambda python: (python.free_threaded, python.version))  # False sorts before True


def python_reason(tag: WheelTag, api: PythonApi) -> str:
    """Return which Pythons a wheel serves, and why."""
    if api.kind is Binding.NONE:
        return f"one for every Python: no Python symbol declared ({api.where})"
    if api.kind is not Binding.STABLE:
        why = "no limited API declared" if api.kind is Binding.FULL else "the declared Python API is not understood"
        return f"one per Python: {why} ({api.where})"
    if tag.python is None or tag.tag.endswith("-abi3"):  # before abi3t: a wheel of both serves more
        return f"one for every Python from {api.lowest} up: limited API ({api.where})"
    if "abi3t" in tag.tag:
        which = (
            "every Python, free-threaded or not," if api.lowest == api.lowest_free_threaded else "free-threaded Python"
        )
        return f"one for {which} from {api.lowest_free_threaded} up: limited API ({api.where})"
    return f"Python {tag.python} has its own wheel: the limited API does not cover it ({api.where})"


def choose_builders(request: PlatformRequest, catalog: Catalog) -> dict[Accelerator | None, Accelerator | None]:
    """Map each CUDA version to the version that builds for it: itself, or with `one-per-major` its major's oldest."""
    archs = [CudaArch.parse(arch) for arch in request.archs] if request.one_per_major else []
    oldest: dict[int, Accelerator] = {}
    for accelerator in request.accelerators if request.one_per_major else ():
        version = accelerator.version
        # An older nvcc may not know the newest architectures.
        if version and version.major not in oldest and all(map(catalog.cuda[version].knows, archs)):
            oldest[version.major] = accelerator
    builders: dict[Accelerator | None, Accelerator | None] = {None: None}
    for accelerator in request.accelerators:
        major = accelerator.version.major if accelerator.version else 0
        builders[accelerator] = oldest.get(major, accelerator)
    return builders


def choose_image(request: PlatformRequest, accelerator: Accelerator | None, catalog: Catalog) -> str | None:
    """Return the image of a job; if the default image lacks a needed CUDA toolkit, the image that has it."""
    facts, image = catalog.platforms[request.platform], request.container
    if accelerator is None or accelerator.version is None:
        return image
    cuda = catalog.cuda.get(accelerator.version) if accelerator.kind == CUDA else None
    is_fetched = request.toolchain in {ToolchainKind.PYPI, ToolchainKind.REDIST}
    brings = request.toolchain is ToolchainKind.SYSTEM or (cuda and not cuda.pypi and not is_fetched)
    if cuda and cuda.has_image and brings and image == facts.container:  # an image of the config's own is kept
        image = facts.toolkit_container
    return image and image.replace("{version}", str(accelerator.version))


def choose_env(platforms: Iterable[PlatformRequest], cells: Iterable[Cell]) -> tuple[tuple[str, str], ...]:
    """Return the variables of the served platform that sets the fewest: any of them gives the same pure wheel."""
    served = {cell.platform for cell in cells}
    return min((platform.env for platform in platforms if platform.platform in served), key=len)


def keep_archs(axes: Axes) -> tuple[tuple[str, str], ...]:
    """Return what tells a build the request's architectures, as it was observed, if its wheels are for its own."""
    return tuple(CUDA.name_archs_for_torch(axes.request.archs).items()) if axes.evidence.archs else ()


def is_below_limited_api(python: Python, api: PythonApi) -> bool:
    """Whether a Python is too old for wheels that must use the limited API."""
    return bool(api.lowest and not api.builds_older and python.version < api.lowest and not python.free_threaded)


def explain_key(key: Key, axes: Axes) -> str:
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
    parts = [native, _archs(key, axes), python_reason(key.tag, found.python_api), axes.torch.reason]
    parts += [found.switches_where] if found.switches else []
    return "; ".join(part for part in parts if part)


def _archs(key: Key, axes: Axes) -> str:
    if key.accelerator is None:
        return ""
    images = sorted({image for built in axes.evidence.built for image in built.images or ()})
    if key.accelerator.kind == XPU:
        machine_code = f", and machine code for {' '.join(axes.archs)}" if axes.archs else ""
        return f"SYCL code: {' '.join(images)}" if images else f"SYCL code for every GPU{machine_code}"
    served = [str(asked.version) for asked, built in axes.builders.items() if asked and built == key.accelerator]
    minors = f", for CUDA {', '.join(served)} (`one-per-major`)" if axes.request.one_per_major else ""
    return f"one fatbinary for {' '.join(images or axes.archs)}{minors}"


# ---------------------------------------------------------------- spared libraries

# A setup.py may compile a library only with a newer torch, whose stable ABI it needs. Where the package passes over a
# library that cannot be loaded, the wheel of the newer torch is also good for the older one: there it has what the
# older one's own wheel would have. Such a library is called *spared*.
WITHOUT_TORCH_AXIS = frozenset({Binding.NONE, Binding.STABLE})


def find_builds(served: Iterable[tuple[Cell, Axes]]) -> dict[Cell, Axes]:
    """Return for each cell the build whose wheel serves it: its own, or another one that has more libraries."""
    served = list(served)
    groups: dict[object, dict[CellEvidence, Axes]] = {}
    for cell, axes in served:
        groups.setdefault(_place(cell, axes), {})[axes.evidence] = axes
    chosen: dict[object, Axes] = {}
    found: dict[Cell, Axes] = {}
    for cell, axes in served:
        place = _place(cell, axes)
        known = place, axes.evidence, cell.torch  # the cells of all Pythons ask the same question
        if known not in chosen:
            fuller = [
                other
                for other in list(groups[place].values())
                if cell.torch and _has_more(axes.evidence, other.evidence, cell.torch)
            ]
            chosen[known] = max(fuller, key=lambda other: len(other.evidence.built), default=axes)
        found[cell] = chosen[known]
    return found


def _place(cell: Cell, axes: Axes) -> object:
    """Return the part of a wheel's key that no build shares with another one."""
    return cell.platform, axes.builders[cell.accelerator]


def _has_more(shown: CellEvidence, other: CellEvidence, torch: Minor) -> bool:
    """Whether another build makes the same wheel but for libraries that the package does without on a torch."""
    more = find_spared(shown, other)
    return (
        bool(more)
        and len(more) == len(other.built) - len(shown.built)  # every further library is spared
        and all(one.target > torch for one in more)  # one that this torch loads is missed by its users
        and {*shown.built} < {*other.built}
        and (parts := _remaining_parts(shown, names := list_only_for(other, [one.member for one in more]))) is not None
        and parts == _remaining_parts(other, names)
    )


def find_spared(shown: CellEvidence, other: CellEvidence) -> tuple[Spared, ...]:
    """Return the spared libraries that only the other build makes."""
    built = {one.member for one in shown.built}
    return tuple(one for one in other.spared if one.member not in built)


def list_only_for(shown: CellEvidence, libraries: Iterable[str]) -> frozenset[str]:
    """Return the members of a wheel that are there only for some of its libraries: these, and their sources.

    setuptools takes the sources of an extension for data of its package, where they lie in it.
    """
    named = frozenset(libraries)
    sources: dict[bool, set[str]] = {True: set(), False: set()}
    for library in shown.built:
        sources[library.member in named].update(one.source.removeprefix("src/") for one in library.compiles)
    return named | (sources[True] - sources[False])


def _remaining_parts(shown: CellEvidence, names: Collection[str]) -> tuple[object, ...] | None:
    """Return everything but some members that two builds must have in common; None if some of it is not known."""
    api = shown.python_api
    is_known = shown.extensions is Extensions.SOME and shown.recipe is not None
    if not is_known or shown.torch_abi.kind not in WITHOUT_TORCH_AXIS:
        return None
    return (
        (api.kind, api.lowest, api.lowest_free_threaded, shown.pure_tag),
        (shown.unsupported, shown.switches, shown.build_requires),
        (shown.written, shown.configured, shown.metadata),
        tuple(content for content in shown.contents if content.partition(" ")[0] not in names),
        shown.members and tuple(member for member in shown.members if member not in names),
    )


def explain_build(key: Key, axes: Axes, built: Axes) -> str:
    """Return why the wheel of a build serves the cells with certain axes, and what is spared there."""
    if built is axes:
        return explain_key(key, axes)
    spared = find_spared(axes.evidence, built.evidence)
    names = ", ".join(one.member.removesuffix(OWN_SUFFIX) for one in spared)
    needs = f"which {'needs' if len(spared) == 1 else 'need'} torch {max(one.target for one in spared)}"
    tolerant = f"{spared[0].where} passes over a library that cannot be loaded"
    return f"{explain_key(key, built._replace(torch=axes.torch))}; without {names}, {needs}: {tolerant}"


# ---------------------------------------------------------------- additions to a release

MAX_REASONS = 8  # at most this many are shown in an error


def select_additions(
    jobs: dict[Key, Job], covered: list[Decision], skipped: list[Skipped], request: Request
) -> tuple[dict[Key, Job], list[Decision], list[Skipped]]:
    """Return the additions to an existing release: only wheels bound to a torch, as it has all others.

    Raises InputError if no wheel is bound to the torch that a run names.
    """
    bound = {key: job for key, job in jobs.items() if job.requires_torch}
    there = (
        Skipped(cell, f"the release has {jobs[key].wheel}: {why}") for cell, key, why in covered if key not in bound
    )
    skipped = [*skipped, *there]
    if not bound:
        reasons = dict.fromkeys(f"  {cell}: {reason}" for cell, reason in skipped)
        shown = "\n".join(list(reasons)[:MAX_REASONS])
        msg = f"--torch: no wheel is bound to torch {', '.join(request.run.torch)} only, so none can be added:\n{shown}"
        raise InputError(msg, hint="`fatwheel plan` without --torch says what serves each torch")
    return bound, [decision for decision in covered if decision[1] in bound], skipped
