"""Which compilers run at a time: as many as memory holds, and nothing waits for ever."""

from __future__ import annotations

import random

import pytest

from ci_tools.build.units.slots import MemoryClaim, find_room

ROOM = 16


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
