"""fatwheel ci tell: one issue while a platform's scheduled runs fail, on a GitHub that keeps to its own description."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import FatwheelError, InputError, LeftUndone, MachineError
from ci_tools.github import owners
from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside, Silent
from tests.servers.github import (
    REPOSITORY,
    TOKEN,
    Answer,
    Fault,
    GitHub,
    asked_too_fast,
    github_server,
    rate_limited,
    refusal,
)
from tests.servers.github_issues import BOT, READ_ONLY, Opened, Talk, settle
from tests.servers.prepared import Called, run_prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu: { owner: "@octo/cpu", native: ["*.c"] }
  windows:
"""
NOW = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
LATER = datetime(2026, 11, 28, 4, 17, tzinfo=timezone.utc)


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server


@pytest.fixture
def talk(hub: GitHub) -> Talk:
    return settle(hub)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("fatwheel.yml").write_text(CONFIG, encoding="utf-8")
    return Path("fatwheel.yml")


def opened(hub: GitHub, *, patience: float = 5, token: str = TOKEN) -> Hub:
    outside = Outside(environ={"GH_TOKEN": token, "GITHUB_API_URL": hub.url}, cache=Path("nowhere"), reporter=Silent())
    return Hub(REPOSITORY, outside, pause=0.01, patience=patience, permission=owners.PERMISSION)


def run(number: int) -> owners.Run:
    return owners.Run(str(number), f"https://github.com/{REPOSITORY}/actions/runs/{number}")


def tell(
    hub: GitHub,
    *results: str,
    number: int = 1,
    platform: str = "linux-cpu",
    now: datetime = NOW,
    config: Path = Path("fatwheel.yml"),
) -> str:
    return owners.tell(opened(hub), owners.news(config, platform, results, run(number), now))


def only(talk: Talk) -> Opened:
    (issue,) = (one for one in talk.issues if one.state == "open")
    return issue


@pytest.mark.usefixtures("config")
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


@pytest.mark.usefixtures("config")
def test_a_second_failure_brings_it_up_to_date_without_a_word(hub: GitHub, talk: Talk) -> None:
    assert tell(hub, "failure") == tell(hub, "success", "failure", number=2, now=LATER)
    body = only(talk).body or ""
    assert "fail: 2 times since 2026-11-21 04:17 UTC." in body
    assert ("[run 2]" in body, "[run 1]" in body, talk.comments) == (True, False, [])


@pytest.mark.usefixtures("config")
def test_a_second_try_of_one_run_counts_once(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    tell(hub, "failure")
    assert "fail: once since" in (only(talk).body or "")


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("results", [("success", "skipped"), ("success",), ("success", "", " ")])
def test_a_good_run_closes_it(results: tuple[str, ...], hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    address = tell(hub, *results, number=2)
    assert address.endswith("/issues/1")
    assert [(one.state, one.reason) for one in talk.issues] == [("closed", "completed")]
    assert talk.of(1) == ["linux-cpu succeeds again: [run 2](https://github.com/octo/demo/actions/runs/2)."]


@pytest.mark.usefixtures("config")
def test_what_fails_again_opens_the_same_issue_with_a_comment(hub: GitHub, talk: Talk) -> None:
    for number, result in enumerate(("failure", "failure", "success", "failure"), 1):
        tell(hub, result, number=number, now=LATER)
    assert len(talk.issues) == 1
    assert "fail: once since 2026-11-28 04:17 UTC." in (only(talk).body or "")
    assert talk.of(1)[1:] == [
        "@octo/cpu\n\nlinux-cpu fails again: [run 4](https://github.com/octo/demo/actions/runs/4)."
    ]


@pytest.mark.usefixtures("config", "talk")
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


@pytest.mark.usefixtures("config")
def test_a_good_run_without_an_issue_changes_nothing(hub: GitHub, talk: Talk) -> None:
    with pytest.raises(LeftUndone, match="linux-cpu succeeds, and no issue about it is open"):
        tell(hub, "success")
    assert talk.issues == []


# -- whose issue it is


@pytest.mark.usefixtures("config")
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


@pytest.mark.usefixtures("config")
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


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("prefix", ["Quoted:\n", "> ", " "])
def test_a_marker_in_the_middle_of_a_text_is_none(prefix: str, hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    talk.issues[0].body = prefix + (talk.issues[0].body or "")
    tell(hub, "failure")
    assert len(talk.issues) == 2


@pytest.mark.usefixtures("config")
def test_neither_a_title_nor_a_pull_request_is_taken_for_the_issue(hub: GitHub, talk: Talk) -> None:
    talk.open("The scheduled runs of linux-cpu fail (fatwheel.yml)", "Mine.")
    tell(hub, "failure")
    talk.issues[1].is_pull = True
    tell(hub, "failure", number=2)
    assert [one.number for one in talk.issues] == [1, 2, 3]


@pytest.mark.usefixtures("config")
def test_it_is_found_among_many(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    for number in range(230):
        talk.open(f"Another {number}", None if number % 2 else "")
    tell(hub, "failure", number=2)
    assert (len(talk.issues), "2 times" in (talk.issues[0].body or "")) == (231, True)


@pytest.mark.usefixtures("config")
def test_what_people_change_in_it_is_forgiven(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    issue = talk.issues[0]
    issue.title, issue.body = "Ours!", (issue.body or "").splitlines()[0] + "\r\nI know."
    tell(hub, "failure", number=2)
    assert issue.title == "The scheduled runs of linux-cpu fail (fatwheel.yml)"
    assert "fail: once since" in (issue.body or "")


# -- two runs at once


@pytest.mark.usefixtures("config")
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


@pytest.mark.usefixtures("config")
def test_many_runs_at_once_leave_one_issue(hub: GitHub, talk: Talk) -> None:
    threads = [threading.Thread(target=tell, args=(hub, "failure"), kwargs={"number": n}) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.number for one in talk.issues if one.state == "open"] == [1]


@pytest.mark.usefixtures("config")
def test_two_that_are_open_become_one(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    talk.open("Again", talk.issues[0].body)
    tell(hub, "failure", number=2)
    assert [one.state for one in talk.issues] == ["open", "closed"]


@pytest.mark.usefixtures("config")
def test_a_good_run_closes_all_that_are_open(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure")
    talk.open("Again", talk.issues[0].body)
    tell(hub, "success", number=2)
    assert {one.state for one in talk.issues} == {"closed"}


# -- faults

STEPS = {"opens": (), "updates": ("failure",), "closes": ("failure",), "opens-again": ("failure", "success")}


@pytest.mark.long
@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    "fault", [Fault.CLOSE, Fault.FORGET, Fault.CUT, refusal(502, "Bad Gateway"), asked_too_fast(0)]
)
@pytest.mark.parametrize("step", STEPS)
def test_whatever_goes_wrong_once_there_is_one_issue_and_one_comment(
    step: str, fault: Fault | Answer, hub: GitHub, talk: Talk
) -> None:
    result = "success" if step == "closes" else "failure"
    for at in range(1, 8):
        talk.issues.clear()
        talk.comments.clear()
        for number, before in enumerate(STEPS[step], 1):
            tell(hub, before, number=number)
        said = len(talk.comments)
        hub.faults.clear()
        hub.fail_at(at, fault)
        tell(hub, result, number=9)
        assert [one.state for one in talk.issues] == ["closed" if step == "closes" else "open"]
        assert len(talk.comments) - said == (step in {"closes", "opens-again"})


@pytest.mark.usefixtures("config", "talk")
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(refusal(401, "Bad credentials"), InputError, "rejects the token in GH_TOKEN", id="token"),
        pytest.param(refusal(403, READ_ONLY), InputError, "permissions: issues: write", id="workflow"),
        pytest.param(
            refusal(403, "Resource not accessible by personal access token"),
            InputError,
            "Issues: Read and write",
            id="fine-grained",
        ),
        pytest.param(refusal(403, "Repository was archived so is read-only."), InputError, "archived", id="archive"),
        pytest.param(rate_limited(3600), MachineError, "GitHub's rate limit is reached", id="limit"),
        pytest.param(refusal(500, "\x1b[2J"), MachineError, "GitHub answers 500", id="broken"),
    ],
)
def test_a_refusal_says_what_mends_it(answer: Answer, kind: type[FatwheelError], words: str, hub: GitHub) -> None:
    for at in range(4, 30):
        hub.fail_at(at, answer)
    with pytest.raises(kind) as refused:
        tell(hub, "failure")
    assert words in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.usefixtures("config")
def test_a_token_that_may_not_write_issues_is_told_so(hub: GitHub, talk: Talk) -> None:
    talk.may_write = False
    with pytest.raises(InputError, match="give the job `permissions: issues: write`"):
        tell(hub, "failure")


@pytest.mark.usefixtures("config")
def test_a_repository_without_issues_is_told_so(hub: GitHub, talk: Talk) -> None:
    talk.has_issues = False
    with pytest.raises(InputError, match="gh repo edit octo/demo --enable-issues"):
        tell(hub, "failure")
    with pytest.raises(LeftUndone, match="issues are disabled in"):
        tell(hub, "success")


# -- the config, and what is hostile


@pytest.mark.usefixtures("config")
def test_a_platform_without_an_owner_says_so(hub: GitHub, talk: Talk) -> None:
    tell(hub, "failure", platform="windows")
    assert "| owner | none, the config names no owner; `owner: " in (only(talk).body or "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(CONFIG.replace("package", "pakage"), "pakage", id="mistake"),
        pytest.param(None, "there is no fatwheel", id="missing"),
    ],
)
def test_a_config_that_broke_is_told_as_well(
    text: str | None, words: str, config: Path, hub: GitHub, talk: Talk
) -> None:
    config.unlink()
    if text is not None:
        config.write_text(text, encoding="utf-8")
    tell(hub, "failure")
    assert "| owner | none, the config cannot be read" in (only(talk).body or "")
    assert words in (only(talk).body or "")


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        pytest.param("@octo/cpu, @everybody", "<code>&#64;octo&#47;cpu, &#64;everybody</code>, not a", id="two"),
        pytest.param("us", "<code>us</code>, not a user or team", id="word"),
        pytest.param("@o | <img src=x>", "<code>&#64;o &#124; &lt;img src&#61;x&gt;</code>", id="markup"),
        pytest.param("--> @a ::error::", "<code>--&gt; &#64;a &#58;&#58;error&#58;&#58;</code>", id="comment-end"),
    ],
)
def test_an_owner_that_is_no_name_shows_as_itself(
    owner: str, shown: str, config: Path, hub: GitHub, talk: Talk
) -> None:
    config.write_text(CONFIG.replace("@octo/cpu", owner), encoding="utf-8")
    tell(hub, "failure")
    body = only(talk).body or ""
    assert shown in body
    assert "\n@" not in body
    assert body.count("@") == body.count("`@org/team`")


def test_a_hostile_path_neither_mentions_nor_ends_the_marker(config: Path, hub: GitHub, talk: Talk) -> None:
    hostile = Path("--> @torvalds #1 | `x` $(id).yml")
    config.rename(hostile)
    tell(hub, "failure", config=hostile)
    tell(hub, "failure", config=hostile, number=2)
    issue = only(talk)
    lines = (issue.body or "").splitlines()
    assert (
        lines[0]
        == "<!-- fatwheel tells of linux%2Dcpu in %2D%2D%3E%20%40torvalds%20%231%20%7C%20%60x%60%20%24%28id%29.yml -->"
    )
    assert "@torvalds" not in (issue.body or "")
    assert "#1" not in "".join(lines[2:]).replace("&#1", "")


def test_a_long_path_is_cut_in_the_title(config: Path, hub: GitHub, talk: Talk) -> None:
    long = Path("x" * 240 + ".yml")
    config.rename(long)
    tell(hub, "failure", config=long)
    assert len(only(talk).title) == 200


@pytest.mark.usefixtures("config", "talk")
@pytest.mark.parametrize(
    ("platform", "result", "words"),
    [
        pytest.param("linux-cpus", "failure", 'no platform "linux-cpus", did you mean "linux-cpu"?', id="unknown"),
        pytest.param("linux-cuda", "failure", "fatwheel.yml has no platform", id="not-asked-for"),
        pytest.param("linux-cpu", "failed", 'no result "failed", did you mean "failure"?', id="result"),
        pytest.param("linux\n::error::x", "failure", 'no platform "linux ::error::x"', id="hostile"),
    ],
)
def test_wrong_input_is_said(platform: str, result: str, words: str, hub: GitHub) -> None:
    with pytest.raises(InputError) as refused:
        tell(hub, result, platform=platform)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "spoiled",
    [
        {},
        {"GITHUB_SERVER_URL": "javascript:alert(1)//"},
        {"GITHUB_REPOSITORY": "a/b) [x](y"},
        {"GITHUB_RUN_ID": "1) @torvalds"},
    ],
)
def test_a_run_is_linked_where_it_is_one(spoiled: dict[str, str]) -> None:
    known = {"GITHUB_SERVER_URL": "https://ghe.example.invalid", "GITHUB_REPOSITORY": "a/b", "GITHUB_RUN_ID": "12"}
    found = str(owners.run_of({**known, **spoiled}))
    linked = "[run 12](https://ghe.example.invalid/a/b/actions/runs/12)"
    assert found == ("a run outside GitHub Actions" if spoiled else linked)


# -- the command line


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
