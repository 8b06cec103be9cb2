"""Git as a source: the files of a local checkout, and one commit of a remote repository.

A project may bring a `.git` of its own: no setting there may name a program that git then starts.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.machine.process import output, run
from ci_tools.machine.waits import OF_RUN
from ci_tools.model.names import COMMIT
from ci_tools.model.request import GitSource

TAGS = "refs/tags/"
MINUTES = 30  # for one command of git: a large repository over a slow line
LONGEST = 200  # maximum characters of a list of branches and tags in a message
# They point git at one repository, whatever folder it runs in. Git sets them for the child process of a hook.
OF_REPOSITORY = "COMMON_DIR DIR INDEX_FILE NAMESPACE OBJECT_DIRECTORY PREFIX WORK_TREE"
ONE_REPOSITORY = frozenset(f"GIT_{word}" for word in OF_REPOSITORY.split())
# What git and libcurl print where another try may help; everything else is wrong with the submodule itself.
NETWORK = re.compile(
    r"Could not resolve|Failed to connect|Connection (?:timed out|refused|reset)|timed out|RPC failed|early EOF"
    r"|error: 5\d\d|hung up|No space left|SSL"
)
LACKED = re.compile(r"(?:not our ref|unadvertised object) ([0-9a-f]{40,64})")  # what git asked for, and is not there
SUBMODULE_PATH = re.compile(r"(?:submodule path|for submodule path|in submodule path) '([^'\n]+)'")
UPDATE = ("submodule", "update", "--quiet", "--init", "--depth=1")
# The `ext` protocol, hooks and a file system monitor run commands, and a folder that looks like a bare repository may
# be any folder of a project: all of them stay off. No user setting may change the bytes of a file.
SETTINGS = (
    "protocol.ext.allow=never",
    "core.autocrlf=false",
    "core.fsmonitor=",
    f"core.hooksPath={os.devnull}",
    "safe.bareRepository=explicit",
)
COMMAND = ("git", *(word for setting in SETTINGS for word in ("-c", setting)))
NO_REPOSITORY = f"--git-dir={os.devnull}"
UNCONFIGURED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}  # no settings but a repository's own
EMPTY = "GIT_EMPTY"  # a variable without a value, of no meaning to git
# A partial clone would fetch what it lacks, by a program that its config names.
LOCAL = {EMPTY: "", "GIT_ALLOW_PROTOCOL": "none"}


def find(folder: Path) -> Path | None:
    """Return the absolute path of the root of the checkout around `folder`; None if there is none."""
    start = folder.resolve()
    device = start.stat().st_dev
    for place in (start, *start.parents):
        git = place / ".git"
        # git looks no further than the same device
        if place.stat().st_dev == device and (git.is_file() or (git / "HEAD").is_file()):
            return place
    return None


def ask(folder: Path, environ: Mapping[str, str], *arguments: str, encoding: str = "utf-8") -> str | None:
    """Return what git prints of the checkout around `folder`; None if it fails, or there is no checkout.

    Git looks for no repository by itself: it would take a folder of the project that looks like one.
    """
    root = find(folder)
    if root is None:
        return None
    place = (f"--git-dir={root / '.git'}", f"--work-tree={root}")
    env = {**_variables(environ), **LOCAL}
    return output([*COMMAND, "-C", folder, *place, *arguments], env=env, encoding=encoding)


def refuse_filters(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the options by which git runs no filter that the settings of a checkout name, whatever its name is.

    `-c` takes a name up to its first `=`; `--config-env`, up to its last one, came with git 2.31.
    """
    asked = ("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
    shown = ask(folder, environ, *asked, encoding="latin-1") or ""  # one character for each byte of a name
    for name in (os.fsdecode(each.encode("latin-1")) for each in shown.split("\0") if each):
        yield from (f"--config-env={name}={EMPTY}",) if "=" in name else ("-c", f"{name}=")


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in ONE_REPOSITORY}
    return {**kept, "GIT_TERMINAL_PROMPT": "0"}  # otherwise git would wait for an answer that nobody gives


# ---------------------------------------------------------------- a checkout on this machine


def listed(root: Path, environ: Mapping[str, str]) -> list[str] | None:
    """Return the files below `root` that git tracks or would add, or None if `root` is not in a checkout.

    A folder that its checkout ignores counts as outside it. A submodule that is not checked out is listed as a folder.
    Raises MachineError if git cannot read the checkout, because any other list of files would differ from git's.
    """
    top = find(root)
    if top is None:
        return None
    if shutil.which("git", path=environ.get("PATH")) is None:
        raise MachineError("git is not on PATH", hint=f"only git knows which files are in the checkout {root}")
    is_top = top == root.resolve()  # no checkout ignores its own root
    if not is_top and ask(root, environ, "check-ignore", "-q", ".") is not None:
        return None
    untracked = ("--others", "--exclude-standard")
    names = _list(root, environ, "--cached", *untracked)
    if any(name.endswith("/") or os.path.isdir(f"{root}{os.sep}{name}") for name in names):  # noqa: PTH112 - as below
        names = _list(root, environ, "--cached", "--recurse-submodules") | _list(root, environ, *untracked)
    return sorted(name for name in {name.rstrip("/") for name in names} if _is_there(root, name))


def _list(root: Path, environ: Mapping[str, str], *options: str) -> frozenset[str]:
    """Return the names that `git ls-files` prints; git recurses into submodules only for tracked files."""
    found = ask(root, environ, "ls-files", "-z", *options)
    if found is None:
        raise MachineError(f"git cannot list the files of {root}", hint=f"`git -C {root} status` says why")
    return frozenset(filter(None, found.split("\0")))


def origin(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the address of the repository that `root` was cloned from; None if it has none."""
    found = ask(root, environ, "remote", "get-url", "origin")
    return found.strip() if found else None


def _is_there(root: Path, name: str) -> bool:
    """Whether a listed file still exists; raises InputError if its name cannot be read."""
    if os.path.lexists(f"{root}{os.sep}{name}"):  # for thousands of files; a Path takes ten times as long
        return True
    if "\ufffd" in name:
        raise InputError(f'the source has a file whose name is not UTF-8: "{name}"')
    return False


def tracks(root: Path, name: str, environ: Mapping[str, str]) -> bool:
    """Whether git tracks the file `name` in the checkout at `root`."""
    options = ("--literal-pathspecs", "ls-files", "--cached", "--recurse-submodules")
    return bool(ask(root, environ, *options, "--", name))


def head(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the commit that is checked out at `root`; None if there is no commit yet."""
    return ask(root, environ, "rev-parse", "--verify", "HEAD") or None


def tags(folder: Path, environ: Mapping[str, str], *, at_head: bool) -> frozenset[str]:
    """Return the tags of the checkout around `folder`, all or only those of its commit; empty outside a checkout.

    Raises MachineError if git cannot read them: a release depends on them.
    """
    if find(folder) is None:
        return frozenset()
    which = ["--points-at=HEAD"] if at_head else []
    shown = ask(folder, environ, "for-each-ref", "--format=%(refname)", *which, TAGS)
    if shown is None and at_head and not head(folder, environ):
        return frozenset()  # there is no commit yet
    if shown is None:
        raise MachineError(f"git cannot list the tags of {folder}", hint=f"`git -C {folder} tag` says why")
    return frozenset(name.removeprefix(TAGS) for name in shown.splitlines())


def top(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the root of the checkout around `folder`; raise InputError if there is none."""
    if find(folder) is None:
        msg = f"{folder} is in no git repository, so it has no other revision"
        raise InputError(msg, hint="run it in a checkout, or name the plan.json of an earlier release")
    found = ask(folder, environ, "rev-parse", "--show-toplevel")
    if found is None:
        raise MachineError(f"git cannot read the repository of {folder}", hint=f"`git -C {folder} status` says why")
    return Path(found)


def common(top: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder of a checkout's repository: its own `.git`, or of a worktree that of the main one."""
    return (top / (ask(top, environ, "rev-parse", "--git-common-dir") or ".git")).resolve()


def revision(root: Path, name: str, environ: Mapping[str, str]) -> str:
    """Return the commit of a revision such as main or HEAD^1; raise InputError if the checkout does not have it."""
    commit = ask(root, environ, "rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}")
    if commit is None:
        raise _unknown(root, name, environ)
    return commit


def _unknown(root: Path, name: str, environ: Mapping[str, str]) -> InputError:
    """Return the error for an unknown revision: a shallow checkout may lack revisions that its repository has."""
    shown = ask(root, environ, "for-each-ref", "--format=%(refname:short)") or "HEAD"
    if ask(root, environ, "rev-parse", "--is-shallow-repository") == "true":  # it may lack tags, too
        msg = f'this checkout is shallow and has no revision "{name}"'
        return InputError(msg, hint="fetch it first: `fetch-depth: 0` for actions/checkout, or `git fetch --unshallow`")
    meant = nearest(name, {"HEAD", *shown.split()})
    expected = meant if len(meant) < LONGEST else "expected a branch, a tag or a commit"
    return InputError(f'the repository {root} has no revision "{name}", {expected}')


# ---------------------------------------------------------------- a repository elsewhere


def address(source: GitSource, folder: Path) -> str:
    """Return the repository's address; a path is relative to `folder`. Raises InputError if the path does not exist."""
    if re.match(r"[\w+.-]+://|[^/]+:", source.url):
        return source.url
    path = (folder / source.url).resolve()
    if not path.is_dir():
        raise InputError(f'the source "{source.url}" does not exist, expected a git repository')
    return str(path)


def commit_of(source: GitSource, url: str, environ: Mapping[str, str]) -> str:
    """Return the commit that a ref points to now; raise InputError with the nearest ref if it does not exist."""
    if COMMIT.fullmatch(source.ref):  # a commit needs no question to the server
        return source.ref
    refs = _list_refs(source, url, environ)
    # {} is the commit of an annotated tag.
    for name in (f"refs/tags/{source.ref}^{{}}", f"refs/tags/{source.ref}", f"refs/heads/{source.ref}", source.ref):
        if name in refs:
            return refs[name]
    names = {ref.split("/", 2)[2] for ref in refs if ref.startswith(("refs/heads/", "refs/tags/")) and "^" not in ref}
    raise InputError(f'{source.url} has no branch or tag "{source.ref}", {nearest(source.ref, names)}')


def remote_tags(source: GitSource, url: str, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the tags that a repository has now."""
    refs = _list_refs(source, url, environ)
    return frozenset(ref.removeprefix(TAGS) for ref in refs if ref.startswith(TAGS) and not ref.endswith("^{}"))


def find_tag(source: GitSource, url: str, tag: str, environ: Mapping[str, str]) -> str:
    """Return the commit that a tag of a repository elsewhere is at now; "" if there is no such tag."""
    refs = _list_refs(source, url, environ)
    return refs.get(f"{TAGS}{tag}^{{}}") or refs.get(f"{TAGS}{tag}", "")


def _list_refs(source: GitSource, url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the refs of a repository elsewhere, each with what it points to."""
    listing = run_git(["ls-remote", "--end-of-options", url], source, None, environ)
    return {ref: sha for sha, _, ref in (line.partition("\t") for line in listing.splitlines())}  # sha TAB ref


def check_out(
    source: GitSource, url: str, commit: str, folder: Path, environ: Mapping[str, str], *, is_whole: bool = False
) -> None:
    """Check out one commit into the empty `folder`, with its submodules, and with all history if it is to be whole."""
    refs = _list_refs(source, url, environ)
    here = [ref.removesuffix("^{}") for ref, sha in refs.items() if sha == commit and ref.startswith(TAGS)]
    tags, depth = ([f"{TAGS}*"], []) if is_whole else (here, ["--depth=1"])
    for arguments in (
        ["init", "--quiet"],
        ["fetch", "--quiet", *depth, "--end-of-options", url, commit, *(f"+{ref}:{ref}" for ref in tags)],
        ["checkout", "--quiet", "--detach", "FETCH_HEAD"],
    ):
        run_git(arguments, source, folder, environ)
    if (folder / ".gitmodules").is_file():
        run_git([*UPDATE, "--recursive"], source, folder, environ)


def apply_patch(patch: Path, folder: Path, environ: Mapping[str, str], *options: str) -> str:
    """Apply a patch to the files of a folder, every hunk or none; return what git printed if it refuses, else "".

    Whitespace counts too: no line of the context may differ.
    """
    env = {**_variables(environ), "LC_ALL": "C"}
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "git.log"
        # In a repository, git would skip the files of folders that the repository does not know.
        apply = (NO_REPOSITORY, "apply", "--whitespace=nowarn", *options)
        ended = run([*COMMAND, "-C", folder, *apply, patch], log=log, env=env, timeout=MINUTES * 60)
        printed = log.read_text(encoding="utf-8", errors="replace")
    return (printed or f"git ended with {ended.status}") if ended.status else ""


def _refuse_submodule(printed: str, source: GitSource) -> NoReturn:
    """Raise InputError for a submodule that cannot be had: another try would change nothing."""
    reasons = [line for line in printed.splitlines() if line.startswith(("fatal: ", "remote: ", "error: "))]
    paths = dict.fromkeys(SUBMODULE_PATH.findall(printed))
    what = f"the submodule {', '.join(paths)}" if paths else "a submodule"
    why = (reasons[0] if reasons else printed.strip().rpartition("\n")[2]).partition(": ")[2]  # without its "fatal: "
    msg = f"{what} of {source.url} at {source.ref} is missing: {why}"
    command = f"git clone --recurse-submodules {shlex.quote(source.url)}"
    raise InputError(msg, hint=f"`{command}` gets it where git may read it; if it is gone, name another ref")


def run_git(arguments: list[str], source: GitSource, folder: Path | None, environ: Mapping[str, str]) -> str:
    """Return the output of git; raise InputError for a commit it lacks, else MachineError with the last line."""
    with tempfile.TemporaryDirectory() as scratch:
        log, place = Path(scratch) / "git.log", folder or Path(scratch)
        which = () if folder else (NO_REPOSITORY,)
        # Above the folder, git looks for none: `init` makes one there before anything else is in it.
        env = {**_variables(environ), "GIT_CEILING_DIRECTORIES": str(place.resolve().parent)}
        with OF_RUN.get().over(f"git {arguments[0]} of {source.url}"):
            ended = run([*COMMAND, "-C", place, *which, *arguments], log=log, env=env, timeout=MINUTES * 60)
        printed = log.read_text(encoding="utf-8", errors="replace")
    if ended.status and arguments[0] == UPDATE[0] and not NETWORK.search(printed):
        _refuse_submodule(printed.replace(f"{folder}{os.sep}", ""), source)
    if ended.status and (lacked := LACKED.search(printed)):
        msg = f"{source.url} has no commit {lacked[1]}"
        raise InputError(msg, hint="name a repository that has it: this is another one, or its history was rewritten")
    if ended.status:
        at, last = f" at {source.ref}" if source.ref else "", printed.rstrip().rpartition("\n")[2]
        msg = f"git {arguments[0]} failed for {source.url}{at}: {last}"
        raise MachineError(msg, hint="check the address, the ref, the network, and that git may read it")
    return printed
