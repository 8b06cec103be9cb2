"""Watches values that differ in each run: the clock, random numbers, and the machine's size, load and distribution.

A build that reads such a value is observed a second time, at a later time and on a larger machine. If the two builds
differ, the build is in doubt. Most ask for the size to choose how many compilers to run at once.
"""

from __future__ import annotations

import builtins
import datetime  # noqa: ICN001 - its own names are replaced
import functools
import gzip
import io
import os
import random
import stat
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ci_tools.observe.inside import facts
from ci_tools.observe.inside.facts import FACTS, refuse_file

MODULES = frozenset({"datetime", "random", "secrets", "time", "uuid"})
ASKED = ("getloadavg", "getpid", "getppid", "times", "urandom")
LATER = 400 * 24 * 3600 + 5 * 3600 + 7 * 60  # seconds: another year, month, day, hour and minute


def watch() -> None:
    """Record who asks; in the second run, shift the clock."""
    for name in ASKED:
        if hasattr(os, name):
            setattr(os, name, facts.watch(getattr(os, name), lambda *_: FACTS.note("chance")))
    builtins.open = io.open = _Opener(io.open)  # type: ignore[assignment]
    for name, give in SIZE_FUNCTIONS.items():
        if hasattr(os, name):
            setattr(os, name, facts.answer(getattr(os, name), give))
    if hasattr(os, "sysconf"):
        os.sysconf = facts.answer(os.sysconf, functools.partial(_sysconf, os.sysconf))
    names = random.Random(0)  # noqa: S311 - names of temporary files, the same in every observation
    tempfile._RandomNameSequence.rng = property(lambda _: names)  # noqa: SLF001 - the only way to set them
    gzip.time = type("Clock", (), {"time": int})  # type: ignore[attr-defined] - its header's, which changes no content
    if FACTS.known["chance"]:
        _let_it_be_later()


def _let_it_be_later() -> None:
    real = time.time
    now, now_ns, real_datetime = real, time.time_ns, datetime.datetime
    time.time = lambda: now() + LATER
    time.time_ns = lambda: now_ns() + LATER * 10**9
    for name in ("ctime", "gmtime", "localtime"):
        setattr(time, name, _later(getattr(time, name)))
    formatted = time.strftime
    # localtime is the later one by now
    time.strftime = lambda form, when=None: formatted(form, when or time.localtime())
    written = time.asctime
    time.asctime = lambda when=None: written(when or time.localtime())
    shift = datetime.timedelta(seconds=LATER)

    class Later(real_datetime, metaclass=_like(real_datetime)):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.now(tz) + shift

        today = classmethod(lambda _: real_datetime.today() + shift)
        utcnow = classmethod(lambda _: real_datetime.now(datetime.timezone.utc).replace(tzinfo=None) + shift)

    real_date = datetime.date

    class LaterDate(real_date, metaclass=_like(real_date)):
        today = classmethod(lambda _: real_date.today() + shift)

    datetime.datetime, datetime.date = Later, LaterDate


def _later(real: Any) -> Any:
    return lambda seconds=None: real(time.time() if seconds is None else seconds)


def _like(kind: type) -> type:
    """Return a metaclass whose classes accept every instance of `kind` as their own."""
    return type("Like", (type,), {"__instancecheck__": lambda _, value: isinstance(value, kind)})


# ---------------------------------------------------------------- the size of the machine

CGROUP = "/sys/fs/cgroup/"
PAGE = 4096  # bytes
GIB = 1 << 30


class BuilderSizes(NamedTuple):
    """The sizes of a machine that builds ask for."""

    processors: int
    memory: int  # bytes
    limit: str  # of a cgroup's memory, in its own words
    features: str  # of its processors, as /proc/cpuinfo spells them
    release: str  # its distribution's os-release(5)
    limits: tuple[int, int]  # of a process, soft and hard; -1: none


ALMALINUX = 'NAME="AlmaLinux"\nID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="8.10"\n'  # of manylinux_2_28
UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'
SMALL = BuilderSizes(1, 8 * GIB, str(2 * GIB), "fpu sse sse2 fp", ALMALINUX, (1024, 4096))
X86 = "fma sse4_1 sse4_2 popcnt aes f16c avx avx2 bmi1 bmi2 avx512f avx512bw avx512vl avx512_vnni avx512_bf16 amx_tile"
FEATURES = f"{SMALL.features} pni ssse3 {X86} asimd asimdhp asimddp sve sve2 i8mm bf16"
LARGE = BuilderSizes(64, 512 * GIB, "max", FEATURES, UBUNTU, (-1, -1))


def machine() -> BuilderSizes:
    """Return the machine of this run."""
    return LARGE if FACTS.ask("chance") else SMALL


def _list_memory(one: BuilderSizes) -> str:
    free = one.memory * 3 // 4
    sizes = {"MemTotal": one.memory, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0}
    return "".join(f"{name}:{size >> 10:>15} kB\n" for name, size in (sizes | {"SwapTotal": 0, "SwapFree": 0}).items())


def _list_processors(one: BuilderSizes) -> str:
    each = f"model name\t: {one.processors}\ncpu cores\t: {one.processors}\nflags\t\t: {one.features}\n\n"
    return "".join(f"processor\t: {number}\n{each}" for number in range(one.processors))


def _range(one: BuilderSizes) -> str:
    return f"0-{one.processors - 1}\n" if one.processors > 1 else "0\n"


# Those of the kernel are on every Linux; which of those of cgroups a builder has is tried both ways.
FILES: dict[str, Callable[[BuilderSizes], str]] = {
    "/proc/meminfo": _list_memory,
    "/proc/cpuinfo": _list_processors,
    **dict.fromkeys(("/etc/os-release", "/usr/lib/os-release"), lambda one: one.release),
    # averages, running of all tasks, the newest process (proc(5))
    "/proc/loadavg": lambda one: f"{one.processors}.00 0.50 0.25 1/100 {one.processors}\n",
    **dict.fromkeys((f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")), _range),
    f"{CGROUP}cpuset.cpus.effective": _range,
    f"{CGROUP}cpuset/cpuset.cpus": _range,
    # microseconds of each period: one processor
    f"{CGROUP}cpu.max": lambda one: "100000 100000\n" if one is SMALL else "max 100000\n",
    **dict.fromkeys(
        (f"{CGROUP}{folder}/cpu.cfs_quota_us" for folder in ("cpu", "cpu,cpuacct")),
        lambda one: "100000\n" if one is SMALL else "-1\n",
    ),
    **dict.fromkeys((f"{CGROUP}{folder}/cpu.cfs_period_us" for folder in ("cpu", "cpu,cpuacct")), lambda _: "100000\n"),
    **dict.fromkeys((f"{CGROUP}memory.{name}" for name in ("high", "max")), lambda one: f"{one.limit}\n"),
    # the last: what version 1 says of no limit, the largest number of whole pages
    f"{CGROUP}memory/memory.limit_in_bytes": lambda one: f"{2 * GIB if one is SMALL else 9223372036854771712}\n",
    **dict.fromkeys(
        (f"{CGROUP}{name}" for name in ("memory.current", "memory/memory.usage_in_bytes")),
        lambda one: f"{one.memory >> 5}\n",
    ),
}
SIZES: dict[str, Callable[[BuilderSizes], int]] = {
    **dict.fromkeys(("SC_PAGE_SIZE", "SC_PAGESIZE"), lambda _: PAGE),
    "SC_PHYS_PAGES": lambda one: one.memory // PAGE,
    "SC_AVPHYS_PAGES": lambda one: one.memory * 3 // 4 // PAGE,
    **dict.fromkeys(("SC_NPROCESSORS_CONF", "SC_NPROCESSORS_ONLN"), lambda one: one.processors),
}


def getrlimit(_: int) -> tuple[int, int]:
    """Return the limits of a process, as `resource.getrlimit` does."""
    return machine().limits


def read_release() -> dict[str, str]:
    """Return what `platform.freedesktop_os_release` does."""
    if FACTS.ask("os") != "linux":
        refuse_file("/etc/os-release")
    pairs = (line.partition("=") for line in machine().release.splitlines())
    return {"PRETTY_NAME": "Linux", **{name: value.strip('"') for name, _, value in pairs}}


def read_size(path: Any) -> str | None:
    """Return what a file says of the size of the machine; None for a file that is not in FILES.

    Raises FileNotFoundError where the cell has no such file.
    """
    name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    if name not in FILES:
        return None
    is_linux = FACTS.ask("os") == "linux"
    if not is_linux or (name.startswith(CGROUP) and not FACTS.suppose(f"there is a file {name}")):
        refuse_file(name)
    return FILES[name](machine())


def look_for_size(look: str, path: Any) -> os.stat_result | bool | None:
    """Return what `stat` or `access` finds of one of these files; None for another file or function."""
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


def _sysconf(real: Callable[[Any], int], name: Any) -> int:
    """Return a size of the machine; any other value of `os.sysconf` is a doubt."""
    if name in SIZES:
        return SIZES[name](machine())
    FACTS.doubt("asks for os.sysconf(), which no cell defines")
    return real(name)


# Functions of `os` that tell a size of the machine.
SIZE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("cpu_count", "process_cpu_count"), lambda: machine().processors),
    "sched_getaffinity": lambda _: set(range(machine().processors)),
}


class _Opener:
    """`open`, as an object that does not become a method where it is an attribute of a class."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __call__(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        content = read_size(file) if FACTS.lets_ask() else None
        if content is None:
            return self.real(file, mode, *args, **kwargs)
        return io.BytesIO(content.encode()) if "b" in mode else io.StringIO(content)
