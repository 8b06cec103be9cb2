"""docs/reference/workflows.md: the workflows that others call."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.pages import REPOSITORY
from docs.pages.config import WORDS
from docs.pages.markdown import code, table
from tests.workflows import rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


WORKFLOWS = """\
# The workflows

What a workflow of another repository calls, as `OWNER/fatwheel/.github/workflows/NAME.yml@` and a commit. Inputs are
given below `with:`, secrets below `secrets:`, each with the default shown here. No input is run as code.

A caller grants what the jobs ask for together, on top of its file or at the calling job. GitHub refuses a run that
grants less before its first job begins, also where the job that asks for it would be skipped. What each job may do is
in [the threat model](../explanation/threat-model.md)."""
CALLED = ("wheels", "publish", "platform", "comment", "recipes", "request", "verify")


def describe() -> Iterator[str]:
    """Describe every workflow that others call: inputs, secrets, outputs, grants, and what it leaves behind."""
    files = rules.project(REPOSITORY)
    yield WORKFLOWS
    for name in CALLED:
        path = f".github/workflows/{name}.yml"
        if path in files and "workflow_call" in files[path].triggers:
            yield from ("", f"## {name}.yml", "", _head(files[path]))
            yield from describe_interface(files[path])
            yield from _granted(files[path], files)
            yield from _left(files[path])


def _head(file: rules.File) -> str:
    """Return what a file begins with, without the sentences that name a page."""
    lines = itertools.takewhile(lambda line: line.startswith("# "), file.lines)
    text = " ".join(line.removeprefix("# ") for line in lines)
    return " ".join(said for said in re.split(r"(?<=\.) (?=[A-Z])", text) if "docs/" not in said)


def describe_interface(file: rules.File) -> Iterator[str]:
    """Give the inputs, secrets and outputs of a file; those of an action are all text."""
    below = "##" if file.is_action else "###"
    kinds = {
        "inputs": (("input", *(() if file.is_action else ("type",)), "default", "meaning"), _input),
        "secrets": (("secret", "meaning"), _described),
        "outputs": (("output", "meaning"), _described),
    }
    for kind, (head, row) in kinds.items():
        if declared := file.declared(kind, "workflow_call"):
            yield from ("", f"{below} {kind.title()}")
            yield from table(head, (row(name, said) for name, (_, said) in declared.items()))


def _input(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    kind = [WORDS[said["type"]]] if "type" in said else []
    default = json.dumps(said.get("default", "")).strip('"')
    shown = code([default]) if default else ""
    return f"`{name}`", *kind, "required" if said.get("required") else shown, said["description"]


def _described(name: str, said: Mapping[str, Any]) -> tuple[str, str]:
    return f"`{name}`", said["description"]


HANDED = """\
`{job}` may do what its caller grants, by the targets: see [what to
grant](../how-to/publish-from-a-workflow.md#what-to-grant)."""


def _granted(file: rules.File, files: rules.Project) -> Iterator[str]:
    """Give what a caller has to grant, and the jobs that ask for it with their reasons."""
    said: dict[str, list[str]] = {}
    for job, scope, reason in _reasons(file, files):
        said.setdefault(scope, []).append(f"`{job}` {reason}")
    yield from ("", f"### What a caller of {Path(file.document.name).name} grants")
    asked = sorted(rules.asked(file, files).items())
    if asked:
        rows = ((f"`{scope}: {level}`", "<br>".join(said[scope])) for scope, level in asked)
        yield from table(("grant", "which job, and why"), rows)
    handed = [name for name, job in file.jobs.items() if rules.has_the_callers(file, job, files)]
    yield from ("", HANDED.format(job=handed[0])) if handed else ()


def _reasons(file: rules.File, files: rules.Project) -> Iterator[tuple[str, str, str]]:
    """Yield each job, a scope that it asks for, and the comment beside that; of a called workflow its own jobs."""
    for name, job in file.jobs.items():
        if "uses" in job:
            below = _reasons(files[job["uses"].removeprefix("$/")], files)
            yield from ((f"{name} / {inner}", scope, reason) for inner, scope, reason in below)
            continue
        for scope in job.get("permissions", {}):
            yield name, scope, file.comment(("jobs", name, "permissions", scope))


def _left(file: rules.File) -> Iterator[str]:
    """Give the artifacts that a workflow leaves, each with the step that leaves it, and the workflows that it calls."""
    kept = [step.value for step in file.steps if step.action == "actions/upload-artifact"]
    called = [job["uses"].rpartition("/")[2] for job in file.jobs.values() if "uses" in job]
    if kept or called:
        yield from ("", "### Artifacts")
    if kept:
        yield from table(
            ("artifact", "the step that leaves it"),
            ((code([_artifact(step["with"]["name"])]), step["name"]) for step in kept),
        )
    if called:
        yield from ("", f"Those of {' and '.join(called)}, which it calls.")


def _artifact(name: str) -> str:
    """Return an artifact's name with what a run fills in as words: `fatwheel-built-NAME`."""
    usual = name.replace("${{ inputs.artifacts }}", "fatwheel")
    return re.sub(r"\$\{\{ *[\w.]*?(\w+) *\}\}", lambda match: match[1].upper(), usual)
