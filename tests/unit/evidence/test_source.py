from __future__ import annotations

import functools
import hashlib
import io
import os
import shutil
import tarfile
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.evidence import source
from ci_tools.model.request import Globs
from ci_tools.plan import plan_file
from tests.builders.sources import CONFIG, PROJECT, committed, demo, git, plan_of, request_of, world, write
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_tools.evidence.source import Tree

FIXED = {"fatwheel.yml", "pyproject.toml", "demo.py"}


def opened(folder: Path, commit: str = "", **environ: str) -> Tree:
    return source.open_tree(request_of(folder), folder, world(folder.parent, **environ), commit)


def asking(folder: Path, lines: str) -> Path:
    return write(folder, {"fatwheel.yml": f"{CONFIG}{lines}\n"})


def refusal(folder: Path, kind: type[FatwheelError] = InputError, **environ: str) -> str:
    with pytest.raises(kind) as caught:
        opened(folder, **environ)
    return caught.value.message


# ---------------------------------------------------------------- folders


def test_a_plain_folder_is_all_its_files_but_what_tools_leave(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"b/c.cu": "", "__pycache__/x.pyc": "", ".venv/bin/python": ""})
    assert set(opened(folder).files) == {*FIXED, "b/c.cu"}


def test_a_checkout_is_what_git_tracks_or_would_add(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {".gitignore": "*.so\n", "old.cu": ""})
    commit = committed(folder)
    (folder / "old.cu").unlink()
    tree = opened(write(folder, {"new.cu": "", "built.so": ""}))
    assert (set(tree.files), tree.commit) == ({*FIXED, ".gitignore", "new.cu"}, commit)


def test_a_checkout_without_a_commit_is_one(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {".gitignore": "*.so\n", "built.so": ""})
    git(folder, "init", "--quiet")
    assert (set(opened(folder).files), opened(folder).commit) == ({*FIXED, ".gitignore"}, None)


def test_a_folder_its_checkout_ignores_is_a_plain_folder(tmp_path: Path) -> None:
    outer = write(tmp_path / "outer", {".gitignore": "/inner/\n*.cu\n"})
    committed(outer)
    tree = opened(demo(outer / "inner", {"a.cu": ""}))
    assert (set(tree.files), tree.commit) == ({*FIXED, "a.cu"}, None)


def test_a_folder_of_a_checkout_is_that_folder_alone(tmp_path: Path) -> None:
    demo(tmp_path / "outer/inner", {"a.cu": ""})
    commit = committed(write(tmp_path / "outer", {"b.cu": ""}))
    tree = opened(tmp_path / "outer/inner")
    assert (set(tree.files), tree.commit) == ({*FIXED, "a.cu"}, commit)


def test_a_git_hook_of_another_repository_changes_nothing(tmp_path: Path) -> None:
    folder, other = demo(tmp_path / "a"), write(tmp_path / "b", {"b.cu": ""})
    committed(folder)
    committed(other)
    assert opened(folder, GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other)) == opened(folder)


def test_a_checkout_that_git_cannot_read_is_an_error(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    committed(folder)
    (folder / ".git/index").write_bytes(b"broken")
    assert refusal(folder, MachineError) == f"git cannot list the files of {folder}"


def test_without_git_a_checkout_cannot_be_read(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    committed(folder)
    assert refusal(folder, MachineError, PATH="/nowhere") == "git is not on PATH"


@pytest.mark.parametrize("in_git", [True, False])
def test_a_plan_is_no_part_of_its_source_unless_it_is_tracked(tmp_path: Path, *, in_git: bool) -> None:
    folder = demo(tmp_path / "a", {"other.json": "{}"})
    plan = plan_file.dumps(plan_of(folder))
    if in_git:
        committed(write(folder, {"golden/plan.json": plan}))
    write(folder, {"plan.json": plan, "[x].json": plan})
    assert set(opened(folder).files) == {*FIXED, "other.json", *(["golden/plan.json"] if in_git else [])}


def test_a_pattern_of_include_that_names_nothing_is_refused(tmp_path: Path) -> None:
    folder = asking(demo(tmp_path / "a"), "source: {include: ['*.py', '/kernel/']}")
    assert refusal(folder).startswith('fatwheel.yml: `include` has "/kernel/", which names no file of the source')


def test_include_says_what_a_build_may_see(tmp_path: Path) -> None:
    folder = asking(demo(tmp_path / "a", {"b/c.cu": "", "d.cu": ""}), "source: {include: [/b/, '*.toml']}")
    assert opened(folder).files == ("b/c.cu", "pyproject.toml")


def test_include_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    folder = asking(demo(tmp_path / "a"), "source: {include: [/b/]}")
    assert refusal(folder) == f"fatwheel.yml: the source {folder} has no files that `include` names"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("out", "../../secret", id="upwards"),
        pytest.param("out", "/etc/passwd", id="absolute"),
        pytest.param("b/out", "../../x", id="from-a-folder"),
        pytest.param("folder", "..", id="to-a-folder"),
    ],
)
def test_a_link_out_of_the_tree_is_refused(tmp_path: Path, link: str, target: str) -> None:
    folder = demo(tmp_path / "a", {"b/c": ""})
    (folder / link).symlink_to(target)
    assert refusal(folder) == f"{link} is a link to {target}, expected a relative one to a place inside the source"


def test_a_link_that_names_this_machine_is_refused(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    (folder / "b").symlink_to(folder / "demo.py")
    assert (
        refusal(folder) == f"b is a link to {folder / 'demo.py'}, expected a relative one to a place inside the source"
    )


@pytest.mark.parametrize("in_git", [pytest.param(True, id="checkout"), pytest.param(False, id="plain-folder")])
def test_a_link_within_the_tree_is_a_file_of_it(tmp_path: Path, *, in_git: bool) -> None:
    folder = demo(tmp_path / "a", {"b/c.cu": "x"})
    for link, target in {"d.cu": "b/c.cu", "e": "b", "gone": "no/where", "loop": "loop"}.items():
        (folder / link).symlink_to(target)
    if in_git:
        committed(folder)
    assert set(opened(folder).files) == {*FIXED, "b/c.cu", "d.cu", "e", "gone", "loop"}


def test_a_name_no_other_machine_can_spell_is_refused(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    (folder / os.fsdecode(b"\xff.cu")).touch()
    assert refusal(folder) == "the source has a file whose name is not UTF-8: '\\udcff.cu'"
    committed(folder)
    assert refusal(folder) == 'the source has a file whose name is not UTF-8: "\ufffd.cu"'


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    os.mkfifo(folder / "pipe")
    assert set(opened(folder).files) == FIXED


# ---------------------------------------------------------------- the tree's hash


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: (folder / "demo.py").write_text("x"), id="content"),
        pytest.param(lambda folder: (folder / "demo.py").chmod(0o755), id="permission"),
        pytest.param(lambda folder: (folder / "demo.py").rename(folder / "x.py"), id="name"),
        pytest.param(lambda folder: (folder / "x.py").touch(), id="one-more"),
        pytest.param(lambda folder: (folder / "x.py").symlink_to("demo.py"), id="a-link"),
    ],
)
def test_every_change_of_a_source_changes_its_hash(tmp_path: Path, change: object) -> None:
    folder = demo(tmp_path / "a")
    before = opened(folder).sha256
    assert callable(change)
    change(folder)
    assert opened(folder).sha256 != before


def test_two_copies_of_a_source_have_one_hash(tmp_path: Path) -> None:
    tree = opened(demo(tmp_path / "a", {"b/c.sh": "x"}))
    tree.copy_to(tmp_path / "b")
    assert opened(tmp_path / "b").sha256 == tree.sha256


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        pytest.param(["*.cu"], [], ["a.cu", "k/b.cu", "k/d/c.cu"], id="any-folder"),
        pytest.param(["/*.cu"], [], ["a.cu"], id="top-folder"),
        pytest.param(["k/**/*.cu"], [], ["k/b.cu", "k/d/c.cu"], id="below-a-folder"),
        pytest.param(["k/"], [], ["k/b.cu", "k/d/c.cu", "k/d/c.h"], id="a-whole-folder"),
        pytest.param(["*.cu"], ["d/"], ["a.cu", "k/b.cu"], id="less-a-folder"),
        pytest.param([], ["*.cu"], [], id="nothing"),
        pytest.param(["*.CU"], [], [], id="another-case"),
    ],
)
def test_patterns_match_as_in_gitignore(include: list[str], exclude: list[str], found: list[str]) -> None:
    files = ("a.cu", "k/b.cu", "k/d/c.cu", "k/d/c.h")
    assert source.matching(files, Globs(tuple(include), tuple(exclude))) == tuple(found)


# ---------------------------------------------------------------- git repositories


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository with the tag v1 and a branch that has gone on, and a bare copy of it."""
    folder = tmp_path_factory.mktemp("repositories")
    committed(demo(folder / "work", {"a.cu": ""}))
    git(folder / "work", "tag", "--annotate", "v1", "--message", "x")
    committed(write(folder / "work", {"b.cu": ""}))
    git(folder, "clone", "--quiet", "--bare", "work", "bare.git")
    return folder


@pytest.fixture
def repository(repositories: Path, tmp_path: Path) -> Path:
    shutil.copytree(repositories, tmp_path, dirs_exist_ok=True)
    return tmp_path / "bare.git"


@pytest.mark.slow
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


def test_a_git_source_can_be_a_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "v1^{commit}")
    folder = asking(repository.parent / "ask", f"source: {{git: ../bare.git, ref: {commit}}}")
    assert (opened(folder).commit, opened(folder).files[0]) == (commit, "a.cu")


@pytest.mark.slow
def test_a_pinned_commit_holds_when_the_branch_moves(repository: Path) -> None:
    folder = asking(repository.parent / "ask", "source: {git: ../bare.git, ref: main}")
    pinned = opened(folder)
    git(write(repository.parent / "work", {"c.cu": ""}), "add", ".")
    git(repository.parent / "work", "commit", "--quiet", "--message", "x")
    git(repository.parent / "work", "push", "--quiet", str(repository), "main")
    assert "c.cu" in opened(folder).files
    assert opened(folder, pinned.commit) == pinned


def test_a_fetched_commit_is_not_fetched_again(repository: Path) -> None:
    commit = git(repository, "rev-parse", "main")
    folder = asking(repository.parent / "ask", f"source: {{git: 'file://{repository}', ref: {commit}}}")
    tree = opened(folder)
    repository.rename(repository.with_name("gone"))
    assert opened(folder) == tree


@pytest.mark.parametrize(
    ("url", "ref", "kind", "message"),
    [
        pytest.param("../bare.git", "mian", InputError, '../bare.git has no branch or tag "mian", did you mean "main"?',
                     id="ref-misspelt"),
        pytest.param("../gone.git", "main", InputError,
                     'the source "../gone.git" does not exist, expected a git repository',
                     id="no-such-folder"),
        pytest.param("../ask", "main", MachineError, "git ls-remote failed for ../ask at main: ", id="no-repository"),
        pytest.param("file:///gone.git", "main", MachineError, "git ls-remote failed for file:///gone.git at main: ",
                     id="no-such-address"),
        pytest.param("ext::sh -c true", "main", InputError, "", id="address-with-blanks"),
        pytest.param("ext::true", "main", MachineError, "git ls-remote failed for ext::true at main: fatal: transport",
                     id="command-as-address"),
        pytest.param("../bare.git", "0" * 40, MachineError, f"git fetch failed for ../bare.git at {'0' * 40}: ",
                     id="no-such-commit"),
    ],
)  # fmt: skip
def test_a_git_source_that_cannot_be_had_says_why(
    repository: Path, url: str, ref: str, kind: type[FatwheelError], message: str
) -> None:
    folder = asking(repository.parent / "ask", f"source: {{git: '{url}', ref: '{ref}'}}")
    assert refusal(folder, kind).startswith(message)


def _with_submodule(folder: Path) -> Path:
    committed(write(folder / "part", {"a.cu": ""}))
    demo(folder / "whole")
    git(folder / "whole", "init", "--quiet")
    git(folder / "whole", "submodule", "--quiet", "add", str(folder / "part"), "part")
    committed(folder / "whole")
    return folder / "whole"


@pytest.mark.slow
def test_a_git_source_has_its_submodules(tmp_path: Path) -> None:
    _with_submodule(tmp_path)
    folder = asking(tmp_path / "ask", "source: {git: ../whole, ref: main}")
    allowed = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
    assert set(opened(folder, **allowed).files) == {*FIXED, ".gitmodules", "part/a.cu"}


def test_a_submodule_that_is_not_checked_out_is_refused(tmp_path: Path) -> None:
    git(_with_submodule(tmp_path), "submodule", "deinit", "--quiet", "--all")
    assert refusal(tmp_path / "whole") == "part is a submodule that is not checked out, or a repository of its own"


# ---------------------------------------------------------------- sdists


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """Serve a folder as a package index."""
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))) as server:
        yield f"http://127.0.0.1:{server.server_port}/simple/"


def packed(folder: Path, members: Mapping[str, str], link: tuple[str, str] | None = None) -> bytes:
    """Put an sdist with these members on an index in `folder`, and return its bytes."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        if link:
            member = tarfile.TarInfo(link[0])
            member.type, member.linkname = tarfile.SYMTYPE, link[1]
            archive.addfile(member)
    page = '<a href="../../demo-1.0.tar.gz">demo-1.0.tar.gz</a>'
    write(folder, {"demo-1.0.tar.gz": sink.getvalue(), "simple/demo/index.html": page})
    return sink.getvalue()


def asking_sdist(folder: Path, content: bytes) -> Path:
    sha256 = hashlib.sha256(content).hexdigest()
    return asking(folder, f"source: {{sdist: {{name: demo, version: '1.0', sha256: {sha256}}}}}")


SDIST = {"demo-1.0/pyproject.toml": PROJECT, "demo-1.0/a.cu": "", "demo-1.0/PKG-INFO": ""}


@pytest.mark.slow
def test_an_sdist_is_fetched_checked_and_unpacked(tmp_path: Path) -> None:
    folder = asking_sdist(tmp_path / "ask", packed(tmp_path / "index", SDIST))
    with index(tmp_path / "index") as url:
        tree = opened(folder, PIP_INDEX_URL=url)
    assert (tree.files, tree.commit) == (("PKG-INFO", "a.cu", "pyproject.toml"), None)
    assert opened(folder, PIP_INDEX_URL="http://127.0.0.1:1/") == tree


@pytest.mark.slow
def test_an_sdist_of_other_bytes_is_refused(tmp_path: Path) -> None:
    content = packed(tmp_path / "index", SDIST)
    folder = asking_sdist(tmp_path / "ask", b"other")
    with index(tmp_path / "index") as url:
        said = refusal(folder, PIP_INDEX_URL=url)
    sha256, other = (hashlib.sha256(data).hexdigest() for data in (content, b"other"))
    assert said == f"demo-1.0.tar.gz has the sha256 {sha256}, expected {other}"
    assert not list((tmp_path / "cache/sources").glob("sdist-*/"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("members", "link", "message"),
    [
        pytest.param({"../evil": "x"}, None, "cannot be unpacked safely: '../evil' would be extracted", id="upwards"),
        pytest.param({"demo-1.0/a": ""}, ("demo-1.0/b", "../../b"),
                     "cannot be unpacked safely: 'demo-1.0/b' would link",
                     id="link-upwards"),
        pytest.param({"demo-1.0/a": ""}, ("demo-1.0/b", "/etc/passwd"), "cannot be unpacked safely: ",
                     id="absolute-link"),
        pytest.param({"pyproject.toml": PROJECT}, None, "is not an sdist, expected one folder in it", id="no-folder"),
        pytest.param({"a/x": "", "b/x": ""}, None, "is not an sdist, expected one folder in it", id="two-folders"),
        pytest.param({}, None, "is not an sdist, expected one folder in it", id="empty"),
    ],
)  # fmt: skip
def test_an_sdist_that_is_none_is_refused(
    tmp_path: Path, members: dict[str, str], link: tuple[str, str] | None, message: str
) -> None:
    folder = asking_sdist(tmp_path / "ask", packed(tmp_path / "index", members, link))
    with index(tmp_path / "index") as url:
        said = refusal(folder, PIP_INDEX_URL=url)
    assert said.startswith(f"demo-1.0.tar.gz {message}")
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.slow
def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    packed(tmp_path / "index", {})
    write(tmp_path / "index", {"demo-1.0.tar.gz": "hello"})
    with index(tmp_path / "index") as url:
        said = refusal(asking_sdist(tmp_path / "ask", b"hello"), PIP_INDEX_URL=url)
    assert said.startswith("demo-1.0.tar.gz cannot be unpacked safely: ")


# ---------------------------------------------------------------- projects


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param("source: {subdirectory: sub}",
                     "fatwheel.yml: the source has neither sub/pyproject.toml nor sub/setup.py", id="no-project"),
        pytest.param("source: {include: ['*.py']}",
                     "fatwheel.yml: the source has neither pyproject.toml nor setup.py", id="project-left-out"),
    ],
)  # fmt: skip
def test_a_source_without_a_project_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    folder = asking(demo(tmp_path / "a", {"sub/x": ""}), lines)
    with pytest.raises(InputError) as caught:
        plan_of(folder)
    assert caught.value.message == message
