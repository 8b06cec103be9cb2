"""What Fatwheel needs in an image: its requirements, and the environment that has them, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ci_tools
from ci_tools.build.containers.mounts import TOOLKIT, Mount
from ci_tools.errors import MachineError
from ci_tools.machine.process import complaint
from ci_tools.machine.storage import fill_once

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_tools.build.containers.runs import Runs

ENVIRONMENT = "/fatwheel/environment"
PYTHON = f"{ENVIRONMENT}/bin/python"
LIFELINE = f"{TOOLKIT}/ci_tools/machine/_lifeline.py"
SELF = Mount(Path(ci_tools.__file__).parent, f"{TOOLKIT}/ci_tools")
SCRIPTS = f"{TOOLKIT}/ci_tools/build/containers"
ASKED = "/fatwheel/asked"
MINUTES = 30  # for the packages, over a slow line


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
    asked = [one for one in asked if "extra ==" not in one]
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
