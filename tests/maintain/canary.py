"""Tests facts about GitHub itself, in canary.yml: each job records its observation, and the last one makes a table.

`python -m tests.maintain.canary machine --expected linux-x86_64` records one; `table` reads all and prints the page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ci_tools.cli.failures import print_error
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.errors import BAD, DONE, FatwheelError, InputError, nearest
from ci_tools.formats import markdown
from ci_tools.formats.json_file import parse, structure_bytes
from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside
from ci_tools.machine.runner import host
from ci_tools.machine.storage import cache_folder, write_atomically

TURNS = 3  # jobs of one group
TURN_SECONDS = 10.0
WHEEL = "canary-1.0+cu130-py3-none-any.whl"  # the `+` is a character that stores and addresses may change
CONTENT = b"the canary sings\n" * 4096
MACHINES = {
    "linux-x86_64": "a runner with Linux on x86-64",
    "linux-aarch64": "a runner with Linux on Arm",
    "macos-arm64": "a runner with macOS on Arm",
    "windows-amd64": "a runner with Windows",
}
PLATFORMS = ("linux-cpu", "linux-aarch64", "macos-arm64", "windows")  # of .github/canary/fatwheel.yml
BY_ACT = "act runs all jobs on one machine at once, and does not support jobs that may fail"
RUNS_LOOKED_AT = 30


class State(str, Enum):
    """The outcome of a check."""

    HELD = "held"
    NOT_HELD = "did not hold"
    NOT_TRIED = "could not be tried"


class Row(NamedTuple):
    """One line of the table."""

    what: str
    state: State
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The observation of one job."""

    check: str
    name: str = ""
    held: bool = True
    detail: str = ""
    begun: float = 0.0  # seconds since 1970
    ended: float = 0.0
    act: bool = False  # whether act ran the job, and not GitHub


class Asked(NamedTuple):
    """The inputs of the table besides the notes."""

    results: Mapping[str, Mapping[str, Any]]  # `toJSON(needs)` of the workflow: result and outputs by job
    only: str = ""  # the only platform for which wheels were built; empty: all
    elsewhere: str = ""  # OWNER/REPO of a repository that calls wheels.yml of this one
    repository: str = ""  # OWNER/REPO, this one


# ---------------------------------------------------------------- the notes of a job


def take_note(check: str, name: str, expected: str, folder: Path, outside: Outside) -> Note:
    """Run a job's check and write its outcome into a folder; a check that does not hold is recorded, not an error."""
    if check not in CHECKS:
        raise InputError(f'there is no check "{check}", {nearest(check, CHECKS)}')
    begun = time.time()
    detail, held = CHECKS[check](expected, folder)
    is_act = bool(outside.environ.get("ACT"))
    note = Note(check=check, name=name, held=held, detail=detail, begun=begun, ended=time.time(), act=is_act)
    with write_atomically(folder / f"{check}{f'-{name}' if name else ''}.json") as file:
        file.write(json.dumps(asdict(note)).encode())
    return note


def _machine(expected: str, _: Path) -> tuple[str, bool]:
    return host(), host() == expected


def _container(expected: str, _: Path) -> tuple[str, bool]:
    """Check by the version of the C library that the job runs in the container image."""
    found = "".join(platform.libc_ver())
    return found, found == expected


def _turn(_: str, __: Path) -> tuple[str, bool]:
    time.sleep(TURN_SECONDS)
    return "", True


def _said(_: str, __: Path) -> tuple[str, bool]:
    return "", True


def _keep(_: str, folder: Path) -> tuple[str, bool]:
    """Write a file that another job gets as an artifact."""
    with write_atomically(folder / WHEEL) as file:
        file.write(CONTENT)
    return hashlib.sha256(CONTENT).hexdigest(), True


def _take(_: str, folder: Path) -> tuple[str, bool]:
    found = {path.name: path.read_bytes() for path in folder.glob("*.whl")}
    return ", ".join(sorted(found)) or "no wheel", found == {WHEEL: CONTENT}


CHECKS: Mapping[str, Callable[[str, Path], tuple[str, bool]]] = {
    "machine": _machine,
    "container": _container,
    "turn": _turn,
    "fails": _said,  # the step after it fails
    "after": _said,  # the job runs, although the one before it failed
    "keep": _keep,
    "take": _take,
    "attested": _said,  # the step before it has verified the attestation
}


# ---------------------------------------------------------------- the table


def results_of(text: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the `needs` of a workflow's job from their JSON; raise InputError if it is invalid."""
    try:
        found = parse(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(job, dict) for job in found.values()):
        msg = "--needs is not the JSON of a workflow's `needs`, expected an object for each job"
        raise InputError(msg, hint="NEEDS: ${{ toJSON(needs) }}")
    return found


def rows(folder: Path, asked: Asked, outside: Outside) -> tuple[Row, ...]:
    """Return the outcome of every check, from the notes in a folder and the results of the jobs."""
    notes = tuple(_notes(folder))
    is_act = any(note.act for note in notes)
    found = (*_of_machines(notes), *_of_jobs(notes, asked), *_of_wheels(asked), _of_elsewhere(asked, outside))
    return tuple(_excused(row) if is_act else row for row in found)


def _notes(folder: Path) -> Iterator[Note]:
    yield from map(_note, sorted(folder.rglob("*.json")))


def _note(path: Path) -> Note:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return structure_bytes(
        content, Note, str(path), hint="canary.yml has each job write one by `python -m tests.maintain.canary`"
    )


def _excused(row: Row) -> Row:
    """Return a failed row as not tried: act ran the jobs, so the failure says nothing about GitHub."""
    return row._replace(state=State.NOT_TRIED, why=BY_ACT) if row.state is State.NOT_HELD else row


def _judged(what: str, heard: Sequence[Note], *, held: bool, why: str, silent: str = "it reported nothing") -> Row:
    if not heard:
        return Row(what, State.NOT_HELD, silent)
    return Row(what, State.HELD if held else State.NOT_HELD, why)


def _of_machines(notes: Iterable[Note]) -> Iterator[Row]:
    seen = {note.name: note for note in notes if note.check == "machine"}
    for name, what in MACHINES.items():
        note = seen.get(name)
        yield _judged(what, [note] if note else [], held=bool(note and note.held), why=note.detail if note else "")


def _of_jobs(notes: Sequence[Note], asked: Asked) -> Iterator[Row]:
    by_check = {check: [note for note in notes if note.check == check] for check in CHECKS}
    container = by_check["container"]
    yield _judged("a container", container, held=all(note.held for note in container), why=_details(container))
    turns = sorted(by_check["turn"], key=lambda note: note.begun)
    apart = all(one.ended <= other.begun for one, other in pairwise(turns))
    why = f"{len(turns)} of {TURNS} ran, {'one after the other' if apart else 'two at once'}"
    yield _judged("jobs of a group wait, and none is dropped", turns, held=apart and len(turns) == TURNS, why=why)
    # GitHub counts a failed job with `continue-on-error` as a success: https://github.com/actions/runner/issues/1161
    after = bool(by_check["after"])
    result = asked.results.get("fails", {}).get("result", "unknown")
    why = f"the job that failed counts as {result}, and the one after it {'ran' if after else 'did not run'}"
    yield _judged("a job that may fail stops nothing", by_check["fails"], held=after and result == "success", why=why)
    taken = by_check["take"]
    yield _judged(
        "an artifact has its name and bytes", taken, held=all(note.held for note in taken), why=_details(taken)
    )
    attested = by_check["attested"]
    silent = f"the job that verifies it: {asked.results.get('attested', {}).get('result', 'unknown')}"
    yield _judged("an attestation is verified", attested, held=True, why="", silent=silent)


def _details(notes: Iterable[Note]) -> str:
    return ", ".join(note.detail for note in notes)


def _of_wheels(asked: Asked) -> Iterator[Row]:
    """Yield the outcome of the call of wheels.yml: as a whole, and for each platform."""
    wheels = asked.results.get("wheels", {})
    result = str(wheels.get("result", "unknown"))
    state = State.HELD if result == "success" else State.NOT_HELD
    yield Row("a called workflow plans, builds, tries and gathers", state, f"wheels.yml: {result}")
    whole = _listed(wheels.get("outputs", {}).get("units", ""))
    for name in PLATFORMS:
        what = f"a wheel for {name}"
        if asked.only and name != asked.only:
            yield Row(what, State.NOT_TRIED, f"only {asked.only} was requested")
        elif name in whole:
            yield Row(what, State.HELD, "built, audited, installed and imported")
        else:
            yield Row(what, State.NOT_HELD, "it is incomplete: the page of the run says why")


def _listed(text: object) -> list[str]:
    try:
        found = parse(str(text))
    except ValueError:
        return []
    return list(map(str, found)) if isinstance(found, list) else []


def _of_elsewhere(asked: Asked, outside: Outside) -> Row:
    """Return the outcome of the newest run in another repository that called a workflow of this one."""
    what = "a workflow called from another repository"
    if not asked.elsewhere:
        return Row(what, State.NOT_TRIED, "the input `elsewhere` names no repository that calls this one's wheels.yml")
    called = f"{asked.repository}/.github/workflows/wheels.yml@"
    try:
        runs = _runs(asked.elsewhere, outside)
    except FatwheelError as error:
        return Row(what, State.NOT_TRIED, error.message)
    for run in runs:
        if any(str(one.get("path", "")).startswith(called) for one in run.get("referenced_workflows") or ()):
            ended = run.get("conclusion") or run.get("status")
            state = State.HELD if ended == "success" else State.NOT_HELD
            return Row(what, state, f"{run.get('html_url')}: {ended}")
    return Row(
        what, State.NOT_TRIED, f"none of the last {RUNS_LOOKED_AT} runs of {asked.elsewhere} called {called[:-1]}"
    )


def _runs(repository: str, outside: Outside) -> Sequence[Mapping[str, Any]]:
    """Return the newest runs of a repository, each with the reusable workflows that it called.

    https://docs.github.com/en/rest/actions/workflow-runs#list-workflow-runs-for-a-repository
    """
    hub = Hub(repository, outside, permission="actions")
    with hub.opened() as opened:
        path = f"{opened.url}/actions/runs"
        query = {"per_page": RUNS_LOOKED_AT}
        _, data = hub.ask(lambda _: opened.requester.requestJsonAndCheck("GET", path, parameters=query))
    return list((data or {}).get("workflow_runs", ()))


def page(found: Sequence[Row]) -> str:
    """Return the table as Markdown, after a headline with the counts."""
    counts = ", ".join(f"{sum(row.state is state for row in found)} {state.value}" for state in State)
    lines = (markdown.row([markdown.text(row.what), row.state.value, markdown.text(row.why)]) for row in found)
    return f"## The canary: {counts}\n\n{markdown.table_head('What', 'Result', 'Why')}{''.join(lines)}"


def main(words: Sequence[str], outside: Outside) -> int:
    """Record a check, or print the table; return 1 if it has a check that did not hold, 2 for invalid words."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintain.canary")
    parser.add_argument("check")
    for name in ("name", "expected", "needs", "only", "elsewhere", "repository"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--folder", type=Path, default=Path("canary"))
    given = parser.parse_args(words)
    try:
        if given.check == "table":
            return _print_table(given, outside)
        note = take_note(given.check, given.name, given.expected, given.folder, outside)
    except InputError as error:
        return print_error(Console(stderr=True), error)
    print(f"{note.check}: {'held' if note.held else 'did not hold'} {note.detail}".rstrip())
    return DONE


def _print_table(given: argparse.Namespace, outside: Outside) -> int:
    asked = Asked(results_of(given.needs), given.only, given.elsewhere, given.repository)
    found = rows(given.folder, asked, outside)
    print(page(found), end="")
    return BAD if any(row.state is State.NOT_HELD for row in found) else DONE


if __name__ == "__main__":
    reporter = TerminalReporter(lambda: Console(stderr=True))
    sys.exit(main(sys.argv[1:], Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=reporter)))
