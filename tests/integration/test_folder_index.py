"""The folder index under real clients, and under what can happen to a machine."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import releases
from tests.builders.forked import Forked, fill_folder
from tests.builders.installers import run_client
from tests.builders.wheels import broken, hexdigest, listed, make
from tests.servers.package_index import over_http

pytestmark = pytest.mark.slow

PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"


def publish(root: Path, *files: tuple[Path, str]) -> None:
    release = releases.unit("demo", *(releases.item(path, folder) for path, folder in files))
    releases.publish(releases.folder_index(root), release)


def publishing(root: Path, *sources: Path, limit: int = 0) -> Forked:
    """Publish every wheel of some folders in a process."""
    return Forked(fill_folder, root, sources, limit, env=os.environ)


# ---------------------------------------------------------------- clients


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with a CUDA wheel, a pure one, and a newer one that no Python can take."""
    folder = tmp_path_factory.mktemp("clients")
    whose = {name: {"demo.py": f"where = {name!r}\n".encode()} for name in (PURE, CUDA)}
    later = make(folder / "made", "demo-9.0-py3-none-any.whl", fields="Requires-Python: >=9\n")
    files = [(make(folder / "made", name, content), "") for name, content in whose.items()]
    publish(folder / "in dex", files[0], (files[1][0], "cu130"), (later, ""))
    return folder / "in dex"


@contextmanager
def from_file(root: Path) -> Iterator[str]:
    yield root.as_uri()


OPTIONS = {
    "pip": ["install", "--quiet", "--no-cache-dir"],
    "uv": ["pip", "install", "--quiet", "--no-config", "--python", sys.executable],
}


def install(client: str, folder: Path, *arguments: str) -> str:
    """Install as a user does, and return which wheel came."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "UV_CACHE_DIR": str(folder / "cache")}
    done = run_client(client, [*OPTIONS[client], "--target", folder / "there", *arguments], environ)
    assert done.returncode == 0, done.stderr
    return (folder / "there" / "demo.py").read_text().split("'")[1]


@pytest.mark.parametrize(("index", "wheel"), [("cu130", CUDA), ("cpu", PURE)])
@pytest.mark.parametrize("served", [over_http, from_file])
@pytest.mark.parametrize("client", OPTIONS)
def test_a_client_installs_the_index_s_own_wheel(
    client: str,
    served: Callable[[Path], contextmanager[str]],
    index: str,
    wheel: str,
    root: Path,
    tmp_path: Path,
) -> None:
    with served(root) as address:
        assert install(client, tmp_path, "--index-url", f"{address}/{index}", "demo") == wheel


@pytest.mark.parametrize("client", OPTIONS)
def test_a_client_installs_what_its_hash_says(client: str, root: Path, tmp_path: Path) -> None:
    locked = f"demo==1.0+cu130 --hash=sha256:{hexdigest(root / 'cu130' / CUDA)}\n"
    (tmp_path / "requirements.txt").write_text(locked)
    with over_http(root) as address:
        arguments = ["--require-hashes", "--index-url", f"{address}/cu130", "-r", str(tmp_path / "requirements.txt")]
        assert install(client, tmp_path, *arguments) == CUDA


# ---------------------------------------------------------------- faults


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders of wheels: pure ones, and those of an accelerator."""
    folder = tmp_path_factory.mktemp("sources")
    for number in range(60):
        make(folder / "_", f"demo-{number}.0-py3-none-any.whl")
        make(folder / "cu130", f"demo-{number}.0+cu130-py3-none-any.whl")
    return folder / "_", folder / "cu130"


def contents(root: Path) -> Mapping[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.fixture(scope="module")
def whole(sources: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[set[Path], float]:
    """Return what an index of all the wheels holds, and the seconds it takes to write."""
    root = tmp_path_factory.mktemp("whole")
    process = publishing(root, *sources)
    process.begins()
    since = time.monotonic()
    assert process.end() == (0, "")
    return {path.relative_to(root) for path in contents(root)}, time.monotonic() - since


@pytest.mark.parametrize("part", [0.05, 0.2, 0.4, 0.6, 0.75, 0.9])
def test_a_reader_never_sees_half_and_the_next_run_repairs(
    part: float, whole: tuple[set[Path], float], sources: tuple[Path, Path], tmp_path: Path
) -> None:
    everything, seconds = whole
    publish(tmp_path, (sources[0] / "demo-7.0-py3-none-any.whl", ""))
    process = publishing(tmp_path, *sources)
    process.begins()
    end = time.monotonic() + part * seconds * random.uniform(0.9, 1.1)  # noqa: S311 - any moment will do
    while time.monotonic() < end:
        assert broken(tmp_path) == []
    process.kill()
    assert broken(tmp_path) == []
    assert publishing(tmp_path, *sources).end() == (0, "")
    assert {path.relative_to(tmp_path) for path in contents(tmp_path)} == everything
    assert broken(tmp_path) == []


def test_two_publishers_at_once_lose_nothing(sources: tuple[Path, Path], tmp_path: Path) -> None:
    both = [publishing(tmp_path, source) for source in sources]
    assert [process.end() for process in both] == [(0, ""), (0, "")]
    assert len(listed(tmp_path, "cu130")) == 120
    assert len(listed(tmp_path, "cpu")) == 60
    assert broken(tmp_path) == []


@pytest.mark.parametrize(
    "limit", [pytest.param(500, id="at-the-first-wheel"), pytest.param(20_000, id="at-the-manifest")]
)
def test_a_full_disk_leaves_the_old_pages(limit: int, sources: tuple[Path, Path], tmp_path: Path) -> None:
    publish(tmp_path / "index", (make(tmp_path, "demo-100.0-py3-none-any.whl"), ""))
    before = contents(tmp_path / "index")
    status, said = publishing(tmp_path / "index", *sources, limit=limit).end()
    assert (status, f"{tmp_path}/index/" in said, "cannot be written: File too large" in said) == (1, True, True)
    after = contents(tmp_path / "index")
    assert {
        path: data for path, data in after.items() if path.suffix not in {".whl", ".metadata"}
    }.items() <= before.items()
    assert broken(tmp_path / "index") == []
    assert publishing(tmp_path / "index", *sources).end() == (0, "")
    assert len(listed(tmp_path / "index", "cpu")) == 61
