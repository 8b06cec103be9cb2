"""comment.yml as a caller has it after wheels.yml: one comment, which the next run edits, and a fork without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.github.comment import marker
from tests.servers.github import REPOSITORY
from tests.workflows import api, harness, repositories
from tests.workflows.api import Api
from tests.workflows.harness import Event, Run
from tests.workflows.projects import WORKFLOWS, Job, steps, workflow

pytestmark = pytest.mark.slow

UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1"


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api.opened(tmp_path_factory.mktemp("ours")) as opened:
        for number, home in ((1, REPOSITORY), (2, "mallory/demo")):
            opened.talk.open("A change", "", author="octo", is_pull=True)
            opened.talk.pulls[number] = home
        yield opened


def ran(home: Path, github: Api, event: Event, text: str) -> Run:
    """Run a caller whose first job leaves what wheels.yml would."""
    keep = f"uses: {UPLOAD}\nwith:\n  name: fatwheel-comparison\n  path: comparison.md"
    comes = {"needs": "wheels", "permissions": {"pull-requests": "write"}, "uses": f"{WORKFLOWS}/comment.yml@PIN"}
    jobs = (steps("wheels", "uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1", keep),)
    main = workflow("push:\n  pull_request", *jobs, Job("comment", json.dumps(comes))).replace("PIN", github.ours.pin)
    files = {".github/workflows/main.yml": main, "comparison.md": text}
    mine = repositories.make_repository(home / "caller", name=REPOSITORY, files=files)
    return harness.run("main.yml", event, home / "run", mine, github.ours)


def test_a_pull_request_has_one_comment_that_is_edited(github: Api, tmp_path: Path) -> None:
    github.talk.say(1, marker("plan") + "1 job\n")
    run = ran(tmp_path, github, Event.pull_request(1), "`k.cu:3` turned 1 job into 24\n")
    assert run.succeeded, run.log
    assert github.talk.of(1) == [marker("plan") + "`k.cu:3` turned 1 job into 24\n"]


def test_a_fork_with_a_token_that_reads_ends_well_with_a_notice(github: Api, tmp_path: Path) -> None:
    github.talk.may_write = False
    run = ran(tmp_path, github, Event.pull_request(2, fork=True), "1 job\n")
    github.talk.may_write = True
    assert run.succeeded, run.log
    assert [it.message for it in run.annotations if it.level == "notice"] == [
        "pull request 2 comes from a fork, whose runs may not write here: it gets no comment"
    ]
    assert github.talk.of(2) == []


def test_another_event_has_nowhere_to_write_it(github: Api, tmp_path: Path) -> None:
    run = ran(tmp_path, github, Event.push(), "1 job\n")
    assert (run.succeeded, run.results.get("Comment", "skipped")) == (True, "skipped"), run.log
