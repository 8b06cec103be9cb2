"""Builds a job by running `fatwheel build` again in the job's image, with the same plan, source and cache.

What Fatwheel needs in an image, its requirements and the environment that has them, is kept in the cache.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ci_tools
from ci_tools.build.builder import Built
from ci_tools.build.built_with import IMAGE
from ci_tools.build.containers.engines import EngineChoice, fetch_image, find_image
from ci_tools.build.containers.runs import (
    CACHE,
    OUT,
    PLAN,
    TOOLKIT,
    Mount,
    Runs,
    list_cache,
    list_source,
    read_settings,
)
from ci_tools.build.shards.handover import SHARDS
from ci_tools.build.times.trace import SUFFIX
from ci_tools.errors import SEE, FatwheelError, InputError, MachineError, Rejected
from ci_tools.formats import receipts
from ci_tools.machine.context import Outside
from ci_tools.machine.process import Ended, complaint, tail
from ci_tools.machine.storage import fill_once, naming, write_atomically
from ci_tools.model.plan import Job
from ci_tools.plan import plan_file
from ci_tools.plan.batches import INSTALLING

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

ERRORS = {error.status: error for error in (Rejected, InputError, MachineError)}
SAID = "fatwheel: "  # before an error that the command prints
if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


ENVIRONMENT = "/fatwheel/environment"
PYTHON = f"{ENVIRONMENT}/bin/python"
LIFELINE = f"{TOOLKIT}/ci_tools/machine/_lifeline.py"
SELF = Mount(Path(ci_tools.__file__).parent, f"{TOOLKIT}/ci_tools")
SCRIPTS = f"{TOOLKIT}/ci_tools/build/containers"
ASKED = "/fatwheel/asked"
MINUTES = 30  # for the packages, over a slow line


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """An image in which Fatwheel runs."""

    runs: Runs
    environment: Path

    @property
    def identity(self) -> str:
        """The image as a part of what the built bytes depend on: everything in it."""
        return f"image-{self.runs.image.id}"

    def build_wheel(self, job: Job, planned: Planned, out: Path, *, links: bool = False) -> Built:
        """Build a job's wheel into `out`, and its twin for PyPI if it has one; of what shards compiled, if it `links`.

        Raises the error of the command in the container.
        """
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            self._run(job, planned, out, Path(folder), ["--link"] if links else [])
            return _take(Path(folder) / "out", [job.wheel, *([job.public] if job.public else [])], out)

    def build_part(self, job: Job, planned: Planned, out: Path, *part: str) -> None:
        """List a job's units or compile a shard of them, as the options `part` say, into `out`; raise its error."""
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            self._run(job, planned, out, Path(folder), part)

    def _run(self, job: Job, planned: Planned, out: Path, folder: Path, part: Sequence[str]) -> None:
        """Run `fatwheel build` with further options; what it builds is in the folder `out` of `folder`."""
        outside, log = self.runs.outside, out / "logs" / f"{job.name}.log"
        config = (planned.config or planned.tree.root / planned.plan.request.config).absolute()
        log.unlink(missing_ok=True)
        place, plan, shards = folder / "out", folder / "plan.json", (out / SHARDS / job.name).absolute()
        place.mkdir()
        plan.write_text(plan_file.dumps(planned.plan), encoding="utf-8")
        if part:
            shards.mkdir(parents=True, exist_ok=True)
        mounts = (
            *list_source(config, planned.tree.root, outside.cache, outside.environ),
            *(SELF, Mount(self.environment, ENVIRONMENT), Mount(plan, PLAN)),
            *(Mount(place, OUT, is_writable=True), *list_cache(outside.cache)),
            *([Mount(shards, f"{OUT}/{SHARDS}/{job.name}", is_writable=True)] if part else []),
        )
        command = [PYTHON, "-I", "-S", LIFELINE, PYTHON, "-I", "-m", "ci_tools"]  # the lifeline needs no package
        command += ["build", str(config), "--plan", PLAN, "--job", job.name, "--out", OUT, *part]
        command += ["--trust-source"] if outside.trusts_source else []
        left = (outside.ends - time.monotonic()) / 60  # of now: it may have fetched the image
        command += ["--time-limit", str(max(1, int(left)))] if left < math.inf else []
        minutes, told = INSTALLING + job.minutes, {IMAGE: self.runs.image.name}
        ended = self.runs.run(command, mounts, log=log, minutes=minutes, variables=told)
        what, places = f"{job.name} in {self.runs.image.name}", {OUT: out, CACHE: outside.cache}
        failure = explain_failure(ended, what, places) if ended.status else None
        if (own_log := place / "logs" / f"{job.name}.log").is_file():  # the build's own, behind that of the container
            with log.open("ab") as sink, own_log.open("rb") as source:
                shutil.copyfileobj(source, sink)
        for kind in (".units.json", SUFFIX, ".html"):
            if (found := place / "logs" / f"{job.name}{kind}").is_file():
                shutil.copyfile(found, log.with_suffix(kind))
        if failure:
            raise failure


def open_container(choice: EngineChoice, out: Path, outside: Outside) -> Container:
    """Return the container of a choice; fetch its image, and install Fatwheel for it, where that was not done.

    Raises MachineError if either fails.
    """
    engine, log = choice.engine, out / "logs" / "container.log"
    image = find_image(choice.image, engine, outside.environ)
    if image is None:
        with outside.reporter.step(f"fetch the image {choice.image}"):
            image = fetch_image(choice.image, engine, log, outside.environ)
    runs = Runs(engine=engine, image=image, settings=read_settings(outside.environ), outside=outside)
    return Container(runs=runs, environment=prepare_environment(runs, log))


def explain_failure(ended: Ended, what: str, places: dict[str, Path]) -> FatwheelError:
    """Return the error that the command in a container has printed, with this machine's paths."""
    if ended.timed_out:
        return Rejected(f"{what} took longer than {ended.seconds / 60:.0f} minutes", hint=f"log: {ended.log}")
    printed = tail(ended.log, 200, ended.start)
    kind = ERRORS.get(ended.status)  # 137, say, is the engine's
    if kind is None or SAID not in printed:
        return MachineError(f"{what} ended with status {ended.status}: {complaint(ended)}", hint=f"log: {ended.log}")
    for inside, here in places.items():
        printed = printed.replace(inside, str(here))
    lines = printed[printed.rindex(SAID) + len(SAID) :].splitlines()  # the build may print such a line
    hint = next((line.strip().removeprefix("hint: ") for line in lines if line.startswith("  hint: ")), "")
    page = next((line.strip().removeprefix(SEE) for line in lines if line.startswith(f"  {SEE}")), "")
    message = "\n".join(line for line in lines if not line.startswith(("  hint: ", f"  {SEE}")))
    return kind(f"{what}: {message}", hint=hint, page=page)


def _take(place: Path, names: Sequence[str], out: Path) -> Built:
    """Copy what was built to where it is wanted; raise MachineError if it is not what its receipt says."""
    found = [receipts.load(place / name) for name in names]
    first = found[0]
    if first is None or not all(found):
        raise MachineError(f"the container left no {', '.join(names)} with a receipt")
    for name in names:
        with naming(out / name), write_atomically(out / name) as sink, (place / name).open("rb") as source:
            shutil.copyfileobj(source, sink)
    return Built(out / names[0], first.built_with, first.seconds)


class Requirements(NamedTuple):
    """The requirements of Fatwheel, and the versions of them that this run has."""

    asked: tuple[str, ...]
    pinned: tuple[str, ...]


def read_requirements() -> Requirements:
    """Return what this Fatwheel requires, by its metadata or, where it runs from its source, by its project file."""
    try:
        asked = metadata.requires("fatwheel") or []
    except metadata.PackageNotFoundError:
        asked = _read_project(SELF.source.with_name("pyproject.toml"))
    if not asked:
        msg = "what Fatwheel requires is not known here: it is neither installed nor beside its pyproject.toml"
        raise MachineError(msg)
    asked = [one for one in asked if "extra ==" not in one]  # of tests and docs
    return Requirements(tuple(asked), tuple(_pin(asked)))


def _read_project(path: Path) -> list[str]:
    """Return the dependencies in a project file; none if there is no such file, or it is another project's."""
    if not path.is_file():
        return []
    project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    return list(project.get("dependencies", [])) if project.get("name") == "fatwheel" else []


def _pin(requirements: Iterable[str]) -> Iterable[str]:
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            yield f"{name}=={metadata.version(name)}"
        except metadata.PackageNotFoundError:  # of another Python or system
            continue


def prepare_environment(runs: Runs, log: Path) -> Path:
    """Return the folder of an environment that runs Fatwheel in an image, made on first use and kept.

    Raises MachineError if the image has no Python for it, or pip cannot install.
    """
    needed, version = read_requirements(), ".".join(map(str, sys.version_info[:2]))
    key = hashlib.sha256(json.dumps([runs.image.id, needed, version]).encode()).hexdigest()[:32]
    outside = runs.outside

    def fill(folder: Path) -> None:
        asked = folder / "asked"
        asked.mkdir()
        for name, lines in needed._asdict().items():
            (asked / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        place = folder / "environment"
        place.mkdir()
        mounts = (SELF, Mount(asked, ASKED), Mount(place, ENVIRONMENT, is_writable=True))
        lists = (f"{ASKED}/asked.txt", f"{ASKED}/pinned.txt")
        script = [f"{SCRIPTS}/_prepare.py", ENVIRONMENT, TOOLKIT, *lists, version]
        with outside.reporter.step(f"prepare Fatwheel for {runs.image.name}"):
            command = ["sh", f"{SCRIPTS}/_prepare.sh", version, LIFELINE, *script]
            ended = runs.run(command, mounts, log=log, minutes=MINUTES)
        if ended.status:
            raise MachineError(f"Fatwheel cannot be installed for {runs.image.name}: {complaint(ended)}")

    return fill_once(outside.cache / "containers" / key, fill, outside.reporter.say) / "environment"
