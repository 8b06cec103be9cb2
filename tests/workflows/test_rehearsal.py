"""The doctor's rehearsal of a run, held against act: which jobs of ten callers run, and with which rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ci_tools.doctor.rehearsal.events import Asked
from ci_tools.doctor.rehearsal.rehearse import RehearsedRun, rehearse
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import FOLDER, read_set
from tests.workflows import harness, repositories
from tests.workflows.harness import Event

CALLED = """\
name: Called
on:
  workflow_call:
    inputs:
      fast: { type: boolean, default: false }
      names: { type: string, default: '["x"]' }
    outputs:
      made: { value: "${{ jobs.make.outputs.made }}" }
jobs:
  make:
    runs-on: ubuntu-latest
    outputs: { made: "${{ inputs.fast && 'quickly' || 'slowly' }}" }
    steps: [{ run: "true" }]
  each:
    needs: make
    if: needs.make.outputs.made == 'quickly'
    runs-on: ubuntu-latest
    strategy: { matrix: { name: "${{ fromJSON(inputs.names) }}" } }
    steps: [{ run: "true" }]
  tidy:
    needs: each
    if: ${{ !cancelled() && inputs.fast != true }}
    runs-on: ubuntu-latest
    steps: [{ run: "true" }]
"""


class Caller(NamedTuple):
    """A workflow, the event that starts it, and that event in the words of the command line."""

    jobs: str
    event: Event = Event.push()
    asked: str = "push"
    on: str = "push:"


RUN = "runs-on: ubuntu-latest, steps: [{ run: 'true' }]"
CALLERS = {
    "conditions": Caller("""\
        a: { if: github.event_name == 'push', RUN }
        b: { if: "${{ github.ref == 'refs/heads/main' && github.ref_type != 'tag' }}", RUN }
        c: { if: "startsWith(github.ref, 'refs/tags/v')", RUN }
        e: { if: "!github.event.pull_request && github.event.schedule == null && github.base_ref == ''", RUN }
        f: { if: github.repository_owner == 'me' && github.run_attempt == 1, RUN }
        d: { if: "!contains(fromJSON('[\\"push\\", \\"schedule\\"]'), github.event_name)", RUN }"""),
    "a tag": Caller(
        """\
        a: { if: "startsWith(github.ref, 'refs/tags/v')", RUN }
        b: { if: github.ref_name == 'v1.2.0', RUN }
        c: { if: github.ref_type == 'branch', RUN }""",
        Event.push("refs/tags/v1.2.0"),
        "tag:v1.2.0",
        "push: { tags: ['v*'] }",
    ),
    "matrix": Caller("""\
        a: { strategy: { matrix: { o: [x, y], v: [1, 2], exclude: [{o: x, v: 2}], include: [{o: x, w: 3.10}]}}, RUN }
        b: { strategy: { matrix: { include: [{ v: 1 }, { v: 2, w: yes }] } }, RUN }
        c: { strategy: { matrix: { v: [1, 2], include: [{ v: 3 }, { w: 4 }] } }, RUN }"""),
    "computed matrix": Caller("""\
        a: { strategy: { matrix: "${{ fromJSON('{\\"v\\": [1, 2]}') }}" }, RUN }
        b: { strategy: { matrix: { v: "${{ fromJSON(github.ref_type == 'tag' && '[1]' || '[1, 2]') }}" } }, RUN }"""),
    "what follows a skipped job": Caller("""\
        a: { if: github.event_name == 'schedule', RUN }
        b: { needs: a, RUN }
        c: { needs: b, if: always(), RUN }
        d: { needs: a, if: "${{ !cancelled() && needs.a.result == 'skipped' }}", RUN }
        e: { needs: a, if: failure(), RUN }
        f: { needs: [a], if: "!failure()", RUN }"""),
    "results of all": Caller("""\
        a: { RUN }
        b: { if: false, RUN }
        c: { needs: [a, b], if: "always() && contains(needs.*.result, 'skipped')", RUN }
        d: { needs: [a, b], if: "${{ always() && !contains(needs.*.result, 'success') }}", RUN }
        e: { needs: [a, b], if: "always() && contains(join(needs.*.result), 'success')", RUN }"""),
    "inputs": Caller(
        """\
        a: { if: inputs.dry-run, RUN }
        b: { if: "${{ !inputs.dry-run && inputs.channel == 'test' }}", RUN }
        c: { if: github.event.inputs.channel == 'stable', RUN }
        d: { if: inputs.nothing == '', RUN }""",
        Event.dispatch(channel="test", dry_run=False),
        "dispatch:main",
        "workflow_dispatch: { inputs: { channel: { default: test }, dry-run: { type: boolean, default: false } } }",
    ),
    "cron": Caller(
        """\
        a: { if: github.event.schedule == '1 2 * * *', RUN }
        b: { if: "github.event.schedule != '1 2 * * *'", RUN }
        c: { if: github.event_name == 'schedule' && inputs.any == null, RUN }""",
        Event.schedule("1 2 * * *"),
        "cron",
        "schedule: [{ cron: '1 2 * * *' }]",
    ),
    "a fork": Caller(
        """\
        a: { if: github.event.pull_request.head.repo.fork, RUN }
        b: { if: "${{ !github.event.pull_request.head.repo.fork }}", RUN }
        c: { if: "startsWith(github.ref, 'refs/pull/') && github.base_ref == 'main'", RUN }""",
        Event.pull_request(fork=True),
        "fork",
        "pull_request: { branches: [main] }",
    ),
    "calls": Caller("""\
        a: { uses: "$/.github/workflows/called.yml" }
        b: { uses: "$/.github/workflows/called.yml", with: { fast: true, names: '["x", "y"]' } }
        c: { needs: b, if: needs.b.outputs.made == 'quickly', RUN }
        d: { needs: a, if: needs.a.outputs.made == 'quickly', RUN }"""),
}


def text_of(caller: Caller) -> str:
    """Return a caller's workflow."""
    jobs = textwrap.indent(textwrap.dedent(caller.jobs), "  ").replace("RUN }", f"{RUN} }}")
    return f"name: Main\non:\n  {caller.on}\npermissions: {{}}\njobs:\n{jobs}\n"


def rehearsed(caller: Caller) -> RehearsedRun:
    """Return the run of a caller as the doctor rehearses it."""
    known = read_set({f"{FOLDER}main.yml": text_of(caller), f"{FOLDER}called.yml": CALLED}, lambda *_: None, "me/mine")
    found = rehearse(known, lambda *_: Unseen("", ""), Asked.from_words(caller.asked, ()))
    ((_, (run,)),) = found.events
    return run


def row(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value).removesuffix(".0")) for name, value in values.items()))


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLERS)
def test_the_jobs_that_are_rehearsed_are_those_that_act_runs(name: str, tmp_path: Path) -> None:
    files = {".github/workflows/main.yml": text_of(CALLERS[name]), ".github/workflows/called.yml": CALLED}
    mine = repositories.make_repository(tmp_path / "mine", name="me/mine", files=files)
    ran = harness.run("main.yml", CALLERS[name].event, tmp_path / "run", mine)
    jobs = sorted((job.id, row(job.matrix)) for job in ran.jobs if job.result == "success" and job.steps)
    ours = [job for job in rehearsed(CALLERS[name]).jobs if job.runs]
    assert (sorted((job.job, row(job.row or {})) for job in ours), ran.problems) == (jobs, ())


def test_a_rehearsal_leaves_nothing_of_the_callers_open() -> None:
    jobs = [job for caller in CALLERS.values() for job in rehearsed(caller).jobs]
    assert (len(jobs), [job.id for job in jobs if job.runs is None]) == (51, [])
