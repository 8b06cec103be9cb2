"""GitHub's Releases on this machine, for tests: what it keeps, what it refuses, and how it fails.

Every request and every answer is checked against a cut of GitHub's own OpenAPI description. What that says only in
prose, or not at all, is done as GitHub does it: a cut upload leaves an asset in the state `starter`, names are changed,
drafts are seen by those who may write alone, and of two releases of one tag only one can be published.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers import framing
from tests.servers.github_answers import (
    REPOSITORY,
    TOKEN,
    Answer,
    Asked,
    Fault,
    Unprocessable,
    asked_too_fast,
    missing,
    rate_limited,
    refusal,
)
from tests.servers.github_description import complaint
from tests.servers.github_releases import UPLOAD, asset_document
from tests.servers.github_repository import HEAD, GitHub, Stored
from tests.servers.threads import serve

__all__ = [
    "HEAD",
    "REPOSITORY",
    "TOKEN",
    "Answer",
    "Fault",
    "GitHub",
    "Stored",
    "asked_too_fast",
    "github_server",
    "rate_limited",
    "refusal",
]


class Handler(framing.Handler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    hub: GitHub

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def _serve(self) -> None:
        asked = self._asked()
        with self.hub.lock:
            self.hub.requests.append(f"{asked.method} {asked.path}")
            fault = self.hub.faults.pop(len(self.hub.requests), None)
        if callable(fault):
            fault = fault()
        if fault is Fault.CLOSE:
            self._drop()
            return
        if fault is Fault.DELAY:
            time.sleep(1)
        answer = fault if isinstance(fault, Answer) else self._answer(asked, fault)
        if problem := complaint(asked, answer, self.hub.url):
            self.hub.problems.append(problem)
        if fault is Fault.FORGET or (fault is Fault.CUT and UPLOAD.fullmatch(asked.path) and asked.method == "POST"):
            self._drop()
        else:
            self._send(answer, cut=fault is Fault.CUT)

    def _asked(self) -> Asked:
        """Read the request, the body of an upload left aside."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        is_upload = self.command == "POST" and UPLOAD.fullmatch(parts.path)
        body = b"" if is_upload else self.body()
        return Asked(self.command, parts.path, query, body, dict(self.headers.items()))

    def _answer(self, asked: Asked, fault: object) -> Answer:
        kind, _, token = asked.headers.get("Authorization", "").partition(" ")
        is_known = kind in {"token", "Bearer"} and token in self.hub.tokens
        is_anonymous = self.hub.is_public and not kind and asked.method == "GET"
        if asked.path.startswith("/repos/") and not asked.headers.get("User-Agent"):
            return refusal(
                403, "Request forbidden by administrative rules. Please make sure it has a User-Agent header"
            )
        if asked.path.startswith(("/repos/", "/graphql")) and not (is_known or is_anonymous):
            return refusal(401, "Bad credentials") if kind else missing()  # as a private one
        if self.hub.left is not None:
            self.hub.left -= 1
            if self.hub.left < 0:
                return refusal(403, "API rate limit exceeded for 192.0.2.1.", self._limits())
        upload = UPLOAD.fullmatch(asked.path) if asked.method == "POST" else None
        try:
            if upload:
                return self._upload(upload[1], asked.query["name"], fault)
            with self.hub.lock:
                return self._routed(asked)
        except Unprocessable as error:
            return Answer(422, {"documentation_url": "https://docs.github.com/rest", **error.args[0]})

    def _limits(self) -> dict[str, str]:
        """Return the headers by which GitHub says how many requests it still answers this hour."""
        if self.hub.left is None:
            return {}
        reset = str(int(time.time()) + 3600)
        left = str(max(self.hub.left, 0))
        return {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": left, "X-RateLimit-Reset": reset}

    def _routed(self, asked: Asked) -> Answer:
        for method, pattern, route in self.hub.routes:
            match = re.fullmatch(pattern, asked.path)
            if method == asked.method and match:
                return route(self.hub, asked, *map(unquote, match.groups()))
        return missing()

    def _upload(self, number: str, name: str, fault: object) -> Answer:
        """Take an asset in; it is there, unfinished, while its bytes arrive."""
        if not self.headers.get("Content-Length") or not self.headers.get("Content-Type"):
            return refusal(400, "Bad Content-Length" if self.headers.get("Content-Type") else "Bad Content-Type")
        length = int(self.headers["Content-Length"])
        with self.hub.lock:
            kept = self.hub.release(number)
            if not kept:
                return missing()
            asset = self.hub.upload(kept, name, length)
        try:
            content = self.body(length // 2 if fault is Fault.CUT else length)
        except framing.Cut:
            content = b""
        with self.hub.lock:
            if fault is Fault.CUT or len(content) != length:
                self.close_connection = True
                return refusal(502, "Bad Gateway")
            if asset not in kept.assets:
                return missing()
            asset.content = bytes([content[0] ^ 1]) + content[1:] if fault is Fault.CORRUPT else content
            asset.state = "uploaded"
            return Answer(201, asset_document(self.hub, kept, asset))

    def _send(self, answer: Answer, *, cut: bool) -> None:
        data = answer.data
        if UPLOAD.fullmatch(urlsplit(self.path).path) and answer.status >= 400:
            self.close_connection = True  # the body may not have been read
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
        with suppress(ConnectionError):  # a client may have been killed
            self.send_response_only(answer.status)
            usual = {"Date": self.date_time_string(), "Content-Type": kind, "Content-Length": str(len(data))}
            for header, value in {**usual, **self._limits(), **answer.headers}.items():
                self.send_header(header, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)


@contextmanager
def github_server() -> Iterator[GitHub]:
    """Run a server with one empty repository; at the end, fail where GitHub's description was not kept to."""
    hub = GitHub()
    handler = type("OwnHandler", (Handler,), {"hub": hub})
    with serve(framing.Server(handler)) as server:
        hub.url = server.url
        yield hub
    assert not hub.problems, "\n".join(hub.problems[:5])
