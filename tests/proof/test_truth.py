"""The evidence half of the truth table: what is seen today is what was recorded, and no wheel of it is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from tests.proof.truth import AGREES, HERE, SAFE, checked, projects

RECORD: dict[str, Any] = json.loads((HERE / "record.json").read_text(encoding="utf-8"))
RECORDED: Mapping[str, Any] = {found["name"]: found for found in RECORD["projects"]}


def test_every_project_is_recorded_with_the_sdist_it_is_known_by() -> None:
    known = {project["name"]: (project["version"], project["sha256"]) for project in projects()}
    assert {name: (found["version"], found["sha256"]) for name, found in RECORDED.items()} == known
    assert len(known) >= 80
    assert known.keys() >= SAMPLED


def test_no_wheel_of_the_record_is_wrong() -> None:
    verdicts = {row["verdict"] for found in RECORDED.values() for row in found["platforms"].values()}
    assert verdicts <= {AGREES, SAFE}


def test_what_was_built_is_what_was_planned() -> None:
    built = {name: found["build"] for name, found in RECORDED.items() if found["build"]}
    assert len(built) >= 10
    assert {name: build for name, build in built.items() if "failed" in build or build["errors"]} == {}


# Projects of each kind, and the ones that took the least time: `make test` asks for them, `make proof` for all.
SAMPLED = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "bcrypt brotli cmarkgfm einops lightgbm lz4 megablocks msgpack nerfacc pywavelets sqlalchemy tokenizers "
    "torchsort".split()
)


def _sample() -> Iterator[Any]:
    for project in projects():
        name = str(project["name"])
        yield pytest.param(project, id=name, marks=pytest.mark.slow if name in SAMPLED else pytest.mark.long)


@pytest.mark.parametrize("project", list(_sample()))
def test_what_is_seen_of_a_project_is_what_was_recorded(project: dict[str, Any], tmp_path: Path) -> None:
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    seen = {row.platform: row.as_json() for row in checked(project, tmp_path, outside)}
    assert seen == RECORDED[project["name"]]["platforms"]
