"""The S3 server of these tests keeps what S3 promises and moto alone does not: a write is one step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from itertools import repeat
from queue import Queue
from threading import Barrier, BrokenBarrierError, Thread
from typing import Any

import pytest
from moto.s3.models import FakeKey, S3Backend
from moto.server import ThreadedMotoServer

from tests.servers import s3

SHORT, LONG = 0.3, 60  # seconds that one thread waits for another
MOST = 10_000  # times that is asked for an object that is about to be there
WHO = "AWS4-HMAC-SHA256 Credential=tester/20261121/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
OK, CHANGED = HTTPStatus.OK, HTTPStatus.PRECONDITION_FAILED


class Asker:
    """A client that asks for one object of a server's, each time with a connection of its own."""

    def __init__(self, port: int, *, is_ours: bool) -> None:
        self.port, self.is_ours = port, is_ours
        self.ask("PUT", path="/bucket")

    def ask(self, method: str, data: str = "", path: str = "/bucket/key", **headers: str) -> HTTPResponse:
        """Ask once, and return the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request(method, path, data, {"Authorization": WHO, "Connection": "close", **named})
            answer = connection.getresponse()
            answer.read()
        return answer


@contextmanager
def serve_ours() -> Iterator[int]:
    """Serve our moto in a thread; yield its port. The thread of the tests may have a loop of its own that runs."""
    loop, ports = asyncio.new_event_loop(), Queue[int]()
    thread = Thread(target=_serve, args=[loop, ports])
    thread.start()
    try:
        yield ports.get(timeout=LONG)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _serve(loop: asyncio.AbstractEventLoop, ports: Queue[int]) -> None:
    """Serve until the loop is stopped, and tell on which port."""
    with closing(loop):
        server = loop.run_until_complete(s3.listen())
        ports.put(server.sockets[0].getsockname()[1])
        loop.run_forever()
        server.close()
        loop.run_until_complete(asyncio.sleep(0))  # in which it closes the last connection


@contextmanager
def serve_moto() -> Iterator[int]:
    """Serve moto as it is in a thread; yield its port."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()


@pytest.fixture(params=[True, False], ids=["ours", "moto"])
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    with serve_ours() if request.param else serve_moto() as port:
        asker = Asker(port, is_ours=request.param)
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
    told = sorted(writer.result().status for writer in writers)
    assert told == [OK, CHANGED if asker.is_ours else OK]


def test_who_looks_at_an_object_finds_its_metadata(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = meeting(asker)
    monkeypatch.setattr(FakeKey, "set_metadata", after(wait, FakeKey.set_metadata))
    with ThreadPoolExecutor() as pool:
        pool.submit(asker.ask, "PUT", "data", x_amz_meta_note="written")
        seen = next(answer for answer in map(asker.ask, repeat("HEAD", MOST)) if answer.status == OK)
        wait()
    assert seen.headers.get("x-amz-meta-note") == ("written" if asker.is_ours else None)
