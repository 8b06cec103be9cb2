"""When a unit's compiler may start: what it is expected to take, and how long before the time limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.build.units.calls import CompilerCall
from ci_tools.build.units.gate import MARGIN, SPARE, UNKNOWN, UNKNOWN_CUDA, Gate, TimeIsUp, count_threads
from ci_tools.build.units.store import UnitCost, UnitStore, keep_cost
from ci_tools.machine.runner import GIB

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
