"""canary.yml as it stands, as far as act goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflows import harness
from tests.workflows.harness import Event
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.slow

# What act can show of GitHub; elsewhere the table says that nobody tried.
HELD = {
    "a runner with Linux on x86-64",
    "an artifact has its name and bytes",
    "an attestation is verified",
    "a called workflow plans, builds, tries and gathers",
    "a wheel for linux-cpu",
}


def table(summary: str) -> dict[str, str]:
    """Return what came of each check, by the lines of the page."""
    lines = summary.partition("## The canary")[2].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {what: state for what, state, *_ in cells[1:]}


@pytest.mark.long
def test_the_canary_says_what_held_and_what_act_cannot_show(ours: Repository, tmp_path: Path) -> None:
    run = harness.run("canary.yml", Event.dispatch(only="linux-cpu"), tmp_path / "run", ours)
    found = table(run.job("Table").summary)
    assert {what for what, state in found.items() if state == "held"} == HELD, run.log
    assert len(found) == 15
    assert set(found.values()) == {"held", "could not be tried"}
    assert run.job("Table").result == "success"
