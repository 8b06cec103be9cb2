"""The verbs that publish releases: attested, unattested, publish, release and retract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import show
from ci_tools.cli.tables.plan import plan_tables
from ci_tools.cli.tables.release import preview_tables, publication_tables, release_tables, retraction_table
from ci_tools.cli.values import DONE, make_plan
from ci_tools.errors import InputError, LeftUndone

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ci_tools.machine.context import Outside

    Verb = Callable[[argparse.Namespace, Outside], int]


def run_attested(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel attested`."""
    from ci_tools.github import attestation

    for path in attestation.verify(options.folder, options.repository, options.signer, options.bundles, outside):
        print(path)
    return DONE


def run_unattested(options: argparse.Namespace, outside: Outside) -> int:  # noqa: ARG001 - a verb
    """Run `fatwheel unattested`."""
    from ci_tools.cli import pages
    from ci_tools.github import attestation

    print(pages.unattested_page(attestation.hold_to_receipts(options.folder)), end="")
    msg = f"no file of {options.folder} is attested: each is only compared with its receipt"
    raise LeftUndone(msg)


def run_publish(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel publish`."""
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
        return DONE
    outcome = publishing.publish(options.folder, to, outside)
    show(publication_tables(outcome.shown, outcome.withheld))
    return DONE


def run_release(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel release`."""
    from ci_tools.publish import release
    from ci_tools.publish.publishing import Destination

    planned = make_plan(options, options.config, outside)
    show(plan_tables(planned.plan, explain=False))
    to = Destination(tuple(options.to), replace=options.replace, uploader=options.uploader)
    released = release.release(planned, to, options.out, outside, here=options.here)
    show(release_tables(released))
    if released.install:
        print(released.install)
    return DONE


def run_retract(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel retract`."""
    from ci_tools.publish import retraction

    if options.undo == (options.reason is not None):
        msg = "expected --reason, which says what is wrong with the release, or --undo"
        raise InputError(msg, hint='such as --reason "wrong results on Hopper, use 1.2.1"')
    addresses = tuple(options.to) or retraction.targets_in(options.config)
    if options.undo:
        outcomes = retraction.restore(options.release, addresses, outside)
    else:
        outcomes = retraction.retract(options.release, options.reason, addresses, outside)
    show(retraction_table(options.release, outcomes))
    return DONE
