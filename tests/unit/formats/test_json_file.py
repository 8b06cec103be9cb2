from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from ci_tools.errors import RejectedInput
from ci_tools.formats.json_file import parse, structure, structure_bytes, unstructure
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor


class Part(NamedTuple):
    name: str
    level: Level = Level.ERROR


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    count: int
    share: float = 0.0
    torch: Minor | None = None
    pair: tuple[str, str] = ("", "")
    named: Mapping[str, Part] | None = None


WHOLE = Whole((Part("a", Level.WARNING), Part("b")), 3, 1.5, Minor(2, 10), ("x", "y"), {"one": Part("c")})


def test_a_value_is_read_as_it_was_written() -> None:
    assert structure(unstructure(WHOLE), Whole, "a.json") == WHOLE


def test_a_whole_number_is_a_number() -> None:
    assert structure({"parts": [], "count": 1, "share": 2}, Whole, "a.json").share == 2.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"count": "3"}, "a.json: whole.count: expected a whole number, found a text", id="a-text"),
        pytest.param({"count": True}, "a.json: whole.count: expected a whole number, found true or false", id="a-bool"),
        pytest.param({"count": None}, "a.json: whole.count: expected a whole number, found null", id="null"),
        pytest.param({"share": "1"}, "a.json: whole.share: expected a number, found a text", id="a-text-for-a-number"),
        pytest.param({"parts": "ab"}, "a.json: whole.parts: expected a list, found a text", id="a-text-for-a-list"),
        pytest.param({"pair": "ab"}, "a.json: whole.pair: expected a list, found a text", id="a-text-for-a-pair"),
        pytest.param({"pair": ["a"]}, "a.json: whole.pair: expected 2 values, found 1", id="half-a-pair"),
        pytest.param({"parts": [{}]}, "a.json: whole.parts[0].name: this key is missing", id="a-missing-key"),
        pytest.param(
            {"parts": [["a"]]}, "a.json: whole.parts[0]: expected an object, found a list", id="a-list-for-an-object"
        ),
        pytest.param(
            {"parts": [{"name": "a", "level": "eror"}]},
            'a.json: whole.parts[0].level: "eror" is unknown, did you mean "error"?',
            id="no-such-name",
        ),
        pytest.param(
            {"parts": [{"name": "a", "nane": "b"}]}, "a.json: whole.parts[0]: unknown keys: nane", id="another-key"
        ),
        pytest.param({"torch": "2"}, 'a.json: whole.torch: "2" is not a version such as 13.0', id="no-version"),
        pytest.param({"named": [1]}, "a.json: whole.named: expected an object", id="a-list-for-a-mapping"),
        pytest.param({"more": 1}, "a.json: whole: unknown keys: more", id="an-unknown-key"),
    ],
)
def test_a_wrong_key_is_named_with_its_path(changed: dict[str, object], said: str) -> None:
    with pytest.raises(RejectedInput) as refused:
        structure({"parts": [], "count": 1, **changed}, Whole, "a.json", exact=True)
    assert refused.value.message.splitlines() == [said]


def test_all_wrong_keys_are_reported_together() -> None:
    with pytest.raises(RejectedInput) as refused:
        structure({"parts": [3], "count": "1"}, Whole, "a.json: plan.whole")
    assert refused.value.message.splitlines() == [
        "a.json: plan.whole.parts[0]: expected an object, found a whole number",
        "a.json: plan.whole.count: expected a whole number, found a text",
    ]


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000], ids=["empty", "half", "no-text", "deep"])
def test_a_text_that_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|utf-8|deeply"):
        parse(data)
    with pytest.raises(RejectedInput, match=r"^a\.json: this is not JSON: "):
        structure_bytes(data, Whole, "a.json")
