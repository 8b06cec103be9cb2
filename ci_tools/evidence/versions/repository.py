"""Makes a repository that knows the commit, the tags and the history of a checkout, and nothing of its configuration.

Its objects are those of the checkout's own, by git's alternates. No program of the project's can run by it: it has no
hooks, no filters and no monitor of files.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError
from ci_tools.evidence import git
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Repository", "copy_repository"]

SHA256 = 64  # characters of a commit of a repository of that kind
PLAIN = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class Tag(NamedTuple):
    """A tag: its name, the object that it names, and the commit."""

    name: str
    target: str
    commit: str

    @property
    def line(self) -> str:
        """Its line in git's list of refs."""
        return f"{self.target} {git.TAGS}{self.name}\n"


class Repository(NamedTuple):
    """A copy of a checkout's repository, at the top of a folder."""

    folder: Path
    prefix: str  # of the project's files below the checkout's top
    commit: str
    tags: tuple[Tag, ...]
    modified: tuple[str, ...]  # tracked files that differ from the commit
    objects: Path  # the folder that has the objects
    is_shallow: bool

    @property
    def here(self) -> tuple[Tag, ...]:
        """The tags of the commit."""
        return tuple(tag for tag in self.tags if tag.commit == self.commit)


def copy_repository(root: Path, folder: Path, environ: Mapping[str, str]) -> Repository | None:
    """Make `.git` in the empty `folder`, for the checkout around `root`; None if that has no commit.

    Its index calls every file unchanged but those that differ from the commit in the checkout. Raises MachineError if
    git cannot make it.
    """
    commit = git.head(root, environ)
    if not commit:
        return None
    top = git.top(root, environ)
    common = git.common(top, environ)
    made = folder / ".git"
    form = "sha256" if len(commit) == SHA256 else "sha1"
    env = _variables(environ)
    _git("init", "--quiet", "--template=", f"--object-format={form}", str(folder), env=env)
    (made / "objects" / "info").mkdir(parents=True, exist_ok=True)
    (made / "objects" / "info" / "alternates").write_text(f"{common / 'objects'}\n", encoding="utf-8")
    (made / "info").mkdir(exist_ok=True)
    (made / "info" / "exclude").write_text("*\n", encoding="utf-8")  # nothing is new: a clean clone has no such files
    (made / "HEAD").write_text(f"{commit}\n", encoding="utf-8")
    for name in ("shallow", "packed-refs"):
        if (common / name).is_file():
            shutil.copyfile(common / name, made / name)
    if (common / "refs" / "tags").is_dir():
        shutil.copytree(common / "refs" / "tags", made / "refs" / "tags", dirs_exist_ok=True)
    at = ("--git-dir", str(made))
    tags = _read_tags(_git(*at, "for-each-ref", f"--format={FORMAT}", git.TAGS, env=env))
    shutil.rmtree(made / "refs" / "tags", ignore_errors=True)
    modified = _list_modified(made, top, {**env, "GIT_INDEX_FILE": str(folder / ".index")}, environ)
    _git(*at, "read-tree", "HEAD", env=env)
    _call_unchanged(made, modified, env)
    prefix = root.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if prefix == "." else prefix
    return Repository(folder, prefix, commit, tags, modified, common / "objects", (made / "shallow").is_file())


FORMAT = "%(refname)%00%(objectname)%00%(*objectname)"


def _read_tags(listed: str) -> tuple[Tag, ...]:
    rows = (line.split("\0") for line in listed.splitlines())
    return tuple(Tag(name.removeprefix(git.TAGS), target, commit or target) for name, target, commit in rows)


def _list_modified(made: Path, top: Path, env: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tracked files of a checkout that differ from its commit, by its own index and our configuration."""
    index = top / (output([*git.COMMAND, "rev-parse", "--git-path", "index"], cwd=top, env=environ) or ".git/index")
    if not index.is_file():
        return ()
    shutil.copyfile(index, env["GIT_INDEX_FILE"])
    options = ("--name-only", "-z", "--ignore-submodules=all", "HEAD")
    at = ("--git-dir", str(made), "--work-tree", str(top))
    users = {name: value for name, value in env.items() if not name.startswith("GIT_CONFIG")}  # LFS, ends of lines
    output(["git", *PLAIN, *at, "update-index", "-q", "--refresh"], cwd=top, env=users, timeout=600)  # 1: some differ
    names = _git(*at, "diff-index", *options, env=users, cwd=top)
    Path(env["GIT_INDEX_FILE"]).unlink(missing_ok=True)
    return tuple(filter(None, names.split("\0")))


def _call_unchanged(made: Path, modified: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Set the mark of an unchanged file in the index for all files except `modified`."""
    at = ("--git-dir", str(made), "--work-tree", str(made.parent))
    for flag, names in (("--assume-unchanged", None), ("--no-assume-unchanged", modified)):
        listed = _git(*at, "ls-files", "-z", env=env).split("\0") if names is None else names
        for start in range(0, len(listed), MOST):
            part = [name for name in listed[start : start + MOST] if name]
            if part:
                _git(*at, "update-index", flag, "--", *part, env=env, cwd=made.parent)


MOST = 500  # names in one command


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}


def _git(*arguments: str, env: Mapping[str, str], cwd: Path | None = None) -> str:
    shown = output(["git", *PLAIN, *arguments], cwd=cwd, env=env, timeout=600)
    if shown is None:
        msg = f"git cannot copy the repository: git {' '.join(arguments)[:200]}"
        raise MachineError(msg, hint="`git status` and `git fsck` in the checkout say why")
    return shown
