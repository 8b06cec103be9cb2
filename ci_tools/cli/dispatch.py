"""Finds the verb that a command line names, and runs it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ci_tools.cli import verbose
from ci_tools.cli.arguments import parser
from ci_tools.cli.failures import STDOUT
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import cache_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    Verb = Callable[[argparse.Namespace, Outside], int]

__all__ = ["VERBS", "find_verb", "run"]

# The module of each verb in this folder. It is imported when its verb runs: a plan must not wait for the modules that
# build and publish.
VERBS: Mapping[str, str] = {
    "init": "plan",
    "plan": "plan",
    "summary": "plan",
    "advise": "plan",
    "evidence": "plan",
    "prepare": "build",
    "build": "build",
    "audit": "build",
    "validate": "build",
    "gather": "build",
    "trials": "build",
    "attested": "publish",
    "unattested": "publish",
    "publish": "publish",
    "release": "publish",
    "retract": "publish",
    "index adopt": "index",
    "index verify": "index",
    "index repair": "index",
    "index add": "index",
    "index pages": "index",
    "yank": "index",
    "unyank": "index",
    "promote": "index",
    "doctor": "repository",
    "tell": "repository",
    "comment": "repository",
    "step": "workflow",
    "canary": "workflow",
    "canary-table": "workflow",
}


def run(stderr: Console, arguments: Sequence[str] | None) -> int:
    """Run the verb of a command line, and return its exit status."""
    options = parser().parse_args(arguments)
    if verbose.is_wanted(os.environ, asked=options.verbose):
        verbose.start(stderr)
    status = find_verb(options.verb)(options, _outside(stderr, options))
    _flush_stdout()  # here, where a full disk is still reported as such
    return status


def find_verb(name: str) -> Verb:
    """Return the function of a verb: `run_index_verify` of the module `index` for "index verify"."""
    module = import_module(f"ci_tools.cli.{VERBS[name]}")
    return cast("Verb", getattr(module, f"run_{name.replace(' ', '_').replace('-', '_')}"))


def _flush_stdout() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = STDOUT
        raise


def _outside(stderr: Console, options: argparse.Namespace) -> Outside:
    return Outside(
        environ=os.environ,
        cache=cache_folder(os.environ),
        reporter=TerminalReporter(stderr),
        trusts_source=getattr(options, "trust_source", False),
    )
