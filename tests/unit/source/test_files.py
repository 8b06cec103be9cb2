from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.machine.own_output import FileIdentity
from ci_tools.model.request import Globs
from ci_tools.plan import plan_file
from ci_tools.source import files as source
from ci_tools.source.files import Tree
from tests.builders.releases import Words
from tests.builders.sources import CONFIG, committed, demo, git, plan_of, request_of, world, write

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


LEFT = (
    "demo/_c.cpython-310-x86_64-linux-gnu.so",
    "demo/_d.cp312-win_amd64.pyd",
    "build/lib.linux-x86_64-3.9/demo/x.py",
)
KEPT = ("demo/libvendor.so", "build/library.py", "demo/data.cpython.so")


@pytest.mark.parametrize(
    ("code", "include", "in_git", "is_left_out"),
    [
        pytest.param("demo/c.pyx", "", False, True, id="beside-its-code"),
        pytest.param("", "", False, False, id="nothing-to-compile"),
        pytest.param("c.cc", "source: {include: ['**']}", False, False, id="the-config-decides"),
        pytest.param("c.cc", "", True, False, id="git-decides"),
    ],
)
def test_what_an_earlier_build_has_left_in_a_plain_folder_is_no_source(
    code: str, include: str, *, in_git: bool, is_left_out: bool, tmp_path: Path
) -> None:
    folder = asking(demo(tmp_path / "a", dict.fromkeys([*LEFT, *KEPT, *([code] if code else [])], "")), include)
    if in_git:
        committed(folder)
    told = Words()
    names = set(source.open_tree(request_of(folder), folder, replace(world(tmp_path), reporter=told)).files)
    assert names >= set(KEPT)
    assert names.isdisjoint(LEFT) if is_left_out else names >= set(LEFT)
    assert (LEFT[0] in " ".join(told.lines)) == is_left_out


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


@pytest.mark.parametrize("in_git", [True, False], ids=["checkout", "folder"])
def test_what_the_run_prints_is_no_part_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_git: bool
) -> None:
    folder = demo(tmp_path / "a", {"tracked.log": ""})
    if in_git:
        committed(folder)
    write(folder, {"own.log": "", "older.log": ""})
    states = [(folder / name).stat() for name in ("own.log", *(["tracked.log"] if in_git else []))]
    output = frozenset(FileIdentity(one.st_dev, one.st_ino) for one in states)
    monkeypatch.setattr(source, "find_output_files", lambda: output)
    assert set(opened(folder).files) == {*FIXED, "tracked.log", "older.log"}


def test_a_file_that_was_written_since_the_plan_is_named(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"b.cu": ""})
    tree = opened(folder)
    planned = tree.sha256
    write(folder, {"b.cu": "int b;"})
    with pytest.raises(MachineError, match=r"a has changed since it was planned: b\.cu\n"):
        tree.copy_as_planned_to(tmp_path / "copy", planned)


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


def test_a_copy_does_not_tell_when_a_file_was_written_and_c_is_older_than_what_it_is_made_of(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {"a.pyx": "", "a.c": "", "b.cuh": ""})
    os.utime(folder / "a.c", (2e9, 2e9))
    opened(folder).copy_to(tmp_path / "b")
    made, source, header = ((tmp_path / "b" / name).stat().st_mtime for name in ("a.c", "a.pyx", "b.cuh"))
    assert made == header < source < 4e8


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


def test_a_git_source_can_be_a_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "v1^{commit}")
    folder = asking(repository.parent / "ask", f"source: {{git: ../bare.git, ref: {commit}}}")
    assert (opened(folder).commit, opened(folder).files[0]) == (commit, "a.cu")


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
        pytest.param("../bare.git", "0" * 40, InputError, f"../bare.git has no commit {'0' * 40}",
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


def test_a_submodule_that_is_not_checked_out_is_refused(tmp_path: Path) -> None:
    git(_with_submodule(tmp_path), "submodule", "deinit", "--quiet", "--all")
    assert refusal(tmp_path / "whole") == "part is a submodule that is not checked out, or a repository of its own"


def test_a_submodule_of_tests_that_no_build_file_names_is_left_empty(tmp_path: Path) -> None:
    whole = write(_with_submodule(tmp_path), {"tests/a.py": "", "setup.py": "packages = ['demo']\n"})
    git(whole, "mv", "part", "tests/part")
    committed(whole)
    git(whole, "submodule", "deinit", "--quiet", "--all")
    assert [name for name in opened(whole).files if name.startswith("tests/")] == ["tests/a.py"]
    write(whole, {"setup.py": "include_dirs = ['tests/part']\n"})
    assert refusal(whole).startswith("tests/part is a submodule that is not checked out")


def test_a_submodule_of_a_submodule_may_be_left_out(tmp_path: Path) -> None:
    committed(write(tmp_path / "inner", {"b.cu": ""}))
    whole = _with_submodule(tmp_path)
    git(whole / "part", "submodule", "--quiet", "add", str(tmp_path / "inner"), "inner")
    committed(whole / "part")
    committed(whole)
    git(whole / "part", "submodule", "deinit", "--quiet", "--all", "--force")
    assert [name for name in opened(whole).files if "part" in name] == ["part/.gitmodules", "part/a.cu"]


# ---------------------------------------------------------------- sdists


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


def test_a_config_that_is_written_changes_nothing_that_a_build_lists(tmp_path: Path) -> None:
    names = ("setup.py", "sub/pyproject.toml", "data/table.txt")
    configs = ("fatwheel.yml", "sub/fatwheel.yml", "data/fatwheel.yml")
    write(tmp_path, dict.fromkeys((*names, *configs), "x"))
    before = source.Tree(tmp_path, names).listing
    assert source.Tree(tmp_path, (*names, *configs[:2])).listing == before
    assert source.Tree(tmp_path, (*names, configs[2])).listing != before  # that of no project is a file like any other


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


@pytest.mark.parametrize("name", ["csrc/a.cu", "csrc/a.S", "csrc/b.tpp", "lib/libx.a", "demo/libx.so.1", "src/lib.rs"])
def test_a_source_that_is_a_pointer_of_git_lfs_is_refused(name: str, tmp_path: Path) -> None:
    folder = demo(tmp_path / "demo", {name: POINTER})
    with pytest.raises(InputError, match=rf"{re.escape(name)}:1: this is a pointer of Git LFS(?s:.*)lfs: true"):
        plan_of(folder)


def test_a_pointer_of_a_git_source_is_fetched_into_a_checkout_of_one_s_own(tmp_path: Path) -> None:
    commit = committed(demo(tmp_path / "demo", {"csrc/a.cu": POINTER}))
    folder = asking(tmp_path / "ask", f"source: {{git: ../demo, ref: {commit}}}")
    with pytest.raises(InputError, match=r"name a checkout, after `git lfs pull`, as `path`"):
        plan_of(folder)


def test_data_that_is_a_pointer_of_git_lfs_is_warned_about(tmp_path: Path) -> None:
    folder = demo(tmp_path / "demo", {"demo/weights.bin": POINTER})
    assert any(one.startswith("demo/weights.bin is a pointer") for one in plan_of(folder).warnings)
