"""`make proof`: holds Fatwheel against other people's projects, builds those that can be built here, and records it.

`python -m tests.proof torch-scatter` does one project anew, `--no-builds` keeps what is recorded of builds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ci_tools.build import jobs as building
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.files import Level
from ci_tools.verify import files
from tests.proof import torchao
from tests.proof.truth import BUILT, HERE, WIDE, checked, planned, projects

RECORD = HERE / "record.json"


def main() -> None:
    """Do every project, or those named, and write the record."""
    options = _parser().parse_args()
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    known = {project["name"]: project for project in projects()}
    before = json.loads(RECORD.read_text(encoding="utf-8"))["projects"] if RECORD.exists() else []
    found = {one["name"]: one for one in before if one["name"] in known}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or known:
            kept = found.get(name, {}) if options.no_builds or options.evidence else {}
            found[name] = _proven(known[name], Path(folder), outside, kept, options)
            _write([found[one] for one in known if one in found])
    if not options.names:
        print(torchao.record(outside), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proof")
    parser.add_argument("names", nargs="*", help="projects of projects.toml; default: all")
    parser.add_argument("--no-builds", action="store_true", help="keep what is recorded of builds")
    parser.add_argument("--evidence", action="store_true", help="keep what is recorded of plans and builds")
    return parser


def _write(found: list[dict[str, Any]]) -> None:
    record = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "versions": {name: version(name) for name in ("fatwheel", "setuptools", "packaging")},
        "python": platform.python_version(),
        "projects": found,
    }
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(record, indent=1, ensure_ascii=False)}\n".encode())


def _proven(
    project: dict[str, Any], folder: Path, outside: Outside, kept: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Return what a project shows, what is planned of it, and what a build of it gave; and print that."""
    started = time.monotonic()
    rows = checked(project, folder, outside)
    print(f"{project['name']} {project['version']} ({time.monotonic() - started:.1f} s)", flush=True)
    for row in rows:
        print(f"  {row.platform}: {row.verdict}: {row.difference or row.seen.native} | {row.seen.why}", flush=True)
    is_known = all(row.seen.native != "not known" for row in rows)
    builds = "build" in project and not kept and not options.no_builds and not options.evidence
    proven = {
        **{name: project[name] for name in ("name", "version", "sha256")},
        "platforms": {row.platform: row.as_json() for row in rows},
        "plan": (kept.get("plan") if options.evidence else _plan(project, folder, outside)) if is_known else None,
        "build": _build(project, folder, outside) if builds else kept.get("build"),
    }
    print(f"  plan: {proven['plan']}\n  build: {proven['build']}", flush=True)
    return proven


def _plan(project: dict[str, Any], folder: Path, outside: Outside) -> dict[str, Any]:
    """Return how many wheels serve how many cells of a wide request."""
    started = time.monotonic()
    try:
        plan = planned(project, folder, outside, WIDE).plan
    except FatwheelError as error:
        return {"refused": str(error).splitlines()[0]}
    seconds = round(time.monotonic() - started, 1)
    return {"cells": plan.cells, "covered": len(plan.covered), "wheels": len(plan.jobs), "seconds": seconds}


def _build(project: dict[str, Any], folder: Path, outside: Outside) -> dict[str, Any]:
    """Return what the build and the audit of a project's wheel for this machine gave."""
    cells = {"python": "3.11", "torch": "2.13", **project["build"]}
    out = folder / project["name"]
    try:
        plan = planned(project, folder, outside, BUILT, **cells)
        if not plan.plan.jobs:
            return {"failed": plan.plan.skipped[0].reason}
        (made,) = building.build(plan, [job.name for job in plan.plan.jobs], out, outside, files.CHECKS)
        findings = files.audit_files([made.path], plan.plan, outside)
    except FatwheelError as error:
        return {"failed": str(error)[:600]}
    errors = [f"{found.rule}: {found.message}" for found in findings if found.level is Level.ERROR]
    return {
        "wheel": made.path.name,
        "bytes": made.receipt.size,
        "seconds": made.receipt.seconds,
        "errors": errors,
        "warnings": sorted({found.rule for found in findings if found.level is Level.WARNING}),
    }


if __name__ == "__main__":
    main()
