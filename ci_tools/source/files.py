"""Turns a request's source into a local tree: its list of files and one hash over all of them."""

from __future__ import annotations

import functools
import hashlib
import os
import posixpath
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ci_tools.addresses import redact
from ci_tools.errors import InputError, MachineError
from ci_tools.formats.binaries.magic import MAX_POINTER, binary_format, is_lfs_pointer
from ci_tools.formats.path_patterns import matcher_of
from ci_tools.machine.context import Outside
from ci_tools.machine.own_output import FileIdentity, find_output_files
from ci_tools.machine.storage import MADE, fill_once, naming, sha256_of
from ci_tools.model.files import COPIED
from ci_tools.model.names import CONFIG_FILE, Sha256
from ci_tools.model.request import GitSource, Globs, PathSource, Request, SdistSource
from ci_tools.source import git, patches
from ci_tools.source.checkout import Checkout, check_out_from

PROJECT = frozenset({"pyproject.toml", "setup.py"})
NOT_SOURCE = frozenset({".git", ".hg", ".svn", "__pycache__", ".venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache"})

C_ENDINGS = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hip", ".hpp")
# What `build_ext --inplace` and `build` of setuptools leave, by importlib.machinery.EXTENSION_SUFFIXES of any system.
BUILT = re.compile(
    r"\.(?:cpython-\d+[a-z]*(?:-[\w-]+)?\.so|cp\d+t?-win(?:32|_\w+)\.pyd|abi3\.(?:so|pyd))$"
    r"|(?:^|/)build/(?:lib|temp|bdist)\.[\w.-]+/"
)
NOT_PACKED = frozenset({"benchmarks", "doc", "docs", "examples", "test", "tests"})
BUILD_FILES = ("setup.py", "setup.cfg", "pyproject.toml", "MANIFEST.in", "CMakeLists.txt", "meson.build", "build.rs")
CODE = (".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".mm", ".pyx", ".rs")
MAX_NAMED = 5  # files that have changed
PLAN = b'{\n "schema": 1,\n "request": {'  # the first bytes of a file that `fatwheel plan --out` writes


@dataclass(frozen=True)
class Tree:
    """A source tree: its root, its files as sorted relative paths with forward slashes, and its git commit if any."""

    root: Path
    files: tuple[str, ...]
    commit: str | None = None
    checkout: Checkout | None = field(default=None, repr=False)  # None: a build sees no repository

    @property
    def prefix(self) -> str:
        """The folder of the source below the root of its checkout, such as `python/`, or ""."""
        return self.checkout.prefix if self.checkout else ""

    @property
    def git_identity(self) -> str:
        """A hash of all that git tells a build of the source; "" if it sees no repository."""
        return self.checkout.identity if self.checkout else ""

    @functools.cached_property
    def states(self) -> Mapping[str, str]:
        """Each file's executable bit, and the hash of its content; of a link, its target."""
        paths = {name: self.root / name for name in self.files}
        contents = {
            name: str(path.readlink()) if path.is_symlink() else sha256_of(path) for name, path in paths.items()
        }
        return {name: f"{os.access(path, os.X_OK):d}\0{contents[name]}" for name, path in paths.items()}

    @functools.cached_property
    def sha256(self) -> Sha256:
        """One hash of every file's path, executable bit and content."""
        digest = hashlib.sha256()
        for name, state in self.states.items():
            digest.update(f"{name}\0{state}\n".encode())
        return Sha256(digest.hexdigest())

    @property
    def size(self) -> int:
        """The bytes of all files; of a link, those of its target's name."""
        return sum((self.root / name).lstat().st_size for name in self.files)

    @functools.cached_property
    def links(self) -> Mapping[str, str]:
        """The links among the files, each with its target."""
        return {name: str(path.readlink()) for name in self.files if (path := self.root / name).is_symlink()}

    @functools.cached_property
    def listing(self) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """The files and links that a build may list, without the config that `fatwheel init` writes.

        A build that looks at its project's config by name has it among the files that it reads.
        """
        projects = {"", *(posixpath.dirname(name) for name in self.names if posixpath.basename(name) in PROJECT)}
        configs = {posixpath.join(folder, CONFIG_FILE) for folder in projects}
        return tuple(sorted(self.states.keys() - configs)), tuple(sorted(self.links.items()))

    def state(self, name: str) -> str:
        """Return the state of the file to which a path leads, also through links; "" if it is not one of the tree."""
        if name in self.states and name not in self.links:
            return self.states[name]
        if ".git" in name.split("/"):
            return self.git_identity if name.rstrip("/").rpartition("/")[2] != ".git" else str(bool(self.checkout))
        found = self.resolve(name)
        return self.git_identity if found.startswith("../") else self.states.get(found, "")

    def resolve(self, name: str) -> str:
        """Return the path below the root to which a path leads through links; it starts with `../` outside the root."""
        if name not in self._resolved:  # each observed build asks for the same names
            path = os.path.realpath(f"{self.root}{os.sep}{name}")
            self._resolved[name] = Path(os.path.relpath(path, os.path.realpath(self.root))).as_posix()
        return self._resolved[name]

    def list_ways_out(self) -> list[str]:
        """Return the links to folders outside the root: the repository has them, and the tree does not list them."""
        return [name for name in self.links if self.resolve(name).startswith("../") and (self.root / name).is_dir()]

    @functools.cached_property
    def _resolved(self) -> dict[str, str]:
        """The paths that were resolved so far, each with the path below the root to which its links lead."""
        return {}

    def text(self, name: str) -> str:
        """Return a file's text, or "" if the tree has no such file; undecodable bytes become U+FFFD."""
        path = self.root / name
        return path.read_text(encoding="utf-8", errors="replace") if name in self.names and path.is_file() else ""

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The files as a set, for fast lookup."""
        return frozenset(self.files)

    @functools.cached_property
    def binaries(self) -> tuple[str, ...]:
        """The files that are compiled binaries, judged by their first bytes; a program of Windows is data elsewhere."""
        return tuple(name for name in self.files if not name.endswith(".exe") and _is_binary(self.root / name))

    @functools.cached_property
    def pointers(self) -> tuple[str, ...]:
        """The files that are pointers of Git LFS, in place of content that was not fetched."""
        return tuple(name for name in self.files if _is_pointer(self.root / name))

    def copy_to(self, folder: Path) -> None:
        """Copy only the tree's files into `folder`, with permissions and times that are the same on every machine."""
        for name in self.files:
            source, target = self.root / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with naming(target):
                shutil.copyfile(source, target, follow_symlinks=False)
            if not target.is_symlink():
                target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)  # git keeps no other bit
                # nvcc's -lineinfo writes the time into the object. What C is made of is newer: Cython makes it again.
                date = COPIED + (0 if name.endswith(C_ENDINGS) else 1)
                os.utime(target, (date, date))

    def list_stores(self, cache: Path) -> list[Path] | None:
        """Return the folders with the objects that a checkout of the tree borrows; None if it must not borrow any."""
        return self.checkout.list_stores(self.files, cache) if self.checkout else []

    def make_checkout(self, folder: Path, *, lends: bool = True, modified: Iterable[str] = ()) -> None:
        """Make `folder`, which has the tree's files, the checkout that a build sees, if it is to see one.

        Those files that are `modified` are so there, too; a build sees none.
        """
        if self.checkout:
            self.checkout.write(self.files, folder, lends=lends, modified=modified)

    def copy_as_planned_to(self, folder: Path, sha256: Sha256) -> None:
        """Copy the files into `folder`; raise MachineError if they are no longer those whose hash is `sha256`."""
        planned = self.states if self.sha256 == sha256 else {}  # else another command has planned it
        self.copy_to(folder)
        copy = Tree(folder, self.files)
        if copy.sha256 != sha256:
            changed = [name for name, state in copy.states.items() if state != planned.get(name, state)]
            which = f": {', '.join(changed[:MAX_NAMED])}{' and others' if len(changed) > MAX_NAMED else ''}"
            msg = f"the source {self.root} has changed since it was planned{which if changed else ''}"
            raise MachineError(msg, hint="let nothing write there, or to files that git ignores only, and run it again")


def _is_binary(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return bool(binary_format(file))


def _is_pointer(path: Path) -> bool:
    mode = path.lstat()
    is_small = stat.S_ISREG(mode.st_mode) and mode.st_size < MAX_POINTER
    return is_small and is_lfs_pointer(path.read_bytes())


def matching(files: Iterable[str], globs: Globs) -> tuple[str, ...]:
    """Return the files that the gitignore-style patterns include and do not exclude."""
    return _match(tuple(files), globs) if globs.include else ()


@functools.lru_cache(maxsize=64)  # several checks of a platform ask for the same
def _match(files: tuple[str, ...], globs: Globs) -> tuple[str, ...]:
    is_included, is_excluded = matcher_of(globs.include), matcher_of(globs.exclude)
    return tuple(sorted(name for name in files if is_included(name) and not is_excluded(name)))


def open_tree(
    request: Request, folder: Path, outside: Outside, commit: str | None = None, *, is_whole: bool = False
) -> Tree:
    """Return the request's source as a tree; fetch it once if it is not on this machine.

    `folder` is the config's folder; `commit` is the commit that a plan pinned for a git ref, of which a whole tree has
    the history, too. Raises InputError if the source does not exist or does not match its hash.
    """
    source, environ = request.source, outside.environ
    if isinstance(source, PathSource):
        tree = _leave_built(request, tree_at((folder / source.path).resolve(), environ), outside)
    elif isinstance(source, GitSource):
        url = git.address(source, folder)
        at = commit or git.commit_of(source, url, environ)
        root = _check_out_commit(source, url, at, outside, is_whole=is_whole)
        tree = tree_at(root, environ)
    else:
        root = _fetch_sdist(source, outside)
        tree = Tree(root, tuple(sorted(_walk_files(root))))
    if request.patches:
        root = patches.patch_tree(tree, request.patches, folder, outside)
        tree = replace(tree, root=root, files=tuple(sorted(_walk_files(root))))
    files = _leave_empty(request, replace(tree, files=_select_files(request, tree)), outside)
    tree = replace(tree, files=files, checkout=tree.checkout if request.build.git else None)
    for name in files:
        _refuse_unread(tree, name)
    return tree


def whole_of(request: Request, tree: Tree) -> tuple[str, str]:
    """Return the path of a checkout's root, as a config names it, and the project's folder in it."""
    path = request.source.path if isinstance(request.source, PathSource) else "."
    folder = posixpath.join(tree.prefix, request.subdirectory).rstrip("/")
    return posixpath.normpath(posixpath.join(path, *[".."] * tree.prefix.count("/"))), folder


def _leave_empty(request: Request, tree: Tree, outside: Outside) -> tuple[str, ...]:
    """Return the files without the submodules that are not checked out and not in the project's own folder.

    They may be another project's of the repository, one that a submodule needs for itself, as for its tests, or one of
    the project's own tests and pages that no build file names. As in a clone, a build sees an empty folder; so it does
    of one in the own folder that no clone can check out, or that .gitignore names.
    """
    own = f"{request.subdirectory}/" if request.subdirectory else ""
    folders = [name for name in tree.files if stat.S_ISDIR(os.lstat(f"{tree.root}{os.sep}{name}").st_mode)]

    def is_aside(name: str) -> bool:
        parts = name.removeprefix(own).split("/")
        return parts[0] in NOT_PACKED and not any(parts[-1] in tree.text(f"{own}{file}") for file in BUILD_FILES)

    around = tuple(f"{name}/" for name in (tree.checkout.nested(tree.files) if folders and tree.checkout else ()))
    others = [name for name in folders if not name.startswith(own) or name.startswith(around) or is_aside(name)]
    lost = [*(tree.checkout.list_left_empty(folders) if folders and tree.checkout else ())]
    if others:
        names, paths = ", ".join(others), shlex.join(others)
        what = f"{names}: not checked out, so a build sees an empty folder"
        way = "--init --recursive" if any(name.startswith(around) for name in others) else f"--init {paths}"
        outside.reporter.say(f"{what}; if {request.subdirectory or 'it'} needs it: git submodule update {way}")
    return tuple(name for name in tree.files if name not in {*others, *lost})


def _leave_built(request: Request, tree: Tree, outside: Outside) -> Tree:
    """Return a folder without what an earlier build has left beside its code, as git ignores it in a checkout.

    A module for one Python would be taken into the wheels of all others. A folder that has nothing to compile ships it,
    as one whose config says with `include` what a build may see.
    """
    built = [] if tree.checkout or request.include else [name for name in tree.files if BUILT.search(name)]
    if not built or not any(name.endswith(CODE) and name not in built for name in tree.files):
        return tree
    more = f" and {len(built) - MAX_NAMED} more" if len(built) > MAX_NAMED else ""
    what = f"{', '.join(built[:MAX_NAMED])}{more}: left out of the source, as what an earlier build has left"
    outside.reporter.say(f"{what}; in a checkout .gitignore decides, and `include` of the source anywhere")
    return replace(tree, files=tuple(sorted(tree.names - set(built))))


def _select_files(request: Request, tree: Tree) -> tuple[str, ...]:
    """Return the files that `include` names, or all if there is none; raise InputError for a pattern without files."""
    files = matching(tree.files, Globs(request.include)) if request.include else tree.files
    if not files:
        which = " that `include` names" if request.include else ""
        raise InputError(f"{request.config}: the source {tree.root} has no files{which}")
    for pattern in request.include or ():
        if not matching(files, Globs((pattern,))):
            msg = f'{request.config}: `include` has "{pattern}", which names no file of the source {tree.root}'
            raise InputError(msg)
    return files


def tree_at(root: Path, environ: Mapping[str, str]) -> Tree:
    """Return the folder `root` as a tree: the files that git tracks or would add, but for those of this run's output.

    Outside a checkout, all files except those that Fatwheel wrote; in a checkout git ignores these by itself.
    """
    output = find_output_files()
    listed = git.listed(root, environ)
    if listed is None:
        walked = sorted(_walk_files(root, skip=_is_made))
        return Tree(root, tuple(name for name in walked if not _is_written(root, name, output)))
    files = (name for name in listed if not _is_written(root, name, output) or git.tracks(root, name, environ))
    return Tree(root, tuple(files), git.head(root, environ), Checkout(root, environ))


def _is_written(root: Path, name: str, output: Collection[FileIdentity]) -> bool:
    """Whether this run writes the file, or Fatwheel wrote it as a plan: the source has nothing that is made of it."""
    if output:
        found = os.lstat(f"{root}{os.sep}{name}")  # for thousands of files, as below
        if FileIdentity(found.st_dev, found.st_ino) in output:
            return True
    if not name.endswith(".json"):
        return False
    path = root / name
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(PLAN)) == PLAN


def _is_made(folder: Path) -> bool:
    """Whether Fatwheel wrote the folder: a folder of finished files, marked as such, or an index."""
    mark = folder / ".gitignore"  # an unpacked sdist may have a .gitignore of its own
    return (folder / ".fatwheel").is_dir() or (mark.is_file() and mark.read_bytes() == MADE)


def _refuse_unread(tree: Tree, name: str) -> None:
    """Raise InputError for files that a build would read but the plan has not hashed: outward links, whole folders.

    Files that the commit has around the source are as good as hashed.
    """
    root = tree.root
    mode = os.lstat(f"{root}{os.sep}{name}").st_mode  # for thousands of files; a Path takes several times as long
    if stat.S_ISLNK(mode):
        path = root / name
        target = path.readlink()
        is_inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
        is_known = is_inside or (tree.checkout is not None and tree.checkout.is_committed(str(path)))
        if target.is_absolute() or not is_known:
            is_near = tree.checkout is not None and not target.is_absolute()
            msg = f"{name} is a link to {target}, expected a relative one to a place inside the source"
            hint = "it may be to a committed file of its repository, too: commit that one" if is_near else ""
            raise InputError(msg, hint=hint)
    elif stat.S_ISDIR(mode):
        found = [one for one in tree.files if stat.S_ISDIR(os.lstat(f"{root}{os.sep}{one}").st_mode)]
        one = "is a submodule that is not checked out, or a repository of its own"
        some = "are submodules that are not checked out, or repositories of their own"
        msg = f"{', '.join(found)} {some if found[1:] else one}"
        raise InputError(msg, hint="`git submodule update --init --recursive`, or name it in .gitignore")


def _walk_files(root: Path, skip: Callable[[Path], bool] = lambda _: False) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = [name for name in folders if name not in NOT_SOURCE and not skip(Path(folder, name))]
        for name in (*files, *links):
            path = Path(folder, name)
            if path.is_file() or path.is_symlink():
                yield _utf8(path.relative_to(root).as_posix())


def _utf8(name: str) -> str:
    """Return the file's name; raise InputError if it is not UTF-8, as other machines could not spell it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the source has a file whose name is not UTF-8: {name!r}") from error
    return name


# ---------------------------------------------------------------- fetched sources


def _check_out_commit(source: GitSource, url: str, commit: str, outside: Outside, *, is_whole: bool) -> Path:
    """Check out one commit into the cache."""
    name = f"git-{hashlib.sha256(url.encode()).hexdigest()[:12]}-{commit}{'-whole' if is_whole else ''}"
    what = f"fetch {source.url} at {source.ref}{', with the history that its version needs' if is_whole else ''}"

    def check_out(folder: Path) -> None:
        with outside.reporter.step(redact(what)):
            git.check_out(source, url, commit, folder, outside.environ, is_whole=is_whole)

    return fill_once(outside.cache / "sources" / name, check_out, outside.reporter.say)


def copy_revision(root: Path, name: str, outside: Outside) -> Path:
    """Return a copy, in the cache, of the checkout at `root` at a revision such as main or HEAD^1.

    Raises InputError if the checkout has no such revision.
    """
    commit = git.revision(root, name, outside.environ)

    def check_out(folder: Path) -> None:
        with outside.reporter.step(f"copy {root} as it is at {name}"):
            check_out_from(root, name, commit, folder, outside.environ)

    place = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return fill_once(outside.cache / "sources" / f"git-{place}-{commit}", check_out, outside.reporter.say)


def _fetch_sdist(source: SdistSource, outside: Outside) -> Path:
    """Fetch and unpack an sdist without running any of it."""
    from ci_tools.machine import package_index  # noqa: PLC0415 - its HTTP client loads longer than a plan is made

    file = f"{source.name.replace('-', '_')}-{source.version}.tar.gz"

    def unpack(folder: Path) -> None:
        archive = folder / file
        with outside.reporter.step(f"fetch {file}") as step:
            index = package_index.users_index(outside.environ)
            package_index.download(source.name, file, source.sha256, archive, index=index, progress=step.progress)
            _extract(archive, folder)
        archive.unlink()

    folder = fill_once(outside.cache / "sources" / f"sdist-{source.sha256}", unpack, outside.reporter.say)
    return next(folder.iterdir())


def _extract(archive: Path, folder: Path) -> None:
    """Unpack an sdist; refuse members that would land outside `folder` (PEP 706), and more than one top folder."""
    import gzip  # noqa: PLC0415 - a plan of a folder does not wait for what unpacks archives
    import zlib  # noqa: PLC0415

    from ci_tools.formats.tar import tarfile  # noqa: PLC0415

    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InputError(f"{archive.name} cannot be unpacked safely: {error}") from error
    unpacked = [path for path in folder.iterdir() if path != archive]
    if len(unpacked) != 1 or not unpacked[0].is_dir():  # PEP 625: NAME-VERSION
        raise InputError(f"{archive.name} is not an sdist, expected one folder in it")
