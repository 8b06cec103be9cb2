"""How a smart sdist's backend fetches a wheel, from servers that are on its side or not."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.install import fatwheel_backend as backend
from ci_tools.machine.storage import sha256_of
from tests.builders.smart_sdists import CUDA, Release, environ_of, release
from tests.servers.assets import Assets, assets
from tests.servers.threads import serve

pytestmark = pytest.mark.slow


def lock_of(made: Release) -> backend.Lock:
    with tarfile.open(made.sdist) as archive:
        file = archive.extractfile(f"demo-1.0/{backend.LOCK}")
        assert file
        lock: backend.Lock = json.loads(file.read())
        return lock


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "own-cache"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "SILENCE", 0.5)
    monkeypatch.setattr(backend.time, "sleep", lambda _: None)


@pytest.mark.parametrize("first", ["500", "429", "cut", "silent", "nonsense"])
def test_a_download_goes_on_after_a_fault(first: str, tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets", first) as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        path = backend.fetch(wheel, "", cache)
    assert path.read_bytes() == made.wheel.read_bytes()
    starts = [asked[1] for asked in server.asked]
    if first in {"cut", "silent"}:
        assert starts == ["", f"bytes={wheel['size'] // 2}-"]


@pytest.mark.parametrize("wrong", ["tampered", "gigantic", "short"])
def test_other_bytes_are_refused_and_nothing_is_kept(wrong: str, tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets", wrong, wrong) as server:
        made = release(tmp_path, server.url)
        with pytest.raises(
            SystemExit, match=r"does not have the bytes that this sdist.s wheels\.lock names"
        ) as refused:
            backend.fetch(lock_of(made)["wheels"][0], "", cache)
    assert f"expected sha256 {sha256_of(made.wheel)}" in str(refused.value)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_the_part_of_a_killed_process_is_completed_and_bad_ones_are_fetched_anew(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        for begun, requests in ((made.wheel.read_bytes()[:1000], 1), (b"garbage", 2)):
            server.asked.clear()
            (cache / f"{wheel['sha256']}.part").write_bytes(begun)
            path = backend.fetch(wheel, "", cache)
            assert path.read_bytes() == made.wheel.read_bytes()
            assert len(server.asked) == requests
            path.unlink()


TWENTY = """
import json, os, sys
from pathlib import Path
import fatwheel_backend as backend

started = []
for _ in range(20):
    started.append(os.fork())
    if started[-1] == 0:
        backend.fetch(json.loads(sys.argv[1]), "", Path(sys.argv[2]))
        os._exit(0)
print([os.waitpid(one, 0)[1] for one in started])
"""


def test_twenty_at_once_share_one_download(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        environ = environ_of(tmp_path, {"PYTHONPATH": str(Path(backend.__file__).parent)})
        command = [sys.executable, "-c", TWENTY, json.dumps(wheel), str(cache)]
        ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[-1] == str([0] * 20), ended.stderr
        assert len(server.asked) == 1


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        backend.fetch(wheel, "", cache).write_bytes(b"damaged")
        assert backend.fetch(wheel, "", cache).read_bytes() == made.wheel.read_bytes()


def test_the_next_address_is_tried_and_a_mirror_is_taken_instead(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "nothing") as gone, assets(tmp_path / "assets") as server:
        made = release(tmp_path, gone.url, server.url)
        (wheel,) = lock_of(made)["wheels"]
        backend.fetch(wheel, "", cache).unlink()
        assert (len(gone.asked), len(server.asked)) == (1, 1)
        backend.fetch(wheel, f"{server.url}/", cache).unlink()
        backend.fetch(wheel, str(tmp_path / "assets"), cache).unlink()
        assert (len(gone.asked), len(server.asked)) == (1, 2)


def test_threads_do_not_wait_for_the_lock_of_another_file(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        with backend._alone(cache / "another.lock"):  # noqa: SLF001 - what another process would hold
            thread = threading.Thread(target=backend.fetch, args=(wheel, "", cache), daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive()


# ---------------------------------------------------------------- https


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    subprocess.run(words, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path


@contextmanager
def over_tls(server: Assets, certificate: Path) -> Iterator[Assets]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.scheme = "https"
    with serve(server):
        yield server


def test_a_redirect_keeps_to_https_and_takes_no_credentials_along(
    tmp_path: Path, cache: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with over_tls(Assets(tmp_path / "assets"), certificate) as store, assets(tmp_path / "assets") as plain:
        made = release(tmp_path, store.url)
        (wheel,) = lock_of(made)["wheels"]
        with over_tls(Assets(tmp_path, f"redirect {store.url}/{CUDA}"), certificate) as first:
            path = backend.fetch({**wheel, "urls": [f"{first.url}/x.whl"]}, "", cache)
            assert path.read_bytes() == made.wheel.read_bytes()
            path.unlink()
        with over_tls(Assets(tmp_path, f"redirect {plain.url}/{CUDA}"), certificate) as first:
            with pytest.raises(backend.Unreachable, match="is not https, so its bytes are not fetched, although https"):
                backend.fetch({**wheel, "urls": [f"{first.url}/x.whl"]}, "", cache)
            assert plain.asked == []
    assert all(authorization == "" for _, _, authorization in store.asked)


@pytest.mark.parametrize("url", ["http://example.invalid/x.whl", "ftp://example.invalid/x.whl", "data:,x"])
def test_an_address_that_is_not_https_is_refused(url: str, tmp_path: Path, cache: Path) -> None:
    (wheel,) = lock_of(release(tmp_path, "http://127.0.0.1:9"))["wheels"]
    with pytest.raises(backend.Unreachable, match="is not https, so its bytes are not fetched"):
        backend.fetch({**wheel, "urls": [url]}, "", cache)
