"""Whose request for a wheel starts a build: what GitHub says now of the sender of the event, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.github import client
from ci_tools.github.owners import run_of
from ci_tools.machine.context import Outside, Silent
from ci_tools.recipes.answer import Fate, answer, read_event, write_page
from tests.builders.sources import committed, git, write
from tests.servers.github import REPOSITORY, TOKEN, Answer, GitHub, refusal
from tests.servers.github_issues import Talk, settle
from tests.unit.recipes.test_form import body

if TYPE_CHECKING:
    Ask = Callable[..., tuple[Fate, str]]

pytestmark = pytest.mark.slow

RECIPE = """\
package: demo
version: "1.0"
source: { git: UPSTREAM, ref: "v{version}" }
python: ["3.13"]
platforms: { linux-cpu: }
"""
WANTED = body(Package="demo")
BUILD, WHEEL = {"label": {"name": "build"}}, {"label": {"name": "wheel"}}
RIGHTS = {"owner": "admin", "writer": "write", "private": "write", "nobody": "none"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a recipe."""
    folder = tmp_path_factory.mktemp("senders")
    upstream = write(folder / "up", {"setup.py": "import setuptools\n"})
    committed(upstream)
    git(upstream, "tag", "v1.0")
    write(folder / "recipes/demo", {"fatwheel.yml": RECIPE.replace("UPSTREAM", str(upstream))})
    return folder


@pytest.fixture
def talk(hub: GitHub) -> Talk:
    return settle(hub, Talk(rights=dict(RIGHTS)))


@pytest.fixture
def ask(place: Path, hub: GitHub, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return what writes an event and answers it: what becomes of it, and the comment."""
    assert talk.rights
    monkeypatch.chdir(place)
    monkeypatch.setattr(client, "PAUSE", 0.01)
    own = {**os.environ, "GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN}
    outside = Outside(environ=own, cache=place / "cache", reporter=Silent())

    def asked(sender: str, action: str, **more: object) -> tuple[Fate, str]:
        event = {"action": action, "issue": {"number": 1, "body": WANTED}, "sender": {"login": sender}, **more}
        (place / "event.json").write_text(json.dumps(event))
        given = answer(read_event(place / "event.json", "build"), f"github:{REPOSITORY}", (), outside)
        return given.fate, write_page(given, "build", run_of(own))

    return asked


def comment(text: str) -> dict[str, object]:
    return {"comment": {"body": text, "author_association": "MEMBER"}}


def issue(**more: object) -> dict[str, object]:
    return {"issue": {"number": 1, "body": WANTED, **more}}


@pytest.mark.parametrize(
    ("sender", "action", "more", "fate"),
    [
        pytest.param("owner", "opened", {}, Fate.BUILD, id="opened"),
        pytest.param("writer", "edited", {}, Fate.BUILD, id="edited"),
        pytest.param("writer", "reopened", {}, Fate.BUILD, id="reopened"),
        pytest.param("writer", "labeled", BUILD, Fate.BUILD, id="approved-by-the-label"),
        pytest.param("writer", "created", comment("/build\r\nplease"), Fate.BUILD, id="approved-by-a-comment"),
        pytest.param("writer", "labeled", WHEEL, Fate.WAITS, id="another-label"),
        pytest.param("writer", "created", comment("I will /build it"), Fate.WAITS, id="another-comment"),
        pytest.param("writer", "deleted", comment("/build"), Fate.WAITS, id="a-comment-that-is-gone"),
        pytest.param("writer", "unlabeled", BUILD, Fate.WAITS, id="the-label-taken-off"),
        pytest.param("writer", "created", issue(pull_request={}) | comment("/build"), Fate.WAITS, id="a-pull-request"),
        pytest.param("reader", "opened", {}, Fate.WAITS, id="who-may-read"),
        pytest.param("nobody", "opened", {}, Fate.WAITS, id="nobody"),
        pytest.param("reader", "labeled", BUILD, Fate.WAITS, id="the-label-by-the-template-or-by-triage"),
        pytest.param("reader", "created", comment("/build"), Fate.WAITS, id="a-comment-of-a-reader"),
        pytest.param("reader", "edited", issue(labels=[{"name": "build"}]), Fate.WAITS, id="edited-after-the-approval"),
        pytest.param("reader", "created", issue(author_association="OWNER") | comment("/build"), Fate.WAITS,
                     id="on-an-owner-s-issue"),
        pytest.param("dependabot[bot]", "labeled", BUILD, Fate.WAITS, id="an-app"),
        pytest.param("../../octo/other", "opened", {}, Fate.WAITS, id="no-name"),
    ],
)  # fmt: skip
def test_only_who_may_write_now_starts_a_build(
    ask: Ask, sender: str, action: str, more: dict[str, object], fate: Fate
) -> None:
    given, page = ask(sender, action, **more)
    assert given == fate
    assert ("waits for somebody who may write to octo&#47;demo" in page) == (fate is Fate.WAITS), page


ASSOCIATIONS = (
    *("COLLABORATOR", "CONTRIBUTOR", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN", "MEMBER", "NONE", "OWNER"),
)


@pytest.mark.parametrize("association", ASSOCIATIONS)
def test_what_an_event_says_of_its_author_counts_for_nothing(ask: Ask, association: str) -> None:
    """A member who may only read waits, and a private member, who arrives as a contributor, does not."""
    given, page = ask("mallory", "opened", **issue(author_association=association))
    assert (given, "the permission of mallory is read" in page) == (Fate.WAITS, True), page
    assert ask("private", "opened", **issue(author_association=association))[0] == Fate.BUILD


def test_who_loses_the_right_in_between_starts_nothing(ask: Ask, talk: Talk) -> None:
    assert ask("writer", "labeled", **BUILD)[0] == Fate.BUILD
    talk.rights["writer"] = "read"
    assert ask("writer", "labeled", **BUILD)[0] == Fate.WAITS


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(refusal(403, "Must have push access to view collaborator permission."), "push access", id="403"),
        pytest.param(refusal(404, "Not Found"), "the permission of writer is none", id="404"),
        pytest.param(refusal(500, "Server Error"), "answers 500", id="500"),
        pytest.param(Answer(200, {"role_name": "admin", "user": None}), "does not answer like", id="no-permission"),
        pytest.param(Answer(200, b"<html>proxy</html>"), "did not say what writer may do", id="a-page"),
        pytest.param(Answer(200, {"permission": None, "role_name": "", "user": None}), "is None", id="null"),
        pytest.param(Answer(200, {"permission": "ADMIN", "role_name": "", "user": None}), "is ADMIN", id="other-word"),
    ],
)
def test_a_request_waits_where_github_does_not_say_who_may_write(ask: Ask, hub: GitHub, said: Answer, why: str) -> None:
    hub.routes.insert(0, ("GET", r"/repos/octo/demo/collaborators/writer/permission", lambda *_: said))
    given, page = ask("writer", "labeled", **BUILD)
    assert (given, why in page) == (Fate.WAITS, True), page
    hub.problems.clear()  # what such a server answers is not GitHub's
