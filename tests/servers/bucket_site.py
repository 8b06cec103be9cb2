"""A bucket's site, as a store serves one: pages for folders, and `+` for a space."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit

from tests.servers.buckets import Bucket
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve

HANDED_ON = ("Content-Type", "Content-Range", "ETag", "Last-Modified")


@contextmanager
def website(bucket: Bucket) -> Iterator[str]:
    """Serve a bucket as a site: its root is the host's, a folder answers with its `index.html`, and `+` is a space."""

    class Site(Handler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path.replace("+", " "))
            status, headers, body = _object(bucket, path + "index.html" * path.endswith("/"), self)
            if status == http.client.NOT_FOUND and not path.endswith("/"):
                status, headers, body = _moved(bucket, path) or (status, headers, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_GET

    with serve(Server(Site)) as server:
        yield server.url


def _object(bucket: Bucket, path: str, asked: Handler | None) -> tuple[int, dict[str, str], bytes]:
    ranges = asked.headers.get("Range") if asked else None
    request = urllib.request.Request(bucket.url(quote(path.lstrip("/"))), headers={"Range": ranges} if ranges else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, _handed_on(answer.headers), answer.read()
    except HTTPError as error:
        with error:
            return error.code, {}, b""


def _handed_on(headers: Message) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", **{name: headers[name] for name in HANDED_ON if headers[name]}}


def _moved(bucket: Bucket, path: str) -> tuple[int, dict[str, str], bytes] | None:
    """Return the answer that sends a reader to a folder."""
    status, _, _ = _object(bucket, f"{path}/index.html", None)
    return (http.client.FOUND, {"Location": quote(f"{path}/")}, b"") if status == http.client.OK else None
