"""A release that is found to be bad, marked at GitHub and at indexes that take uploads, and back again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from twine.utils import DEFAULT_REPOSITORY

from ci_tools.errors import InputError
from ci_tools.github import client
from ci_tools.index.units import Unit
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Channel, Edition
from ci_tools.publish import retraction
from ci_tools.publish.targets.github_release import GitHubTarget
from tests.builders import releases, wheels
from tests.servers.github import HEAD, REPOSITORY, TOKEN, Fault, GitHub, github_server, refusal
from tests.servers.uploads import free_port, pypiserver

pytestmark = pytest.mark.slow

BAD = "wrong results, use 1.1"
GITHUB = f"github:{REPOSITORY}"


@pytest.fixture
def outside(hub: GitHub, tmp_path: Path) -> Outside:
    environ = {"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "HOME": str(tmp_path)}
    return Outside(environ=environ, cache=tmp_path / "cache", reporter=Silent())


def release(folder: Path, version: str, edition: Edition | None = None) -> Unit:
    wheel = wheels.make(folder / version, f"demo-{version}-py3-none-any.whl")
    unit = releases.unit("demo", releases.item(wheel), version=version, edition=edition)
    candidate = f"-rc{edition.candidate}" if edition else ""
    return replace(unit, tag=f"v{version}{candidate}", title=f"Demo {version}", commit=HEAD)


def publish(hub: GitHub, outside: Outside, unit: Unit) -> None:
    releases.publish(GitHubTarget(REPOSITORY, outside, base_url=hub.url, pause=0.01), unit)


def fields(hub: GitHub) -> dict[str, dict[str, object]]:
    """Return what everybody sees of each release, by its tag."""
    return {str(kept.fields["tag_name"]): dict(kept.fields) for kept in hub.releases}


def latest(hub: GitHub) -> str:
    return str(hub.latest.fields["tag_name"]) if hub.latest else ""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> GitHub:
    """Return a repository with two releases, the second of which is the latest, and bad; it is only copied."""
    folder = tmp_path_factory.mktemp("filled")
    outside = Outside(environ={"GH_TOKEN": TOKEN}, cache=folder / "cache", reporter=Silent())
    with github_server() as server:
        for version in ("1.0", "1.1"):
            publish(server, outside, release(folder, version))
    assert latest(server) == "v1.1"
    return server


@pytest.fixture
def both(filled: GitHub, hub: GitHub) -> GitHub:
    """A copy of that repository, for one test alone."""
    hub.take_over(filled)
    return hub


# -- on GitHub


@pytest.mark.parametrize("immutable", [False, True], ids=["mutable", "immutable"])
def test_a_release_is_marked_taken_from_latest_and_restored_to_every_byte(
    both: GitHub, outside: Outside, *, immutable: bool
) -> None:
    both.releases[0].immutable = immutable
    before = fields(both)
    done = retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    assert [(one.target, one.done) for one in done] == [
        (f"{GITHUB} v1.1", "its notes and title say so, and it is not the latest")
    ]
    marked = fields(both)["v1.1"]
    assert (marked["name"], marked["prerelease"], latest(both)) == ("[YANKED] Demo 1.1", True, "v1.0")
    assert f"**This release was retracted:** {BAD}" in str(marked["body"])
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert (fields(both), latest(both)) == (before, "v1.1")


def test_a_second_time_nothing_is_written(both: GitHub, outside: Outside) -> None:
    for act in (lambda: retraction.retract("demo==1.1", BAD, [GITHUB], outside),) * 2:
        before = len(both.requests)
        done = act()
    assert [asked for asked in both.requests[before:] if not asked.startswith("GET ")] == []
    assert done[0].done == "its notes and title say so already, and it is not the latest"


def test_another_reason_keeps_what_was_before(both: GitHub, outside: Outside) -> None:
    before = fields(both)
    for reason in ("first", "second"):
        retraction.retract("demo==1.1", reason, [GITHUB], outside)
    assert str(fields(both)["v1.1"]["body"]).count("retracted:** second") == 1
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert (fields(both), latest(both)) == (before, "v1.1")


def test_a_newer_release_stays_the_latest_when_an_older_one_comes_back(
    both: GitHub, outside: Outside, tmp_path: Path
) -> None:
    retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    publish(both, outside, release(tmp_path, "1.2"))
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert latest(both) == "v1.2"


def test_one_that_was_not_the_latest_does_not_become_it(both: GitHub, outside: Outside) -> None:
    before = fields(both)
    retraction.retract("demo==1.0", BAD, [GITHUB], outside)
    retraction.restore("demo==1.0", [GITHUB], outside)
    assert (fields(both), latest(both)) == (before, "v1.1")


def test_the_only_release_is_not_the_latest_any_more(hub: GitHub, outside: Outside, tmp_path: Path) -> None:
    publish(hub, outside, release(tmp_path, "1.0"))
    retraction.retract("demo==1.0", BAD, [GITHUB], outside)
    assert latest(hub) == ""
    retraction.restore("demo==1.0", [GITHUB], outside)
    assert latest(hub) == "v1.0"


def test_a_candidate_is_marked_too_and_stays_a_prerelease(both: GitHub, outside: Outside, tmp_path: Path) -> None:
    publish(both, outside, release(tmp_path, "1.1", Edition(Channel.TEST, 1)))
    before = fields(both)
    done = retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    assert {one.target for one in done} == {f"{GITHUB} v1.1", f"{GITHUB} v1.1-rc1"}
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert fields(both) == before


def test_a_retracted_release_that_is_published_again_stays_so(both: GitHub, outside: Outside, tmp_path: Path) -> None:
    retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    before = fields(both)
    publish(both, outside, release(tmp_path, "1.1"))
    assert (fields(both), latest(both)) == (before, "v1.0")


def test_notes_that_were_edited_meanwhile_keep_the_edit(both: GitHub, outside: Outside) -> None:
    retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    both.releases[0].fields["body"] += "See #7."
    both.releases[0].fields["name"] = "[YANKED] Demo one"
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert str(both.releases[0].fields["body"]).endswith("See #7.")
    assert both.releases[0].fields["name"] == "Demo one"


def test_a_release_of_two_versions_is_not_marked(both: GitHub, outside: Outside) -> None:
    both.releases[0].assets += both.releases[1].assets[:1]
    before = fields(both)
    with pytest.raises(InputError, match=r"v1\.1 of octo/demo also has files of demo 1\.0"):
        retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    assert fields(both) == before


def test_notes_without_room_are_said(both: GitHub, outside: Outside) -> None:
    both.releases[0].fields["body"] = "x" * 124_900
    with pytest.raises(InputError, match=r"GitHub accepts 125,000; nothing is marked yet\n  hint: shorten them by"):
        retraction.retract("demo==1.1", BAD, [GITHUB], outside)


FAULTS = [Fault.FORGET, *(pytest.param(how, marks=pytest.mark.long) for how in (Fault.CLOSE, Fault.CUT))]


@pytest.mark.parametrize("how", FAULTS)
def test_one_fault_at_any_request_is_lived_through(
    both: GitHub, outside: Outside, how: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)  # before the second try
    before, start = fields(both), len(both.requests)
    retraction.retract("demo==1.1", BAD, [GITHUB], outside)
    marked, count = fields(both), len(both.requests) - start
    for number in range(1, count + 1):
        retraction.restore("demo==1.1", [GITHUB], outside)
        both.fail_at(number, how)
        retraction.retract("demo==1.1", BAD, [GITHUB], outside)
        assert fields(both) == marked, f"request {number}"
    retraction.restore("demo==1.1", [GITHUB], outside)
    assert fields(both) == before


def test_what_fails_in_the_middle_says_what_is_marked_and_the_same_command_goes_on(
    both: GitHub, outside: Outside, tmp_path: Path
) -> None:
    index = tmp_path / "index"
    releases.publish(releases.folder_index(index), release(tmp_path, "1.1"))
    addresses = [GITHUB, f"dir:{index}"]
    both.fail_at(3, refusal(403, "Resource not accessible by integration"))  # the first request after the question
    with pytest.raises(InputError, match=rf"marked so far: dir:{index}\n  hint: .*the same command continues"):
        retraction.retract("demo==1.1", BAD, addresses, outside)
    done = retraction.retract("demo==1.1", BAD, addresses, outside)
    assert [one.done for one in done] == [
        "1 files are yanked already",
        "its notes and title say so, and it is not the latest",
    ]


def test_nothing_is_marked_where_one_target_cannot_be(both: GitHub, outside: Outside, tmp_path: Path) -> None:
    index = tmp_path / "index"
    releases.publish(releases.folder_index(index), release(tmp_path, "1.1"))
    both.fail_at(2, refusal(403, "Repository was archived so is read-only."))
    with pytest.raises(InputError, match="gh repo unarchive"):
        retraction.retract("demo==1.1", BAD, [f"dir:{index}", GITHUB], outside)
    assert "data-yanked" not in (index / "demo/index.html").read_text()


# -- at indexes that take uploads


def test_an_index_of_others_needs_a_hand(hub: GitHub, outside: Outside, tmp_path: Path) -> None:
    wheels.make(tmp_path / "served", "demo-1.1-py3-none-any.whl")
    publish(hub, outside, release(tmp_path, "1.1"))
    with pypiserver(tmp_path / "served") as server:
        done = retraction.retract("demo==1.1", BAD, [f"pypi:{server.upload}", GITHUB], outside)
    assert done[-1].done == "nothing: only its maintainers can do this, by hand"
    assert done[-1].left == "ask the people who run that index to yank demo==1.1, if it can"


@pytest.mark.usefixtures("both")
def test_pypi_comes_with_the_page_where_it_is_done_even_where_it_cannot_be_asked(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    done = retraction.retract("demo==1.1", BAD, ["pypi", GITHUB], outside)
    host = (urlsplit(DEFAULT_REPOSITORY).hostname or "").removeprefix("upload.")
    assert done[-1].done.startswith("it could not be asked: ")
    assert f"https://{host}/manage/project/demo/releases/" in done[-1].left
    assert done[-1].left.endswith(f"choose Yank, and give this reason: {BAD}")
