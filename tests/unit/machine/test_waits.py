"""Waits are reported by a thread: each test waits until it has heard what it is about, however slow the machine is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

import pytest

from ci_tools.machine.waits import Waits

PATIENCE = 60  # seconds


def until(condition: Callable[[], bool]) -> float:
    """Wait until something holds, and return the time then."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return time.monotonic()


@pytest.mark.parametrize("what", ["the moon", lambda: "the moon"], ids=["named", "asked"])
def test_what_is_waited_for_is_said_every_few_seconds_and_then_no_more(what: str | Callable[[], str]) -> None:
    said: list[str] = []
    began = time.monotonic()
    with Waits(said.append, 0.1).over(what):
        took = until(lambda: len(said) >= 3) - began
    assert took >= 0.3
    assert all(re.fullmatch(r"waiting for the moon: \d+ s", line) for line in said)
    time.sleep(0.05)  # a line that was being said when the wait ended
    count = len(said)
    time.sleep(0.25)
    assert len(said) == count


def test_what_goes_on_is_not_waited_for() -> None:
    said: list[str] = []
    done = [0]
    with Waits(said.append, 0.4).over("it", lambda: done[0]):
        for done[0] in range(40):
            time.sleep(0.02)
        before = len(said)
        until(lambda: bool(said))
    assert before == 0


def test_what_comes_soon_is_not_said() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.2)
    longest = 0.0
    for _ in range(20):
        began = time.monotonic()
        with waits.over("it"):
            time.sleep(0.02)
        longest = max(longest, time.monotonic() - began)
    assert said == [] or longest >= 0.2


def test_several_are_said_each_by_its_own_time() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.4)
    with waits.over("one"):
        time.sleep(0.2)
        began = time.monotonic()
        with waits.over("two"):
            until(lambda: bool(said))
        took = time.monotonic() - began
    assert said[0] == "waiting for one: 0 s" or took >= 0.4
    assert "waiting for two: 0 s" not in said or took >= 0.4


def test_what_is_waited_for_after_a_silence_is_said_too() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.05)
    for _ in range(2):
        before = len(said)
        with waits.over("it"):
            until(lambda: len(said) > before)  # noqa: B023 - it is asked in this round
        time.sleep(0.2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_speaks_as_well() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.05)
    with waits.over("it"):
        child = os.fork()
        if child == 0:
            said.clear()
            with waits.over("the child's"):
                deadline = time.monotonic() + PATIENCE
                while not any("the child's" in line for line in said) and time.monotonic() < deadline:
                    time.sleep(0.005)
            os._exit(0 if any("the child's" in line for line in said) else 1)
        assert os.waitpid(child, 0)[1] == 0
