"""The base of every HTTP server of the tests: it holds clients to the framing of requests, as strict servers do.

Python's own server takes what others refuse: a length beside chunks, two lengths, a missing Host. Here such a request
is answered with 400 and noted, and `serve` fails at its end (RFC 9110, 9112; each rule has its section).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import UnixStreamServer
from typing import NamedTuple

__all__ = ["FolderHandler", "Handler", "Server", "SocketServer", "flaw_of", "take_chunks"]

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
TARGET = re.compile(r"(/[!$&'()*+,;=:@/?\w.~%-]*|https?://[^\s#]+|[\w.-]+:\d+|\*)", re.ASCII)  # 9112, 3.2
CONDITIONS = ("If-Match", "If-None-Match", "If-Range", "Range", "Expect")
CONTENT = ("Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Transfer-Encoding")
SENDER = ("Authorization", "Date", "Host", "User-Agent", "X-Amz-Content-Sha256")
ONCE = frozenset(name.lower() for name in (*CONDITIONS, *CONTENT, *SENDER))
FULL = frozenset({"POST", "PUT", "PATCH"})


class Asked(NamedTuple):
    """The head of a request: its line, and its headers as they were sent."""

    line: str
    headers: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """Return the values of every header of a name."""
        return [value.strip() for one, value in self.headers if one.lower() == name]


def flaw_of(asked: Asked) -> str:
    """Return what a strict server refuses in a request's head, or ""."""
    flaws = [*_flaws_of_line(asked.line), *_flaws_of_headers(asked), *_flaws_of_length(asked)]
    return f"{asked.line!r}: {'; '.join(flaws)}" if flaws else ""


def _flaws_of_line(line: str) -> list[str]:
    parts = line.split(" ")
    if len(parts) != len(("GET", "/", "HTTP/1.1")) or not TOKEN.fullmatch(parts[0]):
        return ["it is no request line (9112, 3)"]
    return [] if TARGET.fullmatch(parts[1]) else [f"{parts[1]!r} is no target (9112, 3.2)"]


def _flaws_of_headers(asked: Asked) -> list[str]:
    twice = sorted(name for name in ONCE if len(asked.all(name)) > 1)
    flaws = [f"{name} is there {len(asked.all(name))} times (9110, 5.3)" for name in twice]
    flaws += [f"{name!r} is no name (9112, 5.1)" for name, _ in asked.headers if not TOKEN.fullmatch(name)]
    flaws += [f"{name} has a line break (9112, 5.2)" for name, value in asked.headers if re.search(r"[\r\n\0]", value)]
    host = asked.all("host")
    if asked.line.endswith("HTTP/1.1") and not (host and re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+)(:\d+)?", host[0])):
        flaws.append("it has no Host (9112, 3.2)")
    if asked.all("expect") not in ([], ["100-continue"]):
        flaws.append(f"nobody knows Expect: {asked.all('expect')[0]} (9110, 10.1.1)")
    return flaws


def _flaws_of_length(asked: Asked) -> list[str]:
    sizes, codings = asked.all("content-length"), asked.all("transfer-encoding")
    method = asked.line.partition(" ")[0]
    if sizes and codings:
        return ["Content-Length beside Transfer-Encoding (9112, 6.2)"]
    if codings and codings != ["chunked"]:
        return [f"nobody knows Transfer-Encoding: {codings[0]} (9112, 6.1)"]
    if any(not re.fullmatch("[0-9]+", size) for size in sizes):
        return [f"Content-Length is {sizes[0]!r} (9110, 8.6)"]
    if method in FULL and not (sizes or codings):
        return [f"{method} without a length (9110, 8.6)"]
    if method in {"GET", "HEAD"} and (codings or sizes not in ([], ["0"])):
        return [f"{method} with content (9110, 9.3.1)"]
    return []


def take_chunks(data: bytes) -> tuple[bytes, int] | None:
    """Return the body that is sent in chunks (RFC 9112, 7.1) and how long it is as sent; None if it is incomplete.

    Raises ValueError if it is not in chunks.
    """
    body, at = b"", 0
    while (end := data.find(b"\r\n", at)) >= 0:
        said = data[at:end].partition(b";")[0]
        if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", said):
            raise ValueError(f"{said[:20]!r} is no chunk's size (9112, 7.1)")
        at = end + 2 + int(said, 16) + 2
        if len(data) < at:
            return None
        if data[at - 2 : at] != b"\r\n":
            raise ValueError("a chunk is longer than it says (9112, 7.1)")
        if int(said, 16) == 0:
            return body, at
        body += data[end + 2 : at - 2]
    return None


class Cut(Exception):
    """A client that hung up in the middle of its request."""


class Server(ThreadingHTTPServer):
    """A server that notes what its clients, and it itself, do wrong; a killed client is nothing of that kind."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler: type[BaseHTTPRequestHandler] | object) -> None:
        super().__init__(("127.0.0.1", 0), handler)  # type: ignore[arg-type]  # a partial of one
        self.flaws: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class says so
        """Note a defect of the server."""
        error = sys.exc_info()[1]
        if not isinstance(error, (OSError, Cut)):
            self.flaws.append(repr(error))

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class SocketServer(UnixStreamServer):
    """The same at a socket in the file system, as an engine of containers has it."""

    def __init__(self, path: Path, handler: type[Handler]) -> None:
        super().__init__(str(path), handler)
        self.flaws: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """One connection; `body` reads what a request has besides its head."""

    server: Server
    disable_nagle_algorithm = True  # each answer would wait for 40 ms

    def parse_request(self) -> bool:
        """Read a request's head; refuse a flawed one, and what follows on its connection."""
        self._is_read = False
        line = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        if not super().parse_request():
            self.server.flaws.append(f"{line!r} cannot be read")
            return False
        flaw = flaw_of(Asked(line, list(self.headers.items())))
        if flaw:
            self.server.flaws.append(flaw)
            self.send_error(400, "the request's framing", flaw)
            self.close_connection = True
        return not flaw

    def body(self, most: int = sys.maxsize) -> bytes:
        """Return the request's content, or its start; raise Cut if the client hangs up before it is whole."""
        self._is_read = True
        if self.headers.get("Transfer-Encoding"):
            return self._read_chunks()
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(min(size, most))
        if len(content) < min(size, most):
            self.close_connection = True
            raise Cut
        self.close_connection = self.close_connection or size > most
        return content

    def _read_chunks(self) -> bytes:
        sent, size = [], 1
        while size:
            line = self.rfile.readline(100)
            size = int(line.partition(b";")[0], 16) if re.match(rb"[0-9a-fA-F]+[;\r]", line) else 0
            sent += [line, self.rfile.read(size + 2)]
        taken = take_chunks(b"".join(sent))
        if taken is None:
            self.close_connection = True
            raise Cut
        return taken[0]

    def end_headers(self) -> None:
        """Leave no content of a request for the next one to be read from."""
        if not getattr(self, "_is_read", True) and int(self.headers.get("Content-Length") or 0):
            self.close_connection = True
        super().end_headers()

    def finish(self) -> None:
        """End the connection, also one whose client is gone."""
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


class FolderHandler(Handler, SimpleHTTPRequestHandler):
    """Serves a folder: `functools.partial(FolderHandler, directory=…)`."""
