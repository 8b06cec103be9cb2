"""The action at our root, in a workflow that somebody wrote for themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.workflows import harness
from tests.workflows.harness import Event, Run
from tests.workflows.projects import CHECKOUT, SETUP_PYTHON, Job, ran, steps
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.slow

WHEEL, SDIST = "tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"
PLACE = "ubuntu-24.04, Python 3.12"
# What a caller has of Python: its commands, where it looks for modules, and every file that is installed.
LOOK = """\
name: Look {when}
run: |
  {{ command -v python pip; env | grep -E '^(PIP|PYTHON|VIRTUAL_ENV)'; }} >"$SEEN"
  python -c 'import sys; print(sys.path)' >>"$SEEN"
  python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' | xargs -I@ find @ -type f | sort >>"$SEEN"
env:
  SEEN: ${{{{ runner.temp }}}}/{when}
"""
TELL = """\
name: Tell
run: echo "$PLANNED $GATHERED"
env:
  PLANNED: ${{ toJSON(steps.plan.outputs) }}
  GATHERED: ${{ toJSON(steps.gather.outputs) }}
"""
SAME = 'name: Compare\nrun: diff "$TEMP/before" "$TEMP/after" && wc -l <"$TEMP/after"\nenv:\n  TEMP: ${{ runner.temp }}'


def act(verb: str, name: str = "", *, fails: bool = False, **given: str | bool) -> str:
    """Return a step that uses the action."""
    values = {"verb": verb, **{key.replace("_", "-"): value for key, value in given.items()}}
    more = "continue-on-error: true\n" if fails else ""
    what = f"name: {name or verb.title()}\nid: {name or verb}\n{more}"
    return f"{what}uses: fatwheel/fatwheel@PIN\nwith: {json.dumps(values)}"


def job(*texts: str) -> Job:
    """Return a job with the source, its tags and a Python of the caller's."""
    first = (f"uses: {CHECKOUT}\nwith:\n  fetch-depth: 0", f"uses: {SETUP_PYTHON}\nwith:\n  python-version: '3.12'")
    return steps("mine", *first, *texts)


PLAN = act("plan", config="fatwheel.yml", out="fatwheel/plan.json", package="Tiny")
BUILD = act("build", plan="fatwheel/plan.json", job="sdist,pure", out="fatwheel")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("action")


@pytest.fixture(scope="module")
def used(ours: Repository, home: Path) -> Run:
    """Every verb in turn, and some mistakes, in one job of the caller's."""
    texts = (
        LOOK.format(when="before"),
        PLAN,
        act("prepare", plan="fatwheel/plan.json", job="pure"),
        BUILD,
        act("audit", plan="fatwheel/plan.json"),
        act("validate", plan="fatwheel/plan.json", site=f"pure on {PLACE}"),
        act("validate", "sdist", plan="fatwheel/plan.json", site=f"sdist on {PLACE}"),
        act("gather", plan="fatwheel/plan.json", folders="fatwheel", out="dist", pypi="pypi"),
        act("summary", folder="dist"),
        act("publish", folder="dist", to=f"dir:{home}/index dir:{home}/other"),
        act("biuld", "misspelt", fails=True),
        act("audit", "surplus", fails=True, site="x"),
        act("publish", "neither", fails=True, folder="dist", dry_run="perhaps"),
        LOOK.format(when="after"),
        SAME,
        TELL,
    )
    return ran(home, ours, job(*texts), tag="v1.0")


def test_every_verb_runs_on_the_callers_runner(used: Run, home: Path) -> None:
    results = {step.name: step.result for step in used.job("Mine").steps}
    verbs = ["Plan", "Prepare", "Build", "Audit", "Validate", "sdist", "Gather", "Summary", "Publish"]
    assert {verb: results[verb] for verb in verbs} == dict.fromkeys(verbs, "success"), used.log
    for name in ("index", "other"):
        found = {path.name for path in (home / name).rglob("*") if path.name.startswith("tiny-1.0")}
        assert {WHEEL, SDIST} <= found


def test_a_step_hands_its_outputs_on(used: Run) -> None:
    planned, gathered = used.job("Mine").step("Plan").outputs, used.job("Mine").step("Gather").outputs
    assert (planned["any"], planned["changed"], planned["version"]) == ("true", "true", "1.0")
    assert [row["name"] for row in json.loads(planned["builds"])["include"]] == ["pure"]
    assert {row["name"] for row in json.loads(planned["sites"])["include"]} == {f"pure on {PLACE}", f"sdist on {PLACE}"}
    assert {file["name"] for file in json.loads(gathered["files"])} == {WHEEL, SDIST}
    assert (gathered["units"], gathered["withheld"], gathered["pypi"]) == ('["core"]', "[]", "true")


def test_the_callers_python_is_as_it_was(used: Run) -> None:
    results = {step.name: step.result for step in used.job("Mine").steps}
    assert results["Compare"] == "success", used.job("Mine").log
    assert int(used.job("Mine").log.split("{")[0].split()[-1]) > 100  # there was something to compare


def test_the_summary_is_on_the_page_of_the_job(used: Run) -> None:
    assert "**Ready to publish:** 2 files" in used.job("Mine").summary


@pytest.mark.parametrize(
    "sentence",
    [
        pytest.param('there is no step "biuld", did you mean "build"?', id="no-such-verb"),
        pytest.param('`audit` has no input "site"', id="an-input-of-another-verb"),
        pytest.param('dry-run: "perhaps" is neither true nor false', id="neither-true-nor-false"),
    ],
)
def test_a_wrong_input_is_a_sentence(sentence: str, used: Run) -> None:
    assert [one.message for one in used.annotations if sentence in one.message] != [], used.annotations


def test_a_mistake_ends_with_the_status_of_one(used: Run) -> None:
    assert used.log.count("exit status 2") == len([one for one in used.annotations if one.level == "error"]) == 3


BUILT = act("build", plan="fatwheel/plan.json", job="pure", out="fatwheel")
BY_HAND = Event.dispatch()


@pytest.mark.long
@pytest.mark.parametrize(
    ("event", "tag", "steps_", "is_kept"),
    [
        pytest.param(Event.push(), "", (PLAN, BUILT), True, id="a-branch"),
        pytest.param(Event.pull_request(), "v1.0", (PLAN, BUILT), True, id="a-pull-request"),
        pytest.param(BY_HAND, "", (PLAN, BUILT), True, id="a-branch-by-hand"),
        pytest.param(Event.push("refs/tags/v1.0"), "v1.0", (PLAN, BUILT), False, id="a-release"),
        pytest.param(BY_HAND, "v1.0", (PLAN, BUILT), False, id="a-release-by-hand"),
        pytest.param(Event.schedule("1 1 * * *"), "", (PLAN, BUILT), False, id="a-nightly"),
        pytest.param(
            BY_HAND, "", (PLAN.replace('"plan"', '"plan", "nightly": true', 1), BUILT), False, id="a-nightly-by-hand"
        ),
        pytest.param(
            Event.push(), "", (PLAN, act("build", config="fatwheel.yml", job="pure", out="o")), False, id="no-plan"
        ),
        pytest.param(
            Event.push(), "", (PLAN, BUILT.replace('"build"', '"build", "cache": false', 1)), False, id="switched-off"
        ),
    ],
)
def test_toolchains_are_cached_for_pull_requests_and_builds_of_branches_only(
    event: Event, tag: str, steps_: tuple[str, ...], *, is_kept: bool, ours: Repository, tmp_path: Path
) -> None:
    harness.plant(tmp_path / "run", tmp_path / "mark")
    run = ran(tmp_path, ours, job(*steps_), event=event, tag=tag)
    assert run.succeeded, run.log
    names = [path.name for path in (run.shared / "caches").iterdir() if path.is_dir()]
    assert (tmp_path / "mark").exists() == is_kept == bool(names)
    assert all(re.fullmatch(r"fatwheel-Linux-\w+-[0-9a-f]{64}", name) for name in names)


def test_a_tagged_commit_keeps_no_toolchains_for_later_runs(used: Run) -> None:
    assert list((used.shared / "caches").iterdir()) == []
