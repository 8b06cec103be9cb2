"""The network has one way out, with one policy of what is tried again, and one reader of a remote range."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from ci_tools.github import client as github
from ci_tools.install import fatwheel_backend as backend
from ci_tools.machine.http import client
from ci_tools.machine.http.client import RETRY, Body, open_session, read_document
from ci_tools.machine.http.policy import CONTENTION, REQUEST, RetryPolicy, TooLarge, status_of
from ci_tools.machine.waits import Waits
from tests.language.modules import imports_of, list_modules, read_module
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve
from tests.unit.machine.test_waits import until

CLIENTS = re.compile(r"(?<!\S)(?:(?:aiohttp|botocore|boto3|httpx|requests|urllib3)\b|http\.client|urllib\.request)")
WAYS_OUT = (
    "machine.http.",
    "index.objects.",  # boto3
    "github.client",  # PyGithub, whose errors are those of requests
    "install.fatwheel_backend",  # lies in a user's sdist, and is all that is there
    "build.containers.own_image",  # speaks to a socket of its own machine, over no network
)
SLEEPERS = (
    "machine.http.policy",
    "github.client",  # shows how long GitHub asks to wait
    "install.fatwheel_backend",
    *("machine.waits", "sandbox", "machine._lifeline"),  # they look after threads and processes
)


OTHERS = [name for name in list_modules() if not name.startswith("observe.inside")]


def test_no_other_module_has_a_client() -> None:
    wanted = {name: f"{' '.join(imports_of(name))} " for name in OTHERS if not name.startswith(WAYS_OUT)}
    assert {name: found for name, text in wanted.items() if (found := CLIENTS.findall(text))} == {}


def test_no_other_module_sleeps_before_it_tries_again() -> None:
    assert [name for name in OTHERS if name not in SLEEPERS and re.search(r"\bsleep\(", read_module(name))] == []


def test_every_client_has_the_figures_of_the_policy() -> None:
    tries = {"urllib3": (RETRY.total or 0) + 1, "PyGithub": github.TRIES, "an sdist": backend.TRIES}
    assert set(tries.values()) == {REQUEST.tries}
    assert REQUEST.first == backend.FIRST_PAUSE


@pytest.mark.parametrize("policy", [REQUEST, CONTENTION], ids=["a-request", "a-file-that-others-change"])
def test_pauses_double_up_to_the_longest(policy: RetryPolicy) -> None:
    pauses = [policy.pause(failed) for failed in range(policy.tries)]
    assert pauses[:4] == [0, policy.first, 2 * policy.first, 4 * policy.first]
    assert max(pauses) <= policy.longest


PAGE = (200, {}, b"all of it")
CUT, WRONG = (200, {"Content-Length": "9"}, b"all"), (200, {"ETag": "other"}, b"all of it")
REST = (206, {"Content-Range": "bytes 3-8/9"}, b" of it")
LATER = (503, {"Retry-After": "0"}, b"later")
Answers = tuple[tuple[int, dict[str, str], bytes], ...]


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[str]]]:
    """Serve these answers one after the other, the last one for ever; yield the address, and what was asked for."""
    asked: list[str] = []

    class Flaky(Handler):
        def do_GET(self) -> None:
            status, headers, body = answers[min(len(asked), len(answers) - 1)]
            asked.append(self.headers.get("Range", ""))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "ETag": "one", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

    with serve(Server(Flaky)) as server:
        yield server.url, asked


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("answers", "ranges"),
    [
        pytest.param((PAGE,), [""], id="at-once"),
        pytest.param((LATER, (429, {}, b"no"), (500, {}, b"no"), PAGE), [""] * 4, id="after-temporary-errors"),
        pytest.param((CUT, REST), ["", "bytes=3-"], id="the-rest-where-it-broke-off"),
        pytest.param((CUT, PAGE), ["", "bytes=3-"], id="all-again-from-a-server-without-parts"),
    ],
)
def test_a_file_is_read_to_its_end(answers: Answers, ranges: list[str]) -> None:
    with answering(*answers) as (url, asked), open_session() as session:
        assert (b"".join(Body(session, url)), asked) == (b"all of it", ranges)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("answers", "requests", "status", "said"),
    [
        pytest.param(((404, {}, b"no"),), 1, 404, "404", id="it-is-not-there"),
        pytest.param(((500, {}, b"no"),), REQUEST.tries, 500, "500", id="an-error-that-stays"),
        pytest.param((CUT, WRONG), 2, 0, "was replaced on the server", id="another-file-meanwhile"),
        pytest.param((CUT,), REQUEST.tries, 0, "IncompleteRead", id="the-same-break-each-time"),
    ],
)
def test_a_file_that_does_not_come_is_an_error(answers: Answers, requests: int, status: int, said: str) -> None:
    with answering(*answers) as (url, asked), open_session() as session, pytest.raises(OSError, match=said) as raised:
        b"".join(Body(session, url))
    assert (len(asked), status_of(raised.value)) == (requests, status)


def test_a_server_that_sends_no_more_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    waits = Waits(said.append, 0.05)
    monkeypatch.setattr(client, "OF_RUN", ContextVar("OF_RUN", default=waits))
    with answering(PAGE) as (url, _), open_session() as session:
        pieces = iter(Body(session, url))
        next(pieces)  # the next one does not come
        until(lambda: "waiting for 127.0.0.1 to send more: 0 s" in said)


@pytest.mark.usefixtures("at_once")
def test_a_document_is_read_as_a_whole_or_is_not_there() -> None:
    with answering(CUT, PAGE, (404, {}, b"no"), PAGE) as (url, _), open_session() as session:
        assert [read_document(session, url) for _ in range(2)] == [b"all of it", None]
        with pytest.raises(TooLarge, match="more than 8 bytes"):
            read_document(session, url, 8)
