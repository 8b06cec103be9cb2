"""What `fatwheel init` writes for other people's projects, and what `fatwheel plan` makes of it.

`python -m tests.proof.starters` does every project of projects.toml and writes the record; with names, only those.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci_tools import catalog
from ci_tools.config import starter
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.names import ProjectName
from ci_tools.model.request import Request, SdistSource
from ci_tools.plan import make
from ci_tools.source import files as source
from ci_tools.source.files import Tree
from tests.proof.truth import HERE, projects

RECORD = HERE / "starters.json"
FIELDS = ("name", "version", "sha256")


def main() -> None:
    """Do every project, or those named, and write the record."""
    names = sys.argv[1:]
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    before = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else []
    found = {one["name"]: one for one in before}
    for project in projects():
        if not names or project["name"] in names:
            with tempfile.TemporaryDirectory() as folder:
                found[project["name"]] = started(project, Path(folder), outside)
            print(project["name"], found[project["name"]]["plan"], flush=True)
    known = [found[project["name"]] for project in projects() if project["name"] in found]
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(known, indent=1, ensure_ascii=False)}\n".encode())


def started(project: dict[str, Any], folder: Path, outside: Outside) -> dict[str, Any]:
    """Return the lines of the starter for a project's sdist, without its comments, and the plan of it in words."""
    shutil.copytree(unpacked(project, outside).root, folder / "source", symlinks=True)
    try:
        written = starter.write(folder / "source", catalog.load(), outside)
        plan = make.make_plan(written.path, outside).plan
    except FatwheelError as error:
        return {**{name: project[name] for name in FIELDS}, "starter": [], "plan": f"refused: {error}".splitlines()[0]}
    text = written.path.read_text(encoding="utf-8")
    said = f"{len(plan.jobs)} wheels for {plan.cells} cells"
    return {**{name: project[name] for name in FIELDS}, "starter": lines_of(text), "plan": said}


def lines_of(text: str) -> list[str]:
    """Return the lines of a config that are not comments, without the comments beside them."""
    lines = (line.partition(" #")[0].rstrip() for line in text.splitlines())
    return [line for line in lines if line and not line.lstrip().startswith("#")]


def unpacked(project: dict[str, Any], outside: Outside) -> Tree:
    """Return a project's sdist, fetched and unpacked."""
    fields = {name: project[name] for name in FIELDS}
    name = ProjectName(project["name"])
    request = Request(name=name, config="fatwheel.yml", source=SdistSource(**fields), pythons=(), platforms=())
    return source.open_tree(request, Path(), outside)


if __name__ == "__main__":
    main()
