"""What GitHub's documentation says of runs, rehearsed: each row has its page, which check-a-repository.md names too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_tools.cli.tables.upkeep import rehearsal_tables
from ci_tools.doctor.placed_jobs import ForetoldPlan
from ci_tools.doctor.rehearsal.events import Asked
from ci_tools.doctor.rehearsal.rehearse import Rehearsal, costs_of, name_secrets, rehearse, to_json, waves_of
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.walk import Planner
from ci_tools.doctor.workflow_set import FOLDER, read_set
from ci_tools.errors import InputError

PAGE = Path(__file__).parents[3] / "docs/how-to/check-a-repository.md"
DOCS = "https://docs.github.com/en/actions/"
SYNTAX = "reference/workflows-and-actions/workflow-syntax"
EVENTS = "reference/workflows-and-actions/events-that-trigger-workflows"
RUN = "runs-on: ubuntu-latest, steps: [{ run: 'true' }]"
CALLED = """\
on: { workflow_call: { inputs: { go: { type: boolean } }, secrets: { token: { required: false } } } }
jobs:
  x: { permissions: { contents: write, issues: read }, RUN }
  y: { if: inputs.go, runs-on: ubuntu-latest, steps: [{ run: "x ${{ secrets.token }}" }] }
"""


def rehearsed(jobs: str, on: str = "push", asked: str = "", planner: Planner = lambda *_: Unseen("", "")) -> Rehearsal:
    """Rehearse a workflow whose jobs are given, beside one that can be called."""
    text = f"on: {on}\n{'' if 'jobs:' in jobs else 'jobs:'}\n{jobs}".replace("RUN }", f"{RUN} }}")
    texts = {f"{FOLDER}main.yml": text, f"{FOLDER}called.yml": CALLED.replace("RUN }", f"{RUN} }}")}
    event, *inputs = asked.split()
    return rehearse(read_set(texts, lambda *_: None, "me/mine"), planner, Asked.from_words(event, inputs))


def outcome(found: Rehearsal) -> dict[str, Any]:
    """Return for each job whether it runs, or the condition; {} if the event starts nothing."""
    return {job.id: job.condition or job.runs for _, runs in found.events for run in runs for job in run.jobs}


ONE = "  a: { RUN }"
NEEDS = f"{SYNTAX}#jobsjob_idneeds"
FILTERS = f"{SYNTAX}#onpushbranchestagsbranches-ignoretags-ignore"
PATHS = f"{SYNTAX}#onpushpull_requestpull_request_targetpathspaths-ignore"
STATUS = "reference/workflows-and-actions/expressions#status-check-functions"
DOCUMENTED = [
    pytest.param(
        NEEDS,
        "  a: { if: false, RUN }\n  b: { needs: a, if: always(), RUN }\n  c: { needs: b, RUN }",
        "push",
        "push",
        {"a": False, "b": True, "c": False},
        id="a job is skipped with one before it, however far",
    ),
    pytest.param(
        STATUS,
        '  a: { if: false, RUN }\n  b: { needs: a, if: "!failure()", RUN }\n  c: { needs: a, if: failure(), RUN }',
        "push",
        "push",
        {"a": False, "b": True, "c": False},
        id="a status function decides after a skipped job",
    ),
    pytest.param(
        f"{SYNTAX}#jobsjob_idif",
        "  a: { if: \"${{ github.ref }} == 'x'\", RUN }",
        "push",
        "push",
        {"a": True},
        id="text around an expression",
    ),
    pytest.param(FILTERS, ONE, "{ push: { tags: [v*] } }", "push", {}, id="filters of tags let no branch pass"),
    pytest.param(
        FILTERS, ONE, "{ push: { branches: [main] } }", "tag:v1", {}, id="filters of branches let no tag pass"
    ),
    pytest.param(
        FILTERS, ONE, "{ push: { tags: ['v*', '!v*-rc*', 'v2*'] } }", "tag:v1-rc1", {}, id="a pattern with ! takes back"
    ),
    pytest.param(
        FILTERS,
        ONE,
        "{ push: { tags: ['v*', '!v*-rc*', 'v2*'] } }",
        "tag:v2-rc1",
        {"a": True},
        id="the last pattern decides",
    ),
    pytest.param(
        FILTERS, ONE, "{ push: { branches: ['**', '!main'] } }", "push:a/b", {"a": True}, id="two stars pass a slash"
    ),
    pytest.param(FILTERS, ONE, "{ push: { branches: ['*'] } }", "push:a/b", {}, id="one star does not"),
    pytest.param(PATHS, ONE, "{ push: { paths: [x] } }", "push", {"a": "it changes a file of `paths:`"}, id="paths"),
    pytest.param(PATHS, ONE, "{ push: { paths: [x] } }", "tag:v1", {"a": True}, id="tags have no paths"),
    pytest.param(
        f"{EVENTS}#pull_request",
        ONE,
        "{ pull_request: { types: [labeled] } }",
        "pull-request",
        {"a": "it is labeled"},
        id="activities",
    ),
    pytest.param(
        f"{EVENTS}#pull_request",
        "  a: { if: github.base_ref == 'dev', RUN }",
        "{ pull_request: { branches: [dev] } }",
        "pull-request",
        {"a": True},
        id="branches of a pull request are those it goes to",
    ),
    pytest.param(
        f"{EVENTS}#pull_request_target",
        "  a: { if: github.ref == 'refs/heads/main', RUN }\n  b: { if: github.ref_name == 'main', RUN }\n"
        "  c: { if: github.base_ref == 'release/1', RUN }",
        "{ pull_request_target: { branches: [release/1] } }",
        "fork",
        {"a": True, "b": True, "c": True},
        id="the ref of pull_request_target is the default branch",
    ),
    pytest.param(
        f"{EVENTS}#schedule",
        "  a: { if: github.event.schedule == '1 2 * * *', RUN }",
        "{ schedule: [{ cron: '1 2 * * *' }] }",
        "cron",
        {"a": True},
        id="a cron is told by its line",
    ),
    pytest.param(
        f"{SYNTAX}#onworkflow_dispatchinputs",
        "  a: { if: inputs.go == true && github.event.inputs.go == 'true', RUN }",
        "{ workflow_dispatch: { inputs: { go: { type: boolean } } } }",
        "dispatch go=true",
        {"a": True},
        id="inputs keep their types, those of the event are texts",
    ),
    pytest.param(
        f"{SYNTAX}#onworkflow_dispatchinputs",
        "  a: { if: inputs.go == '', RUN }",
        "{ workflow_dispatch: { inputs: { go: { required: true } } } }",
        "dispatch",
        {"a": "inputs.go == ''"},
        id="a required input without default is not guessed",
    ),
    pytest.param(
        f"{SYNTAX}#jobsjob_idoutputs",
        '  a: { outputs: { x: "${{ steps.x.outputs.x }}" }, RUN }\n'
        "  b: { needs: a, if: needs.a.outputs.x, RUN }\n  c: { needs: b, RUN }",
        "push",
        "push",
        {"a": True, "b": "needs.a.outputs.x", "c": "needs.a.outputs.x"},
        id="what a step writes only a run knows",
    ),
    pytest.param(
        "reference/workflows-and-actions/reusing-workflow-configurations",
        "  a: { uses: ./.github/workflows/called.yml }",
        "push",
        "push",
        {"a / x": True, "a / y": False},
        id="a called workflow has its caller's event and its own inputs",
    ),
]


@pytest.mark.parametrize(("page", "jobs", "on", "asked", "expected"), DOCUMENTED)
def test_runs_are_as_the_documentation_says(
    page: str, jobs: str, on: str, asked: str, expected: dict[str, Any]
) -> None:
    assert (outcome(rehearsed(jobs, on, asked)), page.startswith("reference/")) == (expected, True)


CALL = "  a: { uses: ./.github/workflows/called.yml, permissions: { contents: read, issues: write } }"
RIGHTS = {
    "a caller limits": (CALL, "push", {"contents": "read", "issues": "read"}),
    "its own": ("  a: { permissions: { contents: write }, RUN }", "push", {"contents": "write"}),
    "none": ("permissions: {}\njobs:\n  a: { RUN }", "push", {}),
    "the repository's default": (ONE, "push", None),
    "a fork reads": (
        "  a: { permissions: { contents: write, id-token: write, checks: read }, RUN }",
        "fork",
        {"contents": "read", "checks": "read"},
    ),
    "a fork reads all": ("  a: { permissions: write-all, RUN }", "fork", {"*": "read", "id-token": "none"}),
}


@pytest.mark.parametrize(("jobs", "asked", "expected"), RIGHTS.values(), ids=RIGHTS)
def test_a_job_has_the_rights_that_its_callers_and_its_event_leave_it(jobs: str, asked: str, expected: object) -> None:
    ((_, (run,)),) = rehearsed(jobs, "[push, pull_request]", asked).events
    assert run.jobs[0].grants == expected


def test_a_secret_is_named_only_where_each_caller_passes_it() -> None:
    call = "uses: ./.github/workflows/called.yml, with: { go: true }"
    jobs = f"  a: {{ {call} }}\n  b: {{ {call}, secrets: inherit }}\n"
    jobs += f'  c: {{ {call}, secrets: {{ token: "${{{{ secrets.MINE }}}}" }} }}'
    ((_, (run,)),) = rehearsed(jobs, "push", "push").events
    assert [name_secrets(job) for job in run.jobs if job.id.endswith("y")] == [[], ["token"], ["MINE"]]


def test_a_re_run_starts_the_failed_job_and_what_comes_after_it() -> None:
    jobs = "  a: { RUN }\n  b: { needs: a, strategy: { matrix: { v: [1, 2] } }, RUN }\n"
    jobs += "  c: { needs: b, RUN }\n  d: { RUN }"
    ((_, runs),) = rehearsed(jobs, "push", "rerun:v1").events
    again = {run.failed: [f"{job.name}" for job in run.jobs] for run in runs}
    assert again == {"a": ["a", "b (1)", "b (2)", "c"], "b": ["b (1)", "c"], "c": ["c"], "d": ["d"]}


def test_a_run_costs_jobs_minutes_and_waves_by_the_kind_of_runner() -> None:
    many = f"runs-on: macos-15, timeout-minutes: 10, strategy: {{ matrix: {{ v: {list(range(11))} }} }}"
    jobs = f"  a: {{ {many}, steps: [] }}\n  b: {{ needs: a, RUN }}\n  c: {{ runs-on: [self-hosted, gpu], steps: [] }}"
    ((_, (run,)),) = rehearsed(jobs, "push", "push").events
    costs = [("Linux", 1, 360), ("macOS", 11, 110), ("self-hosted or larger", 1, 360)]
    assert ([tuple(cost) for cost in costs_of(run.jobs)], waves_of(run.jobs)) == (costs, 4)


@pytest.mark.parametrize(
    ("job", "minutes"),
    [
        pytest.param("runs-on: ubuntu-slim", 15, id="one-core"),
        pytest.param("runs-on: ubuntu-slim, timeout-minutes: 5", 5, id="less"),
        pytest.param("runs-on: macos-15, timeout-minutes: 900", 360, id="more-than-github-s-own-have"),
        pytest.param("runs-on: [self-hosted, gpu], timeout-minutes: 900", 900, id="an-owner-s-runner"),
    ],
)
def test_a_runner_has_a_limit_of_minutes_too(job: str, minutes: int) -> None:
    ((_, (run,)),) = rehearsed(f"  a: {{ {job}, steps: [] }}", "push", "push").events
    assert [cost.minutes for cost in costs_of(run.jobs)] == [minutes]


WRONG = {
    "tog": 'there is no event "tog", did you mean "tag"?',
    "cron:x": "cron takes no ref",
    "push x=1": "push has no inputs",
    "dispatch x": '"x" has no value, expected NAME=VALUE',
    "dispatch width=1": 'no workflow takes "width", known: go, kind',
    "dispatch go=maybe": 'go cannot be "maybe", known: false, true',
    "dispatch kind=c": 'kind cannot be "c", known: a, b',
}


@pytest.mark.parametrize(("words", "what"), WRONG.items(), ids=WRONG)
def test_wrong_words_are_one_sentence(words: str, what: str) -> None:
    inputs = "{ workflow_dispatch: { inputs: { go: { type: boolean }, kind: { type: choice, options: [a, b] } } } }"
    with pytest.raises(InputError, match=re.escape(what)):
        rehearsed(ONE, inputs, words)


STEPS = """\
  plan:
    runs-on: ubuntu-latest
    outputs: { any: "${{ steps.p.outputs.any }}", builds: "${{ steps.p.outputs.builds }}" }
    steps: [{ id: p, run: fatwheel ci step plan, env: { WITH_CONFIG: c.yml, WITH_NIGHTLY: "${{ inputs.nightly }}" } }]
  build:
    needs: plan
    if: needs.plan.outputs.any == 'true'
    strategy: { matrix: "${{ fromJSON(needs.plan.outputs.builds) }}" }
    runs-on: ${{ matrix.runner }}
    steps: [{ run: "true" }]
  publish:
    needs: build
    runs-on: ubuntu-latest
    steps: [{ run: fatwheel ci step publish, env: { WITH_TO: "${{ vars.TO }}", WITH_DRY_RUN: false } }]
"""
PLAN = ForetoldPlan(
    "c.yml", "tiny", "1.0", "stable", "v1.0", ("s3://x", "pypi"), 2,
    {"plan": {"any": "true", "builds": '{"include": [{"runner": "macos-15"}, {"runner": "gpu"}]}'}},
)  # fmt: skip


def test_the_steps_of_fatwheel_are_known_by_the_plan() -> None:
    (event,) = to_json(rehearsed(STEPS, "push", "tag:v1.0", lambda *_: PLAN))["events"]
    (run,) = event["runs"]
    assert [(job["job"], job["runner"]) for job in run["jobs"][1:3]] == [("build", "macos-15"), ("build", "gpu")]
    assert run["jobs"][3]["publishes"] == [
        {"what": "tiny 1.0, 2 files", "to": "${{ vars.TO }} or s3://x pypi", "channel": "stable"}
    ]


PROJECTS = """\
  list:
    runs-on: ubuntu-latest
    outputs: { projects: "${{ steps.l.outputs.projects }}" }
    steps: [{ id: l, run: fatwheel ci step projects, env: { WITH_CONFIGS: a b } }]
  each:
    needs: list
    strategy: { matrix: { project: "${{ fromJSON(needs.list.outputs.projects) }}" } }
    runs-on: ubuntu-latest
    steps: [{ run: fatwheel ci step plan, env: { WITH_CONFIG: "${{ matrix.project }}" } }]
  collect:
    needs: each
    runs-on: ubuntu-latest
    outputs: { releases: "${{ steps.c.outputs.releases }}" }
    steps: [{ id: c, run: fatwheel ci step projects, env: { WITH_CONFIGS: a b, WITH_FOLDER: x } }]
  publish:
    needs: collect
    strategy: { matrix: { it: "${{ fromJSON(needs.collect.outputs.releases) }}" } }
    runs-on: ubuntu-latest
    steps: [{ run: "true" }]
"""


def test_the_projects_of_a_monorepo_are_those_that_are_listed_and_released() -> None:
    def planner(step: str, environ: Mapping[str, str]) -> ForetoldPlan:
        if step == "projects":
            return PLAN._replace(outputs={"projects": {"projects": '["a", "b"]'}})
        name = environ["WITH_CONFIG"]
        left = "" if name == "a" else "the tag is of a"
        return PLAN._replace(config=name, package=name, left=left, outputs={"gather": {"pypi": "true"}})

    ((_, (run,)),) = rehearsed(PROJECTS, "push", "tag:v1.0", planner).events
    rows = [(job.id, *(words for words in [job.words] if words)) for job in run.jobs]
    assert rows[1:3] == [("each", " (a)"), ("each", " (b)")]
    assert [row for row in rows if row[0] == "publish"] == [("publish", " (fatwheel, a, a, 1.0, stable)")]


def test_a_plan_that_cannot_be_made_leaves_its_jobs_open_and_says_why() -> None:
    found = rehearsed(STEPS, "push", "tag:v1.0", lambda *_: Unseen("the plan of c.yml", "no network"))
    assert outcome(found)["build"] == "needs.plan.outputs.any == 'true'"
    assert found.unseen == ("the plan of c.yml: no network",)


def test_a_commit_without_a_tag_is_refused_by_the_job_that_publishes() -> None:
    plan = PLAN._replace(channel="none")
    (event,) = to_json(rehearsed(STEPS, "push", "push", lambda *_: plan))["events"]
    assert event["runs"][0]["jobs"][3]["publishes"][0]["what"].startswith("refused")


def test_the_tables_show_jobs_by_their_rows_conditions_and_cost() -> None:
    jobs = f"{STEPS}  last: {{ needs: publish, if: steps.x, RUN }}\n  no: {{ if: false, RUN }}"
    jobs, cost, unseen = rehearsal_tables(
        to_json(rehearsed(jobs, "push", "push", lambda *_: Unseen("a plan", "a net")))
    )
    assert [row[:2] for row in jobs.rows] == [
        ("plan", "yes"),
        ("no", "no"),
        ("build x ?", "if needs.plan.outputs.any == 'true'"),
        ("publish", "if needs.plan.outputs.any == 'true'"),
        ("last", "if steps.x"),
    ]
    assert (cost.rows[-1], unseen.rows) == (("not known before", "1", "360"), [("a plan: a net",)])
    assert (
        cost.title == "at most 4 jobs, and the rows of a matrix that only the run knows, in 4 waves of up to 20 at once"
    )


def test_jobs_of_a_workflow_that_is_not_looked_at_are_not_counted_as_none() -> None:
    called = f"  a: {{ uses: o/r/.github/workflows/w.yml@{'0' * 40} }}"
    titles = [table.title for table in rehearsal_tables(to_json(rehearsed(called, "push", "push")))]
    assert "at most 0 jobs, and those of 1 workflow not looked at, in 0 waves of up to 20 at once" in titles


def test_the_page_names_the_documentation_of_each_row() -> None:
    named = set(re.findall(rf"\({re.escape(DOCS)}([^)]+)\)", PAGE.read_text(encoding="utf-8")))
    assert {row.values[0] for row in DOCUMENTED} <= named
