"""The verb about a repository on GitHub: doctor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import add_format

if TYPE_CHECKING:
    import argparse

    from ci_tools.cli.arguments import Parser
    from ci_tools.machine.context import Outside


def declare_doctor(parser: Parser) -> None:
    """Add the arguments of `fatwheel doctor`."""
    parser.add_argument("repository", metavar="OWNER/REPO", help="the repository that calls Fatwheel")
    text = "say what can be fixed over the API, fix it, and check again"
    parser.add_argument("--fix", action="store_true", help=text)
    add_format(parser, "json")


def run_doctor(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel doctor`."""
    from ci_tools.cli.next_command import after_doctor, say_next
    from ci_tools.cli.tables.layout import show
    from ci_tools.cli.tables.upkeep import doctor_tables
    from ci_tools.github.client import Hub
    from ci_tools.github.doctor import check

    checked = check.check(Hub(options.repository, outside), fix=options.fix)
    if options.format == "json":
        print(json.dumps(check.to_json(checked), indent=1))
    else:
        show(doctor_tables(checked))
        say_next(after_doctor(checked), outside)
    return check.status(checked)
