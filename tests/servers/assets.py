"""A server of a release's wheels, which may do something wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from tests.servers.framing import Handler, Server
from tests.servers.threads import serve


class Assets(Server):
    """Serves a folder, in parts where it is asked; `wrong` says what it does wrong with each answer, in turn."""

    def __init__(self, folder: Path, *wrong: str) -> None:
        super().__init__(_Handler)
        self.folder = folder
        self.wrong = list(wrong)
        self.asked: list[tuple[str, str, str]] = []  # path, range and authorization
        self.scheme = "http"
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{self.scheme}://127.0.0.1:{self.server_port}"


class _Handler(Handler):
    server: Assets

    def do_GET(self) -> None:
        headers = (self.headers.get("Range", ""), self.headers.get("Authorization", ""))
        self.server.asked.append((self.path, *headers))
        wrong = self.server.wrong.pop(0) if self.server.wrong else ""
        path = self.server.folder / unquote(self.path).lstrip("/")
        content = path.read_bytes() if path.is_file() else b""
        start = int((re.findall(r"bytes=(\d+)-", headers[0]) or ["0"])[0])
        if wrong == "tampered":
            content = content[:-1] + bytes([content[-1] ^ 1])
        if wrong == "gigantic":
            content += b"\0" * (1 << 20)
        if wrong == "short":
            content = content[:100]
        if wrong.startswith("redirect "):
            self.send_response(302)
            self.send_header("Location", wrong.removeprefix("redirect "))
            self.end_headers()
            return
        if wrong == "nonsense":
            self.wfile.write(b"nonsense\r\n\r\n")
            return
        if not path.is_file() or wrong.isdigit():
            self.send_error(int(wrong) if wrong else 404)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + len(content[start:]) // 2 if wrong in {"cut", "silent"} else len(content)
        self.wfile.write(content[start:end])
        if wrong == "silent":
            self.server.ended.wait(60)


@contextmanager
def assets(folder: Path, *wrong: str) -> Iterator[Assets]:
    """Serve a folder."""
    with serve(Assets(folder, *wrong)) as server:
        try:
            yield server
        finally:
            server.ended.set()
