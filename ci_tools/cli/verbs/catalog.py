"""The verbs about the catalog."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_config_path

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside


def declare_update(parser: Parser) -> None:
    from ci_tools.catalog.tables import read

    add_config_path(parser)
    text = (
        "an index with builds of torch for each accelerator, such as PyTorch's own, beside the one that pip uses and "
        "the config's validate: torch-index"
    )
    parser.add_text("--index", "URL", text, many=True)
    text = "GitHub's list of its runners; default: %(default)s"
    parser.add_argument("--runners", default=read("runners")["source"], metavar="URL", help=text)
    parser.add_flag("--check", "write nothing, and exit with 1 if there is something new")


def run_update(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools import catalog
    from ci_tools.cli.values import find_config
    from ci_tools.config.upstream import catalog_update
    from ci_tools.errors import Rejected

    known, config = catalog.load(), find_config(options, outside)
    news = catalog_update.find_updates(config, known, options.index, outside, options.runners)
    for line in news.lines:
        print(line)
    if options.check and news.lines:
        msg = f"{news.file} lacks {len(news.lines)} of what upstream has published"
        raise Rejected(msg, hint="`fatwheel catalog update` adds it")  # status 1, for a scheduled job
    if not options.check:
        catalog_update.write_updates(news)
    if news.lines:
        outside.reporter.say(f"wrote {news.file}; look through it, and commit it")
