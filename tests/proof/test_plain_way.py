"""What is recorded of projects built both ways: Fatwheel packs what `python -m build` of a clean clone packs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.proof.plain_way import FIELDS, RECORD, compare, list_unexplained, projects, record

FOUND: list[dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
BUILT = [pytest.param(one, id=one["name"]) for one in FOUND]
STYLES = ("MANIFEST.in", "setuptools-scm", "hatchling", "hatch-vcs", "flit", "pdm", "poetry", "scikit-build-core",
          "meson-python", "maturin")  # fmt: skip


def identity(one: dict[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in FIELDS if name in one}


def test_the_record_is_of_the_projects_that_are_built_now() -> None:
    assert [identity(one) for one in FOUND] == [identity(one) for one in projects()]


def test_there_are_25_projects_and_each_way_to_build_is_among_them() -> None:
    assert len(projects()) >= 25
    assert [word for word in STYLES if not any(word in one["style"] for one in projects())] == []


@pytest.mark.parametrize("one", BUILT)
def test_each_member_is_the_plain_way_s_or_its_difference_is_explained(one: dict[str, Any]) -> None:
    assert "failed" not in one
    assert list_unexplained(one, next(project for project in projects() if project["name"] == one["name"])) == []
    assert min(one["members"].values()) > 3


@pytest.mark.parametrize("project", [one for one in projects() if "explained" in one], ids=lambda one: one["name"])
def test_an_explanation_is_a_sentence(project: dict[str, Any]) -> None:
    assert all(len(reason.split()) > 3 for reason in project["explained"].values())


def test_whatever_differs_is_named() -> None:
    plain, ours = {"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"}
    assert compare(ours, plain) == {
        "a": "only the plain one has it",
        "b": "its content differs",
        "d": "only Fatwheel's has it",
    }


@pytest.mark.long
def test_a_project_is_built_as_it_was_recorded(tmp_path: Path) -> None:
    project = next(one for one in projects() if one["name"] == "urllib3")
    found = {**record(project, tmp_path), "date": ""}
    assert found == {**next(one for one in FOUND if one["name"] == "urllib3"), "date": ""}
