"""Rows are merged over tables that stay as they are."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ci_tools.catalog.rows import merge
from ci_tools.model.request import CatalogRow

TABLES: dict[str, Any] = {
    "python": {"releases": ["3.12"]},
    "torch": {"release": [{"version": "2.10", "patch": "2.10.0", "headers": {"a": 1}, "pythons": {"linux": ["3.12"]}}]},
}
SAID = {"patch": "2.10.1", "headers": {"a": 2}, "pythons": {"linux": ["3.12", "3.13"]}}


@pytest.mark.parametrize(
    ("table", "name", "said"),
    [
        pytest.param("python", "3.13", {}, id="a-python"),
        pytest.param("torch", "2.10", SAID, id="a-newer-patch-release"),
        pytest.param("torch", "2.10", {"pythons": {"linux": ["3.12", "3.14"]}}, id="more-of-a-release"),
        pytest.param("torch", "2.11", {**SAID, "patch": "2.11.0"}, id="a-new-release"),
    ],
)
def test_the_tables_stay_as_they_are(table: str, name: str, said: dict[str, Any]) -> None:
    before = copy.deepcopy(TABLES)
    merged, wrong = merge(TABLES, [CatalogRow(table, name, json.dumps(said), "rows.toml:1")])
    assert (wrong, merged == TABLES, before == TABLES) == ((), False, True)
