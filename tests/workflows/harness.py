"""Runs workflow files as they are, under act, on a fresh copy of the repository, and tells what came of every job.

act runs every job on this machine, whatever its runner label says, and knows no `$/`, no `queue:` of runs that wait, no
`container:` there, no store of artifacts. So in the copy `$/path` becomes OWNER/NAME/path@PIN, which names the same
files, `queue: max` is left out, `container:` becomes a variable (which gives the toolkit every Python of this machine,
as an image of manylinux has them), `job.workflow_repository` and `job.workflow_sha` are written out, and each action of
others is stood for by a script of `standins`. What GitHub refuses before any job starts is refused here as well
(`startup`), and what act lets pass in
silence is a problem of the run (`Run.problems`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import prepared
from tests.servers.caller import caller_of
from tests.workflows import records, rules
from tests.workflows.startup import refusals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.workflows.records import Job

ROOT = Path(__file__).parents[2]
STANDINS = Path(__file__).parent / "standins"
TOOLKIT = "ci_tools/"
ACT = Path(sys.executable).with_name("act")

PASSED_ON = re.compile(
    r"(PIP_|UV_|SSL_|REQUESTS_CA|FATWHEEL_INSTALLER)\w*|\w*_proxy", re.IGNORECASE
)  # how this machine reaches an index
INSTALLED = """\
if [ "$1" = --name ]; then exit; fi
mkdir -p "$RUNNER_TEMP/fatwheel/bin"
cat >"$RUNNER_TEMP/fatwheel/bin/fatwheel" <<END
#!/bin/sh
[ -z "\\$STANDIN_CONTAINER" ] || export PATH="\\$PATH:FOLDERS" # an image of manylinux has every Python
exec COMMAND "\\$@"
END
chmod +x "$RUNNER_TEMP/fatwheel/bin/fatwheel"
echo "$RUNNER_TEMP/fatwheel/bin" >>"$GITHUB_PATH"
"""
NODE = """\
#!/bin/sh
case "$*" in
  *"-e console.log(process.execPath)") echo "$0" ;;
  */hashfiles/index.js) exec HASHES ;;
  *) exec "NODE" "$@" ;;
esac
"""
QUEUE = re.compile(r"^\s+queue: max\b.*|(?<=[{,])\s*queue: max,?|,\s*queue: max(?=\s*\})")
STAYS = re.compile(r"^\s+WITH_DISTANT: .*")  # here a folder outlives its job
OURS = re.compile(r"(uses[\"']?:\s*[\"']?)\$/([^\s\"'#]*)")
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Tester"), ("EMAIL", "tester@example.invalid"), ("DATE", "2026-01-01T00:00:00Z"))
}
# act gives every command a terminal, and GitHub none: git would wait in a pager.
NO_TERMINAL = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "color.ui",
    "GIT_CONFIG_VALUE_0": "false",
}
TOKEN = "ghs_thetokenofthisrun"  # noqa: S105 - it opens nothing
LONGEST = 1800  # seconds
NO_PYTHON = re.compile(r"The version '(3\.1[0-4])' with architecture 'x64' was not found")


@dataclass(frozen=True, kw_only=True)
class Event:
    """What starts a run: `push`, `pull_request`, `workflow_dispatch` or `schedule`, and its payload."""

    name: str
    payload: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def push(cls, ref: str = "refs/heads/main") -> Event:
        return cls(name="push", payload={"ref": ref, "repository": {"default_branch": "main"}})

    @classmethod
    def pull_request(
        cls, number: int = 1, *, base: str = "", branch: str = "topic", title: str = "A change", fork: bool = False
    ) -> Event:
        """Return the event of a pull request that changes what the commit `base` holds (see `change`)."""
        head = {"ref": branch, "repo": {"fork": fork, "full_name": "somebody/else" if fork else "owner/name"}}
        pull = {"number": number, "title": title, "head": head, "base": {"ref": "main", "sha": base}}
        return cls(name="pull_request", payload={"action": "synchronize", "number": number, "pull_request": pull})

    @classmethod
    def dispatch(cls, ref: str = "refs/heads/main", /, **inputs: str | bool) -> Event:
        texts = {
            name.replace("_", "-"): str(value).lower() if isinstance(value, bool) else value
            for name, value in inputs.items()
        }
        return cls(name="workflow_dispatch", payload={"ref": ref, "inputs": texts})

    @classmethod
    def schedule(cls, cron: str) -> Event:
        return cls(name="schedule", payload={"schedule": cron, "repository": {"default_branch": "main"}})


@dataclass(frozen=True, kw_only=True)
class World:
    """What lies outside of a run: the runners, secrets and servers that it finds, and what earlier runs left."""

    labels: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    path: tuple[Path, ...] = ()  # folders of commands that come first
    aws: Mapping[str, str] | None = None  # AWS_* of a bucket server
    index: str = ""  # where twine uploads
    index_token: str = ""
    token: str = TOKEN  # what a GitHub App is given
    runs: Mapping[str, Path] = field(default_factory=dict)  # the artifacts of other runs, by their number


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of a run."""

    status: int
    jobs: tuple[Job, ...]
    problems: tuple[str, ...]
    shared: Path
    log: str

    @property
    def succeeded(self) -> bool:
        """Whether GitHub would show a green run: nothing failed but jobs that may (act knows no such job)."""
        failed = [job for job in self.jobs if job.result not in {"success", "skipped"}]
        return not self.problems and all(job.may_fail for job in failed) and (self.status == 0 or bool(failed))

    @property
    def artifacts(self) -> Path:
        """The folder of artifacts, one folder for each."""
        return self.shared / "artifacts"

    @property
    def results(self) -> dict[str, str]:
        """The result of each job, by its name."""
        return {job.name: job.result for job in self.jobs}

    @property
    def summary(self) -> str:
        return "\n".join(job.summary for job in self.jobs if job.summary)

    @property
    def annotations(self) -> tuple[records.Annotation, ...]:
        return tuple(annotation for job in self.jobs for annotation in job.annotations)

    def job(self, name: str) -> Job:
        """Return the one job of a name."""
        (found,) = (job for job in self.jobs if job.name == name)
        return found


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


def ours(
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
    made = repository(folder, name="fatwheel/fatwheel", files={**installed, **(files or {})}, lean=not installs)
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
    return INSTALLED.replace("FOLDERS", folders).replace("COMMAND", words)


def repository(folder: Path, *, name: str, files: Mapping[str, str], tag: str = "", lean: bool = False) -> Repository:
    """Make a repository of a folder's files, and of `files` by their paths."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    read = rules.project(folder)
    pin = hashlib.sha1("".join("\n".join(file.lines) for file in read.values()).encode()).hexdigest()  # noqa: S324
    for path, file in read.items():
        text = (folder / path).read_text(encoding="utf-8")
        (folder / path).write_text(runnable(text, file, f"{name}/", pin), encoding="utf-8")
    commit(folder, tag)
    return Repository(name=name, folder=folder, files=read, pin=pin, lean=lean)


def change(mine: Repository, files: Mapping[str, str]) -> str:
    """Commit a change of files other than workflows, and return the commit before it."""
    base = head(mine)
    for path, text in files.items():
        (mine.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (mine.folder / path).write_text(text, encoding="utf-8")
    git("add", "--all", "--force", folder=mine.folder)
    git("commit", "--quiet", "--message", "A change", folder=mine.folder)
    return base


def head(mine: Repository) -> str:
    """Return a repository's last commit."""
    return (mine.folder / ".git" / "refs" / "heads" / "main").read_text(encoding="utf-8").strip()


def runnable(text: str, file: rules.File, prefix: str, pin: str) -> str:
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
    """Yield what a repository's files use, as `runnable` names it."""
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


def run(workflow: str, event: Event, home: Path, *repositories: Repository, world: World | None = None) -> Run:
    """Run a workflow file of the first repository, by its name; the others are there to be called.

    Raises `startup.Refused` where GitHub would refuse the run before any job starts.
    """
    world = world or World()
    mine = repositories[0]
    path = f".github/workflows/{workflow}"
    refusals(mine.files[path], event.name, event.payload.get("inputs", {}), {it.name: it for it in repositories})
    (home / "home").mkdir(parents=True)
    folders = seed(home, repositories, world)
    done = subprocess.run(
        act(path, event, home, mine, world, folders),
        cwd=home,  # act reads .env, .secrets and .vars where it is started
        env=environment(home, world),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    if missing := NO_PYTHON.search(done.stdout):
        pytest.skip(f"needs Python {missing[1]}, which is not on PATH, nor one of pyenv's or uv's")
    return result(done, path, home, repositories, world)


def act(path: str, event: Event, home: Path, mine: Repository, world: World, folders: Mapping[str, Path]) -> list[str]:
    """Return the command line.

    What act is not told of the repository, its name and its commit, it reads from git for every expression.
    """
    payload = home / "event.json"
    payload.write_text(json.dumps(event.payload), encoding="utf-8")
    command = [str(ACT), event.name, "--directory", str(mine.folder), "--workflows", path, "--eventpath", str(payload)]
    command += ["--action-cache-path", str(home / "cache"), "--action-offline-mode", "--no-cache-server", "--rm"]
    command += ["--json", "--insecure-secrets", "--no-skip-checkout", "--actor", "tester", "--defaultbranch", "main"]
    pairs = [("--platform", f"{label}=-self-hosted") for label in (*rules.HOSTED, *world.labels)]
    pairs += [("--secret", f"{name}={value}") for name, value in secrets(world, event).items()]
    pairs += [("--var", f"{name}={value}") for name, value in world.variables.items()]
    pairs += [("--input", f"{name}={value}") for name, value in event.payload.get("inputs", {}).items()]
    told = {"GITHUB_REPOSITORY": mine.name, "SHA_REF": head(mine)}
    pairs += [("--env", f"{name}={value}") for name, value in told.items()]
    pairs += [("--local-repository", f"{name}={folder}") for name, folder in folders.items()]
    return command + [word for pair in pairs for word in pair]


def secrets(world: World, event: Event) -> dict[str, str]:
    """Return the secrets that a run gets: those of the repository not where a fork's pull request started it."""
    head = event.payload.get("pull_request", {}).get("head", {})
    return {"GITHUB_TOKEN": TOKEN, **({} if head.get("repo", {}).get("fork") else world.secrets)}


def environment(home: Path, world: World) -> dict[str, str]:
    """Return the variables of act and of every job: none of this process but how to reach an index, and its cache."""
    passed = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    path = os.pathsep.join([*map(str, world.path), str(home / "bin"), os.environ["PATH"]])
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # a toolkit of gigabytes is fetched once
    own = {"HOME": str(home / "home"), "XDG_CACHE_HOME": cache, "TMPDIR": tempfile.gettempdir()}
    own |= {"LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb"}
    kept = {"PIP_CACHE_DIR": str(Path(cache, "pip"))}  # for the sake of who serves the packages, and of time
    return {**kept, **passed, "PATH": path, **own, **NO_TERMINAL, **world.environ}


def seed(home: Path, repositories: tuple[Repository, ...], world: World) -> dict[str, Path]:
    """Write everything that the repositories use; return the folder of each by the name that act looks for."""
    (home / "settings.json").write_text(json.dumps(settings(home, repositories, world)), encoding="utf-8")
    executable(home / "bin" / "gh", "gh.py", home / "settings.json")
    answer_for_node(home / "bin" / "node")
    named = {it.name: it for it in repositories}
    folders: dict[str, Path] = {}
    for action, _, ref in sorted({text.partition("@") for it in repositories for text in used(it)}):
        owner, name, *_ = action.split("/")
        source = named.get(f"{owner}/{name}")
        folder = folders.setdefault(f"{owner}/{name}@{ref}", home / "used" / f"{owner}-{name}@{ref}")
        if source is None:
            stand_in(folder, action, home / "settings.json")
        elif not folder.exists():
            _copy_used(source, folder)
    return folders


def _copy_used(source: Repository, folder: Path) -> None:
    """Copy what others use of a repository: act copies all of it for each step that uses an action there."""
    if not source.lean:
        shutil.copytree(source.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        return
    for name in ("actions", "workflows"):
        shutil.copytree(source.folder / ".github" / name, folder / ".github" / name)
    shutil.copy(source.folder / "action.yml", folder)


def stand_in(folder: Path, action: str, settings: Path) -> None:
    """Write an action that takes and hands on what the real one does, and runs a script of ours."""
    if action not in rules.ACTIONS:
        msg = f"{action} has no stand-in: describe it in {STANDINS / 'actions.toml'} and write its script"
        raise LookupError(msg)
    known = rules.ACTIONS[action]
    target = folder.joinpath(*action.split("/")[2:])
    executable(target / "stand-in", known["script"], settings)
    step = {
        "id": "it",
        "shell": "bash",
        "run": '"$GITHUB_ACTION_PATH/stand-in"',
        "env": {"INPUTS": "${{ toJSON(inputs) }}"},
    }
    interface = {
        "name": action,
        "inputs": {name: {} if value is True else {"default": value} for name, value in known["inputs"].items()},
        "outputs": {name: {"value": f"${{{{ steps.it.outputs.{name} }}}}"} for name in known["outputs"]},
        "runs": {"using": "composite", "steps": [step]},
    }
    (target / "action.yml").write_text(json.dumps(interface, indent=1), encoding="utf-8")  # JSON is YAML


def answer_for_node(path: Path) -> None:
    """Write a command that says where node is, which act asks in every job and every composite action.

    It also answers `hashFiles`, for which act starts node in every step of an action that has it.
    """
    if found := shutil.which("node"):
        command, address = caller_of(prepared.SCRIPTS)
        hashes = f'"{command}" "{address}" hash_files.py'
        path.write_text(NODE.replace("NODE", found).replace("HASHES", hashes), encoding="utf-8")
        path.chmod(0o755)


def executable(path: Path, script: str, settings: Path) -> None:
    """Write a command that runs a script of ours, in a fork of a Python that has what they import."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command, address = caller_of(prepared.SCRIPTS)
    line = f'STANDIN_SETTINGS="{settings}" exec "{command}" "{address}" {script} "$@"'
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def settings(home: Path, repositories: tuple[Repository, ...], world: World) -> dict[str, Any]:
    """Return what the stand-ins know of their run."""
    return {
        "shared": str(home / "shared"),
        "repositories": {it.name: str(it.folder) for it in repositories},
        "pins": [it.pin for it in repositories],
        "signers": [f"{it.name}/{path}" for it in repositories for path, file in it.files.items() if _attests(file)],
        "pythons": pythons(),
        "environments": str(caller_of(prepared.SCRIPTS)[0].parent),
        "aws": world.aws,
        "index": world.index,
        "index_token": world.index_token,
        "token": world.token,
        "runs": {number: str(path) for number, path in world.runs.items()},
    }


def _attests(file: rules.File) -> bool:
    return any(step.action == "actions/attest" for step in file.steps)


@functools.cache
def pythons() -> list[tuple[str, str]]:
    """Return the Pythons of this machine with their versions, the newest first."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    folders += sorted([*pyenv.glob("*/bin"), *uv.glob("*/bin")])
    names = {path.resolve() for folder in folders for path in folder.glob("python3*") if "shims" not in path.parts}
    found = {_version(path): str(path) for path in sorted(names) if re.fullmatch(r"python3(\.\d+)?", path.name)}
    return sorted(((v, p) for v, p in found.items() if v), key=lambda it: [*map(int, it[0].split("."))], reverse=True)


def _version(path: Path) -> str:
    """Return a Python's version; empty for one that is too old for `venv` and pip, or does not start."""
    found = "sys.version_info >= (3, 8) and importlib.machinery.PathFinder.find_spec('venv')"
    asked = f"import sys, importlib.machinery; print('.'.join(map(str, sys.version_info[:3])) if {found} else '')"
    done = subprocess.run([str(path), "-I", "-S", "-c", asked], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def result(
    done: subprocess.CompletedProcess[str], path: str, home: Path, repositories: tuple[Repository, ...], world: World
) -> Run:
    """Return what act's records tell, and what it let pass in silence."""
    workflows = {
        str(file.value.get("name", "")): file for it in repositories for file in it.files.values() if file.jobs
    }
    entry = repositories[0].files[path]
    found = records.jobs(done.stdout, workflows, entry)
    for kind in ("artifacts", "attestations", "caches"):
        (home / "shared" / kind).mkdir(parents=True, exist_ok=True)
    problems = (
        *records.silent(found, workflows),
        *leaks(done.stdout, home / "shared", {"GITHUB_TOKEN": TOKEN, **world.secrets}),
    )
    errors = "\n".join(line for line in done.stderr.splitlines() if line)
    return Run(
        status=done.returncode,
        jobs=found,
        problems=problems,
        shared=home / "shared",
        log=f"{records.text(done.stdout)}\n{errors}",
    )


def leaks(log: str, shared: Path, secrets: Mapping[str, str]) -> list[str]:
    """Return where a secret shows: in the log, outputs and summaries that act recorded unmasked, and in every store."""
    places = {"the log": log.encode()}
    places |= {str(path.relative_to(shared)): path.read_bytes() for path in shared.rglob("*") if path.is_file()}
    return [
        f"the secret {name} is in {place}"
        for name, value in secrets.items()
        for place, content in places.items()
        if value and value.encode() in content
    ]
