"""The page on threats: each sentence of its tables has a test, and what it says of jobs is what their files say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.test_docs import is_there
from tests.workflows import rules

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/explanation/threat-model.md").read_text(encoding="utf-8")
OURS = rules.project(ROOT)
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", TEXT, re.MULTILINE))
HOLDS = re.compile(r"^\| what holds \| shown by \|\n\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)
ROWS = [row for table in HOLDS.findall(TEXT) for row in table.splitlines()]
JOB = re.compile(r"^\| `(\w+\.yml)`: ([\w, ]+) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
SAID = {(f".github/workflows/{file}", job): rest for file, jobs, *rest in JOB.findall(TEXT) for job in jobs.split(", ")}


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_each_sentence_has_a_test_that_exists(row: str) -> None:
    sentence, shown = re.fullmatch(r"\| (.+[.]) \| (.+) \|", row).groups()  # type: ignore[union-attr]
    tests = re.fullmatch(r"`(tests/[^`]+)`(?:, `tests/[^`]+`)*", shown)
    assert tests, f"{sentence} has no test"
    assert [test for test in re.findall(r"`([^`]+)`", shown) if not is_there(test)] == []


def test_every_section_has_what_holds_but_the_one_of_what_does_not() -> None:
    assert len(ROWS) > 40
    assert [title for title, text in SECTIONS.items() if not HOLDS.search(text)] == ["What is not protected"]


def test_the_threat_model_says_what_each_job_may() -> None:
    called = {name: file for name, file in OURS.items() if "workflow_call" in file.triggers}
    jobs = {(name, job): value for name, file in called.items() for job, value in file.jobs.items() if "steps" in value}
    assert SAID.keys() == jobs.keys()
    for (name, job), (code, may, secrets) in SAID.items():
        grants = {f"{scope}: {level}" for scope, level in jobs[name, job].get("permissions", {}).items()}
        assert set(re.findall(r"`([^`]+)`", may)) == grants, (name, job)
        assert ("caller" in may) == rules.has_the_callers(OURS[name], jobs[name, job], OURS)
        named = any(it.context == "secrets" and it.job == job for it in OURS[name].references)
        assert (secrets != "none") == named
        assert not (code.startswith("runs") and (rules.rights(OURS[name], job, OURS) or named))
