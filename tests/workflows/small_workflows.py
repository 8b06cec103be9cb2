"""Workflows of a few jobs, written from their steps, and run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.workflows import harness, repositories
from tests.workflows.harness import Event, World

UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1"
DISPATCH = """\
workflow_dispatch:
    inputs:
      channel:
        type: choice
        options: [stable, nightly]
      dry-run:
        type: boolean
"""


def run_jobs(
    home: Path, jobs: str, *, on: str = "push:", event: Event | None = None, world: World | None = None
) -> harness.Run:
    """Run the jobs of a workflow in a repository of its own."""
    workflow = f"name: Main\non:\n  {on}\npermissions: {{}}\njobs:\n{jobs}"
    mine = repositories.make_repository(home / "mine", name="me/mine", files={".github/workflows/main.yml": workflow})
    return harness.run("main.yml", event or Event.push(), home / "run", mine, world=world)


def job(name: str, *steps: str, more: str = "", runner: str = "ubuntu-latest") -> str:
    """Return a job of steps, each either a command or the lines of a step."""
    lines = [step if re.match("(name|id|uses): ", step) else f"run: {step}" for step in steps]
    texts = (line.strip().replace("\n", "\n        ") for line in lines)
    body = "".join(f"      - {text}\n" for text in texts)
    keys = "".join(f"    {line}\n" for line in more.splitlines())
    return f"  {name}:\n    name: {name.title()}\n    runs-on: {runner}\n{keys}    steps:\n{body}"


def step(uses: str, **given: str) -> str:
    lines = "".join(f"\n  {name.replace('_', '-')}: {value}" for name, value in given.items())
    return f"uses: {uses}\nwith:{lines}" if given else f"uses: {uses}\nenv: {{}}"
