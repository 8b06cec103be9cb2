"""GitHub Releases: what is published, what comes later, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.model.request import Channel
from tests.builders import wheels
from tests.builders.forked import measure_growth
from tests.builders.github_units import LOCAL, PLAIN, is_right, publish, shown, target, unit
from tests.servers.forking import CONTEXT
from tests.servers.github import HEAD, REPOSITORY, GitHub

pytestmark = pytest.mark.slow


def test_nobody_sees_a_file_before_the_switch_and_everybody_all_of_them_after_it(hub: GitHub, made: Path) -> None:
    own, what = target(hub.url), unit(made)
    assert [change.what for change in own.check(what)] == ["add"] * 6
    own.stage(what)
    own.verify(what)
    assert (shown(hub), hub.tags) == ({}, {})
    published = own.switch(what)
    assert (is_right(hub, what), hub.tags) == (True, {"v1.0": HEAD})
    assert [(one.file, one.new) for one in published] == [(LOCAL, True), (PLAIN, True)]
    for one in published:
        with urlopen(one.where) as answer:
            assert answer.read() == (made / one.file).read_bytes()


def test_a_check_writes_nothing(hub: GitHub, made: Path) -> None:
    target(hub.url).check(unit(made))
    assert [asked for asked in hub.requests if not asked.startswith("GET ")] == []


def test_publishing_twice_writes_once(released: GitHub, made: Path) -> None:
    before = len(released.requests)
    again = publish(released.url, unit(made))
    assert [asked for asked in released.requests[before:] if not asked.startswith("GET ")] == []
    assert [one.new for one in again] == [False, False]
    assert {change.what for change in target(released.url).check(unit(made))} == {"keep"}


def test_a_test_edition_is_a_prerelease_that_a_stable_one_of_the_same_files_promotes(hub: GitHub, made: Path) -> None:
    publish(hub.url, unit(made, channel=Channel.TEST))
    assert hub.releases[0].fields["prerelease"] is True
    publish(hub.url, unit(made))
    assert (hub.releases[0].fields["prerelease"], len(hub.releases)) == (False, 1)


def test_an_optional_platform_comes_later_and_changes_nothing_that_was_there(hub: GitHub, made: Path) -> None:
    later = unit(made, PLAIN.replace("py3-none-any", "py3-none-win_amd64"), name="windows")
    target(hub.url).stage(later)
    with pytest.raises(InputError, match="publish the core first"):
        target(hub.url).switch(later)
    publish(hub.url, unit(made))
    before = shown(hub)
    target(hub.url).stage(later)
    assert shown(hub) == before
    assert [one.new for one in target(hub.url).switch(later)] == [True]
    assert before.items() < shown(hub).items()
    assert "win_amd64" in hub.releases[0].fields["body"].replace("\\", "")
    assert [one.new for one in target(hub.url).switch(later)] == [False]


def test_wheels_of_a_later_torch_are_added_to_the_release_of_the_very_commit(hub: GitHub, made: Path) -> None:
    later = replace(unit(made, LOCAL, name="core-torch2.15"), added="torch2.15")
    with pytest.raises(InputError, match="is not published yet") as refused:
        target(hub.url).check(later)
    assert "without --torch" in refused.value.hint
    publish(hub.url, unit(made, PLAIN))
    assert {change.what for change in target(hub.url).check(later)} == {"update", "add"}
    hub.commits.add("b" * 40)
    with pytest.raises(InputError, match=r"the tag v1\.0 of .* is at aaaaaaaaaaaa, the files are of bbbbbbbbbbbb"):
        target(hub.url).check(replace(later, commit="b" * 40))


def test_a_release_that_a_person_made_gets_the_files_and_keeps_its_words(hub: GitHub, made: Path) -> None:
    hub.add({"tag_name": "v1.0", "name": "By hand", "body": "Thanks to all."})
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))
    assert hub.releases[0].fields["body"].startswith("Thanks to all.")


def test_a_draft_that_a_person_made_stays_as_it_is(hub: GitHub, made: Path) -> None:
    theirs = hub.add({"tag_name": "v1.0", "name": "By hand", "body": "Not yet.", "draft": True})
    publish(hub.url, unit(made))
    assert (theirs in hub.releases, theirs.assets, theirs.fields["body"]) == (True, [], "Not yet.")


def test_a_release_is_found_among_hundreds(hub: GitHub, made: Path) -> None:
    target(hub.url).stage(unit(made))
    for number in range(250):
        hub.add({"tag_name": f"nightly-{number}", "name": "", "body": None})
    assert publish(hub.url, unit(made))
    assert shown(hub).keys() >= {PLAIN, LOCAL}
    assert [asked for asked in hub.requests if asked.startswith("POST ") and "assets" not in asked] == [
        f"POST /repos/{REPOSITORY}/releases"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_upload_is_never_whole_in_memory(hub: GitHub, tmp_path: Path) -> None:
    big = tmp_path / "demo-1.0.tar.gz"
    with big.open("wb") as file:
        file.truncate(48 << 20)
    what = unit(tmp_path, big.name)
    grown = CONTEXT.Value("q", 0)
    process = CONTEXT.Process(target=measure_growth, args=(target(hub.url), what, grown))
    process.start()
    process.join()
    process.close()
    assert shown(hub)[big.name] == what.items[0].sha256
    assert 0 < grown.value < 24 << 20


# -- what is refused


def test_a_published_file_never_changes(released: GitHub, made: Path, tmp_path: Path) -> None:
    wheels.make(tmp_path, PLAIN, {"demo/other.py": b""})
    for step in ("check", "stage", "switch"):
        with pytest.raises(InputError, match="a published file never changes: raise the version"):
            getattr(target(released.url), step)(unit(tmp_path, PLAIN))
    assert is_right(released, unit(made))


def test_a_change_of_what_is_published_is_foreseen_by_one_file(released: GitHub, made: Path, tmp_path: Path) -> None:
    target(released.url).foresee(unit(made, PLAIN))  # whose list has fewer files, since the others are not built yet
    wheels.make(tmp_path, PLAIN, {"demo.py": b"other"})
    with pytest.raises(InputError, match="is published in octo/demo with other bytes"):
        target(released.url).foresee(unit(tmp_path, PLAIN))


def test_a_commit_that_was_not_pushed_is_foreseen(hub: GitHub, made: Path) -> None:
    with pytest.raises(InputError, match="has neither the tag"):
        target(hub.url).foresee(unit(made, PLAIN, commit="f" * 40))


def test_the_files_of_a_version_are_known(hub: GitHub, made: Path) -> None:
    assert target(hub.url).holds(unit(made)) == frozenset()
    publish(hub.url, unit(made))
    assert target(hub.url).holds(unit(made)) == {PLAIN, LOCAL}


@pytest.mark.parametrize("size", [1, 0], ids=["of another size", "of the same size"])
def test_a_published_file_that_has_no_digest_never_changes(released: GitHub, made: Path, size: int) -> None:
    released.knows_digests = False
    asset = released.releases[0].assets[0]
    asset.content = b"x" * (len(asset.content) + size)
    for step in ("check", "stage", "switch"):
        with pytest.raises(InputError, match="a published file never changes: raise the version"):
            getattr(target(released.url), step)(unit(made))
    assert released.releases[0].assets[0] is asset


def test_a_draft_that_is_deleted_by_hand_is_made_anew_by_the_same_command(hub: GitHub, made: Path) -> None:
    own = target(hub.url)
    own.stage(unit(made))
    hub.releases.clear()
    for step in (own.verify, own.switch):
        with pytest.raises(MachineError, match="run the same command again: it creates a new draft"):
            step(unit(made))
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


def test_a_draft_that_is_deleted_while_it_is_filled_is_said(hub: GitHub, made: Path) -> None:
    for number in range(5, 12):
        hub.releases.clear()
        hub.fail_at(number, lambda: hub.releases.clear())  # noqa: PLW0108 - it has no answer
        with suppress(MachineError):
            target(hub.url).stage(unit(made))
        hub.faults.clear()
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


def test_a_check_says_which_drafts_of_ours_go(hub: GitHub, made: Path) -> None:
    target(hub.url).stage(unit(made, PLAIN))
    changes = target(hub.url).check(unit(made))
    assert [change.what for change in changes] == [*["add"] * 6, "remove"]
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


def test_an_immutable_release_takes_no_more_files(hub: GitHub, made: Path) -> None:
    hub.is_immutable = True
    publish(hub.url, unit(made))
    publish(hub.url, unit(made))
    with pytest.raises(InputError, match=r"v1\.0 is an immutable release, and it lacks"):
        target(hub.url).check(unit(made, PLAIN.replace("py3-none-any", "py3-none-win_amd64"), name="windows"))


@pytest.mark.parametrize("tag", ["", "v 1", "v1..0", "-v1", "v1.lock", "a" * 40, "v1\n", "refs//v1"])
def test_a_tag_that_git_does_not_take_is_refused_before_anything_is_asked(hub: GitHub, made: Path, tag: str) -> None:
    with pytest.raises(InputError, match="tag"):
        target(hub.url).check(replace(unit(made), tag=tag))
    assert hub.requests == []


TAGS = ["demo/v1.0+cu130", "v1#2", "v1%2F2", "v1&a=b", "it's-1", 'a"b<c>|d', "ünï-日本-v1", "{v1}", "v1;$(x)`y`"]


@pytest.mark.parametrize("tag", TAGS)
def test_whatever_git_takes_for_a_tag_is_released_under_it(hub: GitHub, made: Path, tag: str) -> None:
    what = replace(unit(made), tag=tag)
    subprocess.run(["git", "check-ref-format", f"refs/tags/{tag}"], check=True)
    for one in publish(hub.url, what):
        with urlopen(one.where) as answer:
            assert answer.read() == (made / one.file).read_bytes()
    assert list(hub.tags) == [tag]
    assert {change.what for change in target(hub.url).check(what)} == {"keep"}


def test_a_release_of_another_project_is_left_to_it(released: GitHub, made: Path) -> None:
    other = replace(unit(made, PLAIN), project="other")
    for step in (target(released.url).check, target(released.url).foresee):
        with pytest.raises(InputError, match=r"v1\.0 of .* is a release of demo, not of other"):
            step(other)


def test_every_rule_that_is_broken_is_said_at_once(hub: GitHub, made: Path) -> None:
    whole = unit(made)
    big = whole.items[0]._replace(size=2 << 30)
    epoch = whole.items[1]._replace(path=made / "demo-1!1.0-py3-none-any.whl")
    with pytest.raises(InputError) as refused:
        target(hub.url).check(replace(whole, items=(big, epoch, *whole.items * 500)))
    for words in ("less than 2,147,483,648", "demo-1!1.0", "1,002 files"):
        assert words in str(refused.value)
    assert hub.requests == []


def test_a_tag_at_another_commit_is_refused(hub: GitHub, made: Path) -> None:
    hub.commits.add("b" * 40)
    hub.tags["v1.0"] = "b" * 40
    with pytest.raises(InputError, match=r"is at bbbbbbbbbbbb, the files are of aaaaaaaaaaaa"):
        target(hub.url).check(unit(made))


def test_a_commit_that_was_not_pushed_is_refused(hub: GitHub, made: Path) -> None:
    with pytest.raises(InputError, match=r"has neither the tag v1\.0 nor the commit cccccccccccc"):
        target(hub.url).check(unit(made, commit="c" * 40))


def test_a_server_that_renames_a_wheel_is_told_from_github(hub: GitHub, made: Path) -> None:
    hub.replaces_plus = True
    with pytest.raises(InputError, match=r"a name that installers do not accept"):
        target(hub.url).stage(unit(made))
    assert shown(hub) == {}
