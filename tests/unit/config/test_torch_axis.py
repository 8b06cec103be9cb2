"""The words of `torch:` for a nightly, and which nightly of a project's catalog they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.config.torch_axis import choose_nightly, find_asked
from ci_tools.errors import InputError
from ci_tools.model.request import Request
from ci_tools.observe.cells import torches_of
from tests.builders.sources import demo

FILE = "fatwheel.catalog.toml"
ROW = """\
[[torch.nightly]]
version = "9.9.0.dev{date}"
indexes = ["http://127.0.0.1:9/whl/nightly"]
[torch.nightly.pythons]
linux-x86_64 = ["3.12"]
"""
CONFIG = 'package: demo\npython: ["3.12"]\ntorch: {torch}\nplatforms: {{ linux-cpu: {{ owner: us }} }}\n'
ROWS = ROW.format(date="20261124") + ROW.format(date="20261125")


def load(folder: Path, torch: str, rows: str = ROWS, nightly: str | None = None) -> Request:
    demo(folder, {"fatwheel.yml": CONFIG.format(torch=torch), FILE: rows})
    return loader.load(folder / "fatwheel.yml", catalog.load(), nightly=nightly)


def asked_of(request: Request) -> list[str]:
    return list(map(str, torches_of(request, catalog.load(request.catalog))))


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        pytest.param("nightly", ["9.9.0.dev20261125"], id="alone"),
        pytest.param("nightly 20261124", ["9.9.0.dev20261124"], id="of-a-day"),
        pytest.param('["2.15", nightly]', ["2.15", "9.9.0.dev20261125"], id="in-a-list"),
        pytest.param('[nightly 20261124, "2.15"]', ["2.15", "9.9.0.dev20261124"], id="of-a-day-in-a-list"),
        pytest.param("last 2 and nightly", ["2.14", "2.15", "9.9.0.dev20261125"], id="beside-the-last"),
        pytest.param('{lowest: "2.14", nightly: newest}', ["2.14", "2.15", "9.9.0.dev20261125"], id="from-the-lowest"),
        pytest.param('{lowest: "2.15", nightly: "20261124"}', ["2.15", "9.9.0.dev20261124"], id="lowest-and-day"),
        pytest.param('{lowest: "2.15"}', ["2.15"], id="never-by-itself-from-the-lowest"),
        pytest.param("last 2", ["2.14", "2.15"], id="never-by-itself-among-the-last"),
        pytest.param('["2.15"]', ["2.15"], id="never-by-itself-in-a-list"),
    ],
)
def test_a_nightly_is_served_where_it_is_asked_for(tmp_path: Path, torch: str, expected: list[str]) -> None:
    request = load(tmp_path, torch)
    assert asked_of(request) == expected
    assert [row.name for row in request.catalog] == [version for version in expected if ".dev" in version]


@pytest.mark.parametrize(
    ("torch", "rows", "expected"),
    [
        pytest.param("nightly", "", "3:8: no nightly of torch is in the project's catalog", id="none"),
        pytest.param("nightly 20261101", ROWS, "3:8: no nightly of torch of 20261101 is in the", id="another-day"),
        pytest.param("[nightly, nightly 20261124]", ROWS, "3:18: this is a second nightly", id="two"),
        pytest.param("nightly tomorrow", ROWS, '"nightly tomorrow" is not allowed', id="no-date"),
        pytest.param("{nightly: newest}", ROWS, 'the key "lowest" is missing', id="no-lowest"),
        pytest.param('{lowest: "2.15", nightly: yes}', ROWS, "expected `newest` for the newest", id="another-word"),
        pytest.param(
            '["2.15"]', ROWS.replace(".0.dev", ".dev"), 'expected its whole version, such as "2.16.0.dev', id="row"
        ),
        pytest.param(
            "nightly", ROWS.replace("indexes", "index"), 'the key "indexes" is missing: the package', id="no-index"
        ),
        pytest.param("nightly", ROWS.replace("//", "//me:secret@"), "the address of an index, without", id="password"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, torch: str, rows: str, expected: str) -> None:
    with pytest.raises(InputError) as refused:
        load(tmp_path, torch, rows)
    assert expected in str(refused.value)


def test_a_run_may_ask_for_what_the_config_does_not(tmp_path: Path) -> None:
    request = load(tmp_path, '{lowest: "2.15"}', nightly="20261124")
    assert [row.name for row in request.catalog] == ["9.9.0.dev20261124"]
    assert asked_of(request) == ["2.15"]  # the run says that it is served


def test_what_asks_for_a_nightly_says_which() -> None:
    values = ("nightly", ["2.15", "nightly 20261125"], {"nightly": "newest"}, "last 3", ["2.15"], None, [2.15])
    assert [find_asked(value) for value in values] == ["newest", "20261125", "newest", None, None, None, None]
    assert choose_nightly(None, ["2.16.0.dev20261125"]) is None
    assert choose_nightly("newest", ["2.16.0.dev20261125", "2.16.0.dev20261101"]) == "2.16.0.dev20261125"
