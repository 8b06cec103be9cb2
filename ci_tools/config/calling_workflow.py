"""Writes the workflow with which a repository calls Fatwheel's: `init --workflow`, and the move from test-infra."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ci_tools import catalog as catalogs
from ci_tools.config.loader import load
from ci_tools.errors import InputError
from ci_tools.machine.storage import write_atomically
from ci_tools.source.git import find

PLACE = ".github/workflows/wheels.yml"
TEMPLATE = Path(__file__).with_name("wheels.yml.in").read_text(encoding="utf-8")


def workflow(events: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return the text of a workflow that calls Fatwheel's with these inputs, started by these events or by hand."""
    return TEMPLATE.format(
        triggers=_indent_yaml(events or {"workflow_dispatch": None}, "  "), inputs=_indent_yaml(inputs, "      ")
    )


def write_caller(config: Path) -> Path:
    """Write a workflow that builds by a config, for pull requests and the tags of its releases; return its path.

    Raises InputError if there is such a file already.
    """
    root = find(config.parent) or config.parent.resolve()
    path = root / PLACE
    if path.exists():
        raise InputError(f"{path} exists already, expected no such file: `fatwheel doctor` reads it; or move it away")
    tags = load(config, catalogs.load()).release.tag.format(name="*", version="*")
    inputs = {"config": config.resolve().relative_to(root).as_posix()}
    with write_atomically(path) as file:
        file.write(workflow({"pull_request": None, "push": {"tags": [tags]}}, inputs).encode())
    return path


def _indent_yaml(table: Mapping[str, Any], by: str) -> str:
    shown = yaml.safe_dump(dict(table), sort_keys=False, width=1000)  # no line is folded
    return textwrap.indent(shown.replace(": null\n", ":\n"), by)
