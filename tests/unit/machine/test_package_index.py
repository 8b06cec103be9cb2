from __future__ import annotations

import gzip
import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.machine import package_index
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve

pytestmark = pytest.mark.usefixtures("at_once")

CONTENT = b"an sdist" * 300_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = "my_demo-1.0.tar.gz"
HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}


class Answer(NamedTuple):
    """What the server says of one path; `sent` cuts the body off."""

    body: bytes
    headers: Mapping[str, str] = HTML
    status: int = 200
    sent: int = 1 << 30


PAGE = Answer(f'<a href="/files/{FILE}">{FILE}</a><a href="/files/x">my_demo-0.9.tar.gz</a>'.encode())
LATER = b'{"meta": {"api-version": "9.0"}, "name": "my-demo", "files": []}'
GOOD = {"/simple/my-demo/": PAGE, f"/files/{FILE}": Answer(CONTENT, {})}


@contextmanager
def index(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Serve a package index on this machine."""

    class Answering(Handler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, Answer(b"", status=404))
            body, headers = answer.body, dict(answer.headers)
            if headers.pop("Packed", "") and "gzip" in self.headers.get("Accept-Encoding", ""):
                body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: answer.sent])

    with serve(Server(Answering)) as server:
        yield f"{server.url}/simple/"


def download(answers: Mapping[str, Answer], destination: Path, *, file: str = FILE, sha256: str = SHA256) -> list[int]:
    heard: list[int] = []
    with index(answers) as url:
        package_index.download(
            "my-demo",
            file,
            sha256,
            destination,
            index=package_index.Index(url),
            progress=lambda done, total: heard.extend((done, total)),
        )
    return heard


def test_a_file_comes_whole_and_tells_how_far_it_is(tmp_path: Path) -> None:
    heard = download(GOOD, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert heard[-2:] == [len(CONTENT), len(CONTENT)]
    assert heard[0] < len(CONTENT)


@pytest.mark.parametrize("spelling", ["my-demo-1.0.tar.gz", "my.demo-1.0.tar.gz", "My_Demo-1.0.tar.gz"])
def test_an_sdist_may_be_spelt_otherwise(spelling: str, tmp_path: Path) -> None:
    download(GOOD, tmp_path / "file", file=spelling)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_file_is_not_unpacked_on_its_way(tmp_path: Path) -> None:
    download({**GOOD, f"/files/{FILE}": Answer(CONTENT, {"Packed": "yes"})}, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_json_index_is_read_too(tmp_path: Path) -> None:
    file = {"filename": FILE, "url": f"/files/{FILE}", "hashes": {}}
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "my-demo", "files": [file]}).encode()
    download({**GOOD, "/simple/my-demo/": Answer(page, JSON)}, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answers", "file", "kind", "sentence"),
    [
        pytest.param(
            {**GOOD, f"/files/{FILE}": Answer(b"other bytes", {})},
            FILE,
            InputError,
            f"{FILE} has the sha256 {hashlib.sha256(b'other bytes').hexdigest()}, expected {SHA256}",
            id="another-hash",
        ),
        pytest.param({}, FILE, InputError, 'the package index has no project "my-demo"', id="no-project"),
        pytest.param(
            GOOD,
            "my_demo-1.1.tar.gz",
            InputError,
            f'the package index has no file "my_demo-1.1.tar.gz", did you mean "{FILE}"?',
            id="no-such-file",
        ),
        pytest.param(
            {"/simple/my-demo/": Answer(b"<p>Log in first</p>")}, FILE, InputError, "has no file", id="a-captive-portal"
        ),
        pytest.param(
            {**GOOD, f"/files/{FILE}": Answer(CONTENT, {}, sent=1_500_000)},
            FILE,
            MachineError,
            "bytes read, ",
            id="connection-lost",
        ),
        pytest.param({"/simple/my-demo/": PAGE}, FILE, MachineError, "404 Client Error", id="file-gone"),
        pytest.param({"/simple/my-demo/": Answer(b"", status=503)}, FILE, MachineError, "503 Server Error", id="down"),
        pytest.param({"/simple/my-demo/": Answer(b"{", JSON)}, FILE, MachineError, "cannot be fetched", id="half-json"),
        pytest.param({"/simple/my-demo/": Answer(b"{}", JSON)}, FILE, MachineError, "cannot be fetched", id="odd-json"),
        pytest.param(
            {"/simple/my-demo/": Answer(b"", {"Content-Type": "image/png"})},
            FILE,
            MachineError,
            "image/png",
            id="no-page",
        ),
        pytest.param(
            {"/simple/my-demo/": Answer(LATER, JSON)},
            FILE,
            MachineError,
            "9.0",
            id="a-later-api",
        ),
    ],
)
def test_what_does_not_come_leaves_the_old_file(
    answers: Mapping[str, Answer], file: str, kind: type[FatwheelError], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(kind) as refused:
        download(answers, tmp_path / "file", file=file)
    assert sentence in refused.value.message
    assert refused.value.message.count("\n") == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_the_index_s_password_is_not_shown(tmp_path: Path) -> None:
    with index({"/simple/my-demo/": Answer(b"", status=401)}) as url:
        named = package_index.Index(url.replace("//", "//me:s3cret@"))
        with pytest.raises(MachineError, match="401 Client Error") as refused:
            package_index.download("my-demo", FILE, SHA256, tmp_path / "file", index=named, progress=lambda *_: None)
    assert "s3cret" not in str(refused.value)


def test_no_server_is_the_machine_s_fault(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/simple/"
        with pytest.raises(MachineError, match=r"cannot be fetched from the package index: .*refused"):
            package_index.download(
                "demo", FILE, SHA256, tmp_path / "file", index=package_index.Index(url), progress=lambda *_: None
            )
    assert not [*tmp_path.iterdir()]


def test_the_certificates_are_those_of_pip() -> None:
    assert package_index.users_index({"PIP_CERT": "/mine.pem", "PIP_INDEX_URL": "x"}).certificates == "/mine.pem"
    assert (
        package_index.users_index({"REQUESTS_CA_BUNDLE": "/theirs.pem", "PIP_INDEX_URL": "x"}).certificates
        == "/theirs.pem"
    )
