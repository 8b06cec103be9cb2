from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import InputError
from ci_tools.formats import yaml_file

if TYPE_CHECKING:
    from pathlib import Path

TENFOLD = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
BOMB = f"a0: &a0 [x, x]\n{TENFOLD}"


def read(tmp_path: Path, content: str | bytes) -> yaml_file.Document:
    path = tmp_path / "a.yml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return yaml_file.read(path, "a.yml")


def refusal(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    return caught.value.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "a.yml is empty", id="empty"),
        pytest.param(" \n\n", "a.yml is empty", id="blank"),
        pytest.param("# later\n", "a.yml is empty", id="only-a-comment"),
        pytest.param(
            b"\x7fELF\x02\x01\xff", "a.yml is not text: byte 6 is not UTF-8, expected a YAML file", id="binary"
        ),
        pytest.param("a: b".encode("utf-16"), "a.yml is not text: byte 0 is not UTF-8", id="utf-16"),
        pytest.param("a: b\nc: \0", "a.yml:2:4: this is not YAML: the character U+0000 is not allowed", id="nul"),
        pytest.param("a: \x1b[31m", "a.yml:1:4: this is not YAML: the character U+001B", id="escape-character"),
        pytest.param('a: "\\0"', "a.yml:1:4: the character U+0000 is not allowed here", id="escaped-nul"),
        pytest.param('"a\\e": b', "a.yml:1:1: the character U+001B is not allowed here", id="escaped-in-a-key"),
        pytest.param('a: "\\ud800"', "a.yml:1:4: the character U+D800 is not allowed here", id="half-a-character"),
        pytest.param("x" * 1_000_001, "a.yml is larger than 1,000,000 bytes", id="huge"),
        pytest.param("a: [b", "a.yml:1:6: this is not YAML: while parsing a flow sequence", id="broken"),
        pytest.param("\ta: b", "a.yml:1:1: this is not YAML: ", id="tab"),
        pytest.param("a: 'b", "a.yml:1:6: this is not YAML: while scanning a quoted scalar", id="open-quote"),
        pytest.param("a: b: c", "a.yml:1:5: this is not YAML: mapping values", id="two-colons"),
        pytest.param("a: *b", "a.yml:1:4: this is not YAML: found undefined alias", id="undefined-alias"),
        pytest.param("a: b\n---\nc: d", "a.yml:2:1: this is not YAML: expected a single document", id="two-documents"),
        pytest.param("a: 1\nb: 2\na: 3", 'a.yml:3:1: the key "a" is here twice, first on line 1', id="key-twice"),
        pytest.param("a: {b: 1, b: 1}", 'a.yml:1:11: the key "b" is here twice, first on line 1', id="inner-key-twice"),
        pytest.param("[a]: b", "a.yml:1:1: a key must be a plain word", id="list-as-key"),
        pytest.param("a: !mine b", 'a.yml:1:4: the YAML tag "!mine" is not allowed', id="own-tag"),
        pytest.param("!mine a: b", 'a.yml:1:1: the YAML tag "!mine" is not allowed', id="tagged-key"),
        pytest.param("a: !mine [b]", 'a.yml:1:4: the YAML tag "!mine" is not allowed', id="tagged-list"),
        pytest.param("a: !!set {b}", 'a.yml:1:4: the YAML tag "!!set" is not allowed', id="set"),
        pytest.param("a: !!bool maybe", 'a.yml:1:4: the YAML tag "!!bool" is not allowed', id="maybe"),
        pytest.param("a: !!binary aGk=", 'a.yml:1:4: the YAML tag "!!binary" is not allowed', id="binary-value"),
        pytest.param("!!python/object/apply:os.getcwd []", "a.yml:1:1: the YAML tag ", id="code"),
        pytest.param(BOMB, "a.yml:1:13: aliases expand to more than 20,000 values", id="bomb"),
        pytest.param("a: &x [*x]", "a.yml:1:4: aliases expand", id="recursive-list"),
        pytest.param("a: &x {b: *x}", "a.yml:1:4: aliases expand", id="recursive-mapping"),
        pytest.param("[" * 100_000, "a.yml:1:1: this is not YAML: values are nested too deep", id="deep-lists"),
        pytest.param("- " * 100_000, "a.yml:1:1: this is not YAML: values are nested too deep", id="deep-items"),
        pytest.param(
            'a: "\\UFFFFFFFF"', "a.yml:1:1: this is not YAML: an escape in it is of no character", id="no-character"
        ),
        pytest.param(
            'a: "\\U00110000"',
            "a.yml:1:1: this is not YAML: an escape in it is of no character",
            id="past-the-last-one",
        ),
        pytest.param(
            "[" * 50 + "]" * 50, "a.yml:1:42: aliases expand to more than 20,000 values", id="deeper-than-read"
        ),
    ],
)
def test_bad_yaml_is_refused_where_it_breaks(tmp_path: Path, content: str | bytes, message: str) -> None:
    assert refusal(tmp_path, content).startswith(message)
