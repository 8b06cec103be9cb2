"""A smart sdist, installed by the installers that users have, from servers that are on their side or not."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.install import fatwheel_backend as backend
from ci_tools.install.lock import Compiling, LockedWheel, write_lock
from ci_tools.install.smart_sdist import make_smart
from ci_tools.machine.storage import sha256_of
from ci_tools.model.names import FileName, Sha256
from tests.builders.installers import command, options_of, run_client
from tests.builders.smart_sdists import CUDA, OF_FLIT, Release, environ_of, plain_sdist, release, release_of
from tests.builders.wheels import make
from tests.servers.assets import Assets, assets
from tests.servers.prepared import PIP, Called, run_prepared
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

IN_EVERY_RUN = ("pip-21.3.1", "pip", "uv")


# ---------------------------------------------------------------- installers


def install(client: str, sdist: Path, tmp_path: Path, *options: str, **variables: str) -> Called:
    """Install an sdist into a folder as a user does."""
    words = [word for word in options_of(client) if word not in {"--quiet", "--isolated"}]
    environ = environ_of(tmp_path, {**command(client)[1], **variables})
    return run_client(client, [*words, *options, "-v", "--target", tmp_path / "there", sdist], environ)


def kind(tmp_path: Path) -> str:
    """Return what was installed: prebuilt or compiled."""
    return str(runpy.run_path(str(tmp_path / "there" / "demo.py"))["kind"])


@pytest.mark.parametrize("client", IN_EVERY_RUN)
def test_the_wheel_that_fits_is_installed(client: str, tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0", torch=("2.10", None))
        done = install(client, made.sdist, tmp_path, DEMO_FOR_TORCH="2.10.0+cu130")
        assert done.returncode == 0, done.stdout + done.stderr
        assert kind(tmp_path) == "prebuilt"
        assert len(server.asked) == 1  # the three hooks share one download
        again = install(client, made.sdist, tmp_path, "--upgrade", DEMO_FOR_TORCH="2.10.0+cu130")
        assert again.returncode == 0, again.stdout + again.stderr
        assert len(server.asked) == 1
    record = (tmp_path / "there/demo-1.0.dist-info/RECORD").read_text()
    assert "demo-1.0.dist-info/METADATA" in record
    assert "cu130" not in record
    assert "setuptools" not in done.stdout + done.stderr  # nothing was needed to compile


@pytest.fixture(scope="module")
def of_flit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that backend: what an installer fetches, without a network."""
    folder = tmp_path_factory.mktemp("flit")
    arguments = ["download", "--quiet", "--no-deps", "--dest", folder, "flit_core>=3.9"]
    done = run_client("pip", arguments, os.environ)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("client", IN_EVERY_RUN)
def test_it_is_compiled_where_no_wheel_fits(client: str, of_flit: Path, tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", files={"pyproject.toml": OF_FLIT}, cuda="13.0", torch=("2.10", None))
    only = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(of_flit), "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(of_flit)}
    done = install(client, made.sdist, tmp_path, DEMO_FOR_TORCH="2.10.0+cpu", **only)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kind(tmp_path) == "compiled"
    said = done.stdout + done.stderr
    assert "it is for CUDA 13.0: torch 2.10.0+cpu is a build without CUDA" in said
    assert "demo: no wheel fits, so it is compiled" in said


def test_pip_finds_the_torch_of_the_environment_through_its_isolation(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\ncuda = '13.0'\nhip = None\n")
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0", torch=("2.10", None))
        pip = ["--python", str(environment / "bin/python"), "install", "-v", "--no-cache-dir", str(made.sdist)]
        done = run_prepared(pip, env=environ_of(tmp_path, {}), program=PIP)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "torch    2.11.0+cu130 (CUDA 13.0)" in said
    assert said.count("which wheel fits here?") == 1  # once, although three hooks decide


def test_other_commands_of_pip_and_build(tmp_path: Path) -> None:
    environ = environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.0"})
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0")
        folder = {name: tmp_path / name for name in ("wheel", "hashes", "built", "unisolated")}
        hashes = tmp_path / "requirements.txt"
        hashes.write_text(f"{made.sdist} --hash=sha256:{sha256_of(made.sdist)}\n")
        with tarfile.open(made.sdist) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        source = tmp_path / "unpacked/demo-1.0"
        for words in (
            ["wheel", "--no-deps", "--wheel-dir", folder["wheel"], made.sdist],
            ["install", "--require-hashes", "--target", folder["hashes"], "-r", hashes],
            ["install", "--no-build-isolation", "--target", folder["unisolated"], made.sdist],
        ):
            done = run_prepared(["--disable-pip-version-check", *map(str, words)], env=environ, program=PIP)
            assert done.returncode == 0, done.stdout + done.stderr
        for made_of in ("--wheel", "--sdist"):
            build = [sys.executable, "-m", "build", made_of, "--outdir", folder["built"], source]
            subprocess.run(build, env=environ, capture_output=True, check=True)
    assert [path.name for path in folder["wheel"].iterdir()] == ["demo-1.0-py3-none-any.whl"]
    assert {path.name for path in folder["built"].iterdir()} == {"demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"}
    assert (folder["hashes"] / "demo.py").read_text() == "kind = 'prebuilt'\n"
    with tarfile.open(folder["built"] / "demo-1.0.tar.gz") as again, tarfile.open(made.sdist) as first:
        assert {*again.getnames()} == {*first.getnames(), "demo-1.0/_fatwheel"}


# ---------------------------------------------------------------- servers that fail


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


def test_other_bytes_end_an_installation_although_it_could_be_compiled(tmp_path: Path) -> None:
    with assets(tmp_path / "assets", *["tampered"] * 4) as server:
        made = release(tmp_path, server.url)
        done = install("pip", made.sdist, tmp_path)
    assert done.returncode
    assert "Nothing is installed." in done.stdout + done.stderr
    assert "Traceback" not in (done.stdout + done.stderr).partition("error: subprocess-exited")[0]
    assert not (tmp_path / "there").exists()


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


@pytest.mark.parametrize("how", ["off", "no-nvcc", "nvcc"])
def test_a_wheel_that_cannot_be_fetched(how: str, tmp_path: Path) -> None:
    nvcc = tmp_path / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    made = release(tmp_path, "http://127.0.0.1:9", cuda="77.0" if how == "no-nvcc" else "13.0",
                   files=OWN, compiling=Compiling(2, 80))  # fmt: skip
    variables = {"DEMO_FOR_CUDA": "77.0"} if how == "no-nvcc" else {"DEMO_FOR_CUDA": "13.0"}
    variables |= {"DEMO_NO_COMPILE": "1"} if how == "off" else {}
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep = lambda _: None\n")  # no waits between tries
    variables |= {"PYTHONPATH": str(tmp_path), "MAX_JOBS": "1"}
    done = install("pip", made.sdist, tmp_path, "--no-build-isolation", CUDA_HOME=str(nvcc.parents[1]), **variables)
    said = done.stdout + done.stderr
    if how == "nvcc":
        assert done.returncode == 0, said
        assert kind(tmp_path) == "[None, None, {}]"
        assert f"so demo is compiled with {nvcc}\n" in said
        assert "demo: compiling takes about a minute on 1 core, going by its 2 source files; MAX_JOBS" in said
        return
    assert done.returncode
    reason = "compiling is off" if how == "off" else "there is no nvcc of CUDA 77 to compile it with"
    assert f"{CUDA} fits, but it cannot be fetched, and {reason}:" in said
    assert f"http://127.0.0.1:9/{CUDA}: " in said
    assert "DEMO_WHEELS=https://" in said
    assert "DEMO_WHEELS=FOLDER pip install" in said


def hostile(name: str, mode: int = 0o100644) -> zipfile.ZipInfo:
    """Return a member of a wheel; those of a link have the mode 0o120777."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


HOSTILE = [
    pytest.param(hostile("../../evil.py"), "leaves its folder", id="above"),
    pytest.param(hostile("evil.py", 0o120777), "is a link", id="link"),
    pytest.param(hostile("/tmp/evil.py"), "leaves its folder", id="absolute"),  # noqa: S108 - a name in an archive
    pytest.param(hostile("demo\\..\\..\\evil.py"), "leaves its folder", id="backslashes"),
    pytest.param(hostile("C:/evil.py"), "leaves its folder", id="drive"),
]
both = pytest.mark.parametrize("name", [CUDA, "demo-1.0-py3-none-any.whl"])


def hostile_wheel(folder: Path, name: str, member: zipfile.ZipInfo) -> Path:
    wheel = make(folder, name, {"demo.py": b""})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(member, "../../secret")
    return wheel


def evil_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*evil*") if path.name == "evil.py"]


@both
@pytest.mark.parametrize(("member", "what"), HOSTILE)
def test_a_wheel_that_writes_elsewhere_is_refused(
    name: str, member: zipfile.ZipInfo, what: str, tmp_path: Path
) -> None:
    wheel = hostile_wheel(tmp_path / "assets", name, member)
    with pytest.raises(SystemExit) as refused:
        backend.relabel(wheel, {"file": name}, tmp_path)
    assert f"{name} has {member.filename!r}, which {what}. Nothing is installed." in str(refused.value)
    assert {path.name for path in tmp_path.rglob("*")} == {"assets", name}


@both
@pytest.mark.parametrize(("member", "what"), HOSTILE[:2])
def test_a_wheel_that_writes_elsewhere_ends_an_installation(
    name: str, member: zipfile.ZipInfo, what: str, tmp_path: Path
) -> None:
    with assets(tmp_path / "assets") as server:
        made = release_of(hostile_wheel(tmp_path / "assets", name, member), tmp_path, server.url)
        done = install("uv", made.sdist, tmp_path, DEMO_FOR_CUDA="13.0")
    said = done.stdout + done.stderr
    assert done.returncode, said
    assert f"{name} has {member.filename!r}, which {what}. Nothing is installed." in said
    assert "Traceback" not in said
    assert evil_files(tmp_path) == []


def test_a_release_whose_wheel_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        wheel = make(tmp_path / "assets", CUDA, {"demo.py": b""})
        wheel.write_bytes(b"<html>not found</html>")
        done = install("uv", release_of(wheel, tmp_path, server.url).sdist, tmp_path, DEMO_FOR_CUDA="13.0")
    assert done.returncode
    assert f"{CUDA} has the bytes of the release and cannot be read as a wheel: " in done.stdout + done.stderr


OWN_BACKEND = """
import os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    own, name = "demo-1.0.dist-info/", "demo-1.0-py3-none-any.whl"
    kind = [os.environ.get("DEMO_CUDA"), os.environ.get("DEMO_OTHER"), config_settings]
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("demo.py", "kind = " + repr(kind))
        wheel.writestr(own + "METADATA", "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n")
        wheel.writestr(own + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(own + "RECORD", "")
    return name
"""
IN_TREE = """[build-system]
requires = []
build-backend = "own"
backend-path = ["tools"]
"""
OWN = {"pyproject.toml": IN_TREE, "tools/own.py": OWN_BACKEND}


def test_it_is_compiled_with_the_variables_of_its_wheel_and_no_setting_of_ours(tmp_path: Path) -> None:
    entry = LockedWheel(
        file=FileName(CUDA), urls=(), sha256=Sha256("0" * 64), size=1, cuda="13.0", torch=("2.10", None),
        env={"DEMO_CUDA": "1", "DEMO_OTHER": "2"},
    )  # fmt: skip
    plain = plain_sdist(tmp_path / "plain", OWN)
    path = tmp_path / plain.name
    with path.open("wb") as sink:
        make_smart(plain, sink, lambda system: write_lock("demo", "1.0", FileName(plain.name), system, [entry]))
    options = ("-Cno-prebuilt=1", "-Cfor-cuda=13.2", "-Cdebug=1", "-Cno-compil=1")
    done = install("pip", path, tmp_path, *options, DEMO_OTHER="mine")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert kind(tmp_path) == "['1', 'mine', {'debug': '1', 'no-compil': '1'}]"
    assert f"demo: built with DEMO_CUDA=1, as {CUDA} was" in said
    assert "there is no setting no-compil, did you mean no-compile?" in said


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("CUDA", "cu130", "13.0, or none"), ("TORCH", "new", "2.10.0+cu130"), ("GPU", "sm_90", "9.0")],
)
def test_a_wrong_setting_ends_the_installation(name: str, value: str, expected: str, tmp_path: Path) -> None:
    done = install("pip", release(tmp_path, "http://127.0.0.1:9").sdist, tmp_path, **{f"DEMO_FOR_{name}": value})
    assert done.returncode
    assert f'DEMO_FOR_{name} is "{value}", expected {expected}' in done.stdout + done.stderr


def test_prebuilt_wheels_can_be_switched_off(tmp_path: Path) -> None:
    made = release(tmp_path, "http://127.0.0.1:9", files=OWN)
    done = install("pip", made.sdist, tmp_path, DEMO_NO_PREBUILT="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert kind(tmp_path) == "[None, None, {}]"
    both = install("pip", made.sdist, tmp_path, DEMO_NO_PREBUILT="1", DEMO_NO_COMPILE="1")
    assert "DEMO_NO_PREBUILT and DEMO_NO_COMPILE are both set" in both.stdout + both.stderr


# ---------------------------------------------------------------- https


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
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


# ---------------------------------------------------------------- the wheel


def test_a_wheel_gets_its_public_version_and_keeps_every_byte(tmp_path: Path) -> None:
    import zipfile  # noqa: PLC0415 - only here

    big = os.urandom(3 << 20)
    files = {"demo/big.so": big, "demo-1.0+cu130.data/data/x.txt": b"x", "demo/__init__.py": b"a = 1\n" * 500}
    source = make(tmp_path, "demo-1.0+cu130-cp312-cp312-linux_x86_64.whl", files)
    name = backend.relabel(source, {"file": source.name, "archs": ["9.0", "10.0+PTX"]}, tmp_path)
    assert name == "demo-1.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert archive.testzip() is None
        assert archive.read("demo/big.so") == big
        assert "demo-1.0.data/data/x.txt" in archive.namelist()
        assert not [one for one in archive.namelist() if "cu130" in one]
        assert "\nVersion: 1.0\n" in archive.read("demo-1.0.dist-info/METADATA").decode()
        notes = [archive.read(f"demo-1.0.dist-info/{note}").decode() for note in (backend.LABEL, backend.ARCHS)]
        assert notes == ["cu130", "9.0 10.0+PTX"]
        record = archive.read("demo-1.0.dist-info/RECORD").decode().splitlines()
        rows = {row.split(",")[0]: row.split(",")[1:] for row in record}
        assert {*rows} == {*archive.namelist()}
        for member, (digest, size) in rows.items():
            if digest:
                data = archive.read(member)
                assert len(data) == int(size)
                found = backend.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}"


def test_threads_do_not_wait_for_the_lock_of_another_file(tmp_path: Path, cache: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url)
        (wheel,) = lock_of(made)["wheels"]
        with backend._alone(cache / "another.lock"):  # noqa: SLF001 - what another process would hold
            thread = threading.Thread(target=backend.fetch, args=(wheel, "", cache), daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive()


# ---------------------------------------------------------------- the sdist


def member(name: str, link: str = "") -> tarfile.TarInfo:
    """Return a member of an sdist: an empty file, or a link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (tarfile.REGTYPE, "")
    return info


@pytest.mark.parametrize("client", IN_EVERY_RUN)
@pytest.mark.parametrize(
    "hostile_member",
    [
        pytest.param(member("../../evil.py"), id="above"),
        pytest.param(member("demo-1.0/../../evil.py"), id="above-from-within"),
        pytest.param(member("demo-1.0/_fatwheel/said", "../../../evil.py"), id="a-link-to-what-the-backend-writes"),
    ],
)
def test_an_sdist_writes_nothing_elsewhere(client: str, hostile_member: tarfile.TarInfo, tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, cuda="13.0")
        with tarfile.open(made.sdist) as archive:
            members = [(one, archive.extractfile(one)) for one in archive]
            changed = tmp_path / "changed" / made.sdist.name
            changed.parent.mkdir()
            with tarfile.open(changed, "w:gz") as written:
                for info, file in members:
                    written.addfile(info, file)
                written.addfile(hostile_member)
        (tmp_path / "t").mkdir()
        done = install(client, changed, tmp_path, DEMO_FOR_CUDA="13.0", TMPDIR=str(tmp_path / "t"))
    said = done.stdout + done.stderr
    assert evil_files(tmp_path) == [], said
    assert "Traceback" not in said
    is_link_to_old_pip = hostile_member.issym() and client == "pip-21.3.1"  # which unpacks links as they are
    assert bool(done.returncode) != is_link_to_old_pip, said
