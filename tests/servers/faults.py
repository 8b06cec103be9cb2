"""What can go wrong between a publisher and its servers: a proxy that does it, at any one request.

`python -m tests.servers.faults` publishes one release to every kind of target again and again, each time with another
fault at another request, and prints the table of what became of it.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import http.client
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import unquote

from tests.servers import framing
from tests.servers.threads import serve

CHECKSUM, PAYLOAD = "x-amz-checksum-sha256", "x-amz-content-sha256"
HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})  # headers of one connection alone


class Fault(enum.Enum):
    """Something that goes wrong at one request."""

    KILLED_BEFORE = "killed before it arrives"
    KILLED_AFTER = "killed before its answer"
    ERROR = "500 internal error"
    BUSY = "503 slow down"
    TOO_MANY = "429 too many requests"
    UNKNOWN = "401 unauthorized"
    DENIED = "403 access denied"
    SKEWED = "403 clock skew"
    SILENT = "no answer"
    CUT_ANSWER = "answer cut short"
    CUT_UPLOAD = "upload cut short"
    CORRUPT = "a byte stored wrong"
    LOOP = "307 to itself"
    ELSEWHERE = "307 to another host"
    PAGE = "200 with a page of a proxy's, which does nothing"
    PAGE_AFTER = "200 with a page of a proxy's, once it is done"
    NO_TAG = "an answer without an ETag"
    CHUNKED = "an answer in chunks, without a length"
    CUT_CHUNKS = "an answer in chunks that are cut short"
    INTERIM = "100 twice before an answer"
    HINTS = "103 before an answer"
    FULL = "disk full"


INTERIM: Mapping[Fault | None, bytes] = {
    Fault.INTERIM: b"HTTP/1.1 100 Continue\r\n\r\n" * 2,
    Fault.HINTS: b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
}
CHANGES = frozenset({Fault.PAGE_AFTER, Fault.NO_TAG, Fault.CHUNKED, Fault.CUT_CHUNKS, *INTERIM})  # of answers
LOGIN = b"<!doctype html><html><head><title>Sign in</title></head><body><p>Accept our terms.<br></body></html>"
REFUSALS: Mapping[Fault, tuple[int, str]] = {
    Fault.ERROR: (500, "InternalError"),
    Fault.BUSY: (503, "SlowDown"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.UNKNOWN: (401, "InvalidAccessKeyId"),
    Fault.DENIED: (403, "AccessDenied"),
    Fault.SKEWED: (403, "RequestTimeTooSkewed"),
}


class Event(NamedTuple):
    """One request, or one file about to be moved or removed."""

    what: str  # GET, PUT, os.rename
    where: str  # the path, or the path on the server
    step: str  # of the transaction
    size: int = 0  # bytes that are sent


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Proxy(framing.Server):
    """Stands before a server; `fault` happens at the event number `at`, the first being 1."""

    block_on_close = False

    def __init__(self, port: int) -> None:
        super().__init__(Handler)
        self.upstream = port
        self.over = threading.Event()
        self.hook: Callable[[Event], None] = lambda _: None  # called before each event
        self.edit: Callable[[str, dict[str, str]], None] = lambda _, __: None  # changes a request's headers
        self.stored: Callable[[Event, bytes], bytes] = lambda _, body: body  # what arrives of a request's body
        self.denied: Callable[[Mapping[str, str]], tuple[int, str] | None] = lambda _: None  # what is refused, and how
        self.seen: Callable[[Event], None] = lambda _: None  # called after each event that may have changed something
        self.elsewhere = ""  # the address of another host, to which it leads
        self.begin()

    def begin(self, fault: Fault | None = None, at: int = 0) -> None:
        """Count from 1 again, with one fault or none to come."""
        self.fault, self.at = fault, at
        self.events: list[Event] = []
        self.step = ""
        self.victim = 0
        self.looping = ""

    def happens(self, event: Event) -> Fault | None:
        """Note an event, and return what goes wrong with it."""
        self.hook(event)
        self.events.append(event)
        if self.fault is Fault.LOOP and event.where == self.looping:
            return Fault.LOOP
        if len(self.events) != self.at:
            return None
        self.looping = event.where
        return self.fault

    def kill(self) -> None:
        """Kill the publisher as the system kills one: it does not get to say anything."""
        assert self.victim > 1, "who publishes has not said so"
        os.kill(self.victim, signal.SIGKILL)


class Handler(framing.Handler):
    """Hands each request on, unless something happens to it."""

    server: Proxy
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def serve(self) -> None:
        """Answer one request."""
        body = self.body()
        if self.path.startswith("/-/"):
            self.hear(*map(unquote, self.path.split("/", 3)[2:]))
            return
        event = Event(self.command, unquote(self.path.partition("?")[0]), self.server.step, len(body))
        fault = self.server.happens(event)
        denied = self.server.denied(self.headers)
        if denied:
            self.refuse(*denied)
        elif fault and fault in REFUSALS:
            self.refuse(*REFUSALS[fault])
        elif fault is Fault.PAGE:
            self.give(_page())
        elif fault in {Fault.LOOP, Fault.ELSEWHERE}:
            here = f"http://{self.headers['Host']}"
            address = f"{here if fault is Fault.LOOP else self.server.elsewhere}{self.path}"
            self.give(Answer(307, (("Location", address), ("Content-Length", "0")), b""))
        elif fault is Fault.KILLED_BEFORE:
            self.server.kill()
            self.close_connection = True
        elif fault is Fault.CUT_UPLOAD:
            self.cut_upload(body)
        else:
            self.hand_on(event, body, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = serve

    def hear(self, what: str, detail: str) -> None:
        """Take what the publisher says of itself."""
        self.server.victim = int(self.headers["X-Process"])
        fault = None
        if what == "step":
            self.server.step = f"{detail.partition(' ')[0]} {detail.rpartition(' ')[2]}"
        elif what != "start":
            fault = self.server.happens(Event(what, detail, self.server.step))
        if fault is Fault.KILLED_BEFORE:
            self.server.kill()
            self.close_connection = True
        else:
            self.give(Answer(200, (("Content-Length", "0"),), b""))

    def hand_on(self, event: Event, body: bytes, fault: Fault | None) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        if fault is Fault.CORRUPT and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
            headers = _seal(headers, body)
        stored = self.server.stored(event, body)
        if len(stored) != len(body):
            body, headers = stored, _seal({**headers, "Content-Length": str(len(stored))}, stored)
        self.server.edit(self.command, headers)
        self.upstream.request(self.command, self.path, body, headers)
        answered = self.upstream.getresponse()
        answer = Answer(answered.status, tuple(answered.getheaders()), answered.read())
        if event.what not in {"GET", "HEAD"}:
            self.server.seen(event)
        if fault is Fault.KILLED_AFTER:
            self.server.kill()
            self.close_connection = True
        elif fault is Fault.SILENT:
            self.server.over.wait()
            self.close_connection = True
        elif fault in CHANGES:
            self.give_changed(answer, fault)
        else:
            self.give(answer, cut=fault is Fault.CUT_ANSWER)

    def give_changed(self, answer: Answer, fault: Fault) -> None:
        """Send an answer as a proxy hands it on."""
        self.wfile.write(INTERIM.get(fault, b""))
        if fault in INTERIM or fault is Fault.PAGE_AFTER:
            self.give(_page() if fault is Fault.PAGE_AFTER else answer)
            return
        less = {"etag"} if fault is Fault.NO_TAG else {"content-length"}
        headers = tuple((name, value) for name, value in answer.headers if name.lower() not in less)
        if fault is Fault.NO_TAG or self.command == "HEAD" or not answer.body:
            self.give(answer._replace(headers=headers if fault is Fault.NO_TAG else answer.headers))
            return
        chunks = [answer.body[:1], answer.body[1:]][: 1 if fault is Fault.CUT_CHUNKS else 2]
        sent = b"".join(b"%x;a=b\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
        self.send_response_only(answer.status)
        for name, value in (*(one for one in headers if one[0].lower() not in HOP), ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent if fault is Fault.CUT_CHUNKS else sent + b"0\r\n\r\n")
        self.close_connection = self.close_connection or fault is Fault.CUT_CHUNKS

    def give(self, answer: Answer, *, cut: bool = False) -> None:
        """Send an answer; cut short, it ends in the middle of the body, or before it begins where it has none."""
        if cut and not answer.body:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if cut else answer.body)
        self.close_connection = self.close_connection or cut

    def refuse(self, status: int, code: str) -> None:
        """Answer as S3 refuses."""
        said = f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()
        headers = (("Content-Type", "application/xml"), ("Content-Length", str(len(said))))
        self.give(Answer(status, headers, said))

    def cut_upload(self, body: bytes) -> None:
        """Send the first half of a request, and hang up on both sides."""
        self.upstream.putrequest(self.command, self.path, skip_host=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP:
                self.upstream.putheader(name, value)
        self.upstream.endheaders(body[: len(body) // 2])
        self.upstream.close()
        self.close_connection = True


def _page() -> Answer:
    """Return what a proxy answers in place of a server: a page, and nothing that a server says of itself."""
    return Answer(200, (("Content-Type", "text/html"), ("Content-Length", str(len(LOGIN)))), LOGIN)


def _note_credentials(other: Proxy, headers: Mapping[str, str]) -> tuple[int, str] | None:
    if headers.get("Authorization"):
        other.flaws.append("credentials have followed to another host (9110, 15.4)")
    return None


def _seal(headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    """Return headers of other content than was sent, as a server needs them that does not check what it stores."""
    kept = {name: value for name, value in headers.items() if name.lower() not in {CHECKSUM, PAYLOAD}}
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    return {**kept, CHECKSUM: checksum, PAYLOAD: "UNSIGNED-PAYLOAD"} if len(kept) < len(headers) else kept


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """Stand before the server at a port of this machine; fail if credentials follow to another host."""
    with serve(Proxy(port)) as server, serve(Proxy(port)) as other:
        server.elsewhere = f"http://localhost:{other.server_port}"
        other.denied = lambda headers: _note_credentials(other, headers)
        try:
            yield server
        finally:
            server.over.set()


if __name__ == "__main__":
    from tests.builders import transactions

    sys.stdout.write(transactions.summary(transactions.table()) + "\n")
