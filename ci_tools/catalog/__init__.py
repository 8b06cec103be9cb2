"""The known facts of torch, CUDA, ROCm, oneAPI, Python and the platforms, read once from data files.

To add a new torch, CUDA, ROCm, oneAPI or Python, add a line to a data file beside this module; a project adds rows of
its own in its config, or in a file beside it (`ci_tools.config.project_catalog`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog import accelerators, tables
from ci_tools.catalog.accelerators.cuda import CUDA, Cuda, cuda_of
from ci_tools.catalog.accelerators.xpu import XPU, OneApi
from ci_tools.catalog.rows import Contradiction, merge
from ci_tools.errors import Problem, RejectedInput
from ci_tools.model.names import Sha256
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Platform
from ci_tools.model.request import CatalogRow
from ci_tools.model.versions import Minor, Python

HERE = Path(__file__).parent
NAMES = ("libraries", "limits", "minutes", "platforms", "python", "requirements", "torch")
# The first torch whose wheels for Linux all have the new C++ ABI: TorchConfig.cmake of 2.6.0 for x86-64 has
# _GLIBCXX_USE_CXX11_ABI=0, that of 2.7.0 for both machines has 1.
CXX11 = Minor(2, 7)
STANDARD_LIBRARY = HERE / "standard_library.json"  # written by tests.maintain.library_table
TORCH_HEADERS = HERE / "torch_headers.tsv.xz"  # written by tests.maintain.torch_headers_table
TORCH_NAMES = HERE / "torch_names.json"  # written by tests.maintain.torch_names_table


class PlatformFacts(NamedTuple):
    """The machine a platform's wheels run on, and the defaults of its jobs."""

    os: str
    machine: str
    accelerator: AcceleratorKind | None
    wheel_platform: str
    runner: str
    extension_suffix: str
    container: str | None = None  # the image in which jobs are built; {version} is the accelerator's
    toolkit_container: str | None = None  # the same with a CUDA toolkit installed; {version} is the toolkit's

    @property
    def host(self) -> str:
        """The machine in the notation of the torch table, such as `linux-x86_64`."""
        return f"{self.os}-{self.machine}"

    def suffix(self, python: Python) -> str:
        """Return the file name suffix of extension modules that only this Python can load (PEP 3149)."""
        digits = f"{python.version.digits}{'t' if python.free_threaded else ''}"
        return self.extension_suffix.format(digits=digits)


class BuildMinutes(NamedTuple):
    """The default time limit of one build in minutes, by the kind of code it compiles."""

    pure: int
    native: int
    accelerator: int  # device code: CUDA, ROCm, XPU

    def of(self, facts: PlatformFacts) -> int:
        """Return the limit of a native build for a platform."""
        return self.accelerator if facts.accelerator else self.native


class BuildRequirement(NamedTuple):
    """The effect of a package on a build that requires it, besides modules that the build may import."""

    version: str  # whose wheel was read
    hooks: tuple[str, ...]  # code that runs without an import
    requires: tuple[str, ...]  # names of packages
    modules: tuple[str, ...] | None = None  # None: not read


class SourceSeconds(NamedTuple):
    """The time that one core takes to compile one source, in seconds."""

    host: float  # C and C++; also the host's part of device code
    device: float  # device code for each architecture, above that

    def estimate(self, host: int, device: int, archs: int) -> int:
        """Return the seconds that one core takes for so many sources of either kind."""
        return round((host + device) * self.host + device * archs * self.device)


class Headers(NamedTuple):
    """The smallest wheel that contains a torch release's headers; `size` in bytes."""

    file: str
    sha256: Sha256
    size: int


class TorchRelease(NamedTuple):
    """One minor release of torch, and the builds that upstream ships of it, by host."""

    version: Minor
    patch: str
    pythons: Mapping[str, frozenset[Python]]
    accelerators: Mapping[tuple[str, AcceleratorKind], frozenset[Minor | None]]
    nccl: Mapping[Minor, str]  # by the version of CUDA; only of Linux builds, and not known for each
    headers: Headers | None  # None: not known, or nobody has published it: then `patch` is its first release
    indexes: tuple[str, ...] = ()  # of a nightly: where its wheels are
    where: str = ""  # the project's row that names it; "" for our own, whose symbols are known
    oneapi: Minor | None = None  # whose runtime its XPU build requires; None if not known
    names: tuple[tuple[str, str], ...] = ()  # of its modules, where a project's catalog says how they differ from ours

    @property
    def is_published(self) -> bool:
        """Whether somebody has published it: a nightly has been, since its row is written from what is there."""
        return self.headers is not None or bool(self.version.nightly)

    def find_nccl(self, accelerator: Accelerator | None) -> str:
        """Return the version of NCCL that its Linux build for an accelerator brings; "" if none, or if nobody knows."""
        version = cuda_of(accelerator)
        return self.nccl.get(version, "") if version else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All tables, and the sha256 of their data files."""

    platforms: Mapping[Platform, PlatformFacts]
    pythons: tuple[Python, ...]
    stacks: Mapping[AcceleratorKind, Mapping[Minor, Any]]  # the releases of each accelerator's software
    torch: Mapping[Minor, TorchRelease]
    requirements: Mapping[str, BuildRequirement]
    limits: Mapping[str, int]  # bytes
    minutes: BuildMinutes
    source_seconds: SourceSeconds
    brought: tuple[str, ...]  # file name patterns of libraries from torch or a driver, which no wheel may contain
    sha256: Sha256
    tables: Mapping[str, Any]  # the data files' own values, by name
    rows: tuple[CatalogRow, ...] = ()  # the project's, which are merged in

    @property
    def cuda(self) -> Mapping[Minor, Cuda]:
        """The toolkits of CUDA, of which more is known than of another stack: where each is published."""
        return self.stacks[CUDA]

    @property
    def newest_torch(self) -> Minor:
        """The newest torch that is published: that of a build whose request names none."""
        return max(version for version, release in self.torch.items() if release.headers and not version.nightly)

    def find_hook(self, requirement: str, known: Collection[str]) -> str | None:
        """Return what a build requirement, or a package that comes with it, runs in each build; None if not known.

        "" if all it adds is modules that a build may import. Of the packages in `known`, nothing is asked.
        """
        for name, facts in self._list_with(requirement, known):
            if facts is None or facts.hooks:
                return f"{facts.hooks[0]} of {name} {facts.version}" if facts else None
        return ""

    def find_modules(self, requirement: str, known: Collection[str]) -> tuple[str, ...] | None:
        """Return the modules that a build requirement brings, and those of what comes with it; None if not known."""
        found = [facts and facts.modules for _, facts in self._list_with(requirement, known)]
        return None if None in found else tuple(sorted({name for names in found for name in names or ()}))

    def list_installed(self, required: Iterable[str]) -> tuple[str, ...] | None:
        """Return what an isolated build has installed; None if not all that its requirements bring is known."""
        found = {name: facts for one in required for name, facts in self._list_with(one, ())}
        return None if None in found.values() or not found else tuple(sorted(found))

    def _list_with(self, requirement: str, known: Collection[str]) -> Iterator[tuple[str, BuildRequirement | None]]:
        """Yield a build requirement and each package that comes with it, except those in `known`; None: not read."""
        waiting, seen = [requirement], {*known}
        while waiting:
            name = waiting.pop()
            facts = self.requirements.get(name)
            yield name, facts
            seen.add(name)
            waiting += sorted({*facts.requires} - seen) if facts else []

    def find_contradictions(self, rows: Sequence[CatalogRow]) -> tuple[Contradiction, ...]:
        """Return why rows cannot be merged over this catalog; nothing if they can."""
        return merge(self.tables, rows)[1]

    def extend(self, rows: Sequence[CatalogRow]) -> Catalog:
        """Return this catalog with a project's rows merged over it; raise RejectedInput with all that contradict it."""
        if not rows:
            return self
        tables, wrong = merge(self.tables, rows)
        if wrong:
            raise RejectedInput(Problem(rows[each.number].where, each.what) for each in wrong)
        if tables == self.tables:
            return replace(self, rows=(*self.rows, *(row for row in rows if row not in self.rows)))
        return self._with_tables(tables, rows)

    def _with_tables(self, tables: Mapping[str, Any], rows: Sequence[CatalogRow]) -> Catalog:
        named = {Minor.parse_torch(row.name): row.where for row in rows if row.table == "torch"}
        said = json.dumps(tables, sort_keys=True)
        made = _make(tables, Sha256(hashlib.sha256(f"{self.sha256}{said}".encode()).hexdigest()))
        torch = {
            version: release._replace(where=self.torch[version].where if version in self.torch else named[version])
            for version, release in made.torch.items()
        }
        return replace(made, torch=torch, rows=(*self.rows, *(row for row in rows if row not in self.rows)))

    def find_stack(self, kind: AcceleratorKind, torch: Minor | None) -> Minor | None:
        """Return the version of an unversioned accelerator's stack that the build of a torch requires, if known."""
        release = self.torch.get(torch) if torch else None
        return release.oneapi if release and kind == XPU else None

    def find_oneapi(self, torch: Minor | None) -> OneApi | None:
        """Return the oneAPI that the XPU build of a torch requires; None if that is not known."""
        version = self.find_stack(XPU, torch)
        return self.stacks[XPU].get(version) if version else None

    def explain_missing_torch(
        self, torch: Minor, platform: Platform, accelerator: Accelerator | None, python: Python
    ) -> str:
        """Return why upstream has no such torch, as far as the catalog knows; "" if it has one."""
        release = self.torch[torch]
        if not release.is_published:
            return f"nobody has published torch {torch} yet ({release.where})"
        if python not in release.pythons.get(self.platforms[platform].host, ()):
            return "the catalog has no such torch for this Python"
        return "" if self.ships(torch, platform, accelerator) else "the catalog has no such torch for this accelerator"

    def ships(self, torch: Minor, platform: Platform, accelerator: Accelerator | None) -> bool:
        """Whether upstream has a torch for an accelerator, as far as the catalog knows, whatever the Python."""
        if accelerator is None:
            return True
        shipped = self.torch[torch].accelerators.get((self.platforms[platform].host, accelerator.kind), frozenset())
        return accelerator.version in shipped or (accelerator.version is None and bool(shipped))


def load(rows: tuple[CatalogRow, ...] = ()) -> Catalog:
    """Return the catalog: the data files beside this module, with a project's rows merged over them.

    Raises RejectedInput with every row that contradicts ours.
    """
    return _extend(rows) if rows else _read()


@functools.cache
def _extend(rows: tuple[CatalogRow, ...]) -> Catalog:
    return _read().extend(rows)


@functools.cache
def _read() -> Catalog:
    kinds = accelerators.KINDS
    data = {name: tables.read_bytes(name) for name in NAMES}
    data |= {name: kind.table.encode() or tables.read_bytes(name) for name, kind in kinds.items()}
    found = {name: tables.parse(content) for name, content in sorted(data.items())}
    for name in kinds:
        own = found[name].get("platforms", {})
        found["platforms"] |= {platform: {"accelerator": name, **row} for platform, row in own.items()}
    return _make(found, Sha256(hashlib.sha256(b"".join(data[name] for name in found)).hexdigest()))


def _make(tables: Mapping[str, Any], sha256: Sha256) -> Catalog:
    return Catalog(
        platforms={Platform.add(name): _platform(table) for name, table in tables["platforms"].items()},
        pythons=tuple(map(Python.parse, tables["python"]["releases"])),
        stacks={
            kind: {one.version: one for one in map(kind.read_release, tables[kind]["release"])}
            for kind in accelerators.KINDS.values()
        },
        torch={torch.version: torch for torch in map(_torch, tables["torch"]["release"])},
        requirements={name: _requirement(table) for name, table in tables["requirements"].items()},
        limits=tables["limits"],
        minutes=BuildMinutes(**tables["minutes"]["builds"]),
        source_seconds=SourceSeconds(**tables["minutes"]["sources"]),
        brought=tuple(pattern for patterns in tables["libraries"].values() for pattern in patterns),
        sha256=sha256,
        tables=tables,
    )


def _platform(table: Mapping[str, str]) -> PlatformFacts:
    accelerator = accelerators.KINDS[table["accelerator"]] if "accelerator" in table else None
    said: dict[str, Any] = {key.replace("-", "_"): value for key, value in table.items()}
    return PlatformFacts(**{**said, "accelerator": accelerator})


def _requirement(table: Mapping[str, Any]) -> BuildRequirement:
    modules = tuple(table["modules"]) if "modules" in table else None
    return BuildRequirement(table["version"], tuple(table["hooks"]), tuple(table["requires"]), modules)


def _torch(table: Mapping[str, Any]) -> TorchRelease:
    shipped = {
        (host, kind): versions
        for kind in accelerators.KINDS.values()
        for host, versions in kind.read_shipped(table.get(kind, {})).items()
    }
    version = Minor.parse_torch(table["version"])
    return TorchRelease(
        version=version,
        patch=table.get("patch", str(version) if version.nightly else f"{version}.0"),
        pythons={host: frozenset(map(Python.parse, names)) for host, names in table.get("pythons", {}).items()},
        accelerators=shipped,
        nccl={Minor.parse(cuda): version for cuda, version in table.get("nccl", {}).items()},
        headers=Headers(**table["headers"]) if "headers" in table else None,
        indexes=tuple(table.get("indexes", ())),
        oneapi=Minor.parse(table["xpu"]["oneapi"]) if "oneapi" in table.get("xpu", {}) else None,
        names=tuple(sorted(table.get("names", {}).items())),
    )
