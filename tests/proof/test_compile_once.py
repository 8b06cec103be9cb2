"""What the record of `python -m tests.proof.compile_once` has to hold: the shares of a first build's processor time."""

from __future__ import annotations

import json

import pytest

from tests.proof.compile_once import ALONE, GENERATED, LEAST, PROJECTS, RECORD, list_equal, tomllib

FOUND = json.loads(RECORD.read_text(encoding="utf-8"))
LISTED = {one["name"]: one for one in tomllib.loads(PROJECTS.read_text(encoding="utf-8"))["project"]}
NAMES = [name for name in FOUND if name != ALONE]
LONG = [name for name in NAMES if FOUND[name]["builds"]["first"]["others"] > 5]  # seconds: what is fixed counts little
# Of the units that read no header of Python: what a build takes at most of the first, for one architecture.
BARS = {"nothing changed": 0.03, "another checkout": 0.03, "second Python": 0.08, "third Python": 0.08}


@pytest.mark.parametrize("name", LONG)
def test_what_is_compiled_once_costs_next_to_nothing_again(name: str) -> None:
    builds = FOUND[name]["builds"]
    rows = {step: builds[step] for step in BARS if step in builds and not builds[step].get("options")}
    assert {step: row for step, row in rows.items() if row["share of others"] > BARS[step]} == {}
    assert "second Python" in rows or "third Python" in rows


@pytest.mark.parametrize("name", NAMES)
def test_equal_builds_have_equal_bytes_and_every_unit_is_understood(name: str) -> None:
    builds = FOUND[name]["builds"]
    assert len({builds[step]["wheel"] for step in list_equal(LISTED.get(name, {})) if step in builds}) == 1
    assert sum(row["plain"] for row in builds.values()) == 0


def test_another_torch_takes_the_objects_of_equal_text() -> None:
    for name in ("torch_free", "flash-attn-with-shims"):
        assert FOUND[name]["builds"]["second torch"]["share of others"] <= LEAST
    builds = FOUND["with_shims"]["builds"]
    others = [row for step, row in builds.items() if "torch" in step]
    assert [(row["compiled"], row["of Python"]) for row in others] == [(1, 1)] * 3


def test_a_launcher_without_a_store_costs_little() -> None:
    assert FOUND[ALONE]["over"] <= 0.05


def test_only_listed_projects_are_in_the_record() -> None:
    assert {*NAMES} <= {*GENERATED, *LISTED}
