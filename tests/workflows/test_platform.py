"""platform.yml on a schedule: a platform that fails opens its owner's issue, and a later good run closes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.servers.github import REPOSITORY
from tests.workflows import api, harness, repositories
from tests.workflows.api import Api
from tests.workflows.harness import Event, Run
from tests.workflows.projects import NATIVE, Job, call, workflow
from tests.workflows.repositories import Repository
from tests.workflows.startup import Refused

pytestmark = pytest.mark.slow

WRONG = {**NATIVE, "csrc/fast.c": NATIVE["csrc/fast.c"].replace("PyLong_FromLong(42)", "missing")}
CRON = "17 4 * * 1"
ON = f'push:\n  schedule: [{{cron: "{CRON}"}}]\n  workflow_dispatch'
JOB = call("speed", "platform.yml", config="fatwheel.yml", platform="linux-cpu")
PLATFORM = ".github/workflows/platform.yml"
FAILING = """\
  wheels:
    name: Wheels
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - name: Fail
        run: exit 1

"""


def broken() -> dict[str, str]:
    """Return platform.yml whose job `wheels` fails by itself: act runs nothing after a called workflow that failed."""
    text = (repositories.ROOT / PLATFORM).read_text(encoding="utf-8")
    changed = re.sub(r"^  wheels:\n(?:    .*\n)+\n", FAILING, text, flags=re.MULTILINE)
    assert changed != text
    return {PLATFORM: changed}


def ran(
    home: Path,
    ours: Repository,
    event: Event,
    files: Mapping[str, str] = NATIVE,
    *,
    may_tell: bool = True,
    job: Job = JOB,
) -> Run:
    text = workflow(ON, job).replace("PIN", ours.pin)
    text = text.replace('"contents": "write"', '"issues": "write", "contents": "write"') if may_tell else text
    mine = repositories.make_repository(
        home / "caller", name=REPOSITORY, files={".github/workflows/main.yml": text, **files}
    )
    return harness.run("main.yml", event, home / "run", mine, ours)


@pytest.mark.long
def test_a_schedule_that_fails_opens_an_issue_and_a_good_one_closes_it(github: Api, tmp_path: Path) -> None:
    with api.opened(tmp_path / "failing", broken()) as failing:
        failed = ran(tmp_path / "failed", failing.ours, Event.schedule(CRON))
        (issue,) = failing.talk.issues
    assert failed.job("Notify the owner").result == "success", failed.log
    assert issue.title == "The scheduled runs of linux-cpu fail (fatwheel.yml)"
    assert "\n@me/speed\n" in (issue.body or "")
    assert f"https://github.com/{REPOSITORY}/actions/runs/" in (issue.body or "")
    assert "| its jobs | failure, skipped |" in (issue.body or "")

    github.talk.issues.append(issue)
    good = ran(tmp_path / "good", github.ours, Event.schedule(CRON))
    assert good.succeeded, good.log
    assert (issue.state, issue.reason) == ("closed", "completed")
    assert github.talk.of(issue.number)[0].startswith("linux-cpu succeeds again: [run ")


@pytest.mark.long
def test_a_good_schedule_without_an_issue_leaves_a_notice(github: Api, tmp_path: Path) -> None:
    github.talk.issues.clear()
    good = ran(tmp_path, github.ours, Event.schedule(CRON))
    assert good.succeeded, good.log
    notices = [it.message for it in good.annotations if it.level == "notice"]
    assert notices == ["linux-cpu succeeds, and no issue about it is open"]
    assert github.talk.issues == []


@pytest.mark.long
def test_a_platform_that_cannot_be_built_fails_as_a_whole(github: Api, tmp_path: Path) -> None:
    """It is optional, so its build may fail; what gathers its files does not let that pass."""
    failed = ran(tmp_path, github.ours, Event.schedule(CRON), WRONG)
    assert {name: result for name, result in failed.results.items() if name in {"Plan", "Gather", "Attest"}} == {
        "Plan": "success",
        "Gather": "failure",
        "Attest": "skipped",
    }


@pytest.mark.long
@pytest.mark.parametrize("event", [Event.push(), Event.dispatch()], ids=lambda event: str(event.name))
def test_the_run_of_a_person_tells_nobody(event: Event, github: Api, tmp_path: Path) -> None:
    before = len(github.hub.requests)
    assert ran(tmp_path, github.ours, event).results.get("Notify the owner", "skipped") == "skipped"
    assert len(github.hub.requests) == before


@pytest.mark.long
def test_what_is_no_release_is_not_published(github: Api, tmp_path: Path) -> None:
    job = call("speed", "platform.yml", platform="linux-cpu", publish=True, to=f"dir:{tmp_path}/index")
    done = ran(tmp_path, github.ours, Event.dispatch(), job=job)
    assert done.succeeded, done.log
    assert (done.results.get("Publish", "skipped"), (tmp_path / "index").exists()) == ("skipped", False)


def test_a_caller_that_grants_no_issues_is_refused(github: Api, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="asks for issues: write, which the job speed does not"):
        ran(tmp_path, github.ours, Event.schedule(CRON), may_tell=False)
