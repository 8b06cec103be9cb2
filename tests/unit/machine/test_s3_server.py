"""The S3 server of these tests keeps what S3 promises and moto alone does not: a write is one step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from itertools import repeat
from threading import Barrier, BrokenBarrierError
from typing import TYPE_CHECKING, Any

import pytest
from moto.moto_server.werkzeug_app import create_backend_app
from moto.s3.models import FakeKey, S3Backend
from werkzeug.test import Client

from tests.servers.s3 import OneAtATime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from werkzeug.test import TestResponse

SHORT, LONG = 0.3, 60  # seconds that one thread waits for another
MOST = 10_000  # times that is asked for an object that is about to be there
WHO = "AWS4-HMAC-SHA256 Credential=tester/20261121/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
OK, CHANGED = HTTPStatus.OK, HTTPStatus.PRECONDITION_FAILED


class Asker:
    """A client that asks for one object of a server's."""

    def __init__(self, *, is_ours: bool) -> None:
        moto = create_backend_app("s3")
        self.is_ours = is_ours
        self.client = Client(OneAtATime(moto) if is_ours else moto, use_cookies=False)
        self.ask("PUT", path="/bucket")

    def ask(self, method: str, data: str = "", path: str = "/bucket/key", **headers: str) -> TestResponse:
        """Ask once, and return the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open(path, method=method, data=data, headers={"Authorization": WHO, **named})


@pytest.fixture(params=[True, False], ids=["ours", "moto"])
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    asker = Asker(is_ours=request.param)
    yield asker
    asker.ask("DELETE")


def meeting(asker: Asker) -> Callable[[], None]:
    """Return what two threads call to wait for each other, which in ours one of them cannot come to."""
    barrier = Barrier(2)

    def wait() -> None:
        with suppress(BrokenBarrierError):
            barrier.wait(SHORT if asker.is_ours else LONG)

    return wait


def after(wait: Callable[[], None], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that waits before it begins."""

    def held(*args: object, **options: object) -> Any:  # noqa: ANN401 - whatever the method returns
        wait()
        return method(*args, **options)

    return held


def test_of_two_writers_on_one_condition_one_alone_is_told_that_it_wrote(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3Backend, "put_object", after(meeting(asker), S3Backend.put_object))
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(asker.ask, "PUT", data, If_None_Match="*") for data in ("first", "second")]
    told = sorted(writer.result().status_code for writer in writers)
    assert told == [OK, CHANGED if asker.is_ours else OK]


def test_who_looks_at_an_object_finds_its_metadata(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = meeting(asker)
    monkeypatch.setattr(FakeKey, "set_metadata", after(wait, FakeKey.set_metadata))
    with ThreadPoolExecutor() as pool:
        pool.submit(asker.ask, "PUT", "data", x_amz_meta_note="written")
        seen = next(answer for answer in map(asker.ask, repeat("HEAD", MOST)) if answer.status_code == OK)
        wait()
    assert seen.headers.get("x-amz-meta-note") == ("written" if asker.is_ours else None)
