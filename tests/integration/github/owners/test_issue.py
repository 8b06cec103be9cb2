"""fatwheel ci tell: one issue while a platform's scheduled runs fail, on a GitHub that keeps to its own description."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ci_tools.errors import LeftUndone
from tests.builders.owner_issues import CONFIG, LATER, only, tell
from tests.servers.github import GitHub
from tests.servers.github_issues import BOT, Talk

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("config")]


def test_a_failure_opens_an_issue_for_the_owner(hub: GitHub, talk: Talk) -> None:
    address = tell(hub, "failure", "skipped")
    issue = only(talk)
    body = issue.body or ""
    assert address == f"{hub.url}/octo/demo/issues/1"
    assert issue.title == "The scheduled runs of linux-cpu fail (fatwheel.yml)"
    assert "\n@octo/cpu\n" in body
    assert "fail: once since 2026-11-21 04:17 UTC." in body
    assert "| latest run | [run 1](https://github.com/octo/demo/actions/runs/1) |" in body
    assert "What to do:" in body


def test_a_second_failure_brings_it_up_to_date_without_a_word(hub: GitHub, talk: Talk) -> None:
    assert tell(hub, "failure") == tell(hub, "success", "failure", number=2, now=LATER)
    body = only(talk).body or ""
    assert "fail: 2 times since 2026-11-21 04:17 UTC." in body
    assert ("[run 2]" in body, "[run 1]" in body, talk.comments) == (True, False, [])


def test_a_second_try_of_one_run_counts_once(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    tell(hub, "failure")
    assert "fail: once since" in (only(talk).body or "")


@pytest.mark.parametrize("results", [("success", "skipped"), ("success",), ("success", "", " ")])
def test_a_good_run_closes_it(results: tuple[str, ...], hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    address = tell(hub, *results, number=2)
    assert address.endswith("/issues/1")
    assert [(one.state, one.reason) for one in talk.issues] == [("closed", "completed")]
    assert talk.of(1) == ["linux-cpu succeeds again: [run 2](https://github.com/octo/demo/actions/runs/2)."]


def test_what_fails_again_opens_the_same_issue_with_a_comment(hub: GitHub, talk: Talk) -> None:
    for number, result in enumerate(("failure", "failure", "success", "failure"), 1):
        tell(hub, result, number=number, now=LATER)
    assert len(talk.issues) == 1
    assert "fail: once since 2026-11-28 04:17 UTC." in (only(talk).body or "")
    assert talk.of(1)[1:] == [
        "@octo/cpu\n\nlinux-cpu fails again: [run 4](https://github.com/octo/demo/actions/runs/4)."
    ]


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("results", "why"),
    [
        pytest.param(("cancelled",), "came to cancelled, which is neither", id="cancelled"),
        pytest.param(("skipped", "skipped"), "came to skipped, skipped", id="skipped"),
        pytest.param(("success", "cancelled"), "which is neither", id="not-all-done"),
        pytest.param(("", ""), "came to nothing", id="empty"),
        pytest.param((), "came to nothing", id="none"),
    ],
)
def test_what_says_nothing_changes_nothing(results: tuple[str, ...], why: str, hub: GitHub) -> None:
    with pytest.raises(LeftUndone, match=why):
        tell(hub, *results)
    assert hub.requests == []


def test_a_good_run_without_an_issue_changes_nothing(hub: GitHub, talk: Talk) -> None:
    with pytest.raises(LeftUndone, match="linux-cpu succeeds, and no issue about it is open"):
        tell(hub, "success")
    assert talk.issues == []


# -- whose issue it is


def test_each_platform_and_config_has_its_own(hub: GitHub, talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "own.yml").write_text(CONFIG, encoding="utf-8")
    tell(hub, "failure")
    tell(hub, "failure", platform="windows")
    tell(hub, "failure", config=Path("sub/own.yml"))
    tell(hub, "failure", config=Path("./fatwheel.yml"), number=2)
    assert [one.title.partition("of ")[2] for one in talk.issues] == [
        "linux-cpu fail (fatwheel.yml)",
        "windows fail (fatwheel.yml)",
        "linux-cpu fail (sub/own.yml)",
    ]


@pytest.mark.parametrize("author", ["mallory", "another-app[bot]"])
def test_nobody_else_can_plant_an_issue(author: str, hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    planted = talk.issues[0].body
    talk.issues.clear()
    talk.open("The scheduled runs of linux-cpu fail (fatwheel.yml)", planted, author=author)
    tell(hub, "failure", number=2)
    tell(hub, "success", number=3)
    assert [(one.author, one.state) for one in talk.issues] == [(author, "open"), (BOT, "closed")]
    assert talk.of(planted is None) == []


@pytest.mark.parametrize("prefix", ["Quoted:\n", "> ", " "])
def test_a_marker_in_the_middle_of_a_text_is_none(prefix: str, hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    talk.issues[0].body = prefix + (talk.issues[0].body or "")
    tell(hub, "failure")
    assert len(talk.issues) == 2


def test_neither_a_title_nor_a_pull_request_is_taken_for_the_issue(hub: GitHub, talk: Talk) -> None:
    talk.open("The scheduled runs of linux-cpu fail (fatwheel.yml)", "Mine.")
    tell(hub, "failure")
    talk.issues[1].is_pull = True
    tell(hub, "failure", number=2)
    assert [one.number for one in talk.issues] == [1, 2, 3]


def test_it_is_found_among_many(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    for number in range(230):
        talk.open(f"Another {number}", None if number % 2 else "")
    tell(hub, "failure", number=2)
    assert (len(talk.issues), "2 times" in (talk.issues[0].body or "")) == (231, True)


def test_what_people_change_in_it_is_forgiven(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    issue = talk.issues[0]
    issue.title, issue.body = "Ours!", (issue.body or "").splitlines()[0] + "\r\nI know."
    tell(hub, "failure", number=2)
    assert issue.title == "The scheduled runs of linux-cpu fail (fatwheel.yml)"
    assert "fail: once since" in (issue.body or "")


# -- two runs at once


def test_of_two_runs_at_once_the_older_issue_stays(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    first = talk.issues.pop()
    talk.meanwhile = [lambda: talk.issues.append(first)]  # the other run's is there once we open ours
    address = tell(hub, "failure", number=2)
    assert address.endswith("/issues/1")
    assert [(one.number, one.state, one.reason) for one in talk.issues] == [
        (1, "open", None),
        (2, "closed", "not_planned"),
    ]
    assert talk.of(2) == [f"{hub.url}/octo/demo/issues/1 says the same."]


def test_many_runs_at_once_leave_one_issue(hub: GitHub, talk: Talk) -> None:
    threads = [threading.Thread(target=tell, args=(hub, "failure"), kwargs={"number": n}) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.number for one in talk.issues if one.state == "open"] == [1]


@pytest.mark.parametrize(("outcome", "states"), [("failure", ["open", "closed"]), ("success", ["closed", "closed"])])
def test_of_two_that_are_open_one_stays_until_a_good_run(
    hub: GitHub, talk: Talk, outcome: str, states: list[str]
) -> None:
    tell(hub, "failure")
    talk.open("Again", talk.issues[0].body)
    tell(hub, outcome, number=2)
    assert [one.state for one in talk.issues] == states
