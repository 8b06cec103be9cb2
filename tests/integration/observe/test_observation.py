from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from ci_tools.observe.observation import (
    ELSEWHERE,
    ENDLESS,
    FORGED,
    MAX_LINES,
    MAX_TOLD,
    TAKEN_BACK,
    UNENDED,
    read_journal,
)

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
        pytest.param(b"{}\n" * (MAX_LINES + 1), ENDLESS, id="lines-without-an-end"),
        pytest.param(b'{"a": "' + b"x" * MAX_TOLD + b'"}\n', ENDLESS, id="a-line-without-an-end"),
    ],
)
def test_a_line_adds_a_doubt_that_the_answer_has_not(content: bytes, doubt: str) -> None:
    assert doubts(content + answer()) == [doubt]
