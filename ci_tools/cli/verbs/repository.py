"""The verbs about a repository on GitHub: doctor and status."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import add_format, parse_nonempty, parse_number
from ci_tools.cli.statuses import DONE
from ci_tools.errors import InputError

if TYPE_CHECKING:
    import argparse

    from ci_tools.cli.arguments import Parser
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.health import KnownConfig


def declare_doctor(parser: Parser) -> None:
    parser.add_argument("repository", metavar="OWNER/REPO", help="the repository that calls Fatwheel")
    parser.add_flag("--fix", "say what can be fixed over the API, fix it, and check again")
    add_format(parser, "json")


def run_doctor(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.next_command import after_doctor, say_next
    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.tables.upkeep import doctor_tables
    from ci_tools.doctor import check
    from ci_tools.github.client import Hub

    checked = check.check(Hub(options.repository, outside), fix=options.fix)
    show_as(options.format, doctor_tables(checked), check.to_json(checked))
    if options.format == "table":
        say_next(after_doctor(checked), outside)
    return check.status(checked)


MAX_RUNS = 100  # of a workflow: GitHub answers as many at once


def declare_status(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the repository, as github:OWNER/REPO")
    text = "the file of a workflow, such as recipes.yml; may be given several times; default: those that use Fatwheel"
    parser.add_argument("--workflow", action="append", default=[], type=parse_nonempty, metavar="FILE", help=text)
    text = "how many runs of each workflow are looked at, at most 100; default: %(default)s"
    parser.add_argument("--runs", type=parse_number, default=20, metavar="N", help=text)
    text = "the config whose platforms are built there; default: the nearest, if there is one; recipes always count"
    parser.add_argument("--config", type=Path, metavar="FILE", help=text)
    parser.add_argument("--page", type=Path, metavar="FILE", help="a file for the same as a page of HTML")
    parser.add_argument("--badge", type=Path, metavar="FILE", help="a file for a badge, an SVG image")
    add_format(parser, "json")


def run_status(options: argparse.Namespace, outside: Outside) -> int:
    from datetime import datetime, timezone

    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.tables.status import status_table, status_values
    from ci_tools.doctor.runs import read_runs
    from ci_tools.publish.retention.removal import open_hub, read_releases
    from ci_tools.recipes import health

    if options.runs > MAX_RUNS:
        msg = f"--runs {options.runs} is too much, expected at most {MAX_RUNS}"
        raise InputError(msg)
    hub = open_hub(options.target, outside)
    known, package = _read_known(options, outside)
    runs = read_runs(hub, options.workflow, options.runs)
    lines = health.list_lines(runs, known, read_releases(hub), package)
    if options.page:
        _write(options.page, health.write_page(hub.repository, lines, datetime.now(timezone.utc)))
    if options.badge:
        _write(options.badge, health.write_badge(health.summarize(lines)).encode())
    show_as(options.format, status_table(lines), status_values(lines))
    return DONE


def _read_known(options: argparse.Namespace, outside: Outside) -> tuple[list[KnownConfig], str]:
    """Return the config, if there is one, and the recipes, with the name of the config's package."""
    from ci_tools.cli.values import find_config_or_none
    from ci_tools.recipes.health import KnownConfig
    from ci_tools.recipes.naming import read_config, read_namings_and_owners

    path = find_config_or_none(options, outside)
    own = read_config(path, outside) if path else []
    known = [KnownConfig(*one) for one in (*own, *read_namings_and_owners(outside))]
    return known, known[0].naming.package if path else ""


def _write(path: Path, content: bytes) -> None:
    from ci_tools.machine.storage import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as file:
        file.write(content)
