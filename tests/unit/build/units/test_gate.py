"""When a unit's compiler may start: what it is expected to take, how long before the time limit, and beside which."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from ci_tools.build.units.calls import CompilerCall
from ci_tools.build.units.gate import (
    MARGIN,
    SPARE,
    UNKNOWN,
    UNKNOWN_CUDA,
    Gate,
    MemoryClaim,
    TimeIsUp,
    count_threads,
    find_room,
)
from ci_tools.build.units.store import UnitCost, UnitStore, keep_cost
from ci_tools.machine.runner import GIB

ROOM = 16
ARCHS = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=sm_100")


def call(program: str, *words: str) -> CompilerCall:
    return CompilerCall(Path(f"/bin/{program}"), words, Path("/s"), {}, ("a.cu",), "cu" if program == "nvcc" else "c++")


@pytest.mark.parametrize(
    ("compiled", "threads"),
    [
        pytest.param(call("nvcc", *ARCHS), 1, id="nvcc-works-on-one-at-a-time"),
        pytest.param(call("nvcc", "--threads", "4", *ARCHS), 2, id="one-thread-for-each-architecture"),
        pytest.param(call("nvcc", "-t=2", *ARCHS, "-gencode=arch=a,code=c"), 2, id="as-many-as-it-may"),
        pytest.param(call("nvcc", "--threads=8"), 1, id="one-architecture"),
        pytest.param(call("g++", "-t", "4"), 1, id="no-nvcc"),
    ],
)  # fmt: skip
def test_a_compiler_with_threads_takes_as_much_for_each(compiled: CompilerCall, threads: int) -> None:
    assert count_threads(compiled) == threads


def test_a_unit_is_expected_to_take_what_it_took_or_what_the_largest_does(tmp_path: Path) -> None:
    gate = Gate(folder=tmp_path, store=(store := UnitStore(folder=tmp_path / "store")))
    expected = [gate._expect("u", call("nvcc")).peak, gate._expect("u", call("g++")).peak]  # noqa: SLF001
    for peak in (GIB // 4, 5 * GIB):
        gate.learn(call("nvcc"), UnitCost(9.0, 9.0, peak))
        expected.append(gate._expect("u", call("nvcc")).peak)  # noqa: SLF001
    keep_cost("u", UnitCost(1.0, 1.0, GIB), store)
    expected.append(gate._expect("u", call("nvcc")).peak)  # noqa: SLF001
    assert expected == [round(size * MARGIN) for size in (UNKNOWN_CUDA, UNKNOWN, GIB // 2, 5 * GIB, GIB)]


@pytest.mark.parametrize(
    ("left", "wall", "may_start"),
    [
        pytest.param(SPARE + 60, 50.0, True, id="ends-before"),
        pytest.param(SPARE + 60, 58.0, False, id="would-not-end-with-its-margin"),
        pytest.param(SPARE - 1, 0.0, False, id="no-time-left"),
    ],
)
def test_no_compiler_starts_that_would_not_end(left: float, wall: float, *, may_start: bool, tmp_path: Path) -> None:
    gate = Gate(folder=tmp_path, deadline=time.monotonic() + left)
    gate.learn(call("g++"), UnitCost(wall))
    try:
        with gate.enter("u", call("g++"), lambda: None):
            started = True
    except TimeIsUp:
        started = False
    assert (started, gate.is_closed) == (may_start, not may_start)


def test_once_one_is_refused_no_other_starts(tmp_path: Path) -> None:
    gate = Gate(folder=tmp_path, is_closed=True)
    with pytest.raises(TimeIsUp), gate.enter("u", call("g++"), lambda: None):
        pass


def runs(size: int, started: int = 1) -> MemoryClaim:
    return MemoryClaim(size, 0, started, ROOM)


@pytest.mark.parametrize(
    ("mine", "others", "available", "may_start"),
    [
        pytest.param(MemoryClaim(99, 5), [], ROOM, True, id="nothing-else-runs-so-the-largest-starts"),
        pytest.param(MemoryClaim(9, 5), [runs(9)], ROOM, False, id="heavy-ones-never-together"),
        pytest.param(MemoryClaim(7, 5), [runs(9)], ROOM, True, id="a-light-one-beside-a-heavy-one"),
        pytest.param(MemoryClaim(7, 5), [runs(9)], 6, False, id="others-programs-took-the-memory-meanwhile"),
        pytest.param(
            MemoryClaim(1, 5), [runs(99)], ROOM, False, id="nothing-beside-one-that-is-larger-than-the-machine"
        ),
        pytest.param(
            MemoryClaim(2, 5), [runs(9), MemoryClaim(9, 3)], ROOM, True, id="passes-one-that-would-fit-beside-it"
        ),
        pytest.param(
            MemoryClaim(5, 5), [runs(9), MemoryClaim(12, 3)], ROOM, False, id="does-not-pass-one-that-would-not"
        ),
        pytest.param(
            MemoryClaim(3, 5), [runs(4), runs(3, 4), MemoryClaim(12, 3)], ROOM, False, id="two-that-pass-are-added-up"
        ),
        pytest.param(MemoryClaim(5, 5), [runs(9), MemoryClaim(12, 7)], ROOM, True, id="need-not-let-a-later-one-pass"),
        pytest.param(
            MemoryClaim(5, 5), [MemoryClaim(12, 3)], ROOM, False, id="the-one-that-waits-longest-starts-first"
        ),
    ],
)
def test_a_compiler_starts_where_it_fits(
    mine: MemoryClaim, others: list[MemoryClaim], available: int, *, may_start: bool
) -> None:
    assert bool(find_room(mine, others, available)) is may_start


@pytest.mark.parametrize("seed", range(20))
def test_every_unit_gets_its_turn_and_memory_is_never_exceeded(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - it is no secret
    waiting = [MemoryClaim(rng.choice([1, 2, 8, 12, 20]), asked) for asked in range(1, 60)]
    running: dict[MemoryClaim, int] = {}  # and when each ends
    now = 60
    while waiting or running:
        now += 1
        running = {claim: end for claim, end in running.items() if end > now}
        used = sum(claim.size for claim in running)
        for claim in rng.sample(waiting, len(waiting)):
            others = [*running, *(one for one in waiting if one != claim)]
            if room := find_room(claim, others, ROOM - used):
                waiting.remove(claim)
                running[claim._replace(started=now, room=room)] = now + rng.randint(1, 9)
                used += claim.size
            assert used <= ROOM or len(running) == 1
        assert now < 5_000
