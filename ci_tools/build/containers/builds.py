"""Builds a job by running `fatwheel build` again in the job's image, with the same plan, source and cache."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.build.builder import Built
from ci_tools.build.built_with import IMAGE
from ci_tools.build.containers.engines import fetch_image, find_image
from ci_tools.build.containers.mounts import CACHE, OUT, PLAN, Mount, list_cache, list_source, read_settings
from ci_tools.build.containers.runs import Runs
from ci_tools.build.containers.toolkit import ENVIRONMENT, LIFELINE, PYTHON, SELF, prepare_environment
from ci_tools.build.shards.handover import SHARDS
from ci_tools.build.times.trace import SUFFIX
from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.formats import receipts
from ci_tools.machine.process import complaint, tail
from ci_tools.machine.storage import naming, write_atomically
from ci_tools.plan import plan_file
from ci_tools.plan.batches import INSTALLING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.build.containers.choice import EngineChoice
    from ci_tools.machine.context import Outside
    from ci_tools.machine.process import Ended
    from ci_tools.model.plan import Job
    from ci_tools.plan.make import Planned

ERRORS = {error.status: error for error in (Rejected, InputError, MachineError)}
SAID = "fatwheel: "  # before an error that the command prints


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
        command = [PYTHON, "-I", "-S", LIFELINE, PYTHON, "-I", "-m", "ci_tools"]
        command += ["build", str(config), "--plan", PLAN, "--job", job.name, "--out", OUT, *part]
        command += ["--trust-source"] if outside.trusts_source else []
        left = (outside.ends - time.monotonic()) / 60
        command += ["--time-limit", str(max(1, int(left)))] if left < math.inf else []
        minutes, told = INSTALLING + job.minutes, {IMAGE: self.runs.image.name}
        ended = self.runs.run(command, mounts, log=log, minutes=minutes, variables=told)
        what, places = f"{job.name} in {self.runs.image.name}", {OUT: out, CACHE: outside.cache}
        failure = explain_failure(ended, what, places) if ended.status else None
        _append(place / "logs" / f"{job.name}.log", log)
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
    kind = ERRORS.get(ended.status)
    if kind is None or SAID not in printed:
        return MachineError(f"{what} ended with status {ended.status}: {complaint(ended)}", hint=f"log: {ended.log}")
    for inside, here in places.items():
        printed = printed.replace(inside, str(here))
    lines = printed[printed.rindex(SAID) + len(SAID) :].splitlines()
    hint = next((line.strip().removeprefix("hint: ") for line in lines if line.startswith("  hint: ")), "")
    page = next((line.strip().removeprefix("See docs/") for line in lines if line.startswith("  See docs/")), "")
    message = "\n".join(line for line in lines if not line.startswith(("  hint: ", "  See docs/")))
    return kind(f"{what}: {message}", hint=hint, page=page)


def _append(part: Path, log: Path) -> None:
    """Add the build's own log to that of the container."""
    if part.is_file():
        with log.open("ab") as sink, part.open("rb") as source:
            shutil.copyfileobj(source, sink)


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
