"""What the end-to-end tests share: the command line as a user runs it, and small projects to run it on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest
from filelock import FileLock

from ci_tools.build import builder
from tests.builders import own_backend
from tests.builders.foreign_indexes import peer
from tests.builders.sources import write
from tests.servers import buckets, fatwheel_program
from tests.servers.github import GitHub, github_server
from tests.servers.prepared import run_prepared

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPOSITORY = Path(__file__).parents[2]
# The shell of Chromium draws pages and has no windows: a page costs half of what it costs in a whole browser.
SHELL = "chromium-headless-shell"
ONE_TRY = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10")
BROWSERS = (SHELL, "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Ran(NamedTuple):
    """How the command line ended, and what it said."""

    status: int
    stdout: str
    stderr: str


class CommandLine(Protocol):
    """`fatwheel`, run in a process of its own."""

    def __call__(self, *arguments: str | Path, cwd: Path = ..., **env: str) -> Ran: ...


@pytest.fixture(scope="session")
def fatwheel() -> CommandLine:
    def run(*arguments: str | Path, cwd: Path = REPOSITORY, **env: str) -> Ran:
        done = run_prepared([*map(str, arguments)], cwd=cwd, env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env})
        assert "ci_tools/cli/main.py" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """GitHub's API, on this machine."""
    with github_server() as server:
        yield server


@pytest.fixture(scope="module")
def bucket() -> Iterator[buckets.Bucket]:
    """An empty bucket, for all tests of a file."""
    with buckets.moto() as served:
        yield served


@pytest.fixture(scope="module")
def index_makers() -> None:
    """The tools that made the indexes of others, installed once."""
    try:
        peer("s3pypi")
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def bucket_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients of this process reach that bucket."""
    for name, value in {**buckets.CREDENTIALS, **buckets.NO_PROXY}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A pure project with a config, ready to release."""
    return write_project(tmp_path / "tiny")


def write_project(root: Path) -> Path:
    (root / "tiny").mkdir(parents=True)
    (root / "tiny" / "__init__.py").write_text('"""Tiny."""\n\nANSWER = 42\n')
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["flit_core>=3.9"]\nbuild-backend = "flit_core.buildapi"\n'
        '[project]\nname = "tiny"\nversion = "1.0"\ndescription = "Tiny."\nrequires-python = ">=3.10"\n'
    )
    (root / "fatwheel.yml").write_text(
        f"package: tiny\npython: [{own_python()}]\nplatforms:\n"
        "  linux-cpu:\n    owner: us\n    native: ['*.cpp']\n    wheel-platform: linux\n"
        "validate:\n  imports: [tiny]\n  commands:\n"
        "    - python -c 'import tiny; assert tiny.ANSWER == 42'\n    - {run: nvidia-smi, needs-gpu: true}\n"
    )
    return root


@pytest.fixture
def native_project(project: Path) -> Path:
    """The same project with a C extension, built by a backend of its own."""
    return write(project, own_backend.FILES)


@pytest.fixture
def keeps_bytecode(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds of this process compile a backend's modules for the first environment only, which has the same path.

    Users' builds do not: what one of them writes is nothing that another one runs.
    """
    bytecode = tmp_path_factory.getbasetemp() / "bytecode"
    monkeypatch.setitem(builder.SAME_EVERY_TIME, "PYTHONPYCACHEPREFIX", str(bytecode))


@pytest.fixture
def builds_beside_tests(
    keeps_bytecode: None,  # noqa: ARG001 - what it sets is wanted here as well
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let builds of a test be where the files of tests are, which may be memory: each installs a backend.

    Not where builds copy a torch or a toolkit: copies are kept on the file system of the user's cache.
    """
    monkeypatch.setattr(builder, "base_folder", tmp_path_factory.getbasetemp)
    monkeypatch.setenv(fatwheel_program.BUILDS, str(tmp_path_factory.getbasetemp()))


def own_python() -> str:
    return f'"{sys.version_info.major}.{sys.version_info.minor}"'


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository's package and kernels, as a checkout elsewhere would have them."""
    root = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
    for folder in ("package", "kernels"):
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=ignore)
    return root


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; where a package manager may do so, as in a container, the shell of one is installed."""
    if not shutil.which(SHELL) and shutil.which("apt-get") and os.geteuid() == 0:
        with FileLock(Path(tempfile.gettempdir()) / "fatwheel-tests-chromium.lock"):  # apt-get refuses a second
            _install_a_browser()
    if path := next(filter(None, map(shutil.which, BROWSERS)), None):
        return path
    return pytest.skip(f"there is none of {', '.join(BROWSERS)} on PATH, and none can be installed")


def _install_a_browser() -> None:
    """Install what draws pages in half the time; without it, what is there will do."""
    if shutil.which(SHELL):  # by now
        return
    subprocess.run(["apt-get", *ONE_TRY, "update"], check=False, capture_output=True, timeout=300)
    wanted = (SHELL,) if any(map(shutil.which, BROWSERS)) else (SHELL, "chromium")  # Ubuntu has the second only
    for package in wanted:
        installing = ["apt-get", *ONE_TRY, "install", "-y", package]
        if subprocess.run(installing, check=False, capture_output=True, timeout=600).returncode == 0:
            return


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """The one browser of a process: playwright refuses a second that is driven from the same thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are looked at through playwright")
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()
