"""fatwheel ci tell: the owner and the path of a config, and what is hostile in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.github import owners
from tests.builders.owner_issues import CONFIG, only, tell
from tests.servers.github import GitHub
from tests.servers.github_issues import Talk

pytestmark = pytest.mark.slow


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
