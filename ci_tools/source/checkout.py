"""Makes a copy of a source a git checkout, as a clean clone is one: with its commit, its tags and its list of files.

The repository is a new one. Of the source's own, it has the refs and borrows the objects; no setting, hook, filter or
attribute of it is taken. Nothing is ever modified there: what the source has not committed is in the tree of its
commit, by a replacement of that commit (gitreplace(1)), so that the commit's name stays, and the tags count from it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ci_tools.errors import MachineError
from ci_tools.machine.process import output
from ci_tools.model.request import GitSource
from ci_tools.source import git

COMMIT_DECIDES = ".git/HEAD"  # stands for all that a build learns of the commit, the tags and the files around it
MINUTES = 10  # for one command of git
LINK = "160000"  # the mode of a submodule in git's index
SUBMODULE = f"{LINK} commit "  # how `git ls-tree` marks one
# A filter such as that of Git LFS has been applied to the files, or has not: none runs again.
ATTRIBUTES = "* -filter\n"
CONFIG = Path(__file__).with_name("checkout.gitconfig").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Checkout:
    """The checkout that a source is in."""

    root: Path  # of the source
    environ: Mapping[str, str] = field(compare=False, repr=False)

    @functools.cached_property
    def top(self) -> Path:
        """The root of the checkout."""
        return git.find(self.root) or self.root

    @functools.cached_property
    def prefix(self) -> str:
        """The folder of the source below the root of the checkout, such as `python/`, or ""."""
        return "".join(f"{part}/" for part in self.root.resolve().relative_to(self.top.resolve()).parts)

    @functools.cached_property
    def common(self) -> Path:
        """The folder of the repository."""
        return git.common(self.top, self.environ)

    @functools.cached_property
    def head(self) -> str:
        """The commit, or "" before the first one."""
        return git.head(self.top, self.environ) or ""

    @functools.cached_property
    def refs(self) -> tuple[str, ...]:
        """The content of `.git/HEAD`, then a line for the branch, if one is checked out, and for each tag."""
        branch = self._ask("symbolic-ref", "--quiet", "HEAD")  # fails where HEAD is detached
        names = [name for name in (branch, git.TAGS) if name]
        listed = list_refs(self.top, self.environ, *names)
        return (f"ref: {branch}" if branch else self.head, *listed)

    @functools.cached_property
    def tags(self) -> frozenset[str]:
        """The tags of the repository."""
        names = (line.partition(" ")[2] for line in self.refs[1:])
        return frozenset(name.removeprefix(git.TAGS) for name in names if name.startswith(git.TAGS))

    @functools.cached_property
    def tags_here(self) -> frozenset[str]:
        """The tags of the commit."""
        return git.tags(self.top, self.environ, at_head=True)

    @functools.cached_property
    def shallow(self) -> str:
        """The commits at which a shallow history ends, a line for each."""
        file = self.common / "shallow"
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    @functools.cached_property
    def identity(self) -> str:
        """A hash of all that the repository tells a build."""
        told = "\n".join((self.prefix, self.head, *self.refs, self.shallow))
        return hashlib.sha256(told.encode()).hexdigest()

    def list_changes(self, files: Iterable[str], *, untracked: bool = True) -> list[str]:
        """Return those files of the source that are not as in the commit, and those that only the commit has.

        A filter that the project's settings name does not run: what it has changed is the commit's until it is touched.
        Without `untracked`, a file that git does not track is left out.
        """
        files, entries = frozenset(files), self._list_status(".", "all" if untracked else "no")
        names = {name.removeprefix(self.prefix) for name in entries}
        found = [name for name in names if name in files or not os.path.lexists(self.root / name)]
        inner = self.nested(files).items()
        # Git status does not look into submodules (--ignore-submodules=dirty).
        found += [f"{name}/{each}" for name, one in inner for each in one.list_changes(_below(name, files))]
        return sorted(found)

    def is_committed(self, path: str) -> bool:
        """Whether a path leads to a file of the checkout that is as in its commit: a copy has it, then."""
        place = os.path.relpath(os.path.realpath(path), self.top)
        is_inside = not place.startswith("..") and bool(self._ask("ls-files", "--", place))
        return is_inside and not self._list_status(str(self.top / place))

    def _list_status(self, place: str, untracked: str = "all") -> list[str]:
        """Return what is not as in the commit, of a place named from the source."""
        options = ("--porcelain", "--branch", "-z", "--no-renames", f"-u{untracked}", "--ignore-submodules=dirty")
        off = git.refuse_filters(self.root, self.environ)
        # Without --no-optional-locks, git would write the index.
        shown = git.ask(self.root, self.environ, *off, "--no-optional-locks", "status", *options, "--", place) or ""
        return [entry[3:] for entry in shown.split("\0")[1:] if entry]  # "M  name", after the branch

    def list_stores(self, files: Iterable[str], cache: Path) -> list[Path] | None:
        """Return the folders with the objects that a copy borrows; None if some are elsewhere.

        Only a checkout that Fatwheel made in its cache may name other folders: a link, or a line in a file, could name
        any folder of the user's.
        """
        stores: list[Path] = []
        for each in (self, *self.nested(files).values()):
            own, borrowed = each.common / "objects", list_borrowed(each.common)
            if any(map(Path.is_symlink, (own, *borrowed))) or (borrowed and not own.is_relative_to(cache)):
                return None
            stores += [own, *borrowed]
        return stores

    def nested(self, files: Iterable[str]) -> dict[str, Checkout]:
        """Return the submodules, those within them aside, each by its folder below the source."""
        folders: set[str] = set()
        for name in files:  # thousands, and most of them have their folder in common
            folder = name.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        found: dict[str, Checkout] = {}
        for folder in sorted(folders):
            is_inner = any(parent in found for parent in _parents(folder))
            if not is_inner and os.path.lexists(f"{self.root}{os.sep}{folder}{os.sep}.git"):
                found[folder] = Checkout(self.root / folder, self.environ)
        return found

    def write(self, files: Iterable[str], folder: Path, *, lends: bool = True, modified: Iterable[str] = ()) -> None:
        """Make `folder`, which has the source's files, a checkout, and write what its commit has around them.

        Without `lends`, the copy gets objects of its own. Those files that are `modified` are so in the copy, too.
        Raises MachineError if git fails.
        """
        files = tuple(files)
        nested = self.nested(files)
        for name, one in nested.items():
            one.write(_below(name, files), folder / name, lends=lends)
        place = self._top_of(folder)
        self._create(place)
        own = [file for file in files if not any(parent in nested for parent in _parents(file))]
        named = ({f"{self.prefix}{name}" for name in names} for names in ((*own, *nested), modified))
        self._list(place, *named)
        if self.head:
            self._replace(place)
        if not lends:
            self._git(place, "repack", "-a", "-d", "-q")
            (place / ".git" / "objects" / "info" / "alternates").unlink()

    def list_left_empty(self, folders: Iterable[str]) -> set[str]:
        """Return the empty submodules that no .gitmodules names, so that no clone has them, or that .gitignore does."""
        paths = [f"{self.prefix}{name}" for name in folders]
        listed = self._ask("ls-files", "--stage", "-z", "--", *paths)
        linked = {entry.partition("\t")[2] for entry in listed.split("\0") if entry.startswith(LINK)}
        ignored = {*self._ask("-c", "core.quotePath=false", "check-ignore", "--no-index", "--", *paths).splitlines()}
        mapped = {path for _, path, _ in _submodules(self.top, self.environ)} - ignored
        return {path.removeprefix(self.prefix) for path in linked - mapped if not any((self.top / path).iterdir())}

    def pack_refs(self, tags: Iterable[str], *, past: bool) -> str:
        """Return git's list of refs, where the commit has these tags, new or not; without `past`, there is no other."""
        refs, new = {line.partition(" ")[2]: line for line in self.refs[1:]}, {f"{git.TAGS}{tag}" for tag in tags}
        here = {f"{git.TAGS}{tag}" for tag in self.tags_here}
        kept = [
            line for name, line in refs.items() if name not in here | new and (past or not name.startswith(git.TAGS))
        ]
        tagged = [refs[name] if name in here else f"{self.head} {name}" for name in sorted(new)]
        return "".join(f"{line}\n" for line in (*kept, *tagged))

    def tell(self, folder: Path, refs: str, modified: Iterable[str] = ()) -> None:
        """Give the copy in `folder` these refs; what is written there later makes nothing but `modified` a change."""
        place = self._top_of(folder)
        (place / ".git" / "packed-refs").write_text(refs, encoding="utf-8")
        (place / ".git" / "info" / "exclude").write_text("*\n", encoding="utf-8")
        others = {*self._git(place, "ls-files", "-z").split("\0")} - {f"{self.prefix}{name}" for name in modified}
        self._git(place, "update-index", "-z", "--assume-unchanged", "--stdin", text="\0".join(filter(None, others)))

    def _top_of(self, folder: Path) -> Path:
        """Return the root of the copy whose source is in `folder`."""
        return Path(os.path.abspath(folder.joinpath(*[".."] * self.prefix.count("/"))))  # noqa: PTH100 - no link

    def _create(self, place: Path) -> None:
        """Create the repository, with the refs, and the objects of the source's."""
        kind = ["--object-format=sha256"] if len(self.head) == 64 else []  # noqa: PLR2004 - its digits
        self._git(place, "init", "--quiet", "--template=", *kind)
        head, *refs = self.refs
        borrow(self.top, place, refs, self.environ)
        new = place / ".git"
        (new / "HEAD").write_text(f"{head}\n", encoding="utf-8")
        (new / "info").mkdir()
        (new / "info" / "attributes").write_text(ATTRIBUTES, encoding="utf-8")
        with (new / "config").open("a", encoding="utf-8") as file:
            file.write(CONFIG)

    def _list(self, place: Path, listed: set[str], modified: set[str]) -> None:
        """Write git's index: of the source its files, and around it those of the commit, which are written, too.

        Those that are modified stay there as in the commit.
        """
        if self.head:
            self._git(place, "read-tree", self.head)
        entries = self._git(place, "ls-files", "--stage", "-z").split("\0")
        known = {name: entry[:6] for entry, _, name in (entry.partition("\t") for entry in entries) if name}
        inside = {name for name in known if name.startswith(self.prefix)}
        for name in (name for name, mode in known.items() if mode == LINK):
            (place / name).mkdir(parents=True, exist_ok=True)
        modified &= inside
        gone = (name for name in inside - listed - modified if known[name] != LINK)
        self._git(place, "update-index", "-z", "--force-remove", "--stdin", text="\0".join(gone))
        self._git(place, "update-index", "-z", "--add", "--replace", "--stdin", text="\0".join(listed - modified))
        around = (name for name in known.keys() - inside if known[name] != LINK)
        self._git(place, "checkout-index", "-z", "--index", "--force", "--stdin", text="\0".join(around))

    def _replace(self, place: Path) -> None:
        """Let the commit have the tree that is there, if it has another one."""
        tree = self._git(place, "write-tree", "--missing-ok")
        if tree == self._git(place, "rev-parse", f"{self.head}^{{tree}}"):
            return
        commit = self._git(place, "cat-file", "commit", self.head)
        text = f"tree {tree}\n{commit.partition(chr(10))[2]}\n"  # a commit's first line is its tree
        new = self._git(place, "hash-object", "-t", "commit", "-w", "--stdin", text=text)
        self._git(place, "update-ref", f"refs/replace/{self.head}", new)

    def _ask(self, *arguments: str) -> str:
        return git.ask(self.top, self.environ, *arguments) or ""

    def _git(self, place: Path, *arguments: str, text: str = "") -> str:
        """Return what git prints of the copy; latin-1 keeps every byte of a commit, whatever its encoding."""
        kept = {name: value for name, value in self.environ.items() if not name.startswith("GIT_")}
        is_bytes = arguments[0] in {"cat-file", "hash-object"}
        found = output(
            [*git.COMMAND, "-C", place, *arguments],
            env={**kept, **git.UNCONFIGURED},
            timeout=MINUTES * 60,
            encoding="latin-1" if is_bytes else "utf-8",
            text=text,
        )
        if found is None:
            msg = f"git {arguments[0]} failed in a copy of {self.top}, which a build is to see as a checkout"
            hint = f"`git -C {self.top} fsck` says whether it is whole; `build: {{git: false}}` does without"
            raise MachineError(msg, hint=hint)
        return found


def check_out_from(root: Path, name: str, commit: str, folder: Path, environ: Mapping[str, str]) -> None:
    """Check out one commit, called `name`, of the checkout at `root` into the empty `folder`.

    Submodules are copied from those of `root` if these have the pinned commits. So no submodule is fetched twice, and a
    private one that only the caller may read is not missing.
    """
    source = GitSource(url=str(root), ref=name)
    git.run_git(["init", "--quiet"], source, folder, environ)
    borrow(root, folder, list_refs(root, environ, git.TAGS), environ)
    git.run_git(["checkout", "--quiet", "--detach", commit], source, folder, environ)
    for module, path, pinned in _submodules(folder, environ):
        if _has(root / path, pinned, environ):
            check_out_from(root / path, pinned, pinned, folder / path, environ)
            git.run_git(["config", f"submodule.{module}.active", "true"], source, folder, environ)
        else:
            git.run_git([*git.UPDATE, "--recursive", "--", path], source, folder, environ)


def list_refs(root: Path, environ: Mapping[str, str], *names: str) -> list[str]:
    """Return a line for each ref of a checkout that has one of these names or is below it, as git packs them."""
    return (git.ask(root, environ, "for-each-ref", "--format=%(objectname) %(refname)", *names) or "").splitlines()


def borrow(root: Path, folder: Path, refs: Iterable[str], environ: Mapping[str, str]) -> None:
    """Let a new repository in `folder` have these refs, and the objects and the end of the checkout at `root`.

    Nothing is fetched: git would start a program in the repository that it fetches from.
    """
    new, own = folder / ".git", git.common(root, environ)
    (new / "objects" / "info").mkdir(exist_ok=True)
    (new / "objects" / "info" / "alternates").write_text(f"{own / 'objects'}\n", encoding="utf-8")
    (new / "packed-refs").write_text("".join(f"{line}\n" for line in refs), encoding="utf-8")
    if (own / "shallow").is_file():
        shutil.copyfile(own / "shallow", new / "shallow")


def list_borrowed(repository: Path) -> list[Path]:
    """Return the folders whose objects a repository borrows (gitrepository-layout(5))."""
    objects = repository / "objects"
    file = objects / "info" / "alternates"
    return [objects / line for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def _has(folder: Path, commit: str, environ: Mapping[str, str]) -> bool:
    """Whether a folder is itself a checkout whose repository has the commit."""
    return (folder / ".git").exists() and git.ask(folder, environ, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def _submodules(folder: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, path and pinned commit of each submodule of a checkout."""
    listed = ("config", "--file", ".gitmodules", "--null", "--get-regexp", r"^submodule\..*\.path$")
    for entry in filter(None, (git.ask(folder, environ, *listed) or "").split("\0")):
        key, _, path = entry.partition("\n")
        shown = git.ask(folder, environ, "--literal-pathspecs", "ls-tree", "HEAD", "--", path) or ""
        if shown.startswith(SUBMODULE):
            yield key[len("submodule.") : -len(".path")], path, shown.removeprefix(SUBMODULE).split("\t")[0]


def _below(folder: str, files: Iterable[str]) -> list[str]:
    """Return the files in a folder, relative to it."""
    return [file.removeprefix(f"{folder}/") for file in files if file.startswith(f"{folder}/")]


def _parents(name: str) -> list[str]:
    """Return the folders that a path is in, the outermost first."""
    parts = name.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]
