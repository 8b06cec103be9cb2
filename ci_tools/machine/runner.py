"""The machine of a job: how many compilers may run in parallel, and how a small hosted runner is prepared for a build.

Files are removed and swap is created only on a GitHub-hosted runner, which is discarded after its job.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.machine.process import complaint, run
from ci_tools.model.plan import SDIST
from ci_tools.model.request import NO_CARE, SELF_HOSTED, Care

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ci_tools.model.plan import Plan

FACTS = Path(__file__).with_name("hosted.toml")
GIB = 1 << 30
OS_NAMES = {"linux": "linux", "darwin": "macos", "win32": "windows"}
SWAP = "fatwheel.swap"
UNFINISHED = f"{SWAP}.partial"
LEFT_FREE = 4 * GIB  # must remain free on the disk with the swap: a build writes, too
# The files of a cgroup with its limit of memory, and with what it uses: of version 2, and 1.
LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
USED = ("memory.current", "memory.usage_in_bytes")
HEADER = 1 << 16  # bytes of a swap file that hold no memory: one page, of 64 KiB at most


@functools.cache
def _facts() -> dict[str, Any]:
    return tomllib.loads(FACTS.read_text(encoding="utf-8"))


def is_hosted(labels: Collection[str]) -> bool:
    """Whether the labels name one of GitHub's standard hosted runners."""
    known = any(fnmatchcase(label, pattern) for label in labels for pattern in _facts()["labels"])
    return known and SELF_HOSTED not in labels


def host() -> str:
    """Return the name of this kind of machine in the catalog, such as `linux-x86_64`."""
    return f"{OS_NAMES.get(sys.platform, sys.platform)}-{platform.machine().lower()}"


# ---------------------------------------------------------------- how many compilers


class Machine(NamedTuple):
    """The resources that compilers share: cores, and memory and swap in bytes (0: unknown)."""

    cores: int
    memory: int
    swap: int


class Compilers(NamedTuple):
    """The number of compilers that may run in parallel, and the reason if memory was considered."""

    number: int
    reason: str = ""


class MemoryUse(NamedTuple):
    """Memory in bytes: what there is, what programs may still take without swap, and what is in swap."""

    total: int
    available: int
    swapped: int


def machine(root: Path = Path("/")) -> Machine:
    """Return the resources of this machine, or of the cgroup that this process is in, such as a container's."""
    cores, table = os.cpu_count() or 1, _read_meminfo(root)
    if not table:  # not Linux
        names = os.sysconf_names if hasattr(os, "sysconf_names") else {}
        known = {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= names.keys()
        return Machine(cores, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 0, 0)
    sizes = [(table.get("MemTotal", 0), table.get("SwapTotal", 0))]
    for group in _list_cgroups(root):
        sizes.append(
            (
                min(_read_sizes(group, LIMITS), default=sizes[0][0]),
                min(_read_sizes(group, ("memory.swap.max",)), default=sizes[0][1]),
            )
        )
    return Machine(cores, *map(min, zip(*sizes, strict=True)))


def measure_memory(root: Path = Path("/")) -> MemoryUse:
    """Return the memory in use now; what the kernel can drop of files in memory is available."""
    table, total = _read_meminfo(root), machine(root).memory
    free = [table.get("MemAvailable", total)]
    for group in _list_cgroups(root):
        text = _read(group / "memory.stat")
        files = [int(size) for size in re.findall(r"^total_(?:in)?active_file (\d+)$", text, re.MULTILINE)]
        files = files or [int(size) for size in re.findall(r"^(?:in)?active_file (\d+)$", text, re.MULTILINE)]
        used = sum(_read_sizes(group, USED))
        free += [limit - used + sum(files) for limit in _read_sizes(group, LIMITS) if used]
    return MemoryUse(total, max(0, min(free)), table.get("SwapTotal", 0) - table.get("SwapFree", 0))


def _read_meminfo(root: Path) -> dict[str, int]:
    """Return the lines of /proc/meminfo in bytes; none where it is not Linux."""
    lines = (line.split(":", 1) for line in _read(root / "proc/meminfo").splitlines())
    return {name: int(size.split()[0]) << 10 for name, size in lines}


def _list_cgroups(root: Path) -> list[Path]:
    """Return the folders of the cgroups that limit this process's memory: its own, and those above (cgroups(7))."""
    lines = [line.split(":", 2) for line in _read(root / "proc/self/cgroup").splitlines()]
    tops = {"": root / "sys/fs/cgroup", "memory": root / "sys/fs/cgroup/memory"}  # version 2, and 1
    own = [tops[kind] / path.lstrip("/") for _, kind, path in lines if kind in tops]
    return [*dict.fromkeys(each for one in (*own, *tops.values()) for each in (one, *one.parents) if each != root)]


def _read_sizes(group: Path, names: Iterable[str]) -> Iterator[int]:
    """Yield the numbers of bytes in the files of a cgroup; a file may be missing, or say `max`."""
    found = (_read(group / name).strip() for name in names)
    yield from (int(text) for text in found if text.isdigit())


def _read(path: Path) -> str:
    """Return the text of a file of the kernel's; "" for one that cannot be read."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def compilers(machine: Machine, job_memory_gib: int | None, max_jobs: int | None) -> Compilers:
    """Return how many compilers run in parallel: one per core, as far as memory and swap allow, at most `max_jobs`.

    Each needs `job_memory_gib` GiB; None means unknown. A `max_jobs` of None means no limit.
    """
    if not job_memory_gib or not machine.memory:
        return Compilers(max_jobs or machine.cores)
    held = (machine.memory + machine.swap) // (job_memory_gib * GIB)
    number = max(1, min(machine.cores, held, max_jobs or machine.cores))
    has = f"{_gib(machine.memory)} of memory and {_gib(machine.swap)} of swap"
    if not held:
        short = f"{has} are less than the {job_memory_gib} GiB that one compiler takes (`job-memory-gib`)"
        return Compilers(1, f"warning: {short}: one runs at a time, and may run out of memory")
    limit = f", `max-jobs: {max_jobs}`" if max_jobs else ""
    some = "1 compiler" if number == 1 else f"{number} compilers"
    return Compilers(number, f"{some} at a time: {machine.cores} cores, {has}, {job_memory_gib} GiB for each{limit}")


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


# ---------------------------------------------------------------- before a build


class Host(NamedTuple):
    """A machine to prepare: its environment variables, its root folder, and functions to report and to run as root."""

    environ: Mapping[str, str]
    say: Callable[[str], None]
    call: Callable[[Sequence[str]], str]  # runs a command as root; returns why it failed, or ""
    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return where an absolute path of the host is below `root`."""
        return self.root / name.lstrip("/")


def care_of(plan: Plan, names: Sequence[str]) -> Care:
    """Return the preparation that a runner needs to build all these jobs; raise InputError if the plan lacks one."""
    cares = {SDIST: NO_CARE, **{job.name: job.care for job in plan.jobs}}
    for name in names:
        if name not in cares:
            raise InputError(f'the plan has no job "{name}", {nearest(name, cares)}')
    wanted = [cares[name] for name in names]
    return Care(
        free_disk=any(care.free_disk for care in wanted),
        swap_gib=max(care.swap_gib for care in wanted),
        job_memory_gib=max((care.job_memory_gib for care in wanted if care.job_memory_gib), default=None),
    )


def make_root_call(log: Path) -> Callable[[Sequence[str]], str]:
    """Return a function that runs a command as root, with sudo if needed, and writes its output to `log`."""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0

    def call(command: Sequence[str]) -> str:
        ended = run([*(() if is_root else ("sudo", "-n")), *command], log=log)
        return (complaint(ended) or f"status {ended.status}") if ended.status else ""

    return call


def prepare(care: Care, host: Host) -> None:
    """Free disk space and create swap as a job requests, and report the result; a second run does nothing.

    Only GitHub-hosted Linux runners are changed. Raises MachineError if root rights or disk space are missing.
    """
    if why := _explain_skip(care, host):
        host.say(f"nothing is done to this machine: {why}")
        return
    if refused := _explain_missing_rights(host):
        msg = f"this machine cannot be prepared: {refused}"
        raise MachineError(msg, hint="run as root, or as a user whose sudo asks for no password")
    if care.free_disk:
        _free_disk(host)
    if care.swap_gib:
        _make_swap(host, care.swap_gib)


def _explain_skip(care: Care, host: Host) -> str:
    """Return why this machine is not prepared; "" if it is."""
    if not care.free_disk and not care.swap_gib:
        return "its job asks for neither `free-disk` nor `swap-gib`, or is not for a hosted Linux runner"
    place = host.environ.get("RUNNER_ENVIRONMENT", "")
    if host.environ.get("GITHUB_ACTIONS") != "true" or place != "github-hosted" or host.environ.get("ACT"):
        said = f"RUNNER_ENVIRONMENT is {place}" if place else "RUNNER_ENVIRONMENT is not set"
        return f"it is not one of GitHub's own runners ({said})"
    if host.environ.get("RUNNER_OS") != "Linux":
        return "it does not run Linux"
    if any(host.path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")):
        return "this is a container, and the disk and the swap are its host's"
    return ""


def _explain_missing_rights(host: Host) -> str:
    try:
        return "" if not host.call(["true"]) else "we are not root, and sudo does not let us be"
    except MachineError as error:
        return f"we are not root, and {error.message}"


# ---------------------------------------------------------------- the disk


def _free_disk(host: Host) -> None:
    before = shutil.disk_usage(host.root).free
    removed = [f"{what} ({path})" for path, what in _remove_folders(host)]
    after = shutil.disk_usage(host.root).free
    host.say(f"free disk: {_gib(before)} before, {_gib(after)} after")
    host.say(f"removed {', '.join(removed)}" if removed else "there was nothing to remove")


def _remove_folders(host: Host) -> Iterator[tuple[str, str]]:
    """Remove and yield the preinstalled folders that no build needs; report those that stay, and why."""
    for folder in _facts()["folder"]:
        for path in sorted(host.root.glob(folder["path"].lstrip("/"))):
            name = f"/{path.relative_to(host.root).as_posix()}"
            why = _explain_use(path, host) or host.call(["rm", "-rf", "--one-file-system", "--", str(path)])
            if why:
                host.say(f"{name} stays: {why}")
            else:
                yield name, folder["what"]


def _explain_use(path: Path, host: Host) -> str:
    """Return why a folder must not be removed; "" if it may be."""
    if _is_link(path, host.root):
        return f"it is a link, or is reached through one, to {os.path.realpath(path)}"
    named = (host.environ.get(name, "") for name in ("HOME", "GITHUB_WORKSPACE", "RUNNER_TEMP", "CUDA_HOME"))
    ours = (sys.prefix, sys.base_prefix, str(Path.cwd()), *named)
    used = next((place for place in ours if place and Path(os.path.realpath(place)).is_relative_to(path)), "")
    return f"this run needs {used}" if used else ""


def _is_link(path: Path, root: Path) -> bool:
    """Whether a path below the root is a symbolic link or is reached through one."""
    return Path(os.path.realpath(path)) != Path(os.path.realpath(root)) / path.relative_to(root)


# ---------------------------------------------------------------- the swap


def _make_swap(host: Host, gib: int) -> None:
    """Create and activate a swap file of `gib` GiB; on failure, remove its unfinished files."""
    folders = [
        folder for folder in map(host.path, _facts()["swap"]) if folder.is_dir() and not _is_link(folder, host.root)
    ]
    used = _read_swap(host)
    if any(size + HEADER >= gib * GIB for size in used.values()):
        host.say(f"{gib} GiB of swap are in use already")
        return
    for path in used:
        _must(host, ["swapoff", path])
    _remove_swap(host, folders)
    folder = _roomy(folders, gib)
    try:
        _swap_on(host, folder, gib)
    except BaseException:
        _remove_swap(host, [folder])
        raise
    host.say(f"{gib} GiB of swap are in use: {folder / SWAP}; the disk has {_gib(shutil.disk_usage(folder).free)} left")


def _read_swap(host: Host) -> dict[str, int]:
    """Return Fatwheel's active swap files, and the size of each in bytes."""
    table = host.path("/proc/swaps")
    if not table.is_file():
        msg = f"no swap could be made: there is no {table}, so its kernel knows none"
        raise MachineError(msg, hint="leave `swap-gib` out")
    rows = (line.split() for line in table.read_text(encoding="utf-8").splitlines()[1:])
    return {row[0]: int(row[2]) << 10 for row in rows if Path(row[0]).name == SWAP}


def _roomy(folders: list[Path], gib: int) -> Path:
    """Return the first folder whose disk has room for the swap and `LEFT_FREE` more."""
    free = {folder: shutil.disk_usage(folder).free for folder in folders}
    roomy = next((folder for folder, size in free.items() if size >= gib * GIB + LEFT_FREE), None)
    if roomy is None:
        found = ", ".join(f"{_gib(size)} in {folder}" for folder, size in free.items())
        msg = f"no disk holds {gib} GiB of swap with {_gib(LEFT_FREE)} left for the build: free are {found}"
        raise MachineError(msg, hint="lower `swap-gib`, or set `free-disk: true`")
    return roomy


def _swap_on(host: Host, folder: Path, gib: int) -> None:
    """Create the file under a temporary name, so that only a complete one is activated; only root may read it."""
    partial, whole = str(folder / UNFINISHED), str(folder / SWAP)
    _must(host, ["install", "-m", "600", "/dev/null", partial])
    _must(host, ["fallocate", "--length", f"{gib}GiB", partial])
    _must(host, ["mkswap", partial])
    _must(host, ["mv", "--", partial, whole])
    _must(host, ["swapon", whole])


def _remove_swap(host: Host, folders: list[Path]) -> None:
    """Remove the swap files that an earlier run created but did not activate."""
    left = [folder / name for folder in folders for name in (UNFINISHED, SWAP)]
    if found := [str(path) for path in left if os.path.lexists(path)]:
        _must(host, ["rm", "-f", "--", *found])


def _must(host: Host, command: Sequence[str]) -> None:
    if why := host.call(command):
        msg = f"no swap could be made: `{' '.join(command)}` failed: {why}"
        raise MachineError(msg, hint="leave `swap-gib` out, or build on a larger runner")
