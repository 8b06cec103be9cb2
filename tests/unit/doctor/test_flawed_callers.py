"""Thirty kinds of flaw and more, each in three callers: it is named at its line, with the edit, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_tools.doctor.check import facts_of
from ci_tools.doctor.files import read_checkout
from ci_tools.doctor.report import DoctorFinding, Weight
from ci_tools.doctor.rules import diagnose_checkout
from ci_tools.doctor.rules.calls import is_of_type
from tests.builders.flawed_callers import CALLERS, CONFIG, FLAWS, TODAY, UNUSUAL, files_of, places_of
from tests.builders.sources import write


def findings(root: Path, files: Mapping[str, str]) -> list[DoctorFinding]:
    """Write files, and return what is found in them."""
    write(root, files)
    known = read_checkout(root, None, os.environ)
    return list(diagnose_checkout(facts_of(replace(known, repository="me/demo", today=TODAY), "demo")))


@pytest.mark.parametrize("caller", CALLERS)
def test_a_good_caller_has_no_finding(caller: str, tmp_path: Path) -> None:
    found = findings(tmp_path, files_of(caller))
    assert [one for one in found if one.rule != "moving"] == []


# Each flaw is seeded into one caller after the other in `make test`, and into all three in `make proof`.
PAIRS = [
    pytest.param(name, caller, marks=[pytest.mark.long] * (number % 3 != place), id=f"{name}-{caller}")
    for number, name in enumerate(FLAWS)
    for place, caller in enumerate(CALLERS)
]


@pytest.mark.parametrize(("name", "caller"), PAIRS)
def test_a_flaw_is_named_at_its_line_with_the_edit(name: str, caller: str, tmp_path: Path) -> None:
    flaw = FLAWS[name]
    files = files_of(caller, flaw)
    found = [one for one in findings(tmp_path, files) if one.rule == flaw.rule or one.weight is Weight.ERROR]
    assert {one.rule for one in found} == {flaw.rule}, found
    assert {":".join(one.where.split(":")[:2]) for one in found} == places_of(files)
    assert any(flaw.edit in one.how for one in found), found


@pytest.mark.parametrize(("name", "refused"), [("logs/x", "'/'"), ("a: b", "':'"), ("${{ github.sha }}-x", "")])
def test_an_artifact_has_a_name_that_its_upload_takes(name: str, refused: str, tmp_path: Path) -> None:
    steps = f"steps: [{{ uses: actions/upload-artifact@v7, with: {{ name: '{name}', path: out }} }}]"
    text = f"on: push\njobs: {{ a: {{ runs-on: ubuntu-24.04, {steps} }} }}\n"
    found = findings(tmp_path, {".github/workflows/logs.yml": text})
    assert [one.how for one in found if one.rule == "artifact-name"] == [f"a name without {refused}"] * bool(refused)


@pytest.mark.parametrize(
    ("condition", "edit"),
    [("startWith(github.ref, 'a(b')", 'did you mean "startswith"?'), ("!cancelled() && HashFiles('x') != ''", "")],
)
def test_an_expression_calls_a_function_that_there_is(condition: str, edit: str, tmp_path: Path) -> None:
    text = f'on: push\njobs: {{ a: {{ runs-on: ubuntu-24.04, steps: [{{ if: "{condition}", run: echo (a) }}] }} }}\n'
    found = findings(tmp_path, {".github/workflows/logs.yml": text})
    assert [one.how for one in found if one.rule == "function"] == [edit] * bool(edit)


def test_the_flaws_are_more_than_thirty_kinds() -> None:
    assert len({flaw.rule for flaw in FLAWS.values()}) >= 30


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        pytest.param("string", True, True, id="a-boolean-becomes-a-text"),
        pytest.param("string", 3, True, id="a-number-becomes-a-text"),
        pytest.param("boolean", "true", False, id="a-text-becomes-no-boolean"),
        pytest.param("boolean", "${{ inputs.nightly }}", True, id="an-expression-may-be-one"),
        pytest.param("boolean", "${{ github.event.inputs.nightly }}", False, id="the-payload-has-texts"),
        pytest.param("boolean", "${{ github.event.inputs.nightly == 'true' }}", True, id="a-comparison-of-a-text"),
        pytest.param("number", "${{ inputs.days }}0", False, id="an-expression-in-a-text"),
        pytest.param("number", "1.5", True, id="a-fraction"),
    ],
)
def test_what_fits_an_input(kind: str, value: object, fits: bool) -> None:  # noqa: FBT001 - a table's column
    assert is_of_type(value, {"type": kind}) is fits


@pytest.mark.parametrize("caller", [pytest.param(row, id=row["name"]) for row in UNUSUAL])
def test_a_shape_that_only_the_runs_show(caller: dict[str, Any], tmp_path: Path) -> None:
    found = [one for one in findings(tmp_path, caller["files"]) if one.rule not in {"moving", "overwrite", "publisher"}]
    assert {one.rule for one in found} == {caller["rule"]} - {""}, found
    assert {":".join(one.where.split(":")[:2]) for one in found} == places_of(caller["files"])


@pytest.mark.parametrize("event", ["push: { tags: ['v*'] }", "release: { types: [published] }"])
def test_an_old_upload_is_a_second_one_beside_a_job_that_asks_fatwheel_whether_to(event: str, tmp_path: Path) -> None:
    old = f"on: {{ {event} }}\njobs:\n  up:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: twine upload dist/*\n"
    found = findings(tmp_path, {**files_of("fatwheel"), ".github/workflows/upload.yml": old})
    said = [one for one in found if one.rule == "second-publisher"]
    assert [one.where.partition(":")[0] for one in said] == [".github/workflows/upload.yml"]


def test_two_packages_of_one_repository_may_go_to_pypi_for_one_tag(tmp_path: Path) -> None:
    wheels, _, pypi = CALLERS["fatwheel"].partition("  publish:\n")
    own = wheels + pypi[pypi.index("  pypi:\n") :].replace("[wheels, publish]", "wheels")
    second = own.replace("config: fatwheel.yml", "config: other.yml")
    for package, is_told in (("other", False), ("demo", True)):
        config = f"package: {package}\npublish: {{ pypi: wheels }}\n"
        files = {"fatwheel.yml": CONFIG, ".github/workflows/a.yml": own, ".github/workflows/b.yml": second}
        found = findings(tmp_path, {**files, "other.yml": config})
        assert ("second-publisher" in {one.rule for one in found}) == is_told


def test_a_job_for_pypi_is_never_started_where_the_config_sends_nothing_there(tmp_path: Path) -> None:
    found = findings(tmp_path, {**files_of("fatwheel"), "fatwheel.yml": "package: demo\n"})
    said = [(one.rule, one.how) for one in found if one.weight is Weight.ERROR]
    assert said == [("skipped", "in fatwheel.yml: `publish: { pypi: wheels }`")]


@pytest.mark.parametrize(
    ("schedule", "edit"),
    [
        ("[{ cron: '17 3 * * 1' }, { cron: '*/15 2-5,8 1 JAN-MAR mon' }, { cron: '0 0/6 1,15 * 0-6' }]", ""),
        ("[{ cron: '17 3 * * 1' }, { cron: '23 25 * * *' }]", "0 to 23 for the hour, not 25"),
        ("[{ cron: '60 3 * * *' }]", "0 to 59 for the minute, not 60"),
        ("[{ cron: '0 3 * * 7' }]", "0 to 6 for the day of the week, not 7"),
        ("[{ cron: '0 3 * foo *' }]", "1 to 12 for the month, not foo"),
        ("[{ cron: '*/0 3 * * *' }]", "0 to 59 for the minute, not */0"),
        ("[{ cron: '0 0 23 * * *' }]", 'five fields, as in "17 3 * * 1"'),
        ("[{ cron: '@weekly' }]", 'five fields, as in "17 3 * * 1"'),
        ("{ cron: '17 3 * * 1' }", "a list: `- cron: …`"),
    ],
)
def test_a_schedule_has_times_that_github_reads(schedule: str, edit: str, tmp_path: Path) -> None:
    """As GitHub's own parser of workflow files decides (@actions/workflow-parser, cron.ts)."""
    text = f"on: {{ schedule: {schedule} }}\njobs: {{ a: {{ runs-on: ubuntu-24.04, steps: [{{ run: echo a }}] }} }}\n"
    found = findings(tmp_path, {".github/workflows/night.yml": text})
    assert [one.how for one in found if one.rule == "schedule"] == [edit] * bool(edit)
