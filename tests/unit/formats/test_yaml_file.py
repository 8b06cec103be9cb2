from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ci_tools.errors import InputError
from ci_tools.formats import yaml_file

REPOSITORY = Path(__file__).parents[3]


def read(tmp_path: Path, content: str | bytes) -> yaml_file.Document:
    path = tmp_path / "a.yml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return yaml_file.read(path, "a.yml")


def refusal(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: 3.10", "3.10", id="a-number-with-a-point-stays-text"),
        pytest.param("a: 12", 12, id="whole-number"),
        pytest.param("a: -12", -12, id="negative-number"),
        pytest.param("a: 2026-11-21", "2026-11-21", id="a-date-stays-text"),
        pytest.param("a: 1_000", "1_000", id="a-number-with-a-mark-stays-text"),
        pytest.param("a: 99999999999999999999", "99999999999999999999", id="a-huge-number-stays-text"),
        pytest.param("a: 1e400", "1e400", id="an-exponent-stays-text"),
        pytest.param("a: yes", True, id="yes-is-true"),
        pytest.param("a: OFF", False, id="off-is-false"),
        pytest.param("a: ~", None, id="tilde-is-nothing"),
        pytest.param("a:", None, id="no-value-is-nothing"),
        pytest.param("a: '12'", "12", id="quoted-number"),
        pytest.param("a: [1, {b: c}]", [1, {"b": "c"}], id="nested"),
        pytest.param("a: &x [1]\nb: *x", [1], id="an-alias-is-its-value"),
        pytest.param("\ufeffa: b", "b", id="byte-order-mark"),
        pytest.param("a: b\r\n", "b", id="line-ends-of-windows"),
        pytest.param("a: |\n  b\n  c\n", "b\nc\n", id="block-of-lines"),
    ],
)
def test_a_value_is_what_was_written(tmp_path: Path, text: str, value: object) -> None:
    document = read(tmp_path, text).value
    assert isinstance(document, dict)
    assert (type(document["a"]), document["a"]) == (type(value), value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, expected a YAML file"):
        yaml_file.read(tmp_path, "a.yml")


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    assert refusal(tmp_path, "a: !x 1\nb: 1\nb: !y 2").splitlines() == [
        'a.yml:1:4: the YAML tag "!x" is not allowed, expected a plain value',
        'a.yml:3:1: the key "b" is here twice, first on line 2',
        'a.yml:3:4: the YAML tag "!y" is not allowed, expected a plain value',
    ]


@pytest.mark.parametrize(
    ("keys", "where", "where_key"),
    [
        pytest.param(("a", "b", 1), "a.yml:3:5", "a.yml:2:3", id="item"),
        pytest.param(("a",), "a.yml:2:3", "a.yml:1:1", id="mapping"),
        pytest.param(("a", "c"), "a.yml:2:3", "a.yml:1:1", id="missing-key-is-its-parent"),
        pytest.param((), "a.yml:1:1", "a.yml:1:1", id="document"),
    ],
)
def test_a_document_knows_where_a_value_stands(
    tmp_path: Path, keys: yaml_file.Keys, where: str, where_key: str
) -> None:
    document = read(tmp_path, "a:\n  b: [1,\n    2]\n")
    assert (document.where(keys), document.where(keys, key=True)) == (where, where_key)


@pytest.mark.parametrize(
    ("keys", "where", "where_key"),
    [
        pytest.param(("a", "b"), "b.yml:2:1", "a.yml:1:5", id="the-part-itself-and-its-own-key"),
        pytest.param(("a", "b", "x"), "b.yml:2:4", "b.yml:2:1", id="what-is-in-it"),
        pytest.param(("a", "b", "c"), "b.yml:2:1", "a.yml:1:5", id="what-was-in-its-place"),
        pytest.param(("a", "d"), "a.yml:1:19", "a.yml:1:16", id="what-is-beside-it"),
    ],
)
def test_a_part_of_another_file_keeps_its_places(
    tmp_path: Path, keys: yaml_file.Keys, where: str, where_key: str
) -> None:
    (tmp_path / "b.yml").write_text("# mine\nx: 1\n")
    part = yaml_file.read(tmp_path / "b.yml", "b.yml")
    document = read(tmp_path, "a: {b: {c: 0}, d: 1}\n").replace_part(("a", "b"), part)
    assert document.value == {"a": {"b": {"x": 1}, "d": 1}}
    assert (document.where(keys), document.where(keys, key=True)) == (where, where_key)


PIECES = [
    "a", "b: ", "- ", "[", "]", "{", "}", ", ", ": ", ":", "\n", "\n  ", "\n- ", "'", '"', " # c", "&x ", "*x", "|\n  ",
    "3.10", "~", "<<: ", ">-\n  ", "\n    ", "%", "--- ", "é", "→", "\\n", "0x1f", "yes", "!", "?", "\t", "...",
    "${{ ", " }}", " != ", " && ", "(", ")", "${{ !",
]  # fmt: skip


def nodes_of(node: yaml.Node | None) -> Iterator[tuple[object, ...]]:
    """A document's nodes, with all that a reader asks them for."""
    if node is None:
        return
    is_scalar = isinstance(node, yaml.ScalarNode)
    marks = [(mark.line, mark.column, mark.index) for mark in (node.start_mark, node.end_mark)]
    yield node.tag, marks, node.value if is_scalar else len(node.value), (node.style if is_scalar else None) or None
    for part in () if is_scalar else node.value:
        for inner in part if isinstance(part, tuple) else (part,):
            yield from nodes_of(inner)


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_libyaml_reads_no_text_otherwise_than_pyyaml(pieces: list[str]) -> None:
    text = "".join(pieces) + "\n"
    try:
        expected = list(nodes_of(yaml.compose(text, Loader=yaml.SafeLoader)))
    except yaml.YAMLError:
        with pytest.raises(InputError):
            yaml_file.compose(text, "a.yml")
    else:
        assert list(nodes_of(yaml_file.compose(text, "a.yml"))) == expected


def test_usual_configs_and_workflows_are_read_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "SafeLoader")
    for config in (*(REPOSITORY / "package").glob("*.yml"), *(REPOSITORY / ".github" / "workflows").glob("*.yml")):
        assert yaml_file.compose(config.read_text(encoding="utf-8") + "# read anew\n", config.name)


TENFOLD = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
BOMB = f"a0: &a0 [x, x]\n{TENFOLD}"


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
