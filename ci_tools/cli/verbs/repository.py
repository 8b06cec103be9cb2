"""The verbs about a repository on GitHub: doctor and status."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_format, parse_number
from ci_tools.cli.tables.layout import show_as
from ci_tools.errors import DONE, InputError

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.health import KnownConfig


def declare_doctor(parser: Parser) -> None:
    text = "a checkout, which is read without network, or a repository on GitHub; default: the current folder"
    parser.add_argument("repository", metavar="PATH|OWNER/REPO", nargs="?", default=".", help=text)
    text = "a folder of clones, as OWNER/NAME or OWNER+NAME, in which a checkout's called workflows are looked up"
    parser.add_path("--clones", "FOLDER", text)
    parser.add_flag("--fix", "say what can be fixed over the API, fix it, and check again")
    text = "show the runs that events start, in place of findings: all, or tag, candidate, push, pull-request, fork,"
    text += " dispatch, cron or rerun, with a ref as in tag:v1.2.0"
    parser.add_argument("--rehearse", nargs="?", const="", metavar="EVENT", help=text)
    parser.add_text("--input", "INPUT", "an input of a rehearsed start by hand, as NAME=VALUE", many=True)
    add_format(parser, "json", "github")


def run_doctor(options: argparse.Namespace, outside: Outside) -> int:
    if options.rehearse is not None or options.input:
        _rehearse(options, outside)
        return DONE
    from ci_tools.cli.next_command import after_doctor, say_next
    from ci_tools.cli.tables.upkeep import doctor_tables
    from ci_tools.doctor import check
    from ci_tools.github.client import Hub

    folder = Path(options.repository)
    # a mistyped folder must not become a question to GitHub
    if folder.exists() or options.repository.count("/") != 1 or options.repository.startswith((".", "/")):
        if options.fix:
            msg = f"--fix changes settings on GitHub, and {options.repository} is a folder, expected OWNER/REPO"
            raise InputError(msg)
        checked = check.check_checkout(folder, options.clones, outside)
    else:
        checked = check.check(Hub(options.repository, outside), fix=options.fix)
    if options.format == "github":
        print(*check.to_annotations(checked), sep="\n")
    else:
        show_as(options.format, doctor_tables(checked), check.to_json(checked))
    if options.format == "table":
        say_next(after_doctor(checked), outside)
    return check.status(checked)


def _rehearse(options: argparse.Namespace, outside: Outside) -> None:
    """Show the runs that events start in a checkout."""
    from ci_tools.cli.foretold import Foreteller
    from ci_tools.cli.tables.upkeep import rehearsal_tables
    from ci_tools.doctor.files import read_checkout
    from ci_tools.doctor.rehearsal import rehearse
    from ci_tools.doctor.rehearsal.events import Asked
    from ci_tools.source import git

    folder = Path(options.repository)
    wrong = {
        "--input is for --rehearse": options.rehearse is None,
        "--fix changes settings on GitHub, and --rehearse only reads a checkout": options.fix,
        "--rehearse prints a table or JSON, expected --format table or json": options.format == "github",
        f"--rehearse reads a checkout, and there is no folder {folder}": not folder.is_dir(),
    }
    if msg := next((why for why, applies in wrong.items() if applies), ""):
        raise InputError(msg)
    asked = Asked.from_words(options.rehearse, options.input)
    known = read_checkout(folder, options.clones, outside.environ)
    root = folder if (folder / ".github").is_dir() else git.find(folder) or folder  # as `read_checkout` finds it
    found = rehearse.to_json(rehearse.rehearse(known, Foreteller(root.resolve(), outside, {}).foretell, asked))
    show_as(options.format, rehearsal_tables(found), found)


MAX_RUNS = 100  # of a workflow: GitHub answers as many at once


def declare_status(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="the repository, as github:OWNER/REPO")
    text = "the file of a workflow, such as recipes.yml; default: those that use Fatwheel"
    parser.add_text("--workflow", "FILE", text, many=True)
    text = "how many runs of each workflow are looked at, at most 100; default: %(default)s"
    parser.add_argument("--runs", type=parse_number, default=20, metavar="N", help=text)
    text = "the config whose platforms are built there; default: the nearest, if there is one; recipes always count"
    parser.add_path("--config", "FILE", text)
    parser.add_path("--page", "FILE", "a file for the same as a page of HTML")
    parser.add_path("--badge", "FILE", "a file for a badge, an SVG image")
    add_format(parser, "json")


def run_status(options: argparse.Namespace, outside: Outside) -> None:
    from datetime import datetime, timezone

    from ci_tools.cli.tables.status import status_table, status_values
    from ci_tools.doctor.runs import read_runs
    from ci_tools.github.client import open_hub
    from ci_tools.publish.retention.removal import read_releases
    from ci_tools.recipes import health

    if options.runs > MAX_RUNS:
        raise InputError(f"--runs {options.runs} is too much, expected at most {MAX_RUNS}")
    hub = open_hub(options.target, outside)
    known, package = _read_known(options, outside)
    runs = read_runs(hub, options.workflow, options.runs)
    lines = health.list_lines(runs, known, read_releases(hub), package)
    if options.page:
        _write(options.page, health.write_page(hub.repository, lines, datetime.now(timezone.utc)))
    if options.badge:
        _write(options.badge, health.write_badge(health.summarize(lines)).encode())
    show_as(options.format, status_table(lines), status_values(lines))


def _read_known(options: argparse.Namespace, outside: Outside) -> tuple[list[KnownConfig], str]:
    """Return the config, if there is one, and the recipes, with the name of the config's package."""
    from ci_tools.cli.values import find_config_or_none
    from ci_tools.recipes.health import KnownConfig
    from ci_tools.recipes.releases import read_config, read_namings_and_owners

    path = find_config_or_none(options, outside)
    own = read_config(path, outside) if path else []
    known = [KnownConfig(*one) for one in (*own, *read_namings_and_owners(outside))]
    return known, known[0].naming.package if path else ""


def _write(path: Path, content: bytes) -> None:
    from ci_tools.machine.storage import write_atomically

    with write_atomically(path) as file:  # and its folder, as of public/status.html
        file.write(content)
