"""What stands between a client and its server: each of our clients, before each kind of fault, at any request.

A client ends well, or with one sentence; what it returns is right, and the same command then finishes.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.index.finder.search import open_web, read_shelves
from ci_tools.install import fatwheel_backend as backend
from ci_tools.machine import package_index
from ci_tools.machine.package_index import Index, files_of
from ci_tools.machine.remote_wheel import remote_wheel
from tests.builders import wheels
from tests.builders.github_units import LOCAL, PLAIN, is_right, publish, unit
from tests.builders.releases import Words, folder_index, item
from tests.builders.releases import publish as publish_unit
from tests.builders.releases import unit as unit_of
from tests.builders.uploaded import target
from tests.servers import uploads
from tests.servers.faults import Fault, Proxy, proxy
from tests.servers.github import github_server
from tests.servers.package_index import over_http
from tests.servers.uploads import Server, pypiserver
from tests.servers.uploads import between as between_uploads

pytestmark = pytest.mark.slow

KINDS = (
    *(Fault.PAGE, Fault.NO_TAG, Fault.CHUNKED, Fault.CUT_CHUNKS, Fault.INTERIM, Fault.HINTS),
    *(Fault.ELSEWHERE, Fault.LOOP),
    *(Fault.CUT_ANSWER, Fault.ERROR, Fault.BUSY, Fault.TOO_MANY, Fault.UNKNOWN, Fault.DENIED),
)
WRITES = (*KINDS, Fault.PAGE_AFTER)
FEW = (Fault.PAGE, Fault.PAGE_AFTER, Fault.CUT_CHUNKS, Fault.ELSEWHERE)  # as many as `make test` has time for


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


# ---------------------------------------------------------------- what only reads


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with one wheel of two members."""
    root = tmp_path_factory.mktemp("index")
    publish_unit(folder_index(root), unit_of("demo", item(wheels.make(root.parent / "made", PLAIN))))
    return root


@pytest.fixture(scope="module")
def between(root: Path) -> Iterator[Proxy]:
    with over_http(root) as address, proxy(port_of(address)) as server:
        yield server


def find(address: str, _: Path, __: Path) -> object:
    words = Words()
    with open_web(address) as read:
        found = [table.project for table in read_shelves(read, address, (), words).projects]
    if words.lines and not found:
        raise MachineError(words.lines[0])  # what is left out is said
    return found


def download(address: str, root: Path, folder: Path) -> object:
    index, sha256 = Index(f"{address}/"), hashlib.sha256((root / PLAIN).read_bytes()).hexdigest()
    package_index.download("demo", PLAIN, sha256, folder / PLAIN, index=index, progress=lambda *_: None)
    return (folder / PLAIN).read_bytes()


def read_member(address: str, _: Path, __: Path) -> object:
    sink = io.BytesIO()
    with files_of("demo", Index(f"{address}/")) as (session, urls), remote_wheel(session, url_in(urls)) as found:
        found.copy("demo/__init__.py", sink)
    return sink.getvalue()


def url_in(urls: Mapping[str, str]) -> str:
    """Return the wheel's address; a page without links lists no file, as that of an empty project."""
    if PLAIN not in urls:
        raise InputError(f"the package index has no {PLAIN}")
    return urls[PLAIN]


def install(address: str, root: Path, folder: Path) -> object:
    content = (root / PLAIN).read_bytes()
    wheel = {"file": PLAIN, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    return backend.fetch({**wheel, "urls": [f"{address}/{PLAIN}"]}, "", folder).read_bytes()  # type: ignore[typeddict-item]


READERS: tuple[Callable[[str, Path, Path], object], ...] = (find, download, read_member, install)


@pytest.mark.parametrize("read", READERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name.lower())
def test_a_reader_returns_what_is_right_or_says_one_sentence(
    fault: Fault,
    read: Callable[[str, Path, Path], object],
    between: Proxy,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend.time, "sleep", lambda _: None)
    between.begin()
    right = read(between.url, root, tmp_path / "before") if (tmp_path / "before").mkdir() is None else None
    for number in range(1, len(between.events) + 1):
        (tmp_path / str(number)).mkdir()
        between.begin(fault, number)
        with one_sentence():
            assert read(between.url, root, tmp_path / str(number)) == right
        between.begin()
        assert read(between.url, root, tmp_path / str(number)) == right


@contextmanager
def one_sentence() -> Iterator[None]:
    """Let the body end well or with an error that is meant for a user."""
    try:
        yield
    except (FatwheelError, backend.Unreachable, SystemExit) as error:
        assert 10 < len(str(error).strip()) < 2000  # noqa: PT017 - it may end well, too


# ---------------------------------------------------------------- what writes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for name in (PLAIN, LOCAL):
        wheels.make(folder, name)
    return folder


def publish_to_github(made: Path, fault: Fault | None, at: int) -> int:
    """Publish to a GitHub behind a proxy, and once more; return how many requests the first took."""
    with github_server() as hub, proxy(port_of(hub.url)) as between:
        hub.url = between.url
        between.begin(fault, at)
        with one_sentence():
            publish(hub.url, unit(made))
        count = len(between.events)
        between.begin()
        publish(hub.url, unit(made))
        assert is_right(hub, unit(made))
    return count


@pytest.fixture(scope="module")
def requests(made: Path) -> int:
    return publish_to_github(made, None, 0)


@pytest.mark.parametrize("fault", FEW, ids=lambda fault: fault.name.lower())
def test_one_request_to_github_goes_wrong(fault: Fault, made: Path, requests: int) -> None:
    publish_to_github(made, fault, 1 + (FEW.index(fault) * 5 + 3) % requests)


@pytest.mark.long
@pytest.mark.parametrize("fault", WRITES, ids=lambda fault: fault.name.lower())
def test_any_request_to_github_goes_wrong(fault: Fault, made: Path, requests: int) -> None:
    for number in range(1, requests + 1):
        publish_to_github(made, fault, number)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("served")
    with pypiserver(folder) as server:
        yield server, folder


def publish_to_pypi(served: tuple[Server, Path], folder: Path, fault: Fault | None, at: int) -> int:
    """Publish to an index behind a proxy, and once more; return how many requests the first took."""
    server, there = served
    with between_uploads(server) as (_, strict), proxy(port_of(strict.upload.rstrip("/"))) as between:
        seen = Server(f"{between.url}/", f"{between.url}/simple/", strict.environ)
        item = uploads.unit_of(wheels.make(folder / "made", PLAIN))
        between.begin(fault, at)
        with one_sentence():
            target(folder, seen).switch(item)
        count = len(between.events)
        between.begin()
        target(folder, seen).switch(item)
        assert [path.name for path in there.iterdir()] == [PLAIN]
        (there / PLAIN).unlink()
    return count


@pytest.mark.parametrize("fault", [Fault.PAGE_AFTER, Fault.ELSEWHERE], ids=lambda fault: fault.name.lower())
def test_an_upload_to_an_index_goes_wrong(fault: Fault, served: tuple[Server, Path], tmp_path: Path) -> None:
    publish_to_pypi(served, tmp_path, fault, 2)


@pytest.mark.long
@pytest.mark.parametrize("fault", WRITES, ids=lambda fault: fault.name.lower())
def test_any_request_to_an_index_goes_wrong(fault: Fault, served: tuple[Server, Path], tmp_path: Path) -> None:
    count = publish_to_pypi(served, tmp_path / "0", None, 0)
    for number in range(1, count + 1):
        publish_to_pypi(served, tmp_path / str(number), fault, number)
