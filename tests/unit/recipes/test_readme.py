"""The table of wheels in a README: what stands in it, and what a README must have."""

from __future__ import annotations

import pytest

from ci_tools.errors import InputError
from ci_tools.publish.retention.judgement import Asset, Stored
from ci_tools.publish.retention.tags import Naming, Retention
from ci_tools.recipes.readme import BEGIN, END, list_rows, replace_table, table_of

HOUSE = Naming("demo", "demo-v{version}-py{python}", "demo", Retention())
PAGE = "https://github.com/octo/wheels"


def stored(tag: str, *names: str, draft: bool = False) -> Stored:
    assets = tuple(Asset(name, 1, f"{PAGE}/download/{name}") for name in names)
    return Stored(1, tag, draft, is_ours=True, mark="", assets=assets, page=f"{PAGE}/{tag}")


def wheel(version: str, python: str = "cp313") -> str:
    return f"demo-{version}-{python}-{python}-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"


def test_each_series_has_its_newest_stable_release() -> None:
    releases = [
        stored("demo-v1.0-py313", wheel("1.0")),
        stored("demo-v1.10-py313", wheel("1.10+cu130"), "fatwheel-core.json", f"{wheel('1.10')}.metadata"),
        stored("demo-v1.10-py313-r1", wheel("1.10+cu130").replace("1.10+cu130-", "1.10+cu130-1-")),
        stored("demo-v1.9-py313", wheel("1.9")),
        stored("demo-v2.0.dev20261121-py313", wheel("2.0.dev20261121")),
        stored("demo-v2.0-py313-rc1", wheel("2.0")),
        stored("demo-v3.0-py313", wheel("3.0"), draft=True),
        stored("demo-v1.2-py314t", "demo-1.2-cp314-cp314t-linux_x86_64.whl"),
        stored("other-v1.0", "other-1.0-py3-none-any.whl"),
    ]
    found = [(str(row.version), row.label, row.python) for row in list_rows(releases, [HOUSE])]
    assert found == [("1.10+cu130", "cu130", "cp313"), ("1.2", "", "cp314t")]


@pytest.mark.parametrize(
    ("name", "python"),
    [
        pytest.param("demo-1.0-py3-none-any.whl", "py3", id="pure"),
        pytest.param("demo-1.0-cp310-abi3-linux_x86_64.whl", "cp310-abi3", id="abi3"),
        pytest.param("demo-1.0-cp314-cp314t-linux_x86_64.whl", "cp314t", id="free-threaded"),
    ],
)
def test_the_python_is_what_the_tags_say(name: str, python: str) -> None:
    (row,) = list_rows([stored("demo-v1.0-py313", name)], [HOUSE])
    assert row.python == python


@pytest.mark.parametrize("name", ["demo.whl", "demo-1.0-cp314t.whl", "notes.txt", "<b>.whl"])
def test_what_installers_cannot_read_is_left_out(name: str) -> None:
    assert list_rows([stored("demo-v1.0-py313", name)], [HOUSE]) == []


def test_text_of_others_has_no_effect_in_the_table() -> None:
    hostile = Asset("demo-1.0-py3-none-any.whl", 1, "https://x/|<b>`@octo\n| a")
    release = stored("demo-v1.0-py313")._replace(assets=(hostile,), page='javascript:"><b>')
    table = table_of(list_rows([release], [HOUSE]))
    assert len(table.splitlines()) == 3
    assert not [text for text in ("<b>", "javascript", "`", "@octo") if text in table]


def test_a_house_without_wheels_says_so() -> None:
    assert table_of([]) == "No wheel is published yet.\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_only_what_is_between_the_markers_changes(end: str) -> None:
    text = end.join(["\ufeff# A", BEGIN, "old", END, "after", ""])
    new = replace_table(text, "| new |\n", "README.md")
    assert new == end.join(["\ufeff# A", BEGIN, "", "| new |", "", END, "after", ""])
    assert replace_table(new, "| new |\n", "README.md") == new


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("# A\n", "has none", id="no-markers"),
        pytest.param(f"{BEGIN}\n", "1 and 0 such lines", id="no-end"),
        pytest.param(f"{END}\n{BEGIN}\n", "in this order", id="wrong-order"),
        pytest.param(f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n", "2 and 2 such lines", id="twice"),
        pytest.param(f"see {BEGIN} and {END}\n", "has none", id="within-a-line"),
    ],
)
def test_a_readme_without_its_markers_is_a_mistake(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        replace_table(text, "x\n", "README.md")
