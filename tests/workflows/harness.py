"""Runs workflow files as they are, under act, on a fresh copy of the repository, and tells what came of every job.

act runs every job on this machine, whatever its runner label says, and has no store of artifacts. It is given copies
that it can run (`repositories`), and for each action of others a script that stands for it (`used_actions`). What
GitHub refuses before any job starts is refused here as well (`startup`), and what act lets pass in silence is a problem
of the run (`Run.problems`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.servers.fatwheel_program import BUILDS
from tests.workflows import records, rules
from tests.workflows.records import Job
from tests.workflows.repositories import Repository, head
from tests.workflows.startup import refusals
from tests.workflows.used_actions import seed
from tests.workflows.watched import run_watched

ACT = Path(sys.executable).with_name("act")
PASSED_ON = re.compile(
    r"(PIP_|UV_|SSL_|REQUESTS_CA|FATWHEEL_INSTALLER)\w*|\w*_proxy", re.IGNORECASE
)  # how this machine reaches an index
WITHOUT_TERMINAL = (sys.executable, "-I", "-S", str(Path(__file__).with_name("without_terminal.py")))
# Where act gives commands a terminal all the same, git would wait in a pager.
NO_PAGER = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "color.ui",
    "GIT_CONFIG_VALUE_0": "false",
}
TOKEN = "ghs_thetokenofthisrun"  # noqa: S105 - it opens nothing
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
        """Return the event of a pull request that changes what the commit `base` holds (see `commit_change`)."""
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
    command = [*WITHOUT_TERMINAL, *act(path, event, home, mine, world, folders)]
    done = run_watched(command, cwd=home, env=environment(home, world))  # act reads .env, .secrets and .vars there
    if missing := NO_PYTHON.search(done.stdout):
        pytest.skip(f"needs Python {missing[1]}, which is not on PATH, nor one of pyenv's or uv's")
    return result(done, path, home, repositories, world)


def plant(home: Path, mark: Path) -> None:
    """Plant a cache's archive for the run in `home`: a job that restores any cache writes the file `mark`."""
    caches = home / "shared" / "caches"
    caches.mkdir(parents=True)
    with tarfile.open(caches / "planted.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo(str(mark)))


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
    own |= {"LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", BUILDS: tempfile.gettempdir()}
    kept = {"PIP_CACHE_DIR": str(Path(cache, "pip"))}  # for the sake of who serves the packages, and of time
    return {**kept, **passed, "PATH": path, **own, **NO_PAGER, **world.environ}


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
