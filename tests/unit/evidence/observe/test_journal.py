from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from ci_tools.evidence.observe.journal import (
    ELSEWHERE,
    ENDLESS,
    FORGED,
    MOST_LINES,
    MOST_TOLD,
    TAKEN_BACK,
    UNENDED,
    read,
)

WORD = "word"
NOTHING: dict[str, Any] = {"asked": {}, "doubts": {}, "imports": {}, "compiles": [], "links": []}


def line(**what: object) -> bytes:
    return json.dumps(what).encode() + b"\n"


def answer(word: str = WORD, **told: object) -> bytes:
    text = json.dumps({**NOTHING, **told}).encode()
    return b"answer " + hmac.new(word.encode(), text, hashlib.sha256).hexdigest().encode() + b" " + text + b"\n"


def doubts(content: bytes) -> list[str]:
    found = read(content, WORD)
    assert found
    return list(found["doubts"])


@pytest.mark.parametrize("content", [b"", b"\n\n", answer("other"), answer(asked=[]), b"answer ", line(answer="{}")])
def test_without_a_sealed_answer_there_is_none(content: bytes) -> None:
    assert read(content, WORD) is None


def test_what_was_told_on_the_way_cannot_be_left_out() -> None:
    content = line(asked={"os": "setup.py:1"}, by=1) + line(imports={"torch": "setup.py:2"}, by=2)
    found = read(content + answer(asked={"os": ""}), WORD)
    assert found == {
        **NOTHING,
        "asked": {"os": "setup.py:1"},
        "imports": {"torch": "setup.py:2"},
        "own_commands": [],
    }


@pytest.mark.slow
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
        pytest.param(b"{}\n" * (MOST_LINES + 1), ENDLESS, id="lines-without-an-end"),
        pytest.param(b'{"a": "' + b"x" * MOST_TOLD + b'"}\n', ENDLESS, id="a-line-without-an-end"),
    ],
)
def test_a_line_adds_a_doubt_that_the_answer_has_not(content: bytes, doubt: str) -> None:
    assert doubts(content + answer()) == [doubt]


def test_a_compilation_that_the_answer_has_is_no_doubt() -> None:
    assert doubts(line(compiled="a.c", by=1) + line(linked="a", by=1) + answer(compiles=[{}], links=[{}])) == []


def test_what_is_no_line_of_an_observer_is_a_command() -> None:
    found = read(b"gcc -c a.c\n\xff\n[1]\n" + answer(), WORD)
    assert found
    assert found["own_commands"] == ["gcc -c a.c", "\ufffd", "[1]"]
