"""A table of a TOML file has the values that tomllib reads, and every one of them has its place."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ci_tools.errors import InputError
from ci_tools.formats import toml_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Iterator, Mapping
from pathlib import Path

from ci_tools.formats.yaml_file import Document, Keys, Value

TABLE = ("tool", "fatwheel")
EVERY_FORM = '''\
# [tool.fatwheel] is further down
[project]
name = "a [b] # c"
text = """
[tool.fatwheel] # "quoted" \\""" still
"""""
[[tool.other]]
a.b = [{c = 1}, {c = 2, d = [[1, 2], []]},
  # ] a bracket
]
[tool.fatwheel]
package = 'demo # no comment' # c = 1
python = [ "3.10",
  3.12, # 3.13,
  '3.14t',
]
torch = { lowest = 2.10 }
empty = {}
when = 1979-05-27 07:32:00
date = 1979-05-27
much = [1e3, inf, -1_000, 0xff, true , false]
"quoted.key" = "x"
platforms . linux-cpu = {}
lines = \'\'\'
one'' two\'\'\'\'
[tool.fatwheel.platforms."linux-cuda"]
owner = "\\"a\\""
[[tool.fatwheel.jobs]]
a = 1
[[tool.fatwheel.jobs.inner]]
b = 2
[[tool.fatwheel.jobs]]
a = "é"
'''


def read(folder: Path, text: str) -> Document:
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return toml_file.read(path, "pyproject.toml", TABLE)


def leaves(value: Value, keys: Keys = ()) -> Iterator[tuple[Keys, Value]]:
    """Yield every value that holds no others, with its keys."""
    inner: list[tuple[str | int, Value]] = []
    inner = [*value.items()] if isinstance(value, dict) else [*enumerate(value)] if isinstance(value, list) else []
    if not inner:
        yield keys, value
    for key, item in inner:
        yield from leaves(item, (*keys, key))


def begins_with(text: str, value: object) -> bool:
    """Whether a text begins with a value in the notation of TOML, after which its line or its list may go on."""
    return any(repr(read_value(text[:end])) == repr(value) for end in range(1, len(text) + 1))


def read_value(text: str) -> object:
    """Return the value of a text; the exception if it is none."""
    try:
        return tomllib.loads(f"key = {text}", parse_float=str)["key"]
    except tomllib.TOMLDecodeError as error:
        return error


def rest(text: str, where: str) -> str:
    """Return a text from a place on."""
    _, line, column = where.split(":")
    lines = text.split("\n")[int(line) - 1 :]
    return "\n".join([lines[0][int(column) - 1 :], *lines[1:]])


def raw(text: str) -> Any:  # noqa: ANN401 - TOML
    return tomllib.loads(text, parse_float=str)["tool"]["fatwheel"]


def value_at(value: Any, keys: Keys) -> Any:  # noqa: ANN401 - TOML
    for key in keys:
        value = value[key]
    return value


def assert_placed(text: str, document: Document) -> None:
    """Assert that every value without others begins at its place, and every key at its own."""
    whole = raw(text)
    for keys, _ in leaves(document.value) if document.value else ():
        found = value_at(whole, keys)
        at, key = rest(text, document.where(keys)), rest(text, document.where(keys, key=True))
        assert begins_with(at, found) or (found in ({}, []) and at.startswith("[")), keys
        assert key.startswith((str(keys[-1]), f'"{keys[-1]}', "[")) or "." in key or isinstance(keys[-1], int), keys


def test_every_value_begins_at_its_place(tmp_path: Path) -> None:
    document = read(tmp_path, EVERY_FORM)
    assert_placed(EVERY_FORM, document)
    assert (document.where(), document.where(("platforms", "linux-cuda"))) == (
        "pyproject.toml:11:1",
        "pyproject.toml:26:1",
    )
    assert document.where(("jobs", 1, "a")) == "pyproject.toml:33:5"


def test_a_number_with_a_point_and_a_date_stay_text(tmp_path: Path) -> None:
    value: Any = read(tmp_path, EVERY_FORM).value
    assert value["python"] == ["3.10", "3.12", "3.14t"]
    assert (value["torch"], value["date"]) == ({"lowest": "2.10"}, "1979-05-27")
    assert value["much"] == ["1e3", "inf", -1000, 255, True, False]


def test_line_ends_of_windows_change_no_place(tmp_path: Path) -> None:
    document = read(tmp_path, EVERY_FORM)
    (tmp_path / "pyproject.toml").write_bytes(EVERY_FORM.replace("\n", "\r\n").encode())
    again = toml_file.read(tmp_path / "pyproject.toml", "pyproject.toml", TABLE)
    assert (again.values, again.keys) == (document.values, document.keys)


WORDS = some.text(some.characters(codec="utf-8", exclude_characters="\x7f", min_codepoint=32), max_size=8)
NAMES = some.sampled_from(["a", "b-c", "_", "3", "linux-cuda"])
TREES = some.dictionaries(
    NAMES,
    some.recursive(
        some.booleans() | some.integers(-9, 10**20) | WORDS,
        lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def written(value: object) -> str:
    """Return a value in the notation of TOML: its mappings as inline tables."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {written(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{''.join(f'{chr(10)}  {written(item)}, # ]' for item in value)}\n]" if value else "[]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value).lower()


def lines_of(tree: Mapping[str, object], header: str) -> Iterator[str]:
    """Yield the lines of a table, its mappings as tables of their own."""
    yield f"[{header}]"
    yield from (f"{key} = {written(item)} # [x]" for key, item in tree.items() if not isinstance(item, dict))
    for key, item in tree.items():
        if isinstance(item, dict):
            yield from lines_of(item, f"{header}.{key}")


@given(tree=TREES)
def test_any_table_has_its_values_and_places(tree: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = "\n".join(['[project]\nname = "x"', *lines_of(tree, "tool.fatwheel")]) + "\n"
    document = read(tmp_path_factory.getbasetemp(), text)
    assert document.value == {key: plain(value) for key, value in tree.items()}
    assert_placed(text, document)


def plain(value: object) -> object:
    """Return a value as a document has it: a whole number of many digits is text."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value if isinstance(value, (bool, str)) or abs(int(str(value))) < 10**18 else str(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[tool.fatwheel\n", "pyproject.toml:1:15: this is not TOML: ", id="not-toml"),
        pytest.param("[tool.x]\n", "pyproject.toml has no table [tool.fatwheel], expected a config there", id="none"),
        pytest.param("tool = 1\n", "pyproject.toml has no table [tool.fatwheel]", id="a-number-in-its-place"),
        pytest.param("[tool.fatwheel]\na = 1\na = 2\n", "pyproject.toml:3:6: this is not TOML: ", id="a-key-twice"),
    ],
)
def test_a_file_without_the_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert refused.value.message.startswith(said)
