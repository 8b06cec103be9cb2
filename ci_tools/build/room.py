"""Checks before a build that the disks have enough space, rather than failing after an hour of compiling."""

from __future__ import annotations

import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError
from ci_tools.machine.runner import host
from ci_tools.model.plan import JobKind
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.request import BuildTorch, ToolchainKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ci_tools.evidence.source import Tree
    from ci_tools.model.plan import Job

__all__ = ["Need", "needs_of", "refuse_no_room"]

MIB = 1 << 20
# Lower bounds in bytes, so that no build with enough space is refused: somewhat less than was measured of torch 2.13
# for CPUs (754 MiB installed); the packages of CUDA and ROCm are several times as large.
ENVIRONMENT = 30 * MIB
TORCH: Mapping[AcceleratorKind | None, int] = {
    None: 500 * MIB,
    AcceleratorKind.CUDA: 2048 * MIB,
    AcceleratorKind.ROCM: 4096 * MIB,
    AcceleratorKind.XPU: 1024 * MIB,
}
TOOLKIT = 150 * MIB  # a CUDA compiler, its runtime and CCCL from the package index
PARTS = 60 * MIB  # the build parts of a torch; those of 2.13 take 70 MiB
LIBRARIES = 5 * MIB  # the headers of CUDA's libraries that torch asks for; those of 13.0 take 7 MiB
HEADERS = 50 * MIB  # of one torch release; those of 2.10 take 63 MiB
LEAST = 10 * MIB  # for finished files and logs


class Need(NamedTuple):
    """The least that a build writes: in which folder, how many bytes, and what they are."""

    folder: Path
    size: int
    what: str


def needs_of(
    jobs: Iterable[Job], tree: Tree, temporary: Path, cache: Path, out: Path, *, torch: BuildTorch = BuildTorch.FULL
) -> tuple[Need, ...]:
    """Return the least space that building jobs in turn takes; the temporary folder is emptied after each."""
    jobs = tuple(jobs)
    source = sum((tree.root / name).stat().st_size for name in tree.files if (tree.root / name).is_file())
    builds = [source + ENVIRONMENT + _torch(job, torch) + TOOLKIT * _fetches_toolkit(job) for job in jobs]
    toolkits = {str(job.accelerator) for job in jobs if _fetches_toolkit(job)}
    lent = {(job.torch, str(job.accelerator)) for job in jobs if _takes_parts(job, torch)}
    has_toolkits, has_headers, has_parts = ((cache / name).exists() for name in ("toolchains", "torch", "torch-parts"))
    kept = (TOOLKIT + LIBRARIES) * len(toolkits) * (not has_toolkits) + PARTS * len(lent) * (not has_parts)
    kept += HEADERS * any(job.torch and not job.requires_torch for job in jobs) * (not has_headers)
    return (
        Need(temporary, max(builds, default=source + ENVIRONMENT), "to build in"),
        Need(cache, kept + LEAST, "for the cache"),
        Need(out, LEAST, "for what is built"),
    )


def _torch(job: Job, torch: BuildTorch) -> int:
    """Return the bytes of the torch in a job's build environment; 0 for the stable ABI, which may need none."""
    if _takes_parts(job, torch):
        return PARTS
    return TORCH[job.accelerator.kind if job.accelerator else None] if job.requires_torch else 0


def _takes_parts(job: Job, torch: BuildTorch) -> bool:
    kind = job.accelerator.kind if job.accelerator else None
    is_lent = torch is BuildTorch.PARTS and kind in {None, AcceleratorKind.CUDA} and host().startswith("linux-")
    return bool(job.requires_torch) and is_lent


def _fetches_toolkit(job: Job) -> bool:
    is_cuda = job.accelerator is not None and job.accelerator.kind is AcceleratorKind.CUDA
    return job.kind is JobKind.NATIVE and is_cuda and job.toolchain is ToolchainKind.PYPI


def refuse_no_room(needs: Iterable[Need]) -> None:
    """Raise MachineError for a disk with less free space than its needs add up to."""
    by_disk: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        place = _there(need.folder)
        by_disk[place.stat().st_dev].append(need._replace(folder=place))
    for on_disk in by_disk.values():
        free, wanted = shutil.disk_usage(on_disk[0].folder).free, sum(need.size for need in on_disk)
        if free < wanted:
            places = ", ".join(f"{need.size / MIB:,.0f} MiB {need.what} ({need.folder})" for need in on_disk)
            msg = f"the disk of {on_disk[0].folder} has {free / MIB:,.0f} MiB free, and the build needs more: {places}"
            hint = "free space there, or name other folders: --out, FATWHEEL_CACHE"
            raise MachineError(msg, hint=hint, page="how-to/build-on-a-small-runner.md#room-before-the-build")


def _there(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())
