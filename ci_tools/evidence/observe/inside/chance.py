"""Watches values that differ in each run: the clock, random numbers, and the load and processors of the machine.

Nothing here is hidden. A build that reads such a value is observed a second time, at a later time and with more
processors and memory. If the two builds differ, the build is in doubt.
"""

from __future__ import annotations

import datetime  # noqa: ICN001 - its own names are replaced
import functools
import os
import random
import tempfile
import time
from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS
from ci_tools.evidence.observe.inside.measured import machine

MODULES = frozenset({"datetime", "random", "secrets", "time", "uuid"})
ASKED = ("getloadavg", "getpid", "getppid", "times", "urandom")
LATER = 400 * 24 * 3600 + 5 * 3600 + 7 * 60  # seconds: another year, month, day, hour and minute


def watch() -> None:
    """Record who asks; in the second run, shift the clock."""
    for name in ASKED:
        if hasattr(os, name):
            setattr(os, name, _note_chance(getattr(os, name)))
    os.cpu_count = _fake_cpu_count(os.cpu_count)
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = _fake_cpu_count(os.process_cpu_count)
    if hasattr(os, "sched_getaffinity"):
        os.sched_getaffinity = _affinity(os.sched_getaffinity)
    names = random.Random(0)  # noqa: S311 - names of temporary files, the same in every observation
    tempfile._RandomNameSequence.rng = property(lambda _: names)  # noqa: SLF001 - the only way to set them
    if FACTS.known["chance"]:
        _let_it_be_later()


def _note_chance(real: Any) -> Any:
    @functools.wraps(real)
    def called(*args: Any) -> Any:
        if FACTS.lets_ask():
            FACTS.note("chance")
        return real(*args)

    return called


def _fake_cpu_count(real: Any) -> Any:
    @functools.wraps(real)
    def called() -> Any:
        return machine().processors if FACTS.lets_ask() else real()

    return called


def _affinity(real: Any) -> Any:
    @functools.wraps(real)
    def called(pid: int) -> Any:
        return set(range(machine().processors)) if FACTS.lets_ask() else real(pid)

    return called


def _let_it_be_later() -> None:
    real = time.time
    now, now_ns, real_datetime = real, time.time_ns, datetime.datetime
    time.time = lambda: now() + LATER
    time.time_ns = lambda: now_ns() + LATER * 10**9
    for name in ("ctime", "gmtime", "localtime"):
        setattr(time, name, _later(getattr(time, name)))
    formatted = time.strftime
    time.strftime = lambda form, when=None: formatted(form, when or time.localtime())
    written = time.asctime
    time.asctime = lambda when=None: written(when or time.localtime())
    shift = datetime.timedelta(seconds=LATER)

    class Later(real_datetime, metaclass=_like(real_datetime)):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real_datetime.now(tz) + shift

        today = classmethod(lambda _: real_datetime.today() + shift)
        utcnow = classmethod(lambda _: _utc(real_datetime) + shift)

    real_date = datetime.date

    class LaterDate(real_date, metaclass=_like(real_date)):
        today = classmethod(lambda _: real_date.today() + shift)

    datetime.datetime, datetime.date = Later, LaterDate


def _utc(kind: Any) -> Any:
    return kind.now(datetime.timezone.utc).replace(tzinfo=None)


def _later(real: Any) -> Any:
    return lambda seconds=None: real(time.time() if seconds is None else seconds)


def _like(kind: type) -> type:
    """Return a metaclass whose classes accept every instance of `kind` as their own."""
    return type("Like", (type,), {"__instancecheck__": lambda _, value: isinstance(value, kind)})
