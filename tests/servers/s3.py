"""moto's S3, kept to a promise of S3's: a write is one step, with its condition and its metadata.

moto looks at a condition first and writes later, and shows an object before that has its metadata. Of two writers on
one condition both may be told that they were the one, and who looks at a page may find it without its generation. Here
one thread answers one request after the other, each once all of it has arrived.

Clients keep their connections, as with S3; moto's own server ends each, and looks for the service and the view of each
request anew, which takes longer than the answer. moto's S3 is called without them. A listing has moto parse the time of
each object, which does not change: that is done once. A program that `tests.servers.prepared` forks, since its imports
take a second; it prints the port that it listens at, and what a client frames against the standard.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import io
import re
import secrets
import sys
import traceback
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes
from xml.sax.saxutils import escape

from moto import settings
from moto.core import responses, serialize
from moto.core.request import PRESERVED_HEADER_NAMES_ENVIRON_KEY, environ_key_for_header
from moto.core.request import Request as MotoRequest
from moto.s3.responses import S3Response

from tests.servers.framing import Asked, flaw_of, take_chunks

COMMAND = ("-m", "tests.servers.s3")
END = b"\r\n\r\n"  # of a request's headers
LONGEST_KEY, MAX_METADATA = 1024, 2048  # bytes
HEX = re.compile("[0-9a-f]{64}")  # a sha256
EMPTY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})  # answers that have no body


class Request(MotoRequest):
    """A request of which moto is told that a server has read it; its address is the one that was sent."""

    from_wsgi_server = True

    @property
    def raw_url(self) -> str:
        """Return the address as it was sent."""
        return f"http://{self.environ['HTTP_HOST']}{self.environ['RAW_URI']}"

    @property
    def url(self) -> str:  # type: ignore[override]
        """Return the same: moto looks there for a signature only."""
        return self.raw_url


class Head(NamedTuple):
    """A request without its body."""

    method: str
    target: str  # the path with its query, as it was sent
    headers: Mapping[str, str]  # by their names in small letters
    names: Mapping[str, str]  # these names as they were sent


def parse_head(data: bytes) -> Head:
    """Parse a request's first line and its headers; raise ValueError where a strict server refuses them."""
    line, *rest = data.decode("latin-1").split("\r\n")
    pairs = [(name, value) for name, _, value in (one.partition(":") for one in rest)]
    flaw = flaw_of(Asked(line, pairs))
    if flaw:
        raise ValueError(flaw)
    method, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, value in pairs}
    return Head(method, target.replace("+", "%20"), headers, {name.lower(): name for name, _ in pairs})


def refuse(head: Head, body: bytes) -> tuple[int, str] | None:
    """Return the status and code with which S3 refuses a request that moto takes; None if it takes it, too.

    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html; keys and metadata: "Object key naming" and
    "Working with object metadata" in the user guide.
    """
    said, path = head.headers, unquote_to_bytes(head.target.partition("?")[0])
    metadata = sum(len(name) - 11 + len(value) for name, value in said.items() if name.startswith("x-amz-meta-"))
    is_write, is_signed = head.method not in {"GET", "HEAD", "OPTIONS"}, "X-Amz-Signature" in head.target
    sha256, md5 = hashlib.sha256(body), hashlib.md5(body, usedforsecurity=False)
    payload = said.get("x-amz-content-sha256", "")
    rules = (
        (is_write and not (said.get("authorization") or is_signed), 403, "AccessDenied"),
        (len(path.lstrip(b"/").partition(b"/")[2]) > LONGEST_KEY, 400, "KeyTooLongError"),
        (metadata > MAX_METADATA, 400, "MetadataTooLarge"),
        ("transfer-encoding" in said and "x-amz-decoded-content-length" not in said, 411, "MissingContentLength"),
        (is_write and said.get("if-none-match", "*") != "*", 501, "NotImplemented"),
        (is_write and {"if-none-match", "if-match"} <= said.keys(), 400, "InvalidRequest"),
        (said.get("x-amz-checksum-sha256", _base64(sha256)) != _base64(sha256), 400, "BadDigest"),
        (said.get("content-md5", _base64(md5)) != _base64(md5), 400, "BadDigest"),
        (HEX.fullmatch(payload) and payload != sha256.hexdigest(), 400, "XAmzContentSHA256Mismatch"),
    )
    return next(((status, code) for is_broken, status, code in rules if is_broken), None)


def _base64(digest: Any) -> str:  # noqa: ANN401 - hashlib's objects have no type of their own
    return base64.b64encode(digest.digest()).decode()


def environ_of(head: Head, body: bytes) -> dict[str, Any]:
    """Return a request as WSGI has it (PEP 3333)."""
    path, _, query = head.target.partition("?")
    kept = {environ_key_for_header(name): name for name in head.names.values() if "_" in name}
    return {
        **{environ_key_for_header(name): value for name, value in head.headers.items() if name != "transfer-encoding"},
        "CONTENT_LENGTH": str(len(body)),
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "RAW_URI": head.target,
        "REQUEST_METHOD": head.method,
        "SCRIPT_NAME": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        PRESERVED_HEADER_NAMES_ENVIRON_KEY: kept,
    }


def ask_moto(head: Head, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Return moto's answer: its status, headers and body."""
    request = Request(environ_of(head, body))
    bucket, _, key = request.raw_path[1:].partition("/")
    dispatch = S3Response.key_dispatch if key else S3Response.ambiguous_dispatch
    if not bucket:
        dispatch = S3Response.bucket_dispatch
    status, headers, content = dispatch(request, request.raw_url, request.headers)
    return status, dict(headers), content.encode() if isinstance(content, str) else content


def answer(head: Head, body: bytes) -> bytes:
    """Return the answer to a request as it is sent."""
    try:
        refused = refuse(head, body)
        status, headers, content = ask_moto(head, body) if refused is None else _refusal(*refused)
    except Exception:  # noqa: BLE001 - a client is told of a defect of the server's, and keeps waiting otherwise
        status, headers, content = 500, {}, traceback.format_exc().encode()
    said = {name.lower(): value for name, value in headers.items()}
    if head.method != "HEAD":
        said["content-length"] = str(len(content))
    said = {"content-length": "0", "date": formatdate(usegmt=True), "access-control-allow-origin": "*", **said}
    if status in EMPTY:
        del said["content-length"]
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in said.items())]
    return "\r\n".join(lines).encode("latin-1") + END + (b"" if head.method == "HEAD" else content)


def _refusal(status: int, code: str, message: str = "") -> tuple[int, dict[str, str], bytes]:
    said = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return status, {"content-type": "application/xml"}, said.encode()


class Connection(asyncio.Protocol):
    """A client's connection; of a request that does not arrive whole nothing is stored."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.head: Head | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the request if all of it is there."""
        self.received += data
        try:
            self._answer()
        except ValueError as error:
            sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
            _, _, content = _refusal(400, "InvalidRequest", str(error))
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(content)}"
            self.transport.write(head.encode() + END + content)
            self.transport.close()

    def _answer(self) -> None:
        if self.head is None and END in self.received:
            line, _, self.received = self.received.partition(END)
            self.head = parse_head(bytes(line))
            if self.head.headers.get("expect"):
                self.transport.write(b"HTTP/1.1 100 Continue" + END)
        if self.head is None or (body := self._take_body(self.head)) is None:
            return
        head, self.head = self.head, None
        self.transport.write(answer(head, body))
        if head.headers.get("connection", "").lower() == "close":
            self.transport.close()

    def _take_body(self, head: Head) -> bytes | None:
        """Return the body and forget it; None if some of it has not arrived."""
        if head.headers.get("transfer-encoding") == "chunked":
            taken = take_chunks(bytes(self.received))
            body, size = taken or (b"", sys.maxsize)
        else:
            size = int(head.headers.get("content-length") or 0)
            body = bytes(self.received[:size])
        if len(self.received) < size:
            return None
        del self.received[:size]
        return body


async def listen() -> asyncio.Server:
    """Listen at a free port."""
    return await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)


def load() -> None:
    """Have moto do once what it does for each request, and take each request as one of a path's first folder."""
    serialize.parse_to_aware_datetime = functools.lru_cache(100_000)(serialize.parse_to_aware_datetime)
    settings.S3_IGNORE_SUBDOMAIN_BUCKETNAME = True
    responses.gen_amzn_requestid_long = _name_request


def _name_request(headers: dict[str, str]) -> str:
    """Give an answer the ID of its request, which moto draws letter by letter."""
    headers["x-amzn-requestid"] = secrets.token_hex(26).upper()
    return headers["x-amzn-requestid"]


def run(_: Sequence[str]) -> int:
    """Serve until this process is ended; print the port."""

    async def serve() -> None:
        server = await listen()
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await server.serve_forever()

    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    load()
    sys.exit(run(sys.argv[1:]))
