"""What GitHub refuses before any job of a run starts, and act does not look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.workflows import rules
from tests.workflows.repositories import Repository


class Refused(Exception):
    """GitHub would end this run as a startup failure, with these reasons."""


def refusals(
    file: rules.File,
    event: str,
    inputs: Mapping[str, str],
    repositories: Mapping[str, Repository],
) -> None:
    """Raise Refused with every reason why a run of a workflow could not start."""
    found = [*_event(file, event, inputs), *_calls(file, repositories)]
    if found:
        raise Refused("\n".join(found))


def _event(file: rules.File, event: str, inputs: Mapping[str, str]) -> Iterator[str]:
    if event not in file.triggers:
        yield f"{file.document.name} is not started by {event}"
    declared = {name: value for name, (_, value) in file.declared("inputs", event).items()}
    yield from _given(f"{file.document.name} on {event}", inputs, declared)
    for name, value in inputs.items():
        options = declared.get(name, {}).get("options")
        if options and value not in map(str, options):
            yield f"{name} is {value}, expected one of {', '.join(map(str, options))}"
        if declared.get(name, {}).get("type") == "boolean" and value not in {"true", "false"}:
            yield f"{name} is {value}, expected true or false"


def _given(what: str, given: Mapping[str, Any], declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in given:
        if name not in declared:
            yield f"{what} takes no {name}"
    for name, value in declared.items():
        if value.get("required") and name not in given:
            yield f"{what} requires {name}"


def _calls(file: rules.File, repositories: Mapping[str, Repository]) -> Iterator[str]:
    """Yield what is wrong with the calls of a workflow in another repository, down through what that one calls."""
    for name, job in file.jobs.items():
        owner, _, rest = job.get("uses", "").partition("/")
        repository, _, path = rest.partition("@")[0].partition("/")
        source = repositories.get(f"{owner}/{repository}")
        if source is None:
            continue
        called = source.files.get(path)
        if called is None:
            yield f"the job {name} calls {path}, which {source.name} does not have"
            continue
        yield from _call(name, job, called, source, _granted(file, job))


def _granted(file: rules.File, job: Mapping[str, Any]) -> Callable[[str], str]:
    """Return what a job is granted for a scope: by itself, else on top of its file, else by a new repository."""
    grants = job.get("permissions", file.value.get("permissions", {"contents": "read", "packages": "read"}))
    if isinstance(grants, dict):
        return lambda scope: grants.get(scope, "none")
    return lambda _scope: grants.removesuffix("-all")


def _call(
    name: str, job: Mapping[str, Any], called: rules.File, source: Repository, granted: Callable[[str], str]
) -> Iterator[str]:
    if "workflow_call" not in called.triggers:
        yield f"{called.document.name} cannot be called"
    inputs = {name: value for name, (_, value) in called.declared("inputs", "workflow_call").items()}
    secrets = {name: value for name, (_, value) in called.declared("secrets", "workflow_call").items()}
    yield from _given(f"{called.document.name}", job.get("with", {}), inputs)
    if job.get("secrets") != "inherit":
        yield from _given(f"{called.document.name}", job.get("secrets", {}), secrets)
    for scope, level in rules.asked(called, source.files).items():
        if rules.RANKS[level] > rules.RANKS[granted(scope)]:
            yield f"{called.document.name} asks for {scope}: {level}, which the job {name} does not grant"
