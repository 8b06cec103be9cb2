"""The verbs about a repository on GitHub: doctor, tell and comment."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import show
from ci_tools.cli.tables.upkeep import doctor_tables
from ci_tools.cli.values import DONE, read_repository

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ci_tools.machine.context import Outside

    Verb = Callable[[argparse.Namespace, Outside], int]


def run_doctor(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel doctor`."""
    from ci_tools.github.client import Hub
    from ci_tools.github.doctor import check

    checked = check.check(Hub(options.repository, outside), fix=options.fix)
    if options.format == "json":
        print(json.dumps(check.to_json(checked), indent=1))
    else:
        show(doctor_tables(checked))
    return check.status(checked)


def run_tell(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel tell`."""
    from ci_tools.github import owners
    from ci_tools.github.client import Hub

    run, now = owners.run_of(outside.environ), datetime.now(timezone.utc)
    told = owners.news(options.config, options.platform, options.result, run, now)
    print(owners.tell(Hub(read_repository(options, outside), outside, permission=owners.PERMISSION), told))
    return DONE


def run_comment(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel comment`."""
    from ci_tools.github import comment
    from ci_tools.github.client import Hub

    text = comment.read(options.file)
    hub = Hub(read_repository(options, outside), outside, permission=comment.PERMISSION)
    print(comment.comment(hub, options.pull, text, options.name))
    return DONE
