"""A bucket whose server, or whose way to it, makes something else of the bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import MachineError
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import look
from ci_tools.index.objects import bucket_reader
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.lease import LockBoard
from ci_tools.index.objects.place import place_of
from ci_tools.index.objects.store import content_of_bytes
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine import waits
from ci_tools.machine.context import Silent
from ci_tools.machine.http.policy import REQUEST, TORN
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.bucket_parts import CUDA, PURE, Here, publish
from tests.builders.releases import Words, item, unit
from tests.builders.wheels import make
from tests.servers.faults import Event, Fault, Proxy, proxy

pytestmark = pytest.mark.slow


def test_a_server_that_does_not_answer_is_waited_for_with_words(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "EVERY", 0.2)
    words = Words()
    with proxy(here.bucket.port) as between:
        store = BucketStore(place_of(f"{here.target(between.server_port)}&timeout=2"), words)
        between.begin(Fault.SILENT, 1)
        assert store.find("page") is None
    address = here.target(between.server_port)
    assert words.lines[0] == f"waiting for page in {address}: 0 s"
    assert re.fullmatch(f"waiting for page in {re.escape(address)}: [2-9] s", words.lines[-1])


# ---------------------------------------------------------------- half a page


PAGE = "cpu/demo/index.html"


def halve(between: Proxy, is_at: Callable[[Event], bool]) -> None:
    """Let half of every page arrive that is at a place."""
    between.stored = lambda event, body: body[: len(body) // 2] if event.what == "PUT" and is_at(event) else body


def end_in_half(here: Here, tmp_path: Path, wheel: str) -> None:
    """Publish a wheel; a proxy halves one page, again and again, until the publisher gives up."""
    release = unit("demo", item(make(tmp_path / "made", wheel)))
    with proxy(here.bucket.port) as between:
        halve(between, lambda event: event.where.endswith(PAGE))
        with pytest.raises(MachineError, match=f"{PAGE} in s3://.* has other bytes than were sent"):
            releases.publish(index_of(here.target(between.server_port), here.outside), release)
    assert ((PAGE, look.OTHERS) in here.flaws(), "</html>" in here.text(PAGE)) == (True, False)


def test_a_page_that_was_halved_on_its_way_is_mended_by_the_next_run(here: Here, tmp_path: Path) -> None:
    end_in_half(here, tmp_path, PURE)
    publish(here.index(), (tmp_path / "made" / PURE, ""))
    assert here.flaws() == []


def test_a_page_of_a_newer_release_that_was_halved_is_mended_by_an_older_one(here: Here, tmp_path: Path) -> None:
    publish(here.index(), (make(tmp_path / "made", PURE), ""))
    old = Ledger(here.index().store, "").manifest("demo")
    end_in_half(here, tmp_path, "demo-2.0-py3-none-any.whl")
    index, ledger = here.index(), Ledger(here.index().store, "")
    index.show(ledger, [old])  # as a writer does that has read the manifest before that release
    assert here.flaws() == []
    assert "demo-2.0-py3-none-any.whl" in here.text(PAGE)


# ---------------------------------------------------------------- what a server makes of the bytes


def turned(text: str) -> str:
    """Return a tag as a server gives it that makes it of something else than the bytes."""
    return text[::-1]


def store_of(here: Here, between: Proxy, *, has_key: bool = False) -> BucketStore:
    """Return a store reached through the proxy; `has_key`: of a bucket that encrypts, so that no tag is a hash."""

    def answered(parsed: dict[str, Any], **_: object) -> None:
        if "ETag" in parsed:
            parsed["ETag"] = turned(parsed["ETag"])

    def asked(params: dict[str, Any], **_: object) -> None:
        if "If-Match" in params["headers"]:
            params["headers"]["If-Match"] = turned(params["headers"]["If-Match"])

    store = BucketStore(place_of(here.target(between.server_port)), Silent())
    if has_key:
        store.client.meta.events.register("after-call.s3", answered)
        store.client.meta.events.register("before-call.s3", asked)
    return store


def put(store: BucketStore, key: str, data: bytes) -> bool:
    return store.put(key, content_of_bytes(data), instead_of=store.find(key), generation=1)


def requests_for(between: Proxy, key: str, what: str) -> int:
    return sum(event.what == what and event.where.endswith(f"/{key}") for event in between.events)


def test_a_tag_that_is_no_hash_is_found_out_once_and_nothing_is_sent_twice(here: Here) -> None:
    with proxy(here.bucket.port) as between:
        assert put(store_of(here, between), "before", b"before the bucket encrypts")
        between.begin()
        store = store_of(here, between, has_key=True)
        assert [put(store, key, key.encode()) for key in ("first", "second", "first")] == [True] * 3
        counts = [(requests_for(between, key, "PUT"), requests_for(between, key, "GET")) for key in ("first", "second")]
        assert counts == [(2, 1), (1, 0)]
        found = store.find("first")
        assert found
        assert not store.put("first", content_of_bytes(b"late"), instead_of=found._replace(tag='"0"'))


def test_a_release_is_published_where_no_tag_is_a_hash(here: Here, tmp_path: Path) -> None:
    with proxy(here.bucket.port) as between:
        index = WheelIndex(store_of(here, between, has_key=True), order=1)
        publish(index, (make(tmp_path, PURE), ""), (make(tmp_path, CUDA), "cu130"))
    assert here.flaws() == []


READS = {
    "whole": lambda store: (store.read("page") or (b"",))[0],
    "part": lambda store: store.part("page", 0, 99),
    "claim": lambda store: (LockBoard(store.place, store.reporter, 60).read("page") or (b"",))[0],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("times", [1, TORN.tries - 1, TORN.tries])
def test_an_answer_that_breaks_off_is_asked_for_again_a_few_times(
    times: int, read: Callable[[BucketStore], bytes], here: Here
) -> None:
    def meanwhile(event: Event) -> None:
        is_next = event.what == "GET" and requests_for(between, "page", "GET") < times
        between.at = len(between.events) + 1 if is_next else 0

    with proxy(here.bucket.port) as between:
        store = store_of(here, between)
        assert put(store, "page", b"every byte of it")
        between.begin(Fault.CUT_ANSWER)
        between.hook = meanwhile
        if times < TORN.tries:
            assert read(store) == b"every byte of it"
            return
        with pytest.raises(MachineError, match=r"IncompleteRead|expected|streaming response") as raised:
            read(store)
    assert raised.value.hint == "the same command goes on where this one stopped"


@pytest.mark.parametrize(("times", "is_put"), [(1, True), (REQUEST.tries - 1, True), (REQUEST.tries, False)])
def test_bytes_that_a_server_stores_wrong_are_sent_again_a_few_times(times: int, is_put: bool, here: Here) -> None:  # noqa: FBT001 - a parameter
    def meanwhile(event: Event) -> None:
        is_next = event.what == "PUT" and event.where.endswith("/page")
        between.at = len(between.events) + 1 if is_next and requests_for(between, "page", "PUT") < times else 0

    with proxy(here.bucket.port) as between:
        between.begin(Fault.CORRUPT)
        between.hook = meanwhile
        store = store_of(here, between)
        if is_put:
            assert put(store, "page", b"right")
            assert (store.read("page") or (b"",))[0] == b"right"
        else:
            with pytest.raises(MachineError, match=f"has other bytes than were sent, {REQUEST.tries} times"):
                put(store, "page", b"right")
        assert requests_for(between, "page", "PUT") == min(times + 1, REQUEST.tries)


def test_more_than_any_page_has_is_not_read(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_reader, "MAX_READ", 10)
    with proxy(here.bucket.port) as between:
        store = store_of(here, between)
        assert put(store, "page", b"1234567890")
        assert (store.read("page") or (b"",))[0] == b"1234567890"
        assert put(store, "page", b"12345678901")
        with pytest.raises(MachineError, match="has 11 bytes, expected at most 10"):
            store.read("page")
