"""A copy of a source answers git as a clean clone of it does."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.plan import make
from ci_tools.source import files as source
from ci_tools.source import git as git_of
from tests.builders.releases import Words
from tests.builders.sources import CONFIG, committed, demo, git, request_of, world, write

pytestmark = pytest.mark.slow

QUESTIONS = (
    "rev-parse HEAD",
    "rev-parse --abbrev-ref HEAD",
    "describe --tags --long --dirty",
    "describe --match b-* --always --dirty",
    "log -1 --format=%ct%n%an%n%s%n%H",
    "status --porcelain",
    "diff-index HEAD",
    "ls-files",
    "ls-files --stage",
    "rev-parse --is-shallow-repository",
    "submodule status --recursive",
    "show-ref --tags",
    "check-attr export-ignore -- notes.txt",
)


def project(folder: Path) -> Path:
    """A project with two commits after its tag, attributes, a program and a link."""
    demo(
        folder,
        {".gitattributes": "notes.txt export-ignore\nstate export-subst\n", "state": "$Format:%H %(describe)$\n"},
    )
    write(folder, {"notes.txt": "x", "run.sh": "#!/bin/sh\n", "data/ü.json": "{}"})
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("demo.py")
    committed(folder)
    git(folder, "tag", "v1.0")
    git(folder, "tag", "-m", "annotated", "b-2")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "later")
    return folder


def copied(folder: Path, place: Path) -> Path:
    """Return a copy of the source in `folder`, as a build sees it."""
    tree = source.open_tree(request_of(folder), folder, world(folder.parent))
    tree.copy_to(place / tree.prefix)
    tree.make_checkout(place / tree.prefix)
    return place / tree.prefix


def cloned(folder: Path, place: Path) -> Path:
    git(folder, "clone", "--quiet", "--recurse-submodules", f"file://{folder}", str(place))
    return place


def answers(folder: Path) -> dict[str, str]:
    return {words: git(folder, *words.split()) for words in QUESTIONS}


def _on_a_tag(folder: Path) -> Path:
    git(folder, "checkout", "--quiet", "v1.0")
    return folder


def _with_submodules(folder: Path) -> Path:
    part, deep = write(folder.parent / "part", {"a.h": ""}), write(folder.parent / "deep", {"b.h": ""})
    committed(deep)
    git(deep, "tag", "deep-1")
    committed(part)
    git(part, "submodule", "--quiet", "add", str(deep), "deep")
    git(part, "commit", "--quiet", "--message", "deep")
    git(part, "tag", "part-3")
    git(folder, "submodule", "--quiet", "add", str(part), "third party/part")
    git(folder, "submodule", "--quiet", "update", "--init", "--recursive")
    git(folder, "commit", "--quiet", "--message", "part")
    return folder


def _with_packed_refs(folder: Path) -> Path:
    git(folder, "gc", "--quiet")
    git(folder, "pack-refs", "--all")
    return folder


def _in_a_worktree(folder: Path) -> Path:
    git(folder, "worktree", "add", "--quiet", "-b", "other", "../worktree")
    return folder.parent / "worktree"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda folder: folder, id="on-a-branch"),
        pytest.param(_on_a_tag, id="on-a-tag"),
        pytest.param(_with_packed_refs, id="packed"),
        pytest.param(_in_a_worktree, id="worktree"),
        pytest.param(_with_submodules, id="submodules"),
    ],
)
def test_a_copy_answers_git_as_a_clean_clone_does(tmp_path: Path, change: Callable[[Path], Path]) -> None:
    folder = change(project(tmp_path / "a"))
    copy, clone = copied(folder, tmp_path / "copy"), cloned(folder, tmp_path / "clone")
    assert answers(copy) == answers(clone)
    assert git(copy, "archive", "HEAD") == git(clone, "archive", "HEAD")
    assert (copy / ".git").is_dir()


def test_a_shallow_clone_stays_one(tmp_path: Path) -> None:
    project(tmp_path / "a")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{tmp_path / 'a'}", "shallow")
    copy = copied(tmp_path / "shallow", tmp_path / "copy")
    assert git(copy, "rev-parse", "--is-shallow-repository") == "true"
    assert git(copy, "describe", "--always") == git(tmp_path / "shallow", "describe", "--always")
    assert git(copy, "fsck") == ""


def test_what_is_not_committed_is_in_the_commit_of_the_copy(tmp_path: Path) -> None:
    folder = project(tmp_path / "a")
    head = git(folder, "rev-parse", "HEAD")
    write(folder, {"demo.py": "x = 1\n", "new.py": ""})
    (folder / "link").unlink()
    copy = copied(folder, tmp_path / "copy")
    assert git(copy, "rev-parse", "HEAD") == head
    assert git(copy, "describe", "--match=v*", "--tags", "--dirty") == f"v1.0-1-g{head[:7]}"
    assert {"new.py", "link"} & {*git(copy, "ls-files").split()} == {"new.py"}
    assert git(copy, "show", "HEAD:demo.py") == "x = 1"


@pytest.mark.parametrize(
    ("attributes", "content"),
    [
        pytest.param("*.bin filter=lfs diff=lfs merge=lfs -text\n", b"the real content", id="filter"),
        pytest.param("*.bin text\n", b"a\r\nb\r\n", id="line-ends"),
        pytest.param("*.bin text eol=crlf\n", b"a\nb\n", id="other-line-ends"),
        pytest.param("*.bin ident\n", b"$Id: 1234 $\n", id="ident"),
        pytest.param("*.bin text working-tree-encoding=UTF-16\n", "ab\n".encode("utf-16"), id="encoding"),
    ],
)
def test_no_file_is_modified_in_a_copy(tmp_path: Path, attributes: str, content: bytes) -> None:
    folder = demo(tmp_path / "a", {"x.bin": content})
    committed(folder)
    write(folder, {".gitattributes": attributes})
    git(folder, "add", ".gitattributes")
    git(folder, "commit", "--quiet", "--message", "attributes")
    copy = copied(folder, tmp_path / "copy")
    (copy / "x.bin").touch()
    assert git(copy, "status", "--porcelain") == ""
    assert git(copy, "describe", "--always", "--dirty") == git(folder, "rev-parse", "--short", "HEAD")
    assert (copy / "x.bin").read_bytes() == content


def test_a_project_below_its_repository_sees_all_of_it(tmp_path: Path) -> None:
    demo(tmp_path / "a/python/demo", {"a.cu": ""})
    committed(write(tmp_path / "a", {"README.md": "whole", "csrc/b.cu": ""}))
    git(tmp_path / "a", "tag", "v3")
    copy = copied(tmp_path / "a/python/demo", tmp_path / "copy")
    assert copy == tmp_path / "copy/python/demo"
    assert git(copy, "describe", "--tags", "--dirty") == "v3"
    assert git(copy, "status", "--porcelain") == ""
    assert (tmp_path / "copy/README.md").read_text() == "whole"


@pytest.mark.parametrize(("here", "folder"), [(".", "."), (".", "package"), ("package", "."), ("package/deep", "..")])
def test_a_checkout_is_found_from_a_relative_path(
    here: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = demo(tmp_path / "root", {"package/deep/more.py": ""})
    committed(root)
    git(root, "tag", "v1.0")
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root / here)
    for place in (Path(folder), tmp_path / "link" / "package"):
        assert git_of.find(place) == root.resolve()
        assert git_of.tags(place, os.environ, at_head=True) == {"v1.0"}


def test_a_repository_without_a_commit_has_its_files(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a")
    git(folder, "init", "--quiet")
    copy = copied(folder, tmp_path / "copy")
    assert git(copy, "ls-files").split() == ["demo.py", "fatwheel.yml", "pyproject.toml"]


def test_a_folder_without_git_gets_none(tmp_path: Path) -> None:
    assert not (copied(demo(tmp_path / "a"), tmp_path / "copy") / ".git").exists()


def test_the_config_can_keep_git_from_a_build(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"fatwheel.yml": f"{CONFIG}build: {{git: false}}\n"})
    committed(folder)
    assert not (copied(folder, tmp_path / "copy") / ".git").exists()


def test_nothing_of_the_sources_own_settings_is_in_a_copy(tmp_path: Path) -> None:
    folder = project(tmp_path / "a")
    write(folder, {".git/info/attributes": "* ident\n", ".git/hooks/post-index-change": "#!/bin/sh\ntouch ran\n"})
    git(folder, "config", "filter.evil.clean", "touch ran")
    copy = copied(folder, tmp_path / "copy")
    assert "evil" not in (copy / ".git/config").read_text()
    assert [path.name for path in (copy / ".git/info").iterdir()] == ["attributes"]
    assert not (copy / ".git/hooks").exists()


def test_what_git_tells_a_build_is_one_hash(tmp_path: Path) -> None:
    folder = project(tmp_path / "a")
    known = {_identity(folder)}
    git(folder, "tag", "v2")
    known.add(_identity(folder))
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "y")
    known.add(_identity(folder))
    assert len(known) == 3
    assert _identity(folder) in known


def _identity(folder: Path) -> str:
    return source.open_tree(request_of(folder), folder, world(folder.parent)).git_identity


def _with_a_bare_looking_folder(folder: Path) -> Path:
    config = '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "touch ran; false"\n'
    below = demo(folder / "python", {"HEAD": "ref: refs/heads/main\n", "config": config, "objects/k": "", "refs/k": ""})
    committed(folder)
    return below


def _with_settings_that_run_programs(folder: Path) -> Path:
    committed(demo(folder, {".gitattributes": "* filter=evil\n"}))
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "core.sshCommand", "core.pager"):
        git(folder, "config", key, f"touch {folder.parent}/ran; false")
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        write(folder, {f".git/hooks/{hook}": f"#!/bin/sh\ntouch {folder.parent}/ran\n"})
        (folder / ".git/hooks" / hook).chmod(0o755)
    write(folder, {"demo.py": "x = 1\n"})
    return folder


def _with_objects_to_fetch(folder: Path) -> Path:
    """A partial clone that lacks an object, whose config names the program that would fetch it."""
    committed(demo(folder))
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(folder.parent / "gone"),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"touch {folder.parent}/ran; false",
    }.items():
        git(folder, "config", key, value)
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    (folder / ".git/objects" / tree[:2] / tree[2:]).unlink()
    return folder


@pytest.mark.parametrize(
    "write_project", [_with_a_bare_looking_folder, _with_settings_that_run_programs, _with_objects_to_fetch]
)
def test_no_program_that_a_repository_names_is_started(tmp_path: Path, write_project: Callable[[Path], Path]) -> None:
    folder, outside = write_project(tmp_path / "a"), world(tmp_path)
    make.make_plan(folder / "fatwheel.yml", outside)
    tree = source.open_tree(request_of(folder), folder, outside)
    tree.copy_to(tmp_path / "copy" / tree.prefix)
    with contextlib.suppress(MachineError):  # what a partial clone lacks is not there to be copied
        tree.make_checkout(tmp_path / "copy" / tree.prefix)
    with contextlib.suppress(MachineError):
        source.copy_revision(git_of.top(folder, outside.environ), "HEAD", outside)
    assert list(tmp_path.rglob("ran")) == []


def test_what_is_not_committed_is_said(tmp_path: Path) -> None:
    folder = _with_submodules(project(tmp_path / "a"))
    write(folder, {"demo.py": "x = 1\n", "new.py": "", "ignored.o": "", "third party/part/a.h": "x"})
    (folder / "notes.txt").unlink()
    write(folder, {".git/info/exclude": "*.o\n"})
    words = Words()
    make.make_plan(folder / "fatwheel.yml", replace(world(tmp_path), reporter=words))
    changes = "demo.py, new.py, notes.txt, third party/part/a.h"
    assert words.lines[:1] == [f"not as in the commit, and built as it is here: {changes}"]


def test_a_link_to_what_is_committed_around_the_source_is_followed(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a/python")
    write(tmp_path / "a", {"LICENSE": "MIT"})
    (folder / "LICENSE").symlink_to("../LICENSE")
    committed(tmp_path / "a")
    assert (copied(folder, tmp_path / "copy") / "LICENSE").read_text() == "MIT"
    write(tmp_path / "a", {"LICENSE": "another"})
    with pytest.raises(InputError, match=r"LICENSE is a link to \.\./LICENSE"):
        copied(folder, tmp_path / "other")


def test_a_git_source_knows_the_tag_that_it_was_fetched_at(tmp_path: Path) -> None:
    folder = demo(
        project(tmp_path / "a").parent / "ask", {"fatwheel.yml": f"{CONFIG}source: {{git: ../a, ref: v1.0}}\n"}
    )
    copy = copied(folder, tmp_path / "copy")
    assert git(copy, "describe", "--match=v*", "--tags", "--dirty") == "v1.0"


def test_a_patched_source_is_not_modified(tmp_path: Path) -> None:
    patch = "--- a/demo.py\n+++ b/demo.py\n@@ -0,0 +1 @@\n+x = 1\n"
    patched = f"{CONFIG}source: {{patches: [{{file: fix.patch, reason: x is missing}}]}}\n"
    folder = demo(tmp_path / "a", {"fatwheel.yml": patched, "fix.patch": patch})
    committed(folder)
    copy = copied(folder, tmp_path / "copy")
    assert (copy / "demo.py").read_text() == "x = 1\n"
    assert git(copy, "describe", "--always", "--dirty") == git(folder, "rev-parse", "--short", "HEAD")


def test_another_package_s_missing_submodule_is_left_empty(tmp_path: Path) -> None:
    folder = _with_submodules(project(tmp_path / "a"))
    git(folder, "submodule", "deinit", "--quiet", "--all")
    demo(folder / "one")
    write(folder, {"fatwheel.yml": f"{CONFIG}source: {{subdirectory: one}}\n"})
    copy = copied(folder, tmp_path / "copy")
    assert list((copy / "third party/part").iterdir()) == []
    assert git(copy, "status", "--porcelain") == ""


def test_a_submodule_that_gitignore_names_may_be_missing(tmp_path: Path) -> None:
    folder = _with_submodules(project(tmp_path / "a"))
    git(folder, "submodule", "deinit", "--quiet", "--all")
    write(folder, {".gitignore": "third party/\n"})
    assert list((copied(folder, tmp_path / "copy") / "third party/part").iterdir()) == []


def test_a_submodule_that_no_clone_can_check_out_is_left_empty(tmp_path: Path) -> None:
    folder = project(tmp_path / "a")
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendored/tests")
    git(folder, "commit", "--quiet", "--message", "without .gitmodules")
    git(folder.parent, "clone", "--quiet", str(folder), "clone")
    copy = copied(folder.parent / "clone", tmp_path / "copy")
    assert list((copy / "vendored/tests").iterdir()) == []
    assert git(copy, "status", "--porcelain") == ""


def test_a_copy_can_have_objects_of_its_own(tmp_path: Path) -> None:
    folder = project(tmp_path / "a")
    tree = source.open_tree(request_of(folder), folder, world(tmp_path))
    tree.copy_to(tmp_path / "copy")
    tree.make_checkout(tmp_path / "copy", lends=False)
    (folder / ".git").rename(tmp_path / "gone")
    assert git(tmp_path / "copy", "describe", "--match=v*", "--tags").startswith("v1.0-1-g")
    assert replace(tree, checkout=None).git_identity == ""
