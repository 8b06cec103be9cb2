"""From a request's source to a tree on this machine: which files it has, and one hash for all of them."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pathspec

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.model import GitSource, PathSource
from ci_tools.process import output
from ci_tools.storage import filled, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.model import Globs, Request, SdistSource
    from ci_tools.outside import Outside

__all__ = ["Tree", "matching", "open_tree"]

NOT_SOURCE = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache"})
GIT_MINUTES = 30


@dataclass(frozen=True)
class Tree:
    """A source tree: its root, its files as sorted relative paths with forward slashes, and its git commit if any."""

    root: Path
    files: tuple[str, ...]
    commit: str = ""

    @functools.cached_property
    def sha256(self) -> str:
        """One hash of every file's path, executable bit and content."""
        digest = hashlib.sha256()
        for name in self.files:
            path = self.root / name
            content = str(path.readlink()) if path.is_symlink() else sha256_of(path)
            digest.update(f"{name}\0{os.access(path, os.X_OK):d}\0{content}\n".encode())
        return digest.hexdigest()

    def text(self, name: str) -> str:
        """Return a file's text, or nothing where the tree has no such file; undecodable bytes become U+FFFD."""
        path = self.root / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def copy_to(self, folder: Path) -> None:
        """Copy the tree's files, and nothing else, into `folder`."""
        for name in self.files:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / name, target, follow_symlinks=False)


def matching(files: Iterable[str], globs: Globs) -> tuple[str, ...]:
    """Return the files that the gitignore-style patterns include and do not exclude."""
    if not globs.include:
        return ()
    included = pathspec.GitIgnoreSpec.from_lines(globs.include).match_files(files)
    excluded = pathspec.GitIgnoreSpec.from_lines(globs.exclude)
    return tuple(sorted(name for name in included if not excluded.match_file(name)))


def open_tree(request: Request, folder: Path, outside: Outside, commit: str = "") -> Tree:
    """Return the request's source as a tree; fetch it once if it is not on this machine.

    `folder` is the config's, `commit` what a plan has pinned a git ref to. Raises InputError where the source is
    not there or is not what its hash says.
    """
    source = request.source
    if isinstance(source, PathSource):
        root = (folder / source.path).resolve()
        commit = output(["git", "rev-parse", "HEAD"], cwd=root) or ""
    elif isinstance(source, GitSource):
        commit = commit or _commit(source)
        root = _from_git(source, commit, outside)
    else:
        root = _from_sdist(source, outside)
    files = tuple(_listed(root))
    if request.include:
        files = tuple(sorted(pathspec.GitIgnoreSpec.from_lines(request.include).match_files(files)))
    if not files:
        msg = f"{request.config}: the source {root} has no files{' that `include` names' if request.include else ''}"
        raise InputError(msg)
    for name in files:
        _refuse_escape(root, name)
    return Tree(root, files, commit)


def _refuse_escape(root: Path, name: str) -> None:
    """Refuse a link that leads out of the tree: the build would read what the plan has not hashed."""
    path = root / name
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        msg = f"{name} is a link that leads out of the source, to {path.readlink()}"
        raise InputError(msg)


# ---------------------------------------------------------------- the files of a folder


def _listed(root: Path) -> list[str]:
    """Return the files git knows or would add; every file where the folder is no part of a git checkout."""
    tracked = output(["git", "ls-files", "-z", "--cached", "--recurse-submodules"], cwd=root)
    ignored = output(["git", "check-ignore", "-q", "."], cwd=root) is not None
    if tracked is None or ignored:
        return sorted(_walked(root))
    untracked = output(["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=root) or ""
    names = {name for name in f"{tracked}\0{untracked}".split("\0") if name}
    return sorted(name for name in names if (root / name).is_file() or (root / name).is_symlink())


def _walked(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in NOT_SOURCE]
        for name in files:
            yield (Path(folder) / name).relative_to(root).as_posix()


# ---------------------------------------------------------------- fetched sources


def _from_git(source: GitSource, commit: str, outside: Outside) -> Path:
    """Check out one commit into the cache, with its submodules."""
    name = hashlib.sha256(source.url.encode()).hexdigest()[:12]

    def check_out(folder: Path) -> None:
        with outside.reporter.step(f"fetch {source.url} at {source.ref}"):
            for command in (
                ["init", "--quiet"],
                ["fetch", "--quiet", "--depth=1", "--end-of-options", source.url, commit],
                ["checkout", "--quiet", "--detach", "FETCH_HEAD"],
                ["submodule", "update", "--quiet", "--init", "--recursive", "--depth=1"],
            ):
                _git(command, folder, source)

    return filled(outside.cache / "sources" / f"git-{name}-{commit}", check_out, outside.reporter.say)


def _git(arguments: list[str], folder: Path, source: GitSource) -> None:
    if output(["git", "-c", "protocol.ext.allow=never", *arguments], cwd=folder, timeout=GIT_MINUTES * 60) is None:
        msg = f"git {arguments[0]} failed for {source.url} at {source.ref}"
        raise MachineError(msg, hint="check the address, the network, and that git may read it")


def _commit(source: GitSource) -> str:
    """Return the commit a ref stands for now."""
    if re.fullmatch(r"[0-9a-f]{40}", source.ref):
        return source.ref
    listing = output(
        ["git", "-c", "protocol.ext.allow=never", "ls-remote", "--end-of-options", source.url], timeout=120
    )
    if listing is None:
        msg = f"git cannot read {source.url}"
        raise MachineError(msg, hint="check the address, the network, and that git may read it")
    refs: dict[str, str] = {}
    for line in listing.splitlines():
        sha, _, ref = line.partition("\t")
        refs[ref] = sha
    for pattern in (f"refs/tags/{source.ref}^{{}}", f"refs/tags/{source.ref}", f"refs/heads/{source.ref}", source.ref):
        if pattern in refs:
            return refs[pattern]
    names = {ref.split("/", 2)[2] for ref in refs if ref.startswith(("refs/heads/", "refs/tags/")) and "^" not in ref}
    msg = f'{source.url} has no branch or tag "{source.ref}", {nearest(source.ref, names)}'
    raise InputError(msg)


def _from_sdist(source: SdistSource, outside: Outside) -> Path:
    """Fetch and unpack an sdist without running any of it."""
    from ci_tools import registry  # noqa: PLC0415 - its HTTP client takes longer to load than a plan to make

    file = f"{source.name.replace('-', '_')}-{source.version}.tar.gz"

    def unpack(folder: Path) -> None:
        archive = folder / file
        with outside.reporter.step(f"fetch {file}") as step:
            index = registry.index_url(outside.environ)
            registry.download(source.name, file, source.sha256, archive, index=index, progress=step.progress)
            _extract(archive, folder)
        archive.unlink()

    folder = filled(outside.cache / "sources" / f"sdist-{source.sha256}", unpack, outside.reporter.say)
    return next(path for path in folder.iterdir() if path.is_dir())


def _extract(archive: Path, folder: Path) -> None:
    """Unpack a tar file, refusing members that would land outside `folder` (PEP 706)."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError) as error:
        msg = f"{archive.name} cannot be unpacked safely: {error}"
        raise InputError(msg) from None
