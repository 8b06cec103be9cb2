"""What is recorded of the recipes in this folder: each release was built and audited, and tried where it can be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proof.recipe_builds import RECORD, own_recipes

FOUND: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
WHEELS = [
    pytest.param(wheel, id=f"{release['tag']}")
    for one in FOUND
    for release in one["releases"]
    for wheel in release["wheels"]
]


def test_the_record_is_of_the_recipes_that_are_here() -> None:
    recipes = {recipe.name: recipe.read() for recipe in own_recipes()}
    assert [one["recipe"] for one in FOUND] == [*recipes]
    assert {one["recipe"]: {release["tag"].partition("-v")[2].partition("-")[0] for release in one["releases"]} for one
            in FOUND} == {name: {recipe["version"]} for name, recipe in recipes.items()}  # fmt: skip


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_wheel_passed_its_audit_and_asks_for_what_its_torch_has(wheel: dict[str, Any]) -> None:
    assert wheel["errors"] == []
    assert wheel["torch_symbols"]["not in the table"] == []


def test_a_recipe_has_a_release_for_each_of_its_pythons() -> None:
    (several,) = [one["releases"] for one in FOUND if one["recipe"] == "levenshtein"]
    assert [release["wheels"][0]["python"].rpartition(".")[0] for release in several] == [
        "CPython 3.11",
        "CPython 3.12",
    ]
    assert {outcome for release in several for outcome in release["wheels"][0]["tried"].values()} == {"passed"}


def test_the_variable_of_the_project_chooses_the_architecture_that_is_asked_for() -> None:
    (chosen,) = [one["releases"][0] for one in FOUND if one["recipe"] == "fused-ssim"]
    assert chosen["source"] == "0ac916a05f48f8e477dc8ce1651a346b65ce2072"
    assert chosen["wheels"][0]["archs"] == "sm_90"
    assert chosen["wheels"][0]["torch_symbols"]["asked"] > 0


def test_a_project_without_native_code_has_one_wheel_for_all_pythons() -> None:
    (pure,) = [one["releases"] for one in FOUND if one["recipe"] == "sageattention"]
    assert [wheel["wheel"] for release in pure for wheel in release["wheels"]] == [
        "sageattention-1.0.6-py3-none-any.whl"
    ]


def test_a_patch_leaves_only_the_architecture_that_is_asked_for() -> None:
    (patched,) = [one["releases"][0] for one in FOUND if one["recipe"] == "causal-conv1d"]
    assert patched["patches"] == ["setup.py compiles for nine architectures, whatever is asked for"]
    assert patched["wheels"][0]["archs"] == "sm_90"
