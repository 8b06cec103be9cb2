"""What came of a run is told, and what act passes in silence fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.cages import confines
from tests.workflows import harness, repositories
from tests.workflows.harness import Event, World
from tests.workflows.projects import CHECKOUT
from tests.workflows.small_workflows import DISPATCH, UPLOAD, job, run_jobs, step

pytestmark = pytest.mark.slow


def test_a_matrix_is_a_job_for_each_of_its_values(tmp_path: Path) -> None:
    matrix = (
        "strategy:\n  matrix:\n    include:\n      - {v: 1, runner: macos-15}\n      - {v: 2, runner: ubuntu-24.04}"
    )
    run = run_jobs(
        tmp_path,
        job("build", "exit $(( V - 1 ))\nenv:\n  V: ${{ matrix.v }}", more=matrix, runner="${{ matrix.runner }}"),
    )
    assert [(it.matrix["v"], it.result) for it in sorted(run.jobs, key=lambda it: it.matrix["v"])] == [
        (1, "success"),
        (2, "failure"),
    ]
    assert (run.status, run.succeeded) == (1, False)


def test_a_run_tells_summaries_annotations_outputs_and_steps(tmp_path: Path) -> None:
    run = run_jobs(
        tmp_path,
        job(
            "build",
            'echo "## Wheels" >>"$GITHUB_STEP_SUMMARY"',
            'name: Find\nid: find\nrun: echo "version=1.2" >>"$GITHUB_OUTPUT"',
            'name: Warn\nrun: echo "::error file=k.cu,line=3,title=Rule::too many registers"',
            "name: Fail\nrun: exit 3",
            "name: Never\nrun: echo never",
        )
        + job("after", "echo after", more="needs: build"),
    )
    build = run.job("Build")
    assert run.summary == "## Wheels\n"
    assert build.outputs == {"version": "1.2"}
    assert run.annotations == (("error", "too many registers", "k.cu", "3", "Rule"),)
    assert [(it.name, it.result) for it in build.steps[1:4]] == [
        ("Find", "success"),
        ("Warn", "success"),
        ("Fail", "failure"),
    ]
    assert run.results == {"Build": "failure", "After": "skipped"}
    assert "never" not in build.log


@confines
def test_a_step_has_no_terminal_as_on_github(tmp_path: Path) -> None:
    run = run_jobs(tmp_path, job("build", "if test -t 1; then echo a terminal; else echo a pipe; fi"))
    assert run.job("Build").log == "a pipe\n"


def test_a_label_without_a_runner_is_a_problem(tmp_path: Path) -> None:
    run = run_jobs(
        tmp_path,
        job("build", "echo never", runner="ubuntu-lastest") + job("gpu", "echo yes", runner="h100"),
        world=World(labels=("h100",)),
    )
    assert run.status == 0
    assert run.results == {"Build": "no runner", "Gpu": "success"}
    assert run.problems == ("the job Main/Build has no runner for its label",)


def test_an_empty_matrix_is_a_problem(tmp_path: Path) -> None:
    run = run_jobs(tmp_path, job("build", "echo once", more="strategy:\n  matrix:\n    include: ${{ fromJSON('[]') }}"))
    assert run.problems == ("the job Main/Build ran with an empty matrix, which GitHub refuses",)


def test_a_dispatch_gives_its_inputs(tmp_path: Path) -> None:
    say = "echo \"$CHANNEL ${{ inputs.dry-run && 'dry' || 'wet' }}\"\nenv:\n  CHANNEL: ${{ inputs.channel }}"
    run = run_jobs(tmp_path, job("build", say), on=DISPATCH, event=Event.dispatch(channel="nightly", dry_run=False))
    assert run.job("Build").log == "nightly wet\n"


@pytest.mark.parametrize(
    ("on", "event", "expected"),
    [
        pytest.param("push:", Event.push("refs/tags/v1.2.3"), "push refs/tags/v1.2.3 v1.2.3", id="tag"),
        pytest.param(
            "pull_request:", Event.pull_request(7), "pull_request refs/pull/7/merge 7/merge", id="pull-request"
        ),
        pytest.param(
            "schedule: [{cron: '5 4 * * 0'}]",
            Event.schedule("5 4 * * 0"),
            "schedule refs/heads/main main",
            id="schedule",
        ),
    ],
)
def test_an_event_sets_its_ref(on: str, event: Event, expected: str, tmp_path: Path) -> None:
    run = run_jobs(tmp_path, job("build", 'echo "$GITHUB_EVENT_NAME $GITHUB_REF $GITHUB_REF_NAME"'), on=on, event=event)
    assert run.job("Build").log.strip() == expected


def test_a_workflow_knows_where_it_came_from(tmp_path: Path) -> None:
    """What act leaves empty in a called workflow: `job.workflow_repository` and `job.workflow_sha`."""
    say = 'echo "$WHENCE"\nenv:\n  WHENCE: ${{ job.workflow_repository }} ${{ job.workflow_sha }}'
    run = run_jobs(tmp_path, job("build", say))
    assert re.fullmatch("me/mine [0-9a-f]{40}\n", run.job("Build").log)


def test_a_pull_request_has_a_base_to_compare_with(tmp_path: Path) -> None:
    compare = 'git diff --name-only "$BASE"\nenv:\n  BASE: ${{ github.event.pull_request.base.sha }}'
    text = "name: Main\non:\n  pull_request:\njobs:\n" + job("compare", step(CHECKOUT, fetch_depth="0"), compare)
    mine = repositories.make_repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    base = repositories.commit_change(mine, {"kernel.cu": "// new"})
    run = harness.run("main.yml", Event.pull_request(base=base), tmp_path / "run", mine)
    assert run.job("Compare").log == "kernel.cu\n"


def test_a_secret_that_shows_is_a_problem(tmp_path: Path) -> None:
    steps = ['echo "$TOKEN" >x\nenv:\n  TOKEN: ${{ secrets.TOKEN }}', step(UPLOAD, name="x", path="x")]
    run = run_jobs(tmp_path, job("build", *steps), world=World(secrets={"TOKEN": "hunter2"}))
    assert run.problems == ("the secret TOKEN is in artifacts/x/x",)


@pytest.mark.parametrize("fork", [True, False])
def test_a_forks_pull_request_gets_no_secret(fork: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a table of two
    jobs = job("build", 'echo "${#TOKEN}"\nenv:\n  TOKEN: ${{ secrets.TOKEN }}')
    world = World(secrets={"TOKEN": "hunter2"})
    run = run_jobs(tmp_path, jobs, on="pull_request:", event=Event.pull_request(fork=fork), world=world)
    assert run.job("Build").log == ("0\n" if fork else "7\n")


@pytest.mark.parametrize("target", ["$GITHUB_OUTPUT", "$GITHUB_STEP_SUMMARY", "/dev/stdout"])
def test_a_secret_in_an_output_a_summary_or_the_log_is_a_problem(target: str, tmp_path: Path) -> None:
    say = f'echo "it=$TOKEN" >>"{target}"\nenv:\n  TOKEN: ${{{{ secrets.TOKEN }}}}'
    run = run_jobs(tmp_path, job("build", say), world=World(secrets={"TOKEN": "hunter2"}))
    assert run.problems == ("the secret TOKEN is in the log",)


def test_a_job_that_may_fail_leaves_the_run_green(tmp_path: Path) -> None:
    matrix = "strategy:\n  matrix:\n    include: [{n: 0, required: true}, {n: 1, required: false}]"
    more = f"{matrix}\ncontinue-on-error: ${{{{ !matrix.required }}}}"
    run = run_jobs(tmp_path, job("build", 'exit "$N"\nenv:\n  N: ${{ matrix.n }}', more=more))
    assert (run.status, run.succeeded) == (1, True)
    assert {it.may_fail: it.result for it in run.jobs} == {False: "success", True: "failure"}
