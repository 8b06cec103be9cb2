"""The verbs about the GitHub Releases of a repository: list, prune and readme."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_format
from ci_tools.cli.tables.layout import show_as
from ci_tools.errors import BAD, DONE

if TYPE_CHECKING:
    from ci_tools.github.client import Hub
    from ci_tools.machine.context import Outside
    from ci_tools.publish.retention.judgement import Judged
    from ci_tools.publish.retention.removal import Removed
    from ci_tools.publish.retention.tags import Naming


def _add_target(parser: Parser) -> None:
    """Add the arguments that say which releases are looked at."""
    parser.add_argument("target", metavar="TARGET", help="the repository, as github:OWNER/REPO")
    text = "the config that names the tags; default: the nearest if there is one, and all recipes, yours and ours"
    parser.add_path("--config", "FILE", text)


def declare_list(parser: Parser) -> None:
    """Add the arguments that say which releases are looked at, and how they are judged."""
    _add_target(parser)
    parser.add_text("--keep", "TAG", "a pattern of tags that stay, besides those of the config", many=True)
    parser.add_flag("--misnamed", "remove releases of Fatwheel whose tags no template gives, too")
    add_format(parser, "json")


def run_list(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.github.client import open_hub

    namings = _namings(options, outside)
    _print(_judge(open_hub(options.target, outside), namings, options), namings, options)


def declare_prune(parser: Parser) -> None:
    declare_list(parser)
    parser.add_flag("--yes", "do it; without this, only show what would be removed")


def run_prune(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.github.client import open_hub
    from ci_tools.publish.retention.judgement import ReleaseFate, describe, list_excess, refuse_idle_patterns
    from ci_tools.publish.retention.removal import remove

    namings = _namings(options, outside)
    hub = open_hub(options.target, outside)
    judged = _judge(hub, namings, options)
    refuse_idle_patterns([one.release for one in judged], namings)
    doomed = [one for one in judged if one.fate is ReleaseFate.REMOVE]
    if options.yes and doomed:
        _print_removed(remove(hub, doomed), options)
    else:
        _print(doomed, namings, options)
        way = "the same command with --yes removes them; nothing is changed yet"
        outside.reporter.say(way if doomed else "nothing is superseded: there is nothing to remove")
    excesses = list_excess(judged, namings)
    for excess in excesses:
        outside.reporter.say(f"warning: {describe(excess)}, and what is left is kept")
    return BAD if excesses else DONE


def declare_readme(parser: Parser) -> None:
    _add_target(parser)
    parser.add_path("--readme", "FILE", "the file with the markers; default: %(default)s", default=Path("README.md"))
    parser.add_flag("--check", "change nothing, and exit with 1 if the table is stale")


def run_readme(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.formats.yaml_file import text_of
    from ci_tools.github.client import open_hub
    from ci_tools.machine.storage import write_atomically
    from ci_tools.publish.retention.removal import read_releases
    from ci_tools.recipes.readme import list_rows, replace_table, table_of

    text_of(options.readme, str(options.readme), "a README")  # refuses what is not text
    old = options.readme.read_bytes().decode()  # with its line ends, and its byte order mark
    replace_table(old, "", str(options.readme))  # before GitHub is asked
    rows = list_rows(read_releases(open_hub(options.target, outside)), _namings(options, outside))
    new = replace_table(old, table_of(rows), str(options.readme))
    if old == new:
        outside.reporter.say(f"{options.readme} is up to date")
    elif options.check:
        outside.reporter.say(f"{options.readme} is stale: the same command without --check writes it")
        return BAD
    else:
        with write_atomically(options.readme.resolve()) as file:  # a link stays one
            file.write(new.encode())
        print(options.readme)
    return DONE


def _namings(options: argparse.Namespace, outside: Outside) -> list[Naming]:
    """Return how the configs name releases: the one that is given, or the nearest and all recipes."""
    from ci_tools.cli.values import find_config_or_none
    from ci_tools.recipes.releases import read_config, read_namings_and_owners

    path = find_config_or_none(options, outside)
    known = read_config(path, outside) if path else []
    found = [naming for naming, _ in (*known, *(() if options.config else read_namings_and_owners(outside)))]
    kept = tuple(getattr(options, "keep", ()))  # `readme` removes nothing
    return [one._replace(retention=one.retention._replace(keep=(*one.retention.keep, *kept))) for one in found]


def _judge(hub: Hub, namings: list[Naming], options: argparse.Namespace) -> list[Judged]:
    from ci_tools.publish.retention.judgement import judge
    from ci_tools.publish.retention.removal import read_releases, spare_guests

    # People add files to a release: removing it would remove theirs, too.
    return spare_guests(hub, judge(read_releases(hub), namings, misnamed=options.misnamed))


def _print(judged: list[Judged], namings: list[Naming], options: argparse.Namespace) -> None:
    from ci_tools.cli.tables.upkeep import judged_tables, judged_values

    show_as(options.format, judged_tables(judged, namings), judged_values(judged))


def _print_removed(removed: Iterable[Removed], options: argparse.Namespace) -> None:
    """Print the result for each release, also for those before one that GitHub refuses to remove."""
    from ci_tools.cli.tables.upkeep import removed_table

    done: list[Removed] = []
    try:
        for one in removed:
            done.append(one)  # noqa: PERF402 - those before an error are shown
    finally:
        show_as(options.format, removed_table(done), [one._asdict() for one in done])
