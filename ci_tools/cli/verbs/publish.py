"""The verbs that publish: release and publish."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_config, add_edition, add_targets
from ci_tools.cli.tables.layout import show
from ci_tools.cli.tables.release import preview_tables, publication_tables, release_tables

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside


def declare_publish(parser: Parser) -> None:
    parser.add_path("folder", "DIR", "what `fatwheel build` or `release` wrote")
    add_targets(parser)
    parser.add_text("--only", "UNIT", "publish only this: core, or an optional platform")
    parser.add_text("--also", "TARGET", "another target besides those", many=True)
    parser.add_flag("--dry-run", "show what would change at each target, and change nothing")
    parser.add_flag("--released", "refuse a commit without the version's tag, as a workflow does")
    parser.add_flag("--distant", "refuse a folder as a target: it would be lost with this machine")
    parser.add_flag("--unattested", "note in the release notes that its files are not attested")


def run_publish(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.next_command import after_publication, say_next
    from ci_tools.publish import publishing

    to = publishing.Destination(
        tuple(options.to),
        also=tuple(options.also),
        only=options.only or "",
        released=options.released,
        distant=options.distant,
        unattested=options.unattested,
        replace=options.replace,
        uploader=options.uploader,
    )
    if options.dry_run:
        show(preview_tables(*publishing.preview(options.folder, to, outside)))
        say_next("next: the same command without --dry-run", outside)
        return
    outcome = publishing.publish(options.folder, to, outside)
    show(publication_tables(outcome.shown, outcome.withheld))
    say_next(after_publication(outcome.shown), outside)


def declare_release(parser: Parser) -> None:
    add_config(parser)
    add_targets(parser)
    parser.add_path("--out", "DIR", "where files, logs and receipts go; default: %(default)s", default=Path("dist"))
    add_edition(parser)
    parser.add_flag("--here", "go on without the jobs that other machines have to build")


def run_release(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.reporter import TimedReporter
    from ci_tools.cli.tables.plan import plan_tables
    from ci_tools.cli.values import find_config, make_plan
    from ci_tools.publish import release
    from ci_tools.publish.publishing import Destination
    from ci_tools.publish.targets.addresses import refuse_wrong

    outside = replace(outside, reporter=(times := TimedReporter(outside.reporter)))
    refuse_wrong(options.to, distant=False)  # before the source is read
    planned = make_plan(options, find_config(options, outside), outside)
    times.book("planning")
    show(plan_tables(planned.plan, explain=False), is_page=True)
    to = Destination(tuple(options.to), replace=options.replace, uploader=options.uploader)
    released = release.release(planned, to, options.out, outside, here=options.here)
    show(release_tables(released))
    times.say_times(released.made, outside.environ)
    if released.install:  # None where nobody can install from the target
        print(released.install)
