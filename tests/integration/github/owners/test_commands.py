"""fatwheel ci tell, as a workflow runs it."""

from __future__ import annotations

import os

import pytest

from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.github_issues import Talk
from tests.servers.prepared import Called, run_prepared

pytestmark = pytest.mark.slow


def command(hub: GitHub, *arguments: str, **environ: str) -> Called:
    variables = {**os.environ, "GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY, **environ}
    return run_prepared(arguments, env=variables, timeout=100)


@pytest.mark.usefixtures("config")
def test_a_step_prints_the_address_and_a_notice_where_nothing_is_due(hub: GitHub, talk: Talk) -> None:
    names = {"GITHUB_ACTIONS": "true", "WITH_CONFIG": "fatwheel.yml", "WITH_PLATFORM": "linux-cpu"}
    told = [
        command(hub, "ci", "step", "tell", **names, WITH_RESULTS=results) for results in ("failure skipped", "skipped ")
    ]
    assert [one.returncode for one in told] == [0, 0], told
    assert f"{hub.url}/octo/demo/issues/1" in told[0].stderr
    assert "\n::notice title=Fatwheel::linux-cpu came to skipped" in told[1].stderr
    assert len(talk.issues) == 1


@pytest.mark.usefixtures("config", "talk")
@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param({"GITHUB_REPOSITORY": ""}, "expected --repository OWNER/REPO", id="repository"),
        pytest.param({"GITHUB_REPOSITORY": "a b"}, "is not the name of a repository", id="not-a-repository"),
        pytest.param({"GH_TOKEN": "", "GITHUB_TOKEN": ""}, "permissions: issues: write", id="token"),
    ],
)
def test_what_a_workflow_leaves_out_is_said(environ: dict[str, str], words: str, hub: GitHub) -> None:
    told = command(hub, "ci", "tell", "--platform=linux-cpu", "--result=failure", **environ)
    assert (told.returncode, words in told.stderr, "Traceback" in told.stderr) == (2, True, False), told.stderr
