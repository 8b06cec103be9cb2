"""GitHub Releases: published whole or not at all, through every fault, by one publisher and by many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, MachineError, Rejected
from tests.builders import releases, wheels
from tests.builders.github_units import BAD_GATEWAY, PLAIN, is_right, publish, shown, target, unit
from tests.servers.forking import CONTEXT
from tests.servers.github import Answer, Fault, GitHub, Stored, github_server

pytestmark = pytest.mark.slow

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
def test_one_fault_at_any_request_is_lived_through(whole: GitHub, made: Path, how: Fault | Answer) -> None:
    for number, request in enumerate(whole.requests, 1):
        with github_server() as hub:
            hub.fail_at(number, how)
            publish(hub.url, unit(made))
            assert is_right(hub, unit(made)), f"request {number}, {request}"


@pytest.mark.long
@pytest.mark.parametrize("how", FAULTS.values(), ids=FAULTS)
def test_one_fault_at_any_request_of_an_optional_platform_is_lived_through(
    whole: GitHub, made: Path, how: Fault | Answer
) -> None:
    later = unit(made, PLAIN.replace("py3-none-any", "py3-none-win_amd64"), name="windows")
    for number in range(1, 25):
        with github_server() as hub:
            hub.take_over(whole)
            before = shown(hub)
            hub.fail_at(number, how)
            publish(hub.url, later)
            assert before.items() < shown(hub).items(), f"request {number}"
            assert (len(shown(hub)), len(hub.releases)) == (len(before) + 3, 1)
            assert hub.releases[0].fields["body"].count("<!-- fatwheel") == 2


@pytest.mark.long
@pytest.mark.parametrize("after", [None, Fault.CLOSE], ids=["the server does it all the same", "nothing is done"])
def test_killed_at_any_request_one_more_run_finishes_it(whole: GitHub, made: Path, after: Fault | None) -> None:
    for number, request in enumerate(whole.requests, 1):
        with github_server() as hub:
            process = CONTEXT.Process(target=releases.publish, args=(target(hub.url), unit(made)))
            hub.fail_at(number, killing(process, after))
            process.start()
            process.join()
            place = f"request {number}, {request}"
            assert process.exitcode == -9, place
            process.close()
            assert shown(hub) == {} or is_right(hub, unit(made)), place
            publish(hub.url, unit(made))
            assert is_right(hub, unit(made)), place


def killing(process: ForkServerProcess, after: Fault | None) -> Callable[[], Fault | None]:
    def kill() -> Fault | None:
        process.kill()
        wait([process.sentinel])  # the test's own thread asks how it ended
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
