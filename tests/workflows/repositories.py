"""The repositories that act runs: copies of ours, and those that tests write.

act knows no `$/`, no `queue:` of runs that wait, and no `container:` on this machine. So in the copy `$/path` becomes
OWNER/NAME/path@PIN, which names the same files, `queue: max` is left out, `container:` becomes a variable (which gives
the toolkit every Python of this machine, as an image of manylinux has them), and `job.workflow_repository` and
`job.workflow_sha` are written out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

from tests.builders.sources import write
from tests.servers import prepared
from tests.servers.caller import caller_of
from tests.workflows import rules
from tests.workflows.pythons import pythons

ROOT = Path(__file__).parents[2]
STANDINS = Path(__file__).parent / "standins"
TOOLKIT = "ci_tools/"
INSTALLED = """\
if [ "$1" = --name ]; then exit; fi
mkdir -p "$RUNNER_TEMP/fatwheel/bin"
cat >"$RUNNER_TEMP/fatwheel/bin/fatwheel" <<END
#!/bin/sh
[ -z "\\$STANDIN_CONTAINER" ] || export PATH="\\$PATH:FOLDERS" # an image of manylinux has every Python
exec COMMAND "\\$@"
END
mkdir -p "$RUNNER_TEMP/fatwheel/env/bin"
cat >"$RUNNER_TEMP/fatwheel/env/bin/python" <<END
#!/bin/sh
shift # -I, which would not let it find the toolkit
PYTHONPATH="ROOT" exec "PYTHON" "\\$@"
END
chmod +x "$RUNNER_TEMP/fatwheel/bin/fatwheel" "$RUNNER_TEMP/fatwheel/env/bin/python"
echo "$RUNNER_TEMP/fatwheel/bin" >>"$GITHUB_PATH"
"""
QUEUE = re.compile(r"^\s+queue: max\b.*|(?<=[{,])\s*queue: max,?|,\s*queue: max(?=\s*\})")
STAYS = re.compile(r"^\s+WITH_DISTANT: .*")  # here a folder outlives its job
OURS = re.compile(r"(uses[\"']?:\s*[\"']?)\$/([^\s\"'#]*)")
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Tester"), ("EMAIL", "tester@example.invalid"), ("DATE", "2026-01-01T00:00:00Z"))
}


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository as act sees it: its files in git, under a name; `pin` is the commit that callers name it by.

    The actions of a `lean` one need no file but those of actions. act reads and copies a whole action for every step
    that uses it, so that of a repository of 400 files takes more time than the step.
    """

    name: str
    folder: Path
    files: rules.Project
    pin: str
    lean: bool = False


def copy_ours(
    folder: Path, *, files: Mapping[str, str] | None = None, installs: bool = False, setup: str = ""
) -> Repository:
    """Copy what git tracks or would track of this repository, and `files` over it, to a new repository in `folder`.

    Tests and documents are left out: no workflow of ours but ci.yml reads them. Installing the toolkit takes a minute
    for each job. Unless a test wants it (`installs`), the jobs run the toolkit of these tests with what their own
    environment has, or the copy where `files` change it, and the lines `setup` after it.
    """
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "-z", folder=ROOT).split("\0")
    changed = any(path.startswith(TOOLKIT) for path in files or {})
    unread = ("tests/", "docs/") if installs or changed else ("tests/", "docs/", TOOLKIT)
    copied = [path for path in listed if (ROOT / path).is_file() and not path.startswith(unread)]
    _copy(copied, folder)
    command = "" if installs else _installed(folder if changed else None) + setup
    installed = {".github/actions/setup/install.sh": command} if command else {}
    made = make_repository(folder, name="fatwheel/fatwheel", files={**installed, **(files or {})}, lean=not installs)
    compiled = [cache_from_source(path) for path in copied if path.startswith(TOOLKIT) and path.endswith(".py")]
    _copy([path for path in compiled if (ROOT / path).is_file()], folder)  # not committed, and not made anew by jobs
    return made


def _copy(paths: Iterable[str], folder: Path) -> None:
    """Copy files of this repository, with their times: a compiled module holds that of its source."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)


def _installed(copy: Path | None) -> str:
    """Return the lines that install the command: the toolkit of a copy, or else of these tests, which is prepared."""
    folders = os.pathsep.join(str(Path(path).parent) for _, path in pythons())
    command = (sys.executable, "-I", STANDINS / "toolkit.py", copy) if copy else caller_of(prepared.FATWHEEL)
    words = " ".join(f'"{word}"' for word in command)
    script = INSTALLED.replace('"ROOT"', f'"{ROOT}"').replace('"PYTHON"', f'"{sys.executable}"')
    return script.replace("FOLDERS", folders).replace("COMMAND", words)


def make_repository(
    folder: Path, *, name: str, files: Mapping[str, str], tag: str = "", lean: bool = False
) -> Repository:
    """Make a repository of a folder's files, and of `files` by their paths."""
    write(folder, files)
    read = rules.project(folder)
    pin = hashlib.sha1("".join("\n".join(file.lines) for file in read.values()).encode()).hexdigest()  # noqa: S324
    for path, file in read.items():
        text = (folder / path).read_text(encoding="utf-8")
        (folder / path).write_text(make_runnable(text, file, f"{name}/", pin), encoding="utf-8")
    commit(folder, tag)
    return Repository(name=name, folder=folder, files=read, pin=pin, lean=lean)


def commit_change(mine: Repository, files: Mapping[str, str]) -> str:
    """Commit a change of files other than workflows, and return the commit before it."""
    base = head(mine)
    write(mine.folder, files)
    git("add", "--all", "--force", folder=mine.folder)
    git("commit", "--quiet", "--message", "A change", folder=mine.folder)
    return base


def head(mine: Repository) -> str:
    """Return a repository's last commit."""
    return (mine.folder / ".git" / "refs" / "heads" / "main").read_text(encoding="utf-8").strip()


def make_runnable(text: str, file: rules.File, prefix: str, pin: str) -> str:
    """Return a workflow's text as act can run it; its lines keep their numbers."""
    lines = text.splitlines(keepends=True)
    for keys in ((("jobs", name, "container")) for name, job in file.jobs.items() if "container" in job):
        first = file.line(keys) - 1
        depth = len(lines[first]) - len(lines[first].lstrip())
        last = next((n for n in range(first + 1, len(lines)) if _indented(lines[n]) <= depth), len(lines))
        image = (
            "" if "env" in file.jobs[keys[1]] else f"{' ' * depth}env: {{STANDIN_CONTAINER: {_image(lines[first])}}}"
        )
        lines[first:last] = [f"{image}\n", *["\n"] * (last - first - 1)]
    lines = [STAYS.sub("", QUEUE.sub("", line)) for line in lines]
    for known, value in (("repository", prefix.rstrip("/")), ("sha", pin)):
        lines = [line.replace(f"job.workflow_{known}", f"'{value}'") for line in lines]
    return OURS.sub(lambda use: use[1] + _pinned(use[2], prefix, pin), "".join(lines))


def _pinned(path: str, prefix: str, pin: str) -> str:
    """Return what names a path of a repository for callers elsewhere: `$/path` is OWNER/NAME/path@PIN."""
    return f"{prefix}{path}".rstrip("/") + f"@{pin}"


def used(mine: Repository) -> Iterator[str]:
    """Yield what a repository's files use, as `make_runnable` names it."""
    for file in mine.files.values():
        for _, text in rules.uses(file):
            yield _pinned(text[2:], f"{mine.name}/", mine.pin) if text.startswith("$/") else text


def _image(line: str) -> str:
    return json.dumps(line.partition(":")[2].partition(" #")[0].strip() or "one with more keys")


def _indented(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 1_000


def commit(folder: Path, *tags: str) -> None:
    """Commit a folder to a repository of its own."""
    git("init", "--quiet", "--initial-branch=main", "--template=", folder=folder)
    with (folder / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write("[uploadpack]\n\tallowAnySHA1InWant = true\n")
    git("add", "--all", "--force", folder=folder)
    git("commit", "--quiet", "--message", "All files", folder=folder)
    for tag in filter(None, tags):
        git("tag", tag, folder=folder)


def git(*arguments: str, folder: Path) -> str:
    environ = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **AUTHOR}
    command = ["git", "-c", "core.hooksPath=", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout.strip()
