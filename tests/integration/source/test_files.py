"""Sources from git and from an index, fetched, checked and unpacked."""

from __future__ import annotations

import functools
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError
from tests.builders.sources import PROJECT, git, write
from tests.servers.framing import FolderHandler, Server
from tests.servers.threads import serve
from tests.unit.source.test_files import FIXED, _with_submodule, asking, opened, refusal, repositories, repository

__all__ = ["repositories", "repository"]  # fixtures

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("url", "ref", "files"),
    [
        pytest.param("../bare.git", "v1", {"a.cu"}, id="annotated-tag"),
        pytest.param("../bare.git", "main", {"a.cu", "b.cu"}, id="branch"),
        pytest.param("../bare.git", "refs/tags/v1", {"a.cu"}, id="full-name"),
        pytest.param("file://{}", "HEAD", {"a.cu", "b.cu"}, id="head-at-an-address"),
    ],
)
def test_a_git_source_is_checked_out_at_its_ref(repository: Path, url: str, ref: str, files: set[str]) -> None:
    folder = asking(repository.parent / "ask", f"source: {{git: '{url.format(repository)}', ref: {ref}}}")
    tree = opened(folder)
    assert (set(tree.files), tree.commit) == (FIXED | files, git(repository, "rev-parse", f"{ref}^{{commit}}"))


def test_a_pinned_commit_holds_when_the_branch_moves(repository: Path) -> None:
    folder = asking(repository.parent / "ask", "source: {git: ../bare.git, ref: main}")
    pinned = opened(folder)
    git(write(repository.parent / "work", {"c.cu": ""}), "add", ".")
    git(repository.parent / "work", "commit", "--quiet", "--message", "x")
    git(repository.parent / "work", "push", "--quiet", str(repository), "main")
    assert "c.cu" in opened(folder).files
    assert opened(folder, pinned.commit) == pinned


def test_a_git_source_has_its_submodules(tmp_path: Path) -> None:
    _with_submodule(tmp_path)
    folder = asking(tmp_path / "ask", "source: {git: ../whole, ref: main}")
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    assert set(opened(folder, **allowed).files) == {*FIXED, ".gitmodules", "part/a.cu"}


def _lose_repository(part: Path) -> None:
    part.rename(part.with_name("elsewhere"))


def _lose_commit(part: Path) -> None:
    git(part, "commit", "--quiet", "--amend", "--message", "another")
    git(part, "reflog", "expire", "--expire=now", "--all")
    git(part, "gc", "--quiet", "--prune=now")


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        pytest.param(_lose_repository, "part' does not exist", id="repository"),
        pytest.param(_lose_commit, "not our ref", id="commit"),
    ],
)
def test_a_submodule_that_is_gone_is_an_error_of_the_source(
    tmp_path: Path, lose: Callable[[Path], None], why: str
) -> None:
    _with_submodule(tmp_path)
    lose(tmp_path / "part")
    folder = asking(tmp_path / "ask", "source: {git: ../whole, ref: main}")
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    with pytest.raises(InputError) as caught:
        opened(folder, **allowed)
    assert caught.value.message.startswith("the submodule part of ../whole at main is missing: ")
    assert why in caught.value.message
    assert "git clone --recurse-submodules ../whole" in caught.value.hint


def test_a_submodule_whose_server_does_not_answer_may_be_tried_again(tmp_path: Path) -> None:
    whole = _with_submodule(tmp_path)
    git(whole, "config", "--file", ".gitmodules", "submodule.part.url", "http://127.0.0.1:1/part")
    git(whole, "commit", "--quiet", "--all", "--message", "moved")
    folder = asking(tmp_path / "ask", "source: {git: ../whole, ref: main}")
    with pytest.raises(MachineError, match="git submodule failed"):
        opened(folder)


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """Serve a folder as a package index."""
    with serve(Server(functools.partial(FolderHandler, directory=str(folder)))) as server:
        yield f"{server.url}/simple/"


def packed(folder: Path, members: Mapping[str, str]) -> bytes:
    """Put an sdist with these members on an index in `folder`, and return its bytes."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    page = '<a href="../../demo-1.0.tar.gz">demo-1.0.tar.gz</a>'
    write(folder, {"demo-1.0.tar.gz": sink.getvalue(), "simple/demo/index.html": page})
    return sink.getvalue()


def asking_sdist(folder: Path, content: bytes) -> Path:
    sha256 = hashlib.sha256(content).hexdigest()
    return asking(folder, f"source: {{sdist: {{name: demo, version: '1.0', sha256: {sha256}}}}}")


SDIST = {"demo-1.0/pyproject.toml": PROJECT, "demo-1.0/a.cu": "", "demo-1.0/PKG-INFO": ""}


def test_an_sdist_is_fetched_checked_and_unpacked(tmp_path: Path) -> None:
    folder = asking_sdist(tmp_path / "ask", packed(tmp_path / "index", SDIST))
    with index(tmp_path / "index") as url:
        tree = opened(folder, PIP_INDEX_URL=url)
    assert (tree.files, tree.commit) == (("PKG-INFO", "a.cu", "pyproject.toml"), None)
    assert opened(folder, PIP_INDEX_URL="http://127.0.0.1:1/") == tree


def test_an_sdist_of_other_bytes_is_refused(tmp_path: Path) -> None:
    content = packed(tmp_path / "index", SDIST)
    folder = asking_sdist(tmp_path / "ask", b"other")
    with index(tmp_path / "index") as url:
        said = refusal(folder, PIP_INDEX_URL=url)
    sha256, other = (hashlib.sha256(data).hexdigest() for data in (content, b"other"))
    assert said == f"demo-1.0.tar.gz has the sha256 {sha256}, expected {other}"
    assert not [path for path in (tmp_path / "cache/sources").glob("sdist-*") if path.is_dir()]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param({"../evil": "x"}, "cannot be unpacked safely: '../evil' would be extracted", id="upwards"),
        pytest.param({"pyproject.toml": PROJECT}, "is not an sdist, expected one folder in it", id="no-folder"),
        pytest.param({"a/x": "", "b/x": ""}, "is not an sdist, expected one folder in it", id="two-folders"),
        pytest.param({}, "is not an sdist, expected one folder in it", id="empty"),
    ],
)
def test_an_sdist_that_is_none_is_refused(tmp_path: Path, members: dict[str, str], message: str) -> None:
    folder = asking_sdist(tmp_path / "ask", packed(tmp_path / "index", members))
    with index(tmp_path / "index") as url:
        said = refusal(folder, PIP_INDEX_URL=url)
    assert said.startswith(f"demo-1.0.tar.gz {message}")
    assert not list(tmp_path.rglob("evil"))


def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    packed(tmp_path / "index", {})
    write(tmp_path / "index", {"demo-1.0.tar.gz": "hello"})
    with index(tmp_path / "index") as url:
        said = refusal(asking_sdist(tmp_path / "ask", b"hello"), PIP_INDEX_URL=url)
    assert said.startswith("demo-1.0.tar.gz cannot be unpacked safely: ")
