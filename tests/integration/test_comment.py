"""fatwheel ci comment: one comment of a pull request, on a GitHub that keeps to its own description."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, InputError, LeftUndone
from ci_tools.github import comment as comments
from ci_tools.github.client import Hub
from ci_tools.github.comment import MOST, fit_comment, marker
from ci_tools.machine.context import Outside, Silent
from tests.servers.github import REPOSITORY, TOKEN, Answer, Fault, GitHub, asked_too_fast, refusal
from tests.servers.github_issues import BOT, READ_ONLY, Talk, settle
from tests.servers.prepared import Called, run_prepared

pytestmark = pytest.mark.slow

FORK = "mallory/demo"
PLAN = marker("plan")


@pytest.fixture
def talk(hub: GitHub) -> Talk:
    """A repository with the pull requests 1, of its own, and 2, from a fork."""
    talk = settle(hub)
    for number, home in ((1, REPOSITORY), (2, FORK)):
        talk.open("A change", "", author="octo", is_pull=True)
        talk.pulls[number] = home
    return talk


def comment(hub: GitHub, text: str, *, pull: int = 1, name: str = "plan", token: str = TOKEN) -> str:
    variables = {"GH_TOKEN": token, "GITHUB_API_URL": hub.url}
    outside = Outside(environ=variables, cache=Path("nowhere"), reporter=Silent())
    opened = Hub(REPOSITORY, outside, pause=0.01, patience=5, permission=comments.PERMISSION)
    return comments.comment(opened, pull, text, name)


def test_a_text_becomes_a_comment_and_is_edited_afterwards(hub: GitHub, talk: Talk) -> None:
    addresses = {comment(hub, text) for text in ("2 jobs\n", "24 jobs\n")}
    assert addresses == {f"{hub.url}/octo/demo/issues/1#issuecomment-3"}
    assert talk.of(1) == [f"{PLAN}24 jobs\n"]


@pytest.mark.parametrize("kept_as", ["{}2 jobs\nfor 3\n", "{}2 jobs\r\nfor 3", "{}2 jobs\nfor 3\n\n "])
def test_an_unchanged_text_changes_nothing(kept_as: str, hub: GitHub, talk: Talk) -> None:
    talk.say(1, kept_as.format(PLAN))
    comment(hub, "2 jobs\nfor 3\n")
    assert [one for one in hub.requests if not one.startswith("GET")] == ["POST /graphql"]


@pytest.mark.parametrize("author", ["mallory", "another-app[bot]"])
def test_nobody_elses_comment_is_touched(author: str, hub: GitHub, talk: Talk) -> None:
    talk.say(1, f"{PLAN}Theirs.", author=author)
    talk.say(1, f"> {PLAN}Quoted.")
    talk.say(2, f"{PLAN}Of another pull request.")
    comment(hub, "Ours.")
    assert talk.of(1) == [f"{PLAN}Theirs.", f"> {PLAN}Quoted.", f"{PLAN}Ours."]


def test_another_name_is_another_comment(hub: GitHub, talk: Talk) -> None:
    for name in ("plan", "--> ci/rocm.yml @torvalds", "plan"):
        comment(hub, f"of {name[:4]}", name=name)
    assert talk.of(1) == [
        "<!-- fatwheel comment plan -->\nof plan",
        "<!-- fatwheel comment %2D%2D%3E%20ci%2Frocm.yml%20%40torvalds -->\nof --> ",
    ]


def test_it_is_found_among_many(hub: GitHub, talk: Talk) -> None:
    comment(hub, "first")
    for number in range(230):
        talk.say(1, f"Well, {number}.", author="octo" if number % 2 else BOT)
    comment(hub, "second")
    assert (talk.of(1)[0], len(talk.of(1))) == (f"{PLAN}second", 231)


def test_of_two_runs_at_once_the_older_comment_stays(hub: GitHub, talk: Talk) -> None:
    talk.meanwhile = [lambda: talk.say(1, f"{PLAN}of the other run")]
    comment(hub, "of ours")
    assert talk.of(1) == [f"{PLAN}of ours"]
    assert talk.comments[0].id == 3


def test_many_runs_at_once_leave_one_comment(hub: GitHub, talk: Talk) -> None:
    threads = [threading.Thread(target=comment, args=(hub, f"run {number}")) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one[: len(PLAN) + 3] for one in talk.of(1)] == [f"{PLAN}run"]


@pytest.mark.parametrize(
    "before", [pytest.param((), id="writes"), pytest.param(("first",), id="edits", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "fault", [Fault.CLOSE, Fault.FORGET, Fault.CUT, refusal(502, "Bad Gateway"), asked_too_fast(0)]
)
def test_whatever_goes_wrong_once_there_is_one_comment(
    fault: Fault | Answer, before: tuple[str, ...], hub: GitHub, talk: Talk
) -> None:
    for at in range(1, 7):
        talk.comments.clear()
        for text in before:
            comment(hub, text)
        hub.faults.clear()
        hub.fail_at(at, fault)
        comment(hub, "last")
        assert talk.of(1) == [f"{PLAN}last"]


# -- what GitHub refuses


def test_a_fork_that_may_write_nothing_is_left_alone(hub: GitHub, talk: Talk) -> None:
    talk.may_write = False
    with pytest.raises(LeftUndone, match="pull request 2 comes from a fork, whose runs may not write here"):
        comment(hub, "text", pull=2)


def test_a_fork_that_may_write_gets_its_comment(hub: GitHub, talk: Talk) -> None:
    comment(hub, "text", pull=2)
    assert talk.of(2) == [f"{PLAN}text"]


@pytest.mark.parametrize(
    ("at", "answer", "words"),
    [
        pytest.param(5, refusal(403, READ_ONLY), "give the job `permissions: pull-requests: write`", id="workflow"),
        pytest.param(
            5,
            refusal(403, "Resource not accessible by personal access token"),
            "`Pull requests: Read and write`",
            id="fine-grained",
        ),
        pytest.param(5, refusal(403, "Forbidden"), "the token needs: pull_requests=write", id="unknown"),
        pytest.param(1, refusal(401, "Bad credentials"), "rejects the token in GH_TOKEN", id="token"),
        pytest.param(2, refusal(404, "Not Found"), "octo/demo has no pull request 1", id="pull-request"),
        pytest.param(5, refusal(422, "\x1b[2J"), "GitHub rejects a request for", id="invalid"),
    ],
)
@pytest.mark.usefixtures("talk")
def test_a_refusal_says_what_mends_it(at: int, answer: Answer, words: str, hub: GitHub) -> None:
    hub.fail_at(at, answer)
    with pytest.raises(FatwheelError) as refused:
        comment(hub, "text")
    assert words in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.usefixtures("talk")
def test_an_issue_is_no_pull_request(hub: GitHub) -> None:
    with pytest.raises(InputError, match="octo/demo has no pull request 3"):
        comment(hub, "text", pull=3)


# -- what is too long


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("short\n", id="short"),
        pytest.param("x" * (MOST - len(PLAN)), id="just-fits"),
    ],
)
def test_a_text_that_fits_is_left_as_it_is(text: str) -> None:
    assert fit_comment(PLAN, text) == PLAN + text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * (MOST - len(PLAN) + 1), id="one-too-many"),
        pytest.param("a line\n" * 100_000, id="lines"),
        pytest.param("<details>\n" + "é✅\n" * 50_000, id="open-details"),
        pytest.param("🛞" * 60_000, id="beyond-16-bits"),
    ],
)
def test_a_text_that_is_too_long_is_cut_and_says_so_first(text: str, hub: GitHub, talk: Talk) -> None:
    comment(hub, text)
    comment(hub, text)
    (body,) = talk.of(1)
    head, _, kept = body.partition("\n\n")
    notice = "*GitHub accepts at most 65,536 characters, so the end is cut off here; the file has all of it.*"
    assert head == f"{PLAN}{notice}"
    assert text.startswith(kept)
    assert MOST - 200 < len(body.encode("utf-16-le")) // 2 <= MOST
    assert kept.endswith("\n") == ("\n" in text)


# -- the command line


def command(hub: GitHub, *arguments: str, cwd: Path, **environ: str) -> Called:
    own = {"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY}
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **own, **environ}
    return run_prepared(arguments, cwd=cwd, env=variables, timeout=100)


def test_a_step_writes_the_comment_and_a_fork_gets_a_notice(hub: GitHub, talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "comparison.md").write_text("2 jobs ✅\n", encoding="utf-8")
    names = {"GITHUB_ACTIONS": "true", "WITH_FILE": "comparison.md"}
    first = command(hub, "ci", "step", "comment", cwd=tmp_path, **names, WITH_PULL="1")
    talk.may_write = False
    second = command(hub, "ci", "step", "comment", cwd=tmp_path, **names, WITH_PULL="2")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert talk.of(1) == [f"{PLAN}2 jobs ✅\n"]
    assert "\n::notice title=Fatwheel::pull request 2 comes from a fork" in second.stderr


@pytest.mark.parametrize(
    ("content", "pull", "words"),
    [
        pytest.param(None, "1", "there is no file comparison.md", id="no-file"),
        pytest.param(b" \n", "1", "comparison.md is empty", id="empty"),
        pytest.param(b"\xff\xfe", "1", "comparison.md is not UTF-8 text", id="no-text"),
        pytest.param(b"text", "none", '--pull: "none" is not a number', id="no-number"),
        pytest.param(b"text", "-1", '"-1" is not a number', id="negative"),
    ],
)
@pytest.mark.usefixtures("talk")
def test_wrong_input_is_said(content: bytes | None, pull: str, words: str, hub: GitHub, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "comparison.md").write_bytes(content)
    told = command(hub, "ci", "comment", "comparison.md", f"--pull={pull}", cwd=tmp_path)
    assert (told.returncode, words in told.stderr, "Traceback" in told.stderr) == (2, True, False), told.stderr
