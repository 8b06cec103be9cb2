"""Decides which jobs are built in a container, and finds podman or docker where one answers."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.built_with import IMAGE
from ci_tools.build.toolchain import explain_other_libc, find_level, libc, libc_doubt
from ci_tools.catalog import Catalog
from ci_tools.errors import InputError, MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.process import complaint, output, run
from ci_tools.model.plan import Job, JobKind

VARIABLE = "FATWHEEL_CONTAINERS"
NEVER = "none"
PATIENCE = 10.0  # seconds for an answer; a docker without its daemon says so at once
# What each engine is asked, which only a working one can say: whether it runs without root, and where it runs.
ENGINES: Mapping[str, str] = {
    "podman": "{{.Host.Security.Rootless}} {{.Host.ServiceIsRemote}}",
    "docker": "{{json .SecurityOptions}}",
}
REMOTE = ("tcp://", "ssh://", "http://", "https://")  # of DOCKER_HOST: a machine that sees no folder of this one
DEFAULT_REGISTRY = "docker.io"  # of a name without one, for docker and GitHub; podman asks for the whole name


class Engine(NamedTuple):
    """A program that runs containers, and whether it does so without root: then its root is the caller."""

    name: str
    program: str
    is_rootless: bool


class EngineImage(NamedTuple):
    """An image on this machine."""

    id: str  # the sha256 of its configuration, and so of all that is in it
    name: str  # with the digest of its manifest, where one is known


def find_engine(environ: Mapping[str, str]) -> Engine | None:
    """Return the first engine on PATH that answers, or the one that the variable names; None if none does.

    Raises InputError if the variable names another program, MachineError if the one that it names does not answer.
    """
    named = environ.get(VARIABLE) or ""
    if named and named not in {*ENGINES, NEVER}:
        raise InputError(f'{VARIABLE} is "{named}"; expected {", ".join(ENGINES)} or {NEVER}')
    names = [named] if named in ENGINES else () if named else ENGINES
    found = next(filter(None, (_ask(name, tuple(sorted(environ.items()))) for name in names)), None)
    if found is None and named in ENGINES:
        msg = f"{VARIABLE} is {named}, and `{named} info` does not answer within {PATIENCE:.0f} s"
        raise MachineError(msg, hint=f"start it, or set {VARIABLE}={NEVER} to build without a container")
    return found


@functools.cache  # asked once in a run
def _ask(name: str, variables: tuple[tuple[str, str], ...]) -> Engine | None:
    """Return an engine if it answers and runs on this machine."""
    environ = dict(variables)
    program = shutil.which(name, path=environ.get("PATH"))
    if program is None or (name == "docker" and environ.get("DOCKER_HOST", "").startswith(REMOTE)):
        return None
    said = output([program, "info", "--format", ENGINES[name]], env=environ, timeout=PATIENCE)
    if not said or said.endswith(" true"):
        return None
    return Engine(name, program, said.startswith("true") or "rootless" in said)


def qualify(name: str, engine: Engine) -> str:
    """Return an image's name as an engine finds it: podman guesses no registry.

    The first part is a registry if it has a dot or a port, or is localhost (distribution/reference).
    """
    first, slash, _ = name.partition("/")
    if engine.name != "podman" or (slash and (first == "localhost" or "." in first or ":" in first)):
        return name
    return f"{DEFAULT_REGISTRY}/{name if slash else f'library/{name}'}"


def find_image(name: str, engine: Engine, environ: Mapping[str, str]) -> EngineImage | None:
    """Return an image that is on this machine; None if it is not."""
    command = [engine.program, "image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", qualify(name, engine)]
    found, _, listed = (output(command, env=environ) or "").partition(" ")
    if not found:
        return None
    digests = [digest.rpartition("@")[2] for digest in json.loads(listed) or ()]
    known = f"{name}@{digests[0]}" if digests and "@" not in name else name
    return EngineImage(found, known)


def fetch_image(name: str, engine: Engine, log: Path, environ: Mapping[str, str]) -> EngineImage:
    """Fetch an image; raise MachineError in the engine's words if that fails."""
    ended = run([engine.program, "pull", qualify(name, engine)], log=log, env=environ)
    found = None if ended.status else find_image(name, engine, environ)
    if found is None:
        raise MachineError(f"{engine.name} cannot fetch the image {name}: {complaint(ended)}")
    return found


class EngineChoice(NamedTuple):
    """The engine and the image in which a job is built, and why it is not built without them."""

    engine: Engine
    image: str
    why: str

    def describe(self, job: str) -> str:
        """Return the choice as a line for the user."""
        return f"{job} is built in {self.image} by {self.engine.name}: {self.why}"


def choose(job: Job, catalog: Catalog, outside: Outside) -> EngineChoice | None:
    """Return in which container a job is built here; None if it is built without one."""
    if job.container is None or job.platform is None or outside.environ.get(IMAGE):  # inside one, as on GitHub
        return None
    facts = catalog.platforms[job.platform]
    why = explain(job, libc()) if facts.os == "linux" and facts.host == outside.host else ""
    engine = find_engine(outside.environ) if why else None
    return EngineChoice(engine, job.container, why) if engine else None


def explain(job: Job, libc: str) -> str:
    """Return why a job needs another machine than one with this C library, or "" if it does not."""
    if job.kind is JobKind.PURE:
        return ""
    if libc_doubt(job.wheel_platform, libc):
        return f"this machine's {libc} is newer than {find_level(job.wheel_platform)}"
    return explain_other_libc(job.wheel_platform, libc)


def find_usual_level(job: Job, catalog: Catalog) -> str:
    """Return the level that the catalog gives a job's wheel, such as manylinux_2_28; "" if the config names one."""
    usual = catalog.platforms[job.platform].wheel_platform if job.platform else ""
    return usual if usual.startswith("manylinux") and job.wheel_platform.startswith(f"{usual}_") else ""


def foretell_levels(jobs: Iterable[Job], catalog: Catalog, outside: Outside) -> list[str]:
    """Return a line for each platform whose wheels `release --here` may tag for a newer glibc, as this machine has.

    Only the finished wheel shows what it needs, so the plan has the usual level on every machine.
    """
    doubtful = (job for job in jobs if job.platform and catalog.platforms[job.platform].host == outside.host)
    own = [job for job in doubtful if libc_doubt(job.wheel_platform, libc()) and not choose(job, catalog, outside)]
    here = f"if the wheel needs more, `release --here` takes the oldest it keeps to, at most {find_level(libc())}"
    levels = {job.platform: usual for job in own if (usual := find_usual_level(job, catalog))}
    return [f"{platform}: planned as {usual}; {here}" for platform, usual in levels.items()]
