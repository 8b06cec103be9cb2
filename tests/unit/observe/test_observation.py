"""Which flags do not count in an observation, and what of its journal is believed."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from ci_tools.model.evidence import Compile
from ci_tools.observe.observation import (
    ELSEWHERE,
    ENDLESS,
    FORGED,
    MAX_LINES,
    MAX_TOLD,
    TAKEN_BACK,
    UNENDED,
    Observed,
    read_journal,
)


def observed(flags: tuple[str, ...], configured: tuple[str, ...] = ()) -> Observed:
    return Observed({}, commands=(Compile("a.cu", "nvcc", flags),), configured=(configured,))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(("--threads", "1"), ("--threads", "64"), True, id="of-nvcc"),
        pytest.param(("-t4",), ("-t8",), True, id="of-nvcc-in-one-word"),
        pytest.param(("-flto=1",), ("-flto=64",), True, id="of-gcc"),
        pytest.param(("/MP",), ("/MP8",), True, id="of-msvc"),
        pytest.param(("-flto",), (), False, id="to-link-with-lto"),
        pytest.param(("-flto=8",), (), False, id="only-with-jobs"),
        pytest.param(("-DTHREADS=1",), ("-DTHREADS=64",), False, id="a-macro-of-the-code"),
        pytest.param(("-O1",), ("-O2",), False, id="another-flag"),
    ],
)
def test_a_number_of_jobs_does_not_count(one: tuple[str, ...], other: tuple[str, ...], *, is_same: bool) -> None:
    assert (observed(one).without_jobs == observed(other).without_jobs) == is_same


def test_a_number_of_jobs_for_cmake_does_not_count() -> None:
    one, other = (observed((), (f"-DCMAKE_JOB_POOLS:STRING=compile={number}", "-DA=1")) for number in (1, 64))
    assert one.without_jobs == other.without_jobs
    assert one.without_jobs != observed((), ("-DCMAKE_JOB_POOLS:STRING=compile=1", "-DA=2")).without_jobs


WORD = "word"
NOTHING: dict[str, Any] = {
    "asked": {},
    "doubts": {},
    "imports": {},
    "reads": {},
    "compiles": [],
    "links": [],
    "configured": [],
}


def line(**what: object) -> bytes:
    return json.dumps(what).encode() + b"\n"


def answer(word: str = WORD, **told: object) -> bytes:
    text = json.dumps({**NOTHING, **told}).encode()
    return b"answer " + hmac.new(word.encode(), text, hashlib.sha256).hexdigest().encode() + b" " + text + b"\n"


def doubts(content: bytes) -> list[str]:
    found = read_journal(content, WORD)
    assert found
    return list(found["doubts"])


@pytest.mark.parametrize("content", [b"", b"\n\n", answer("other"), answer(asked=[]), b"answer ", line(answer="{}")])
def test_without_a_sealed_answer_there_is_none(content: bytes) -> None:
    assert read_journal(content, WORD) is None


def test_what_was_told_on_the_way_cannot_be_left_out() -> None:
    content = line(asked={"os": "setup.py:1"}, by=1) + line(imports={"torch": "setup.py:2"}, by=2)
    found = read_journal(content + answer(asked={"os": ""}), WORD)
    assert found == {
        **NOTHING,
        "asked": {"os": "setup.py:1"},
        "imports": {"torch": "setup.py:2"},
        "own_commands": [],
        "before": ["os"],
    }


@pytest.mark.parametrize(
    ("first", "before"),
    [
        pytest.param({"network": ""}, ["os", "python"], id="of-the-build"),
        pytest.param({"clock": ""}, ["os"], id="that-was-told-earlier"),
        pytest.param({"never told": ""}, ["os", "python", "gpu"], id="that-was-not-told"),
        pytest.param({}, ["os"], id="of-a-child-only"),
    ],
)
def test_what_was_asked_before_the_first_doubt_is_known(first: dict[str, str], before: list[str]) -> None:
    told = [{"asked": {"os": ""}}, {"doubts": {"clock": ""}}, {"asked": {"python": ""}}, {"doubts": {"network": ""}}]
    content = b"".join(line(**event) for event in (*told, {"asked": {"gpu": ""}}, {"doubts": {"clock": "again"}}))
    found = read_journal(content + answer(doubts=first, asked=dict.fromkeys(("os", "python", "gpu"), "")), WORD)
    assert found is not None
    assert found["before"] == before


@pytest.mark.parametrize(
    ("content", "doubt"),
    [
        pytest.param(line(doubts={"runs x": "setup.py:3"}), "runs x", id="told"),
        pytest.param(line(compiled="a.c", by=1), TAKEN_BACK, id="a-compilation-that-is-left-out"),
        pytest.param(line(linked="a.so", by=1), TAKEN_BACK, id="a-library-that-is-left-out"),
        pytest.param(line(began=1, by=2), UNENDED, id="a-python-without-an-end"),
        pytest.param(line(began=1, by=2) + line(ended=1, by=3), UNENDED, id="the-end-of-another"),
        pytest.param(line(began=1, by=2) + line(compiled="a.c", by=2) + line(ended=1, by=2), ELSEWHERE, id="elsewhere"),
        pytest.param(answer("other"), FORGED, id="an-answer-without-the-word"),
        pytest.param(b"{}\n" * (MAX_LINES + 1), ENDLESS, id="lines-without-an-end"),
        pytest.param(b'{"a": "' + b"x" * MAX_TOLD + b'"}\n', ENDLESS, id="a-line-without-an-end"),
    ],
)
def test_a_line_adds_a_doubt_that_the_answer_has_not(content: bytes, doubt: str) -> None:
    assert doubts(content + answer()) == [doubt]


def test_a_compilation_that_the_answer_has_is_no_doubt() -> None:
    assert doubts(line(compiled="a.c", by=1) + line(linked="a", by=1) + answer(compiles=[{}], links=[{}])) == []


def test_what_is_no_line_of_an_observer_is_a_command() -> None:
    found = read_journal(b"gcc -c a.c\n\xff\n[1]\n" + answer(), WORD)
    assert found
    assert found["own_commands"] == ["gcc -c a.c", "\ufffd", "[1]"]
