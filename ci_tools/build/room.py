"""What builds fetch, and the space that it takes: checked before a build rather than failing after an hour of it."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.providers import parts_for
from ci_tools.errors import MachineError
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.request import BuildTorch, ToolchainKind

if TYPE_CHECKING:
    from ci_tools.source.files import Tree

MIB = 1 << 20
# Lower bounds in bytes, so that no build with enough space is refused: somewhat less than was measured of torch 2.13
# for CPUs (754 MiB installed); the packages of CUDA and ROCm are several times as large.
ENVIRONMENT = 30 * MIB
TORCH_MIB = 500  # for CPUs
TOOLKIT = 150 * MIB  # a CUDA compiler, its runtime and CCCL; those of 13.0 take 271 MiB
PARTS = 60 * MIB  # the build parts of a torch; those of 2.13 take 70 MiB
HEADERS = 50 * MIB  # of one torch release; those of 2.10 take 63 MiB
LEAST = 10 * MIB  # for finished files and logs
USED_IN_PLACE = "torch"  # the folder of the cache that a build has no copy of
TOOLKITS: Mapping[ToolchainKind, str] = {
    ToolchainKind.PYPI: "from the package index",
    ToolchainKind.REDIST: "of NVIDIA's archives",
    ToolchainKind.AUTO: "from the package index where none is installed",
}


class BuildFolders(NamedTuple):
    """The folders that a run of builds writes to."""

    temporary: Path
    cache: Path
    out: Path


class Need(NamedTuple):
    """The least that a build writes: in which folder, how many bytes, and what they are."""

    folder: Path
    size: int
    what: str


class Part(NamedTuple):
    """Something that is fetched for builds."""

    what: str
    size: int  # bytes on disk, at least
    folder: str  # of the cache; "" if each build's own environment has it, and nothing is kept
    jobs: tuple[str, ...]
    is_certain: bool = True  # False: an installed toolkit serves as well, where there is one


def list_parts(
    jobs: Iterable[Job], includes: Collection[str] = (), *, torch: BuildTorch = BuildTorch.FULL
) -> tuple[Part, ...]:
    """Return what is fetched to build jobs whose sources include these headers; the same on every machine."""
    found: dict[str, Part] = {}
    for job in jobs:
        for part in _parts_of(job, includes, torch):
            known = found.get(part.what, part._replace(jobs=()))
            found[part.what] = known._replace(jobs=(*known.jobs, job.name))
    return tuple(found.values())


def _parts_of(job: Job, includes: Collection[str], torch: BuildTorch) -> Iterator[Part]:
    if job.kind is not JobKind.NATIVE:
        return
    if _fetches_toolkit(job):
        cuda, whose = job.accelerator and job.accelerator.version, TOOLKITS[job.toolchain]
        is_certain = job.toolchain is not ToolchainKind.AUTO
        yield Part(f"compiler of CUDA {cuda}, {whose}", TOOLKIT, "toolchains", (), is_certain)
        if libraries := parts_for(includes, torch=bool(job.requires_torch)):
            names, size = ", ".join(one.name for one in libraries), sum(one.kib for one in libraries) << 10
            yield Part(f"headers of CUDA {cuda}: {names}", size, "toolchains", (), is_certain)
    if job.torch and not job.requires_torch:  # else those of the torch in its environment serve
        yield Part(f"headers of torch {job.torch}", HEADERS, "torch", ())
    if job.requires_torch:
        of = f"torch {job.torch} for {job.accelerator.label if job.accelerator else 'cpu'}"
        kind = job.accelerator.kind if job.accelerator else None
        has_parts = (kind is None or kind.has_parts) and _is_of(job, "linux-", "windows")
        takes_parts, size = torch is BuildTorch.PARTS and has_parts, (kind.torch_mib if kind else TORCH_MIB) * MIB
        yield Part(f"build parts of {of}", PARTS, "torch-parts", ()) if takes_parts else Part(of, size, "", ())


def needs_of(
    jobs: Iterable[Job],
    tree: Tree,
    places: BuildFolders,
    includes: Collection[str] = (),
    *,
    torch: BuildTorch = BuildTorch.FULL,
) -> tuple[Need, ...]:
    """Return the least space that building jobs in turn takes; the temporary folder is emptied after each."""
    jobs = tuple(jobs)
    source = sum((tree.root / name).stat().st_size for name in tree.files if (tree.root / name).is_file())
    certain = [part for part in list_parts(jobs, includes, torch=torch) if part.is_certain]
    # A build has a copy of what the cache has, but of the headers of torch, or has all of it to itself.
    own = [part for part in certain if part.folder != USED_IN_PLACE]
    copied = [sum(part.size for part in own if job.name in part.jobs) for job in jobs]
    kept = sum(part.size for part in certain if part.folder and not (places.cache / part.folder).exists())
    return (
        Need(places.temporary, source + ENVIRONMENT + max(copied, default=0), "to build in"),
        Need(places.cache, kept + LEAST, "for the cache"),
        Need(places.out, LEAST, "for what is built"),
    )


def _fetches_toolkit(job: Job) -> bool:
    is_cuda = job.accelerator is not None and job.accelerator.kind == CUDA
    has_archives = job.toolchain is not ToolchainKind.REDIST or _is_of(job, "linux-")  # those for Windows are zip files
    return is_cuda and _is_of(job, "linux-", "windows") and has_archives and job.toolchain in TOOLKITS


def _is_of(job: Job, *systems: str) -> bool:
    return job.platform is not None and job.platform.startswith(systems)


def refuse_no_room(needs: Iterable[Need]) -> None:
    """Raise MachineError for a disk with less free space than its needs add up to."""
    by_disk: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        folder = need.folder.absolute()
        place = next(each for each in (folder, *folder.parents) if each.exists())  # the folder is made later
        by_disk[place.stat().st_dev].append(need._replace(folder=place))  # several folders may be on one disk
    for on_disk in by_disk.values():
        free, wanted = shutil.disk_usage(on_disk[0].folder).free, sum(need.size for need in on_disk)
        if free < wanted:
            places = ", ".join(f"{need.size / MIB:,.0f} MiB {need.what} ({need.folder})" for need in on_disk)
            msg = f"the disk of {on_disk[0].folder} has {free / MIB:,.0f} MiB free, and the build needs more: {places}"
            hint = "free space there, or name other folders: --out, FATWHEEL_CACHE"
            raise MachineError(msg, hint=hint, page="how-to/build-on-a-small-runner.md#room-before-the-build")
