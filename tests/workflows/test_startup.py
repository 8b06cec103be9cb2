"""What GitHub would refuse before any job starts is refused, and what it takes is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflows import harness, repositories
from tests.workflows.harness import Event, World
from tests.workflows.projects import CHECKOUT
from tests.workflows.small_workflows import DISPATCH, job, run_jobs
from tests.workflows.startup import Refused

pytestmark = pytest.mark.slow

CALLED = f"""\
name: Called
on:
  workflow_call:
    inputs:
      config:
        type: string
        required: true
    secrets:
      token:
        required: true
    outputs:
      said:
        value: ${{{{ jobs.say.outputs.said }}}}
permissions: {{}}
jobs:
  say:
    name: Say
    runs-on: ubuntu-24.04
    container: ghcr.io/nobody/nothing:latest
    permissions:
      contents: read
    outputs:
      said: ${{{{ steps.say.outputs.said }}}}
    steps:
      - uses: {CHECKOUT}
      - uses: $/.github/actions/setup
      - id: say
        run: echo "said=$CONFIG $(cat "$CONFIG") ${{#TOKEN}}" >>"$GITHUB_OUTPUT"
        env:
          CONFIG: ${{{{ inputs.config }}}}
          TOKEN: ${{{{ secrets.token }}}}
  deeper:
    name: Deeper
    needs: say
    uses: $/.github/workflows/deeper.yml
"""
DEEPER = "name: Deep\non:\n  workflow_call:\njobs:\n" + job("deep", "echo from below")
SETUP = """\
name: Set up
description: Says a word.
runs:
  using: composite
  steps:
    - run: cat "$GITHUB_ACTION_PATH/word.txt"
      shell: bash
"""
LIBRARY = {
    ".github/workflows/called.yml": CALLED,
    ".github/workflows/deeper.yml": DEEPER,
    ".github/actions/setup/action.yml": SETUP,
    ".github/actions/setup/word.txt": "the library's own file\n",
}
CALL = """\
  call:
    name: Call
    permissions:
      contents: read
    uses: their/library/.github/workflows/called.yml@PIN
    with:
      config: mine.yml
    secrets:
      token: ${{ secrets.TOKEN }}
"""


def called(home: Path, call: str, *, after: str = "") -> harness.Run:
    """Run a workflow that calls one of another repository."""
    library = repositories.make_repository(home / "library", name="their/library", files=LIBRARY)
    workflow = "name: Main\non:\n  push:\npermissions: {}\njobs:\n" + call.replace("PIN", library.pin) + after
    files = {".github/workflows/main.yml": workflow, "mine.yml": "the caller's file\n"}
    caller = repositories.make_repository(home / "caller", name="me/mine", files=files)
    return harness.run(
        "main.yml", Event.push(), home / "run", caller, library, world=World(secrets={"TOKEN": "hunter2"})
    )


def test_a_workflow_of_another_repository_is_called(tmp_path: Path) -> None:
    after = job("after", 'echo "$SAID"\nenv:\n  SAID: ${{ needs.call.outputs.said }}', more="needs: call")
    run = called(tmp_path, CALL, after=after)
    assert (run.status, run.problems) == (0, ()), run.log
    assert run.results == dict.fromkeys(("Say", "Deep", "After", "Call", "Deeper"), "success")
    assert "the library's own file" in run.job("Say").log
    assert run.job("After").log == "mine.yml the caller's file 7\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(
            "contents: read", "contents: none", "asks for contents: read, which the job call does not", id="grant"
        ),
        pytest.param("permissions:\n      contents: read\n    ", "", "asks for contents: read", id="no-grant"),
        pytest.param("config: mine.yml", "confg: mine.yml", "called.yml takes no confg", id="input"),
        pytest.param("config: mine.yml", "config: mine.yml\n      x: y", "called.yml takes no x", id="undeclared"),
        pytest.param("      token:", "      tokens:", "called.yml requires token", id="secret"),
        pytest.param("called.yml", "gone.yml", "which their/library does not have", id="file"),
    ],
)
def test_a_call_that_github_would_refuse_is_refused(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        called(tmp_path, CALL.replace(old, new))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(Event.push(), "is not started by push", id="event"),
        pytest.param(Event.dispatch(channel="edge"), "channel is edge, expected one of stable, nightly", id="choice"),
        pytest.param(Event.dispatch(chanel="stable"), "takes no chanel", id="undeclared"),
        pytest.param(Event.dispatch(dry_run="perhaps"), "dry-run is perhaps, expected true or false", id="boolean"),
    ],
)
def test_an_event_that_github_would_refuse_is_refused(event: Event, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        run_jobs(tmp_path, job("build", "echo"), on=DISPATCH, event=event)
