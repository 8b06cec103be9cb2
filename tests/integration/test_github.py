"""GitHub Releases: published whole or not at all, through every fault, and installed from."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import socket
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.github import client
from ci_tools.github.client import Hub
from ci_tools.machine import waits
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.index.release_pages import write_pages
from ci_tools.publish.targets.github_release import GitHubTarget
from ci_tools.publish.targets.github_release.listings import read_listings
from ci_tools.publish.units import (
    CORE,
    Item,
    Made,
    Unit,
)
from tests.builders import wheels
from tests.builders.forked import measure_growth
from tests.builders.installers import run_client
from tests.servers.forking import CONTEXT
from tests.servers.github import (
    HEAD,
    REPOSITORY,
    TOKEN,
    Answer,
    Fault,
    GitHub,
    Stored,
    asked_too_fast,
    github_server,
    rate_limited,
    refusal,
)
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_tools.publish.units import Published

pytestmark = pytest.mark.slow

PLAIN = "demo-1.0-py3-none-any.whl"
LOCAL = "demo-1.0+cu130-py3-none-any.whl"
NATIVE = Made(
    "linux-cuda-cu130", "native", "linux-cuda", "3.10", "2.10", "cu130", ("9.0", "10.0+PTX"), "gcc 13", "", ()
)
BAD_GATEWAY = refusal(502, "Bad Gateway")


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    wheels.make(folder, PLAIN, fields="Requires-Python: >=3.9\n")
    wheels.make(folder, LOCAL, fields="Requires-Python: >=3.9\n")
    wheels.make(folder, PLAIN.replace("py3-none-any", "py3-none-win_amd64"))
    return folder


@pytest.fixture(scope="module")
def whole(made: Path) -> GitHub:
    """Return a repository to which the release was published, which is only copied."""
    with github_server() as server:
        publish(server.url, unit(made))
    return server


@pytest.fixture
def released(whole: GitHub, hub: GitHub) -> GitHub:
    """A copy of that repository, for one test alone."""
    hub.take_over(whole)
    return hub


def unit(folder: Path, *names: str, name: str = CORE, channel: Channel = Channel.STABLE, commit: str = HEAD) -> Unit:
    items = tuple(item(folder / file) for file in names or (PLAIN, LOCAL))
    edition = Edition(channel)
    return Unit(
        name=name,
        project="demo",
        version="1.0",
        items=items,
        edition=edition,
        commit=commit,
        tag="v1.0",
        title="Demo 1",
    )


def item(path: Path) -> Item:
    is_native = "+" in path.name
    return Item(path, wheels.hexdigest(path), path.stat().st_size, NATIVE if is_native else None, "cu130" * is_native)


class Recorder(Silent):
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.waited: list[float] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def waiting(self, seconds: float) -> None:
        self.waited.append(seconds)

    @contextmanager
    def step(self, title: str) -> Iterator[Recorder]:
        self.lines.append(title)
        yield self


def target(url: str, reporter: Silent | None = None, *, token: str = TOKEN, patience: float = 30) -> GitHubTarget:
    environ = {"GH_TOKEN": token} if token else {}
    outside = Outside(environ=environ, cache=Path("nowhere"), reporter=reporter or Silent())
    return GitHubTarget(REPOSITORY, outside, base_url=url, pause=0.01, patience=patience)


def publish(url: str, what: Unit, reporter: Silent | None = None) -> Sequence[Published]:
    own = target(url, reporter)
    own.check(what)
    own.stage(what)
    own.verify(what)
    return own.switch(what)


def shown(hub: GitHub) -> dict[str, str]:
    """Return what everybody sees of the release: each file's hash."""
    kept = hub.published("v1.0")
    assets = kept.assets if kept else []
    return {asset.name: hashlib.sha256(asset.content).hexdigest() for asset in assets if asset.state == "uploaded"}


def is_right(hub: GitHub, what: Unit) -> bool:
    """Whether the release has every file of the unit, and nothing of a draft is left."""
    seen = shown(hub)
    files = {item.name: item.sha256 for item in what.items}
    beside = {f"{item.name}.metadata" for item in what.items if item.made or item.name.endswith(".whl")}
    own = {*files, *beside, f"fatwheel-{what.name}.json"}
    return files.items() <= seen.items() and len(hub.releases) == 1 and seen.keys() == own


# -- what is published


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


REFUSALS = {
    "a token that ran out": (refusal(401, "Bad credentials"), "rejects the token in GH_TOKEN: Bad credentials"),
    "a workflow's token": (refusal(403, "Resource not accessible by integration"), "permissions: contents: write"),
    "a fine-grained token": (
        refusal(403, "Resource not accessible by personal access token"),
        "Contents: Read and write",
    ),
    "a scope": (refusal(403, "Forbidden", {"x-oauth-scopes": "gist, read:org"}), "gh auth refresh -s repo"),
    "single sign-on": (
        refusal(
            403, "Resource protected by organization SAML", {"x-github-sso": "required; url=https://x.invalid/sso"}
        ),
        "single sign-on: https://x.invalid/sso",
    ),
    "an organisation": (refusal(403, "`octo` forbids access via a personal access token"), "organisation octo decides"),
    "an archive": (refusal(403, "Repository was archived so is read-only."), "gh repo unarchive octo/demo"),
    "no role": (refusal(403, "Must have push access to repository"), "ask an owner of octo/demo"),
    "a private repository": (refusal(404, "Not Found"), "is private and the token in GH_TOKEN may not read it"),
    "a hostile text": (refusal(403, "\x1b[2J" + "x" * 5000), "permissions: contents: write"),
}


@pytest.mark.parametrize(("answer", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_what_mends_it(hub: GitHub, made: Path, answer: Answer, words: str) -> None:
    hub.fail_at(1, answer)
    with pytest.raises(InputError) as refused:
        target(hub.url).check(unit(made))
    assert words in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_missing_token_comes_with_how_to_set_it(hub: GitHub, made: Path) -> None:
    with pytest.raises(InputError, match=r'export GH_TOKEN="\$\(gh auth token\)"'):
        target(hub.url, token="").check(unit(made))


def test_a_token_is_in_no_text(hub: GitHub, made: Path) -> None:
    own = target(hub.url, token="ghp_secret")  # noqa: S106 - it opens nothing
    with pytest.raises(InputError) as refused:
        own.check(unit(made))
    assert "ghp_secret" not in f"{refused.value} {own!r} {own.hub!r}"


@pytest.mark.parametrize("address", ["http://github.example.invalid", "ftp://127.0.0.1", "nowhere"])
def test_a_token_goes_to_no_address_that_anybody_can_listen_at(made: Path, address: str) -> None:
    with pytest.raises(InputError, match="a token cannot be sent to"):
        target(address).check(unit(made))


# -- faults

FAULTS = {
    "closed": Fault.CLOSE,
    "forgotten": Fault.FORGET,
    "cut": Fault.CUT,
    "corrupt": Fault.CORRUPT,
    "502": BAD_GATEWAY,
}
FIRST_AND_THEN_LONG = [
    pytest.param(how, id=name, marks=() if how is Fault.CLOSE else pytest.mark.long) for name, how in FAULTS.items()
]


@pytest.mark.parametrize("how", FIRST_AND_THEN_LONG)
def test_one_fault_at_any_request_is_lived_through(made: Path, how: Fault | Answer) -> None:
    with github_server() as calm:
        publish(calm.url, unit(made))
    for number in range(1, len(calm.requests) + 1):
        with github_server() as hub:
            hub.fail_at(number, how)
            publish(hub.url, unit(made))
            assert is_right(hub, unit(made)), f"request {number}, {calm.requests[number - 1]}"


@pytest.mark.long
@pytest.mark.parametrize("how", FAULTS.values(), ids=FAULTS)
def test_one_fault_at_any_request_of_an_optional_platform_is_lived_through(made: Path, how: Fault | Answer) -> None:
    later = unit(made, PLAIN.replace("py3-none-any", "py3-none-win_amd64"), name="windows")
    for number in range(1, 25):
        with github_server() as hub:
            publish(hub.url, unit(made))
            before = shown(hub)
            hub.fail_at(number, how)
            publish(hub.url, later)
            assert before.items() < shown(hub).items(), f"request {number}"
            assert (len(shown(hub)), len(hub.releases)) == (len(before) + 3, 1)
            assert hub.releases[0].fields["body"].count("<!-- fatwheel") == 2


@pytest.mark.long
@pytest.mark.parametrize("after", [None, Fault.CLOSE], ids=["the server does it all the same", "nothing is done"])
def test_killed_at_any_request_one_more_run_finishes_it(made: Path, after: Fault | None) -> None:
    with github_server() as calm:
        publish(calm.url, unit(made))
    for number in range(1, len(calm.requests) + 1):
        with github_server() as hub:
            process = multiprocessing.get_context("spawn").Process(target=publish, args=(hub.url, unit(made)))
            hub.fail_at(number, killing(process, after))
            process.start()
            process.join()
            place = f"request {number}, {calm.requests[number - 1]}"
            assert process.exitcode == -9, place
            process.close()
            assert shown(hub) == {} or is_right(hub, unit(made)), place
            publish(hub.url, unit(made))
            assert is_right(hub, unit(made)), place


def killing(process: multiprocessing.context.SpawnProcess, after: Fault | None) -> Callable[[], Fault | None]:
    def kill() -> Fault | None:
        process.kill()
        os.waitid(os.P_PID, process.pid or 0, os.WEXITED | os.WNOWAIT)  # the test's own thread asks how it ended
        return after

    return kill


def test_four_publishers_at_once_make_one_release(hub: GitHub, made: Path) -> None:
    ended = at_once([lambda: publish(hub.url, unit(made))] * 4)
    assert [error for error in ended if error and not isinstance(error, MachineError)] == []
    assert None in ended
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


def test_of_two_publishers_with_other_bytes_one_says_why_not(hub: GitHub, made: Path, tmp_path: Path) -> None:
    wheels.make(tmp_path, PLAIN, {"demo/other.py": b""})
    ended = at_once([lambda: publish(hub.url, unit(made, PLAIN)), lambda: publish(hub.url, unit(tmp_path, PLAIN))])
    assert sorted(error is None for error in ended) == [False, True]
    assert isinstance(next(error for error in ended if error), FatwheelError)
    assert is_right(hub, unit([made, tmp_path][ended.index(None)], PLAIN))


def at_once(calls: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """Make calls at once, and return the error of each."""
    ended: list[BaseException | None] = [None] * len(calls)

    def note(number: int) -> None:
        try:
            calls[number]()
        except FatwheelError as error:
            ended[number] = error

    threads = [threading.Thread(target=note, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def test_a_byte_that_goes_wrong_on_the_server_is_found_before_anybody_sees_it(hub: GitHub, made: Path) -> None:
    own = target(hub.url)
    own.stage(unit(made))
    asset = hub.releases[0].assets[0]
    asset.content = bytes([asset.content[0] ^ 1]) + asset.content[1:]
    for step in (own.verify, own.switch):
        with pytest.raises(Rejected, match="has sha256"):
            step(unit(made))
    assert shown(hub) == {}
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


def test_where_the_server_gives_no_digest_the_bytes_are_read_back(hub: GitHub, made: Path) -> None:
    hub.knows_digests = False
    own = target(hub.url)
    own.stage(unit(made))
    own.verify(unit(made))
    hub.releases[0].assets[0].content = b"x" * len(hub.releases[0].assets[0].content)
    with pytest.raises(Rejected, match="has sha256"):
        own.verify(unit(made))


def test_what_a_cut_upload_left_is_sent_again(hub: GitHub, made: Path) -> None:
    own = target(hub.url)
    own.stage(unit(made))
    whole = hub.releases[0].assets[0]
    hub.releases[0].assets[0] = Stored(whole.id, whole.name, b"", "starter")
    publish(hub.url, unit(made))
    assert is_right(hub, unit(made))


LIMITS = {
    "the limit of an hour": rate_limited(),
    "too much at once": asked_too_fast(),
    "too much at once, with its own status": asked_too_fast(status=429),
}


@pytest.mark.parametrize("answer", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_waited_for_with_a_countdown(hub: GitHub, made: Path, answer: Answer) -> None:
    recorder = Recorder()
    hub.fail_at(3, answer)
    publish(hub.url, unit(made), recorder)
    assert any("GitHub's rate limit is reached, waiting" in line for line in recorder.lines)
    assert recorder.waited
    assert recorder.waited == sorted(recorder.waited, reverse=True)
    assert is_right(hub, unit(made))


def test_a_server_that_does_not_answer_is_waited_for_with_words(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "EVERY", 0.2)
    monkeypatch.setattr(client, "TIMEOUT", 1)
    monkeypatch.setattr(client, "TRIES", 1)
    recorder = Recorder()
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(MachineError, match="the connection failed"):
        publish(f"http://127.0.0.1:{silent.getsockname()[1]}", unit(made), recorder)
    assert recorder.lines[0] == f"waiting for 127.0.0.1 to answer for {REPOSITORY}: 0 s"


def test_a_limit_of_an_hour_ends_the_run_and_says_that_it_goes_on(hub: GitHub, made: Path) -> None:
    hub.fail_at(3, rate_limited(3600))
    with pytest.raises(
        MachineError, match=r"asks to wait 3601 s more\n  hint: nothing is lost: the same command continues"
    ):
        publish(hub.url, unit(made))


def test_a_server_that_goes_on_failing_ends_the_run_and_says_that_it_goes_on(hub: GitHub, made: Path) -> None:
    for number in range(1, 20):
        hub.fail_at(number, BAD_GATEWAY)
    with pytest.raises(MachineError, match=r"GitHub answers 502\n  hint: nothing is lost: the same command continues"):
        target(hub.url).check(unit(made))


@pytest.mark.parametrize("change", [lambda content: content[:-1], lambda content: content[:-1] + b"x"])
def test_a_file_that_changes_after_it_was_checked_is_no_release(
    hub: GitHub, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = wheels.make(tmp_path, PLAIN)
    what, own = unit(tmp_path, PLAIN), target(hub.url)
    own.check(what)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(MachineError, match="changed while it was published"):
        own.stage(what)
    assert [asset.name for asset in hub.releases[0].assets if asset.state == "uploaded"] == []


# -- what is installed


def test_pip_installs_from_an_index_over_the_release_with_required_hashes(
    released: GitHub, made: Path, tmp_path: Path
) -> None:
    outside = Outside(environ={"GH_TOKEN": TOKEN, "GITHUB_API_URL": released.url}, cache=tmp_path, reporter=Silent())
    write_pages([Hub(REPOSITORY, outside)], ["demo"], tmp_path / "site/simple", outside)
    with web(tmp_path / "site") as address:
        for folder, file in (("cu130", LOCAL), ("cpu", PLAIN)):
            install(tmp_path / folder, made / file, "--index-url", f"{address}/simple/{folder}/")
    page = (tmp_path / "site/simple/cpu/demo/index.html").read_text()
    assert 'data-requires-python="&gt;=3.9"' in page
    assert LOCAL not in page


def test_pip_installs_by_the_command_of_the_notes(released: GitHub, made: Path, tmp_path: Path) -> None:
    body = released.releases[0].fields["body"]
    command = next(line for line in body.splitlines() if line.startswith("pip install"))
    assert command.startswith('pip install "demo==1.0+cu130" --find-links ')
    install(tmp_path / "there", made / LOCAL, "--no-index", *command.split()[3:])


def install(where: Path, wheel: Path, *options: str) -> None:
    """Install a wheel by pip, which is told its hash."""
    wanted = where.with_suffix(".txt")
    version = wheel.name.split("-")[1]
    wanted.write_text(f"demo=={version} --hash=sha256:{wheels.hexdigest(wheel)}\n")
    pip = ["--isolated", "install", "--no-cache-dir", "--require-hashes"]
    done = run_client("pip", [*pip, *options, "--target", where, "-r", wanted], os.environ)
    assert done.returncode == 0, done.stderr
    assert (where / f"demo-{version}.dist-info" / "METADATA").is_file()


def test_a_file_that_was_taken_out_of_its_release_is_in_no_index(released: GitHub) -> None:
    released.releases[0].assets = [asset for asset in released.releases[0].assets if asset.name != LOCAL]
    ((channel, listing),) = read_listings(target(released.url).hub)
    assert (channel, [file.name for file in listing.files]) == ("", [PLAIN])


@pytest.mark.parametrize("content", [b"", b"[]", b'{"files": [{}]}', b'{"files": [1]}', b"[" * 100_000])
def test_a_damaged_list_is_said_and_not_shown(released: GitHub, content: bytes) -> None:
    released.releases[0].assets[-1].content = content
    with pytest.raises(MachineError, match=r"fatwheel-core\.json of v1\.0 in octo/demo is damaged"):
        read_listings(target(released.url).hub)


@contextmanager
def web(folder: Path) -> Iterator[str]:
    """Serve a folder, as GitHub Pages does."""

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Quiet)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
