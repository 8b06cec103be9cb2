"""Whatever `fatwheel init` writes for a real project, `fatwheel plan` accepts."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from tests.proof.starters import RECORD, started
from tests.proof.truth import projects

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RECORDED: Mapping[str, Any] = {found["name"]: found for found in json.loads(RECORD.read_text(encoding="utf-8"))}
KNOWN = {project["name"]: project for project in projects()}
# One of each kind that is read in a second: hatchling, setuptools, meson, maturin, scikit-build-core, setuptools-rust.
CHEAP = ("einops", "torchsort", "contourpy", "safetensors", "apache-tvm-ffi", "bcrypt")


def test_every_recorded_project_is_one_that_is_known() -> None:
    known = {(project["name"], project["version"], project["sha256"]) for project in KNOWN.values()}
    assert {(one["name"], one["version"], one["sha256"]) for one in RECORDED.values()} <= known


def test_whatever_init_writes_plan_accepts() -> None:
    assert [one["name"] for one in RECORDED.values() if not one["starter"]] == []
    assert [one["name"] for one in RECORDED.values() if one["plan"].startswith("0 wheels")] == []


@pytest.mark.parametrize("name", RECORDED)
def test_a_starter_is_for_the_package_itself(name: str) -> None:
    assert RECORDED[name]["starter"][0].replace("_", "-") == f"package: {name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_what_init_writes_for_a_project_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    assert started(KNOWN[name], tmp_path, outside) == RECORDED[name]
