"""What a change does to a plan, and which line of which file it is said to be."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.plan import make
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import Comparison, compare, empty_comparison
from ci_tools.plan.compare.sentences import sentences, to_json
from tests.builders.sources import SCIKIT_BUILD, demo, shared_world

CATALOG = catalog.load()
CONFIG = """\
package: demo
python: ["3.11", "3.12"]
torch: ["2.10", "2.11"]
platforms:
  linux-cuda:
    owner: "@team/cuda"
    native: ["*.cu"]
    cuda: ["12.9", "13.0"]
    archs: ["9.0"]
"""
PROJECT = SCIKIT_BUILD.replace('version = "1.0"\n', 'version = "1.0"\nrequires-python = ">=3.10"\n')
CMAKE = "project(demo LANGUAGES CXX CUDA)\nadd_library(k k.cu)\n"
BEFORE = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "CMakeLists.txt": CMAKE, "k.cu": "int x;\n"}
TORCH, PYTHON = "#include <torch/extension.h>\n", "#include <Python.h>\n"
STABLE = "#include <torch/csrc/stable/library.h>\n"
LINES = {"python": "fatwheel.yml:2", "torch": "fatwheel.yml:3", "platforms": "fatwheel.yml:4"}
Files = dict[str, str]


def plan(files: tuple[tuple[str, str], ...]) -> make.Planned:
    with tempfile.TemporaryDirectory() as folder:
        return make.make_plan(demo(Path(folder) / "demo", dict(files)) / "fatwheel.yml", shared_world())


plan_once = functools.cache(plan)


def side(planned: make.Planned, *, seen: bool = True) -> Side:
    """Return a side of a comparison; where it is not `seen`, its plan alone is known."""
    return Side(planned.plan, planned.evidence, LINES) if seen else Side(planned.plan)


def change(old: Mapping[str, str], new: Mapping[str, str], *, seen: bool = True) -> Comparison:
    """Compare the usual project with some files, planned once for all tests, with the same with others."""
    old, new = {**BEFORE, **old}, {**BEFORE, **new}
    before, after = plan_once(tuple(old.items())), plan(tuple(new.items()))
    return compare(side(before, seen=seen), side(after, seen=seen), "main", CATALOG if seen else None)


def told(comparison: Comparison) -> list[str]:
    return [said.sentence for said in sentences(comparison)]


def config(old: str, new: str, files: Files | None = None) -> Files:
    return {**(files or {}), "fatwheel.yml": CONFIG.replace(old, new)}


# ---------------------------------------------------------------- the sentence


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {}, ["No job changes."], id="nothing"),
        pytest.param({}, {"k.cu": f"int x;\n\n{TORCH}"}, ["`k.cu:3` turned 2 jobs into 8."], id="torch is included"),
        pytest.param({}, {"k.cu": PYTHON}, ["`k.cu:1` turned 2 jobs into 4."], id="Python is included"),
        pytest.param(
            {"k.cu": TORCH},
            {},
            ["`k.cu:1`, which is gone, turned 8 jobs into 2."],
            id="torch is included no more",
        ),
        pytest.param({"k.cu": TORCH}, {"k.cu": f"\n\n{TORCH}"}, ["No job changes."], id="the line moves"),
        pytest.param(
            {},
            {"pyproject.toml": PROJECT.replace('"1.0"', '"1.1"')},
            ["No job changes."],
            id="the version rises",
        ),
        pytest.param({}, {"demo.py": "NEW = 1\n"}, ["No job changes."], id="a line of Python"),
        pytest.param(
            {},
            {"k.cu": TORCH, "pyproject.toml": PROJECT.replace('wheel.py-api = "py3"\n', "")},
            ["`k.cu:1` turned 4 jobs into 8.", "`pyproject.toml:1` turned 2 jobs into 4."],
            id="two places, each with its share",
        ),
        pytest.param(
            {},
            config('"3.12"]', '"3.12", "3.13"]'),
            ["`fatwheel.yml:2` adds Python 3.13: no new job."],
            id="a Python that the wheels serve too",
        ),
        pytest.param(
            {"k.cu": PYTHON},
            config('"3.12"]', '"3.12", "3.13"]', {"k.cu": PYTHON}),
            ["`fatwheel.yml:2` adds Python 3.13: 4 jobs became 6."],
            id="a Python that needs its own wheels",
        ),
        pytest.param(
            {},
            config('"3.12"]', '"3.13"]', {"k.cu": TORCH}),
            ["`k.cu:1` turned 2 jobs into 8.", "`fatwheel.yml:2` adds Python 3.13 and drops Python 3.12: no new job."],
            id="the source and the config",
        ),
        pytest.param(
            {},
            config('"12.9", ', ""),
            ["`fatwheel.yml:5` drops cu129 for linux-cuda: 2 jobs became 1."],
            id="a CUDA version less",
        ),
        pytest.param(
            {},
            config('["9.0"]', '["9.0", "10.0"]'),
            ["`fatwheel.yml:5` adds 10.0 for linux-cuda: no new job."],
            id="an architecture more",
        ),
        pytest.param(
            {},
            config("platforms:\n", 'platforms:\n  linux-cpu: {owner: "@team/cpu"}\n'),
            ["`fatwheel.yml:5` adds linux-cpu: 2 jobs became 3."],
            id="a platform more",
        ),
        pytest.param(
            config("platforms:\n", 'platforms:\n  linux-cpu: {owner: "@team/cpu"}\n'),
            {},
            ["`fatwheel.yml:4` drops linux-cpu: 3 jobs became 2."],
            id="a platform less",
        ),
        pytest.param(
            {},
            config('    owner: "@team/cuda"\n', '    owner: "@team/cuda"\n    enabled: false\n'),
            ["`fatwheel.yml:5` changes enabled of linux-cuda: 2 jobs became 0."],
            id="a platform switched off",
        ),
        pytest.param(
            {},
            config('    owner: "@team/cuda"\n', '    owner: "@team/all"\n    required: true\n'),
            ["`fatwheel.yml:5` changes owner, required of linux-cuda: the same number of jobs."],
            id="an owner and a promise",
        ),
        pytest.param(
            {},
            config('["2.10", "2.11"]', '["2.10", "2.11", "2.12"]'),
            ["`fatwheel.yml:3` adds torch 2.12: no new job."],
            id="a torch that the wheels serve too",
        ),
        pytest.param(
            {},
            config('["2.10", "2.11"]', '{lowest: "2.12"}'),
            ["`fatwheel.yml:3` asks for torch from 2.12 up: the same number of jobs."],
            id="torch from another version on",
        ),
        pytest.param(
            {},
            {"pyproject.toml": PROJECT.replace(">=3.10", ">=3.12")},
            ["`pyproject.toml:7` changed the plan, but not the number of its jobs: 2."],
            id="a Python that the project refuses",
        ),
    ],
)
def test_the_sentence_names_the_place(old: Files, new: Files, expected: list[str]) -> None:
    assert told(change(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {"k.cu": TORCH}, ["`k.cu:1` turned 2 jobs into 8."], id="torch is included"),
        pytest.param(
            {"k.cu": TORCH}, {}, ["`k.cu:1`, which is gone, turned 8 jobs into 2."], id="torch is included no more"
        ),
        pytest.param(
            {},
            config('"3.12"]', '"3.12", "3.13"]'),
            ["`fatwheel.yml` adds Python 3.13: no new job."],
            id="a Python more",
        ),
        pytest.param(
            {},
            config('"3.12"]', '"3.12", "3.13"]', {"k.cu": TORCH}),
            ["`k.cu:1` and `fatwheel.yml` turned 2 jobs into 12."],
            id="the source and the config, whose shares are not known",
        ),
        pytest.param({}, {}, ["No job changes."], id="nothing"),
    ],
)
def test_two_plans_alone_tell_the_place_too(old: Files, new: Files, expected: list[str]) -> None:
    assert told(change(old, new, seen=False)) == expected


def test_the_reasons_say_what_was_seen_there() -> None:
    (said,) = sentences(change({}, {"k.cu": TORCH}))
    assert "one per torch: not the stable ABI (k.cu:1: includes torch/extension.h)" in said.reasons


def test_the_steps_lead_from_one_plan_to_the_other() -> None:
    new = config('"3.12"]', '"3.12", "3.13"]', {"k.cu": TORCH, "CMakeLists.txt": CMAKE + "# more\n"})
    found = change({"k.cu": STABLE, "pyproject.toml": PROJECT.replace("3.10", "3.12")}, new)
    ends = [found.jobs[0], *(step.after for step in found.steps)]
    assert [step.before for step in found.steps] == ends[:-1]
    assert ends[-1] == found.jobs[1]


# ---------------------------------------------------------------- what differs


def test_jobs_that_are_new_gone_or_others_are_named() -> None:
    new = config('"12.9"', '"12.8"').pop("fatwheel.yml").replace('"9.0"', '"9.0", "10.0"').replace("@team/cuda", "@us")
    found = change({}, {"fatwheel.yml": new})
    assert [job.name for job in found.added] == ["linux-cuda-cu128"]
    assert [job.name for job in found.removed] == ["linux-cuda-cu129"]
    told = "CMAKE_ARGS=-DCMAKE_CUDA_ARCHITECTURES=90-real"
    variables = f"variables: {told} → {told};100-real"
    changes = ("architectures: 9.0 → 9.0 10.0", "owner: @team/cuda → @us", variables)
    assert found.changed == (("linux-cuda-cu130", changes),)


def test_a_cell_that_moves_says_from_where_to_where() -> None:
    found = change({}, {"pyproject.toml": PROJECT.replace(">=3.10", ">=3.12")})
    assert {(str(moved.cell.python), moved.before.partition("-cu1")[0], moved.after) for moved in found.moved} == {
        ("3.11", "linux-cuda", "skipped")
    }
    assert all("the project requires Python >=3.12" in moved.reason for moved in found.moved)
    assert found.covered == (8, 4)


def test_only_what_is_warned_of_anew_is_a_new_warning() -> None:
    unclear = {"k.cu": f"{TORCH}"}
    assert len(change({}, unclear).warnings) == 1
    assert change(unclear, {"k.cu": f"\n\n{TORCH}"}).warnings == ()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"cu129": 10, "cu130": 20}, {"cu129": 11, "cu130": 22}, (30, 33), id="both known"),
        pytest.param({"cu129": 10}, {"cu129": 11, "cu130": 22}, (None, 33), id="one wheel of the earlier not known"),
    ],
)
def test_sizes_are_said_where_all_are_known(
    before: dict[str, int], after: dict[str, int], expected: tuple[int | None, int | None]
) -> None:
    planned = plan_once(tuple(BEFORE.items())).plan
    sides = [
        Side(planned, sizes={f"linux-cuda-{name}": size for name, size in sizes.items()}) for sizes in (before, after)
    ]
    (row,) = compare(sides[0], sides[1], "main").rows
    assert (row.platform, row.bytes) == ("linux-cuda", expected)


def test_a_plan_equals_itself() -> None:
    found = change({}, {})
    assert (found.is_same, found.steps, found.rows, found.moved) == (True, (), (), ())


def test_the_json_is_whole() -> None:
    found = to_json(change({}, {"k.cu": TORCH}))
    assert found["sentences"] == ["`k.cu:1` turned 2 jobs into 8."]
    assert found["jobs"] == {"before": 2, "after": 8}
    assert found["platforms"] == [
        {
            "platform": "linux-cuda",
            "jobs": {"before": 2, "after": 8},
            "cells": {"before": 8, "after": 8},
            "bytes": {"before": None, "after": None},
        }
    ]
    assert (len(found["added"]), len(found["removed"]), len(found["moved"])) == (8, 2, 8)


def test_where_there_was_no_plan_there_is_nothing_to_compare_with() -> None:
    found = empty_comparison(side(plan_once(tuple(BEFORE.items()))), "main", "fatwheel.yml:1:1: a mistake")
    (said,) = sentences(found)
    assert said.sentence == "No plan can be made at `main`, so there is nothing to compare these 2 jobs with."
    assert said.reasons == ("fatwheel.yml:1:1: a mistake",)
    assert not found.is_same
