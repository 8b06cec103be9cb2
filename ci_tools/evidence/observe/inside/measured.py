"""The files in which Linux states the size of its machine: a small machine's, and in a second run a large one's.

Builds ask them how many compilers to run at once, which decides nothing that is in a wheel. If the two machines get
two different wheels, the build is in doubt, see chance.py.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.evidence.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["look_for_size", "machine", "watch"]

CGROUP = "/sys/fs/cgroup/"
PAGE = 4096  # bytes
GIB = 1 << 30


class Machine(NamedTuple):
    """What a machine has of what builds ask for."""

    processors: int
    memory: int  # bytes
    limit: str  # of a cgroup's memory, in its own words
    features: str  # of its processors, as /proc/cpuinfo spells them


SMALL = Machine(1, 8 * GIB, str(2 * GIB), "fpu sse sse2 fp")
X86 = "fma sse4_1 sse4_2 popcnt aes f16c avx avx2 bmi1 bmi2 avx512f avx512bw avx512vl avx512_vnni avx512_bf16 amx_tile"
LARGE = Machine(64, 512 * GIB, "max", f"{SMALL.features} pni ssse3 {X86} asimd asimdhp asimddp sve sve2 i8mm bf16")


def machine() -> Machine:
    """Return the machine of this run."""
    return LARGE if FACTS.ask("chance") else SMALL


def _list_memory(one: Machine) -> str:
    free = one.memory * 3 // 4
    sizes = {"MemTotal": one.memory, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0}
    return "".join(f"{name}:{size >> 10:>15} kB\n" for name, size in (sizes | {"SwapTotal": 0, "SwapFree": 0}).items())


def _list_processors(one: Machine) -> str:
    each = f"model name\t: {one.processors}\ncpu cores\t: {one.processors}\nflags\t\t: {one.features}\n\n"
    return "".join(f"processor\t: {number}\n{each}" for number in range(one.processors))


def _range(one: Machine) -> str:
    return f"0-{one.processors - 1}\n" if one.processors > 1 else "0\n"


# Those of the kernel are on every Linux; which of those of cgroups a builder has is tried both ways.
FILES: dict[str, Callable[[Machine], str]] = {
    "/proc/meminfo": _list_memory,
    "/proc/cpuinfo": _list_processors,
    "/proc/loadavg": lambda one: f"{one.processors}.00 0.50 0.25 1/100 {one.processors}\n",
    **dict.fromkeys((f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")), _range),
    f"{CGROUP}cpuset.cpus.effective": _range,
    f"{CGROUP}cpuset/cpuset.cpus": _range,
    f"{CGROUP}cpu.max": lambda one: "100000 100000\n" if one is SMALL else "max 100000\n",
    **dict.fromkeys(
        (f"{CGROUP}{folder}/cpu.cfs_quota_us" for folder in ("cpu", "cpu,cpuacct")),
        lambda one: "100000\n" if one is SMALL else "-1\n",
    ),
    **dict.fromkeys((f"{CGROUP}{folder}/cpu.cfs_period_us" for folder in ("cpu", "cpu,cpuacct")), lambda _: "100000\n"),
    **dict.fromkeys((f"{CGROUP}memory.{name}" for name in ("high", "max")), lambda one: f"{one.limit}\n"),
    f"{CGROUP}memory/memory.limit_in_bytes": lambda one: f"{2 * GIB if one is SMALL else 9223372036854771712}\n",
    **dict.fromkeys(
        (f"{CGROUP}{name}" for name in ("memory.current", "memory/memory.usage_in_bytes")),
        lambda one: f"{one.memory >> 5}\n",
    ),
}
SIZES: dict[str, Callable[[Machine], int]] = {
    **dict.fromkeys(("SC_PAGE_SIZE", "SC_PAGESIZE"), lambda _: PAGE),
    "SC_PHYS_PAGES": lambda one: one.memory // PAGE,
    "SC_AVPHYS_PAGES": lambda one: one.memory * 3 // 4 // PAGE,
    **dict.fromkeys(("SC_NPROCESSORS_CONF", "SC_NPROCESSORS_ONLN"), lambda one: one.processors),
}


def read_size(path: Any) -> str | None:
    """Return what a file says of the size of the machine; None if it is none of these files.

    Raises FileNotFoundError where the cell has no such file.
    """
    name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    if name not in FILES:
        return None
    is_linux = FACTS.ask("os") == "linux"
    if not is_linux or (name.startswith(CGROUP) and not FACTS.suppose(f"there is a file {name}")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return FILES[name](machine())


def look_for_size(look: str, path: Any) -> os.stat_result | bool | None:
    """Return what `stat` or `access` finds of one of these files; None for another file, or another function."""
    if look not in {"access", "lstat", "stat"}:
        return None
    try:
        content = read_size(path)
    except FileNotFoundError:
        if look == "access":
            return False
        raise
    if content is None:
        return None
    return look == "access" or os.stat_result((stat.S_IFREG, *[0] * 9))


def watch() -> None:
    """Let the project read these files, and ask for the same sizes by `os.sysconf`."""
    builtins.open = io.open = _Opener(io.open)  # type: ignore[assignment]
    if hasattr(os, "sysconf"):
        os.sysconf = _Sizes(os.sysconf)


class _Opener:
    """`open`, which is no function of Python's: as an attribute of a class it is no method."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __call__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        content = read_size(file) if FACTS.lets_ask() else None
        if content is None:
            return self.real(file, mode, *args, **kwargs)
        return io.BytesIO(content.encode()) if "b" in mode else io.StringIO(content)


class _Sizes:
    """`os.sysconf`: what is not the machine's size is a doubt."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __call__(self, name: Any) -> Any:
        if not FACTS.lets_ask():
            return self.real(name)
        if name in SIZES:
            return SIZES[name](machine())
        FACTS.doubt("asks for os.sysconf(), which no cell defines")
        return self.real(name)
