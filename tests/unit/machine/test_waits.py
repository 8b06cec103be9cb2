from __future__ import annotations

import os
import re
import time

import pytest

from ci_tools.machine.waits import Waits


def test_what_is_waited_for_is_said_every_few_seconds_and_then_no_more() -> None:
    said: list[str] = []
    with Waits(said.append, 0.1).over("the moon"):
        time.sleep(0.36)
    count = len(said)
    assert 2 <= count <= 3
    assert all(re.fullmatch(r"waiting for the moon: \d s", line) for line in said)
    time.sleep(0.25)
    assert len(said) == count


def test_what_comes_soon_is_not_said() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.2)
    for _ in range(20):
        with waits.over("it"):
            time.sleep(0.02)
    assert said == []


def test_several_are_said_each_by_its_own_time() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.1)
    with waits.over("one"):
        time.sleep(0.08)
        with waits.over("two"):
            time.sleep(0.06)
    assert said == ["waiting for one: 0 s"]


def test_what_is_waited_for_after_a_silence_is_said_too() -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.05)
    for _ in range(2):
        with waits.over("it"):
            time.sleep(0.09)
        time.sleep(0.2)
    assert len(said) == 2


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
                time.sleep(0.2)
            os._exit(0 if "waiting for the child's: 0 s" in said else 1)
        assert os.waitpid(child, 0)[1] == 0
