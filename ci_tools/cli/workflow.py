"""The verbs for steps of a workflow: step, canary and canary-table."""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import redirect_stdout
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ci_tools.cli.dispatch import run
from ci_tools.cli.failures import silence_commands
from ci_tools.cli.values import BAD, DONE
from ci_tools.errors import InputError, LeftUndone
from ci_tools.github import step as steps

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from ci_tools.machine.context import Outside

    Verb = Callable[[argparse.Namespace, Outside], int]


def run_step(options: argparse.Namespace, outside: Outside) -> int:
    """Run the verb of a workflow step; its output becomes the step's outputs, its summary page, or its log."""
    today = datetime.now(timezone.utc).strftime("%Y%m%d")
    step = steps.step_of(options.name, outside.environ, today)
    files = [Path(_file_of(variable, outside.environ)) for variable in step.files]
    words = io.StringIO()
    undone: LeftUndone | None = None
    with silence_commands(outside.environ), redirect_stdout(words if files else sys.stderr):
        outside.reporter.say(f"$ {shlex.join(['fatwheel', *step.arguments])}")
        try:
            status = run(Console(stderr=True), step.arguments)
        except LeftUndone as error:  # not a failure: the output is still written
            undone = error
    for path in files:
        with path.open("a", encoding="utf-8") as file:
            file.write(words.getvalue())
    if undone:
        raise undone
    return status


def _file_of(variable: str, environ: Mapping[str, str]) -> str:
    if not environ.get(variable):
        msg = f"{variable} names no file: `fatwheel step` is for steps of a workflow"
        raise InputError(msg)
    return environ[variable]


def run_canary(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel canary`."""
    from ci_tools.github import canary

    note = canary.take_note(options.check, options.name, options.expected, options.folder, outside)
    print(f"{note.check}: {'held' if note.held else 'did not hold'} {note.detail}".rstrip())
    return DONE


def run_canary_table(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel canary-table`."""
    from ci_tools.github import canary

    results = canary.results_of(options.needs)
    asked = canary.Asked(results, options.only, options.elsewhere, options.repository)
    found = canary.rows(options.folder, asked, outside)
    print(canary.page(found), end="")
    return BAD if any(row.state is canary.State.NOT_HELD for row in found) else DONE
