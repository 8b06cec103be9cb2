"""Indexes on this machine that take uploads, for tests, and what can stand between a user and one of them."""

from __future__ import annotations

import base64
import hashlib
import http.client
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import default
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit

from ci_tools.index.units import CORE, Item, JobEntry, Unit
from ci_tools.model.request import Route
from tests.builders.wheels import hexdigest
from tests.servers import framing
from tests.servers.forking import CONTEXT
from tests.servers.threads import serve

UV = str(Path(sys.executable).with_name("uv"))
DEVPI = "devpi-server>=6.20"
MAX_BYTES = 100 << 20  # of a file on PyPI
USER, PASSWORD = "tester", "sEcReT"


class Server(NamedTuple):
    """An index: where it takes uploads, where it is read, and who may upload."""

    upload: str
    simple: str
    environ: Mapping[str, str]


CREDENTIALS = {
    "TWINE_USERNAME": USER,
    "TWINE_PASSWORD": PASSWORD,
    "UV_PUBLISH_USERNAME": USER,
    "UV_PUBLISH_PASSWORD": PASSWORD,
    "UV_HTTP_RETRIES": "0",
}


@contextmanager
def pypiserver(folder: Path, *options: str) -> Iterator[Server]:
    """Serve the files of a folder with pypiserver, to which everybody may upload."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    words = ["run", "-i", "127.0.0.1", "-p", str(port), "-P", ".", "-a", ".", *(options or ["--disable-fallback"])]
    process = CONTEXT.Process(target=_run_pypiserver, args=([*words, str(folder)],), daemon=True)
    process.start()
    try:
        while not _answers(f"http://127.0.0.1:{port}/"):
            assert process.is_alive(), words
            time.sleep(0.01)
        yield Server(f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/simple/", CREDENTIALS)
    finally:
        process.kill()
        process.join()


def _run_pypiserver(words: list[str]) -> None:
    from pypiserver.__main__ import main  # noqa: PLC0415 - only the process that it is forked from needs it

    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    main(words)


@contextmanager
def devpi(folder: Path) -> Iterator[str]:
    """Install devpi into an environment of its own, serve it, and yield its address; `devpi_index` makes an index."""
    programs = folder / "environment" / "bin"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(programs.parent)], check=True)
    install = [UV, "pip", "install", "--quiet", "--python", str(programs / "python"), DEVPI]
    subprocess.run(install, check=True)
    data = ("--serverdir", str(folder / "data"))
    init = [str(programs / "devpi-init"), *data, "--no-root-pypi"]
    subprocess.run(init, check=True, capture_output=True)
    port = free_port()
    serve = [str(programs / "devpi-server"), *data, "--host", "127.0.0.1", "--port", str(port), "--offline-mode"]
    address = f"http://127.0.0.1:{port}"
    with running(serve, f"{address}/+api"):
        _put(f"{address}/{USER}", {"password": PASSWORD})
        yield address


def devpi_index(address: str, name: str) -> Server:
    """Make an index in which no file ever changes."""
    token = json.loads(_send("POST", f"{address}/+login", {"user": USER, "password": PASSWORD}))["result"]["password"]
    login = base64.b64encode(f"{USER}:{token}".encode()).decode()
    _put(f"{address}/{USER}/{name}", {"bases": [], "volatile": False}, {"X-Devpi-Auth": login})
    return Server(f"{address}/{USER}/{name}/", f"{address}/{USER}/{name}/+simple/", CREDENTIALS)


def _put(address: str, content: object, headers: Mapping[str, str] | None = None) -> None:
    _send("PUT", address, content, headers)


def _send(method: str, address: str, content: object, headers: Mapping[str, str] | None = None) -> bytes:
    said = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
    request = urllib.request.Request(address, json.dumps(content).encode(), said, method=method)
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


@contextmanager
def running(command: list[str], address: str) -> Iterator[None]:
    """Run a server while the body runs, from when it answers at `address`."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not _answers(address):
                assert process.poll() is None, command
                time.sleep(0.05)
            yield
        finally:
            process.kill()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=10).close()
    except HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Between:
    """What stands between a user and an index, and can go wrong; each upload that came is noted."""

    refuse: dict[str, int] = field(default_factory=dict)  # the status each request of a method gets
    lose: set[str] = field(default_factory=set)  # the methods whose answers never come
    hold: str = ""  # before or after: where the first upload stays until its client is gone
    password: str = ""  # what is asked for, for everything
    password_to_upload: str = ""  # what is asked for, for an upload
    late: int = 0  # how many looks at the project's page find none, after an upload
    uploads: list[str] = field(default_factory=list)  # the names of the files that came
    tunnels: list[str] = field(default_factory=list)  # the hosts that somebody asked to be led to
    held: threading.Event = field(default_factory=threading.Event)


class Gate(framing.Server):
    """The server that stands between."""

    def __init__(self, port: int) -> None:
        super().__init__(Handler)
        self.port, self.state = port, Between()


class Handler(framing.Handler):
    """Passes each request on, unless something goes wrong with it."""

    server: Gate

    def do_CONNECT(self) -> None:
        self.server.state.tunnels.append(self.path)
        self._answer(502, {}, b"")

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        body = self.body()
        flaws = flaws_of_upload(self.headers["Content-Type"], body)
        if flaws:
            self.server.flaws += flaws
            self._answer(400, {}, "; ".join(flaws).encode())
            return
        self.server.state.uploads += [name.decode() for name in re.findall(rb'filename="([^"]+)"', body)[:1]]
        self._pass_on(body)

    def _pass_on(self, body: bytes) -> None:
        state = self.server.state
        password = state.password or (state.password_to_upload if self.command == "POST" else "")
        asked = base64.b64encode(f"{USER}:{password}".encode()).decode()
        if password and self.headers.get("Authorization") != f"Basic {asked}":
            self._answer(401, {"WWW-Authenticate": "Basic"}, b"")
        elif self.command in state.refuse:
            self._answer(state.refuse[self.command], {}, b"")
        elif self.command == "GET" and state.uploads and state.late and "demo" in self.path:
            state.late -= 1
            self._answer(404, {}, b"")
        else:
            self._forward(body)

    def _forward(self, body: bytes) -> None:
        if self._client_goes("before"):  # then no server has a whole request
            return
        status, headers, content = _forwarded(self.server.port, self.command, self.path, self.headers, body)
        if self._client_goes("after") or self.command in self.server.state.lose:
            self.close_connection = True
        else:
            self._answer(status, headers, content)

    def _client_goes(self, where: str) -> bool:
        state = self.server.state
        if self.command != "POST" or state.hold != where:
            return False
        state.hold = ""
        state.held.set()
        while self.connection.recv(1):
            """Wait until the client is gone."""
        return True

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def flaws_of_upload(kind: str, body: bytes) -> list[str]:
    """Return why PyPI would refuse the form of an upload ("Upload API" in its documentation)."""
    message = BytesParser(policy=default).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts = [(part.get_param("name", header="content-disposition"), part) for part in message.iter_parts()]
    said = {str(name): bytes(part.get_payload(decode=True) or b"") for name, part in parts}
    files = [part.get_filename() or "" for name, part in parts if name == "content"]
    content = said.get("content", b"")
    wanted = {":action": b"file_upload", "protocol_version": b"1"}
    wanted |= {"sha256_digest": hashlib.sha256(content).hexdigest().encode()}
    is_sdist = files[:1] and files[0].endswith(".tar.gz")
    wanted |= {"filetype": b"sdist" if is_sdist else b"bdist_wheel"} | ({"pyversion": b"source"} if is_sdist else {})
    flaws = [
        f"{name} is {said.get(name)!r}, not {value!r}" for name, value in wanted.items() if said.get(name) != value
    ]
    flaws += [f"{name} is missing" for name in ("metadata_version", "name", "version") if not said.get(name)]
    flaws += ["its file has no name, or a folder's"] if len(files) != 1 or "/" in files[0] or not files[0] else []
    return [*flaws, *(["it is over 100 MiB"] if len(content) > MAX_BYTES else [])]


@contextmanager
def between(server: Server) -> Iterator[tuple[Between, Server]]:
    """Stand between, and yield what can be set to go wrong, and the index as it is seen from before it."""
    port = urlsplit(server.upload).port or 0
    with serve(Gate(port)) as gate:
        here, there = f"127.0.0.1:{gate.server_port}", f"127.0.0.1:{port}"
        yield gate.state, Server(server.upload.replace(there, here), server.simple.replace(there, here), server.environ)


def _forwarded(port: int, method: str, path: str, headers: Message, body: bytes) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    kept = {name: value for name, value in headers.items() if name.lower() not in {"connection", "transfer-encoding"}}
    connection.request(method, path, body or None, kept)
    answer = connection.getresponse()
    content = answer.read()
    passed = {name: value for name, value in answer.getheaders() if name.lower() in {"content-type", "location"}}
    connection.close()
    return answer.status, passed, content


# ---------------------------------------------------------------- releases


def sdist(folder: Path, name: str = "demo-1.0.tar.gz", fields: str = "", metadata: str = "") -> Path:
    """Write a good sdist of that name; `fields` are more lines of PKG-INFO, `metadata` takes its place."""
    top = name.removesuffix(".tar.gz")
    project, _, version = top.rpartition("-")
    said = metadata or f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{fields}\nWhat it is.\n"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / name, "w:gz") as archive:
        for path, content in {"PKG-INFO": said, "pyproject.toml": "[project]\n", "demo.py": ""}.items():
            info = tarfile.TarInfo(f"{top}/{path}")
            info.size = len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return folder / name


def unit_of(*files: Path, route: Route = Route.WHEELS, name: str = CORE, version: str = "1.0") -> Unit:
    """Return a release unit of finished files of the project demo."""
    items = tuple(Item(path, hexdigest(path), path.stat().st_size, made(path)) for path in files)
    return Unit(name=name, project="demo", version=version, items=items, route=route)


def made(path: Path) -> JobEntry | None:
    """Return what a plan would say of the job that made a file."""
    if not path.name.endswith(".whl"):
        return None
    kind = "pure" if path.name.endswith("-any.whl") and "+" not in path.name else "native"
    return JobEntry(kind, kind, "", "3.10", "", "", (), "", "", ())
