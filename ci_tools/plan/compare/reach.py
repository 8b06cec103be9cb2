"""The installations that a published wheel serves: platforms, Pythons, accelerator and torch, by its name and METADATA.

Its tags say the platform and the Pythons (PEP 425, PEP 600). Its local version, or the CUDA libraries that it requires,
may say the accelerator, and the local version or its requirement of torch the torch. An axis that nothing says is open:
the wheel is then taken to serve every value of it.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from packaging.tags import compatible_tags, cpython_tags

from ci_tools.model.pep440 import parse_requirement, parse_specifiers
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import Minor, Python, admits
from ci_tools.plan.wheel_names import OLDER_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.tags import Tag

    from ci_tools.catalog import Catalog
    from ci_tools.model.cell import Cell
    from ci_tools.model.platforms import Accelerator, Platform
    from ci_tools.model.published import PublishedWheel

__all__ = [
    "ANYWHERE",
    "Reach",
    "Stack",
    "System",
    "list_pythons",
    "rank_python",
    "reach_of",
    "specifiers_of",
    "systems_of",
]

ANYWHERE = "any"  # the platform tag of a wheel for every machine
FIRST_PYTHON = 8  # 3.8: older ones are not compared
LINUX = re.compile(r"(?:(?P<level>manylinux_\d+_\d+|manylinux1|manylinux2010|manylinux2014)|linux)_(?P<machine>.+)")
MACOS = re.compile(r"macosx_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>.+)")
WINDOWS = {"win_amd64": "amd64", "win_arm64": "arm64", "win32": "x86"}
FIRST_ARM_MACOS = Minor(11, 0)  # the first macOS for Apple's own chips, whatever a universal2 wheel says
LEVEL = re.compile(r"manylinux_(\d+)_(\d+)")
# The words of local versions in the field: cu130, cu12, cu12.6, cuda126; rocm6.3, rocm63; torch2.10, torch2.7.1, pt27.
CUDA = re.compile(r"(?<![a-z])cu(?:da)?(1\d|9)(?:\.?(\d{1,2}))?(?!\d)")
ROCM = re.compile(r"(?<![a-z])rocm(\d)(?:\.?(\d))?")
TORCH = re.compile(r"(?<![a-z])(?:torch|pt)(\d)\.?(\d{1,2})(?!\d)")
PLAIN = {AcceleratorKind.XPU: re.compile(r"(?<![a-z])xpu"), None: re.compile(r"(?<![a-z])cpu")}
# os_name, sys_platform and platform_system of a marker (PEP 508)
MARKERS = {
    "linux": ("posix", "linux", "Linux"),
    "macos": ("posix", "darwin", "Darwin"),
    "windows": ("nt", "win32", "Windows"),
}
CUDA_PACKAGE = re.compile(r"nvidia-[a-z0-9-]+-cu(\d{2})")  # nvidia-cuda-runtime-cu12


class System(NamedTuple):
    """A machine of a platform tag, and the oldest glibc or macOS that the tag promises (None: it promises none)."""

    os: str
    machine: str
    floor: Minor | None = None

    @property
    def host(self) -> str:
        """The machine in the notation of the catalog, such as `linux-x86_64`."""
        return f"{self.os}-{self.machine}"


class Stack(NamedTuple):
    """The accelerator that a wheel says it is for; a kind of None is the CPU, and a version may be open."""

    kind: AcceleratorKind | None
    major: int | None = None
    minor: int | None = None
    for_cpu: bool = False  # whether installers give it to machines without the accelerator as well

    def serves(self, accelerator: Accelerator | None) -> bool:
        """Whether a wheel for this accelerator is for that one of a cell."""
        if accelerator is None:
            return self.kind is None or self.for_cpu
        version = accelerator.version
        is_version = version is None or self.major is None or version.major == self.major
        is_minor = version is None or self.minor is None or version.minor == self.minor
        return accelerator.kind is self.kind and is_version and is_minor

    def __str__(self) -> str:
        """Return `CUDA 12.6`, `CUDA 12` or `CPU`."""
        version = ".".join(str(part) for part in (self.major, self.minor) if part is not None)
        return f"{str(self.kind or 'cpu').upper()} {version}".strip()


class Reach(NamedTuple):
    """The installations that a wheel serves."""

    is_anywhere: bool  # whether it has the tag of every platform
    platforms: frozenset[Platform]
    elsewhere: tuple[str, ...]  # the machines that are of no platform, in words
    floors: Mapping[str, Minor]  # the oldest glibc or macOS by host
    pythons: Mapping[Python, int]  # the Pythons it is for, and the rank of its tag there: pip takes the lowest
    stack: Stack | None  # None: neither its name nor its requirements say
    torches: frozenset[Minor] | None  # None: any

    def serves(self, cell: Cell) -> bool:
        """Whether the wheel is for a cell."""
        return (
            cell.platform in self.platforms
            and cell.python in self.pythons
            and (self.is_anywhere or self.stack is None or self.stack.serves(cell.accelerator))
            and (cell.torch is None or self.torches is None or cell.torch in self.torches)
        )

    def rank(self, cell: Cell) -> tuple[bool, int]:
        """Return the rank of the wheel where a cell is installed: an installer takes the lowest."""
        return self.is_anywhere, self.pythons[cell.python]


def reach_of(wheel: PublishedWheel, torches: Collection[Minor], catalog: Catalog) -> Reach:
    """Return the installations that a wheel serves; of torch, those among `torches`."""
    platform_tags = sorted({tag.platform for tag in wheel.tags})
    systems = [system for tag in platform_tags for system in systems_of(tag)]
    known: dict[str, list[Platform]] = {facts.host: [] for facts in catalog.platforms.values()}
    for platform, facts in catalog.platforms.items():
        known[facts.host].append(platform)
    is_anywhere = ANYWHERE in platform_tags
    served = catalog.platforms if is_anywhere else {name for one in systems for name in known.get(one.host, ())}
    unread = [tag for tag in platform_tags if tag != ANYWHERE and not systems_of(tag)]
    pythons = _pythons(wheel, catalog)
    machines = [System(facts.os, facts.machine) for facts in catalog.platforms.values()] if is_anywhere else systems
    required = list(_list_requirements(wheel, [*_list_environments(dict.fromkeys(machines), pythons)]))
    return Reach(
        is_anywhere,
        frozenset(served),
        tuple(dict.fromkeys([*(f"{one.os} {one.machine}" for one in systems if one.host not in known), *unread])),
        _floors(systems),
        pythons,
        _stack(wheel.label, required),
        _torches(wheel.label, required, torches),
    )


def systems_of(tag: str) -> tuple[System, ...]:
    """Return the machines of a platform tag: two for macOS's universal2, none for `any`, musl and unknown systems."""
    if linux := LINUX.fullmatch(tag):
        level = next((new for new, old in OLDER_NAMES.items() if old == linux["level"]), linux["level"] or "")
        glibc = LEVEL.fullmatch(level)
        return (System("linux", linux["machine"], Minor(int(glibc[1]), int(glibc[2])) if glibc else None),)
    if macos := MACOS.fullmatch(tag):
        machines = ("arm64", "x86_64") if macos["machine"] == "universal2" else (macos["machine"],)
        floor = Minor(int(macos["major"]), int(macos["minor"]))
        return tuple(System("macos", one, max(floor, FIRST_ARM_MACOS) if one == "arm64" else floor) for one in machines)
    return (System("windows", WINDOWS[tag]),) if tag in WINDOWS else ()


def _floors(systems: Iterable[System]) -> Mapping[str, Minor]:
    """Return the lowest floor of each machine; none for one with a tag that promises none, such as linux_x86_64."""
    floors: dict[str, list[Minor | None]] = {}
    for system in systems:
        floors.setdefault(system.host, []).append(system.floor)
    return {host: min(filter(None, found)) for host, found in floors.items() if all(found)}


# ---------------------------------------------------------------- Python


def _pythons(wheel: PublishedWheel, catalog: Catalog) -> Mapping[Python, int]:
    admitted = specifiers_of(wheel.requires_python)
    ranks = ((python, rank_python(python, wheel.tags)) for python in list_pythons(catalog))
    return {python: rank for python, rank in ranks if rank is not None and admits(admitted, python.version)}


def specifiers_of(text: str) -> SpecifierSet:
    """Return the specifiers in a text such as Requires-Python; all versions if it is invalid."""
    try:
        return parse_specifiers(text)
    except ValueError:  # pip ignores it as well
        return parse_specifiers("")


def list_pythons(catalog: Catalog) -> tuple[Python, ...]:
    """Return the Pythons that are compared: those of the catalog, and older ones, which published wheels may serve."""
    oldest = min(python.version for python in catalog.pythons)
    older = (Python(Minor(3, minor)) for minor in range(FIRST_PYTHON, oldest.minor))
    return (*older, *catalog.pythons)


def rank_python(python: Python, tags: Iterable[Tag]) -> int | None:
    """Return the rank of the best of some tags for a Python, 0 for its own; None if it takes none of them."""
    known = _tags_for(python)
    return min((known[tag.interpreter, tag.abi] for tag in tags if (tag.interpreter, tag.abi) in known), default=None)


@functools.cache
def _tags_for(python: Python) -> Mapping[tuple[str, str], int]:
    """Return the interpreter and ABI tags that a Python takes, the best first."""
    version = python.version.major, python.version.minor
    usual = cpython_tags(version, [python.abi_tag], [ANYWHERE])
    # PEP 803; releases of `packaging` from before do not have it.
    stable = ((f"cp3{minor}", "abi3t") for minor in range(python.version.minor, 14, -1) if python.free_threaded)
    pure = compatible_tags(version, python.interpreter_tag, [ANYWHERE])
    pairs = (*((tag.interpreter, tag.abi) for tag in usual), *stable, *((tag.interpreter, tag.abi) for tag in pure))
    return {pair: rank for rank, pair in enumerate(dict.fromkeys(pairs))}


# ---------------------------------------------------------------- the accelerator and torch


def _stack(label: str, required: Iterable[Requirement]) -> Stack | None:
    if cuda := CUDA.search(label):
        return _versioned(AcceleratorKind.CUDA, cuda)
    if rocm := ROCM.search(label):
        return _versioned(AcceleratorKind.ROCM, rocm)
    for kind, pattern in PLAIN.items():
        if pattern.search(label):
            return Stack(kind)
    majors = {int(found[1]) for one in required if (found := CUDA_PACKAGE.fullmatch(one.name.lower()))}
    return Stack(AcceleratorKind.CUDA, min(majors), for_cpu=True) if len(majors) == 1 else None


def _versioned(kind: AcceleratorKind, found: re.Match[str]) -> Stack:
    return Stack(kind, int(found[1]), int(found[2]) if found[2] else None)


def _torches(label: str, required: Iterable[Requirement], known: Collection[Minor]) -> frozenset[Minor] | None:
    if named := TORCH.search(label):
        return frozenset({Minor(int(named[1]), int(named[2]))})
    specifiers = [one.specifier for one in required if one.name.lower() == "torch"]
    if not specifiers:
        return None
    return frozenset(torch for torch in known if all(admits(specifier, torch) for specifier in specifiers))


def _list_requirements(wheel: PublishedWheel, environments: Collection[Mapping[str, str]]) -> Iterator[Requirement]:
    """Yield the requirements that hold in any of some environments (PEP 508), without those of extras."""
    for text in wheel.requires or ():
        with suppress(ValueError):
            requirement = parse_requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate(dict(environment)) for environment in environments):
                yield requirement


def _list_environments(systems: Iterable[System], pythons: Iterable[Python]) -> Iterator[Mapping[str, str]]:
    """Yield the values that markers compare, for each machine and Python: all of them, so that none is this host's."""
    for system, python in product(systems, pythons):
        os_name, sys_platform, platform_system = MARKERS[system.os]
        yield {
            "extra": "",
            "implementation_name": "cpython",
            "implementation_version": f"{python.version}.0",
            "os_name": os_name,
            "platform_machine": system.machine.upper() if system.os == "windows" else system.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": platform_system,
            "platform_version": "",
            "python_full_version": f"{python.version}.0",
            "python_version": str(python.version),
            "sys_platform": sys_platform,
        }
