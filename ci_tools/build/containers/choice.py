"""Decides which jobs are built in a container: those whose wheel is for another C library than this machine's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.built_with import IMAGE
from ci_tools.build.containers.engines import find_engine
from ci_tools.build.toolchain import explain_other_libc, libc, libc_doubt
from ci_tools.model.plan import JobKind

if TYPE_CHECKING:
    from ci_tools.build.containers.engines import Engine
    from ci_tools.catalog import Catalog
    from ci_tools.machine.context import Outside
    from ci_tools.model.plan import Job


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
        level = re.sub(r"(_\d+_\d+)_.*", r"\1", job.wheel_platform)
        return f"this machine's {libc} is newer than {level}"
    return explain_other_libc(job.wheel_platform, libc)
