from __future__ import annotations

import time

import pytest

from ci_tools.errors import InputError
from ci_tools.formats.toml.text import parse_toml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("x = ", "a.toml:1:5: this is not TOML", id="no-value"),
        pytest.param(
            f"x = {'9' * 5000}", "a.toml: this is not TOML: Exceeds the limit", id="more-digits-than-python-reads"
        ),
        pytest.param(f"x = {'[' * 100_000}", "a.toml: this is not TOML", id="nested-too-deep"),
        pytest.param(f"{'a.' * 50_000}a = 1", "a.toml: a key has more dotted parts", id="a-key-of-many-parts"),
        pytest.param("#" * (5 << 20), "a.toml has 5,242,880 characters", id="too-long"),
    ],
)
def test_what_is_not_toml_is_one_sentence(text: str, said: str) -> None:
    started = time.process_time()
    with pytest.raises(InputError, match=said):
        parse_toml(text, "a.toml")
    assert time.process_time() - started < 3


def test_versions_and_addresses_may_have_dots() -> None:
    assert parse_toml('x = ["1.2.3", "a.b"]\n[a.b.c]\nd = "https://example.org/v1.0"', "a.toml")["a"]
