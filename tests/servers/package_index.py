"""A package index on this machine, for tests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote

from ci_tools.machine.package_index import Index
from tests.servers.framing import FolderHandler, Handler, Server
from tests.servers.threads import serve


@contextmanager
def over_http(root: Path) -> Iterator[str]:
    """Serve a folder, with parts of files for those who ask for a range, and yield its address."""

    class InParts(FolderHandler):
        def do_GET(self) -> None:
            path, asked = root / unquote(self.path).lstrip("/"), self.headers.get("Range", "")
            found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
            if found is None or not path.is_file():
                super().do_GET()
                return
            content = path.read_bytes()
            first = int(found[1]) if found[1] else max(len(content) - int(found[2]), 0)
            stop = min(int(found[2]) + 1, len(content)) if found[1] and found[2] else len(content)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{stop - 1}/{len(content)}")
            self.send_header("Content-Length", str(stop - first))
            self.end_headers()
            self.wfile.write(content[first:stop])

    with serve(Server(partial(InParts, directory=str(root)))) as server:
        yield server.url


class Sent(NamedTuple):
    """One answer: the path, the range that was asked for, and the bytes of the body."""

    path: str
    range: str
    size: int


class Stock(NamedTuple):
    """The files of one project and how they are served: see `index_of`."""

    project: str
    files: Mapping[str, bytes]
    ranges: str
    most: int
    metadata: Mapping[str, bytes]
    sent: list[Sent]
    hashes: bool
    yanked: Container[str]
    changes: int = 0


class _Handler(Handler):
    """Answers for a stock."""

    def __init__(self, stock: Stock, *args: Any) -> None:  # noqa: ANN401 - those of the base class
        self.stock = stock
        super().__init__(*args)

    def do_GET(self) -> None:
        name = self.path.removeprefix("/files/")
        if self.path == f"/simple/{self.stock.project}/":
            self._answer(200, self._page().encode(), {"Content-Type": "text/html"})
        elif name in self.stock.files:
            self._file(self.stock.files[name])
        elif name.removesuffix(".metadata") in self.stock.metadata:
            self._answer(200, self.stock.metadata[name.removesuffix(".metadata")], {})
        else:
            self._answer(404, b"", {})

    def _page(self) -> str:
        return "".join(
            f'<a href="/files/{name}{self._hash(name)}"{self._offer(name)}>{name}</a>' for name in self.stock.files
        )

    def _hash(self, name: str) -> str:
        return f"#sha256={hashlib.sha256(self.stock.files[name]).hexdigest()}" if self.stock.hashes else ""

    def _offer(self, name: str) -> str:
        """Return the attribute of a link that offers METADATA with its hash, or says that the file is yanked."""
        found = self.stock.metadata.get(name)
        if name in self.stock.yanked:
            return ' data-yanked="damaged"'
        return f' data-core-metadata="sha256={hashlib.sha256(found).hexdigest()}"' if found is not None else ""

    def _file(self, content: bytes) -> None:
        if self.stock.changes and len(self.stock.sent) >= self.stock.changes:
            content = content + b"again"
        start = self._start(len(content))
        if start is None:
            self._answer(200, content, {})
            return
        stop = self._stop(len(content))
        part = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
        shift = 1 if self.stock.ranges == "others" and start else 0
        self._answer(206, content[start - shift : stop - shift], part)

    def _stop(self, size: int) -> int:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        return min(int(asked[2]) + 1, size) if asked else size

    def _start(self, size: int) -> int | None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked is None or self.stock.ranges == "none" or (self.stock.ranges == "from a start" and not asked[1]):
            return None
        return int(asked[1]) if asked[1] else max(size - int(asked[2]), 0)

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.stock.sent.append(Sent(self.path, self.headers.get("Range", ""), len(body)))
        with suppress(ConnectionError):  # a reader may have seen enough
            self.wfile.write(body[: self.stock.most])


@contextmanager
def index_of(  # noqa: PLR0913 - each is one way in which indexes differ
    project: str,
    files: Mapping[str, bytes],
    *,
    ranges: str = "both",
    most: int = 1 << 30,
    metadata: Mapping[str, bytes] = MappingProxyType({}),
    sent: list[Sent] | None = None,
    hashes: bool = False,
    yanked: Container[str] = (),
    changes: int = 0,
) -> Iterator[Index]:
    """Serve the files of a project; `most` bytes are sent in one answer, and `sent` gets each answer.

    `ranges` says which it sends: "both", those "from a start", "none", or "others" than it says. After `changes`
    answers
    each file is another one (0: never). `metadata` has the METADATA that the index
    offers beside a file (PEP 658). With `hashes` each link has the sha256 of its file.
    """
    stock = Stock(project, files, ranges, most, metadata, [] if sent is None else sent, hashes, yanked, changes)
    with serve(Server(partial(_Handler, stock))) as server:
        yield Index(f"{server.url}/simple/")
