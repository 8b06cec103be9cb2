"""A package index on this machine, for tests."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from ci_tools.machine.package_index import Index
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def over_http(root: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@contextmanager
def index_of(project: str, files: Mapping[str, bytes], *, ranges: bool = True, most: int = 1 << 30) -> Iterator[Index]:
    """Serve the files of a project, in parts where `ranges` says so; `most` bytes are sent in one answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/files/")
            if self.path == f"/simple/{project}/":
                links = "".join(f'<a href="/files/{name}">{name}</a>' for name in files)
                self._answer(200, links.encode(), {"Content-Type": "text/html"})
            elif name in files:
                self._file(files[name])
            else:
                self._answer(404, b"", {})

        def _file(self, content: bytes) -> None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if asked is None or not ranges:
                self._answer(200, content, {})
            else:
                start = int(asked[1])
                self._answer(
                    206, content[start:], {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
                )

        def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a reader may have seen enough
                self.wfile.write(body[:most])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield Index(f"http://127.0.0.1:{server.server_port}/simple/")
