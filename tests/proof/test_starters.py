"""Whatever `fatwheel init` writes for a real project, `fatwheel plan` accepts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from tests.proof.starters import RECORD, started
from tests.proof.truth import projects

RECORDED: Mapping[str, Any] = {found["name"]: found for found in json.loads(RECORD.read_text(encoding="utf-8"))}
KNOWN = {project["name"]: project for project in projects()}
# One of each kind that is read in a second: hatchling, setuptools, meson, maturin, scikit-build-core, setuptools-rust.
CHEAP = ("einops", "torchsort", "contourpy", "safetensors", "iminuit", "bcrypt")

FOR_A_PERSON = {
    "xformers": "the content of its files (xformers/cpp_lib.json)",  # it names the Python of the build
    "mmcv": "a constraint setuptools<82 brings it back",
    "warp-rnnt": "CPU version is not implemented",
}


def test_every_recorded_project_is_one_that_is_known() -> None:
    known = {(project["name"], project["version"], project["sha256"]) for project in KNOWN.values()}
    assert {(one["name"], one["version"], one["sha256"]) for one in RECORDED.values()} <= known


def test_whatever_init_writes_plan_accepts() -> None:
    refused = [one["name"] for one in RECORDED.values() if one["plan"].startswith(("0 wheels", "refused"))]
    assert refused == [name for name in RECORDED if not RECORDED[name]["starter"]] == [*FOR_A_PERSON]


@pytest.mark.parametrize(("name", "why"), FOR_A_PERSON.items())
def test_what_a_person_has_to_decide_is_one_sentence(name: str, why: str) -> None:
    assert RECORDED[name]["plan"].startswith("refused: ")
    assert why in RECORDED[name]["plan"]


def test_a_starter_is_for_the_package_itself() -> None:
    named = {name: one["starter"][0] for name, one in RECORDED.items() if one["starter"]}
    assert {name: line.lower().replace("_", "-") for name, line in named.items()} == {
        name: f"package: {name}" for name in named
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_what_init_writes_for_a_project_is_what_was_recorded(name: str, tmp_path: Path) -> None:
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    assert started(KNOWN[name], tmp_path, outside) == RECORDED[name]
