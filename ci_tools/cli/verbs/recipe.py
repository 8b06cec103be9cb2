"""The verbs about recipes: configs for packages that others publish."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import Parser, add_format, add_trust, parse_number
from ci_tools.cli.tables.layout import show_as
from ci_tools.errors import InputError
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.shelf import CALLERS, copy_recipe, find_recipe, find_recipes, list_recipes

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.releases import RecipeRelease


def _add_choice(parser: Parser) -> None:
    """Add the options that take the place of what a recipe says; a list may have commas, as in a workflow's input."""
    for name, text, metavar in (
        ("python", "the Pythons, such as 3.13 or 3.13,3.14t", "VERSION"),
        ("torch", "the torch versions, such as 2.10", "VERSION"),
        ("cuda", "the CUDA versions, such as 13.0", "VERSION"),
        ("archs", "the GPU architectures, such as 8.9 or 8.0,9.0+PTX; or native: those of this machine's GPUs", "ARCH"),
    ):
        parser.add_text(f"--{name}", metavar, f"{text}; default: the recipe's", many=True)
    parser.add_text("--version", "VERSION", "the version; default: the recipe's")
    text = "the number of a rebuild of the same version, which installers prefer"
    parser.add_argument("--rebuild", type=parse_number, metavar="N", help=text)


def _choice(options: argparse.Namespace, outside: Outside) -> RecipeChoice:
    from ci_tools.config.native import read_archs

    def listed(texts: list[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.strip() for text in texts for one in text.split(",") if one.strip()))

    return RecipeChoice(
        options.version or "",
        listed(options.python),
        listed(options.torch),
        listed(options.cuda),
        read_archs(listed(options.archs), outside),
        options.rebuild,
    )


def _print_releases(releases: Sequence[RecipeRelease], form: str) -> None:
    from ci_tools.cli.tables.recipes import release_values, releases_table

    show_as(form, releases_table(releases), release_values(releases))


def declare_list(parser: Parser) -> None:
    add_format(parser, "json")


def run_list(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.recipes.releases import list_or_reject

    releases, rejected = list_or_reject(list_recipes(), outside)
    _print_releases(releases, options.format)
    if rejected:
        raise rejected


def declare_show(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe's name")
    _add_choice(parser)
    add_format(parser, "json")


def run_show(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.recipes.releases import releases_of_all

    releases = releases_of_all([find_recipe(options.recipe)], _choice(options, outside), outside)
    _print_releases(releases, options.format)


def declare_check(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    _add_choice(parser)
    add_format(parser, "json")
    add_trust(parser)


def run_check(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.recipes import check_values, checks_table
    from ci_tools.recipes.check import check_recipes, refuse_failures

    checks = check_recipes(find_recipes(options.recipes), _choice(options, outside), outside)
    show_as(options.format, checks_table(checks), check_values(checks))
    refuse_failures(checks)  # after the table, which has the others


def declare_copy(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe's name")
    parser.add_path("folder", "DIR", "the new folder; default: recipes/RECIPE", nargs="?")
    text = "write the config of the one release that is chosen, for `fatwheel plan` and `fatwheel release`"
    parser.add_flag("--release", text)
    _add_choice(parser)


def run_copy(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.recipes.releases import copy_release

    recipe, choice = find_recipe(options.recipe), _choice(options, outside)
    if choice != RecipeChoice() and not options.release:  # it would have no effect
        msg = "a choice such as --python is for the config of one release, expected --release beside it"
        raise InputError(msg, hint="without it, the recipe is copied as it is, to be changed")
    if options.release and options.folder is None:
        raise InputError("--release needs the folder for the config")
    folder = options.folder or CALLERS / recipe.name
    path = copy_release(recipe, choice, folder, outside) if options.release else copy_recipe(recipe, folder)
    print(path)


def declare_new(parser: Parser) -> None:
    parser.add_argument("source", metavar="URL|NAME", help="a git repository, or a project on the package index")
    parser.add_path("folder", "DIR", "the new folder; default: recipes/NAME", nargs="?")
    add_trust(parser)


def run_new(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.recipes.first import write_first

    written = write_first(options.source, options.folder, outside)
    print(written.config)
    for line in written.decisions:
        outside.reporter.say(f"decide: {line}")


def declare_outdated(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    add_format(parser, "json")


def run_outdated(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.recipes import news_table
    from ci_tools.recipes.upstream import read_news

    news = read_news(find_recipes(options.recipes), outside)
    show_as(options.format, news_table(news), [one._asdict() for one in news])


def declare_watch(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    parser.add_text("--to", "TARGET", "where the releases are: github:OWNER/REPO", required=True)
    text = "whose news make a release due beside what the recipes say: version, torch or python; or none"
    parser.add_text("--follow", "WHAT", text, many=True)
    _add_choice(parser)
    text = "a file for the same as a page of Markdown, as for the summary of a workflow's run"
    parser.add_path("--page", "FILE", text)
    add_format(parser, "json", "github", forms="a table, JSON, or a workflow's outputs")


def run_watch(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables import recipes as tables
    from ci_tools.cli.values import outputs
    from ci_tools.recipes.check import Check, refuse_failures
    from ci_tools.recipes.watch import watch

    names = [name for text in options.recipes for name in text.split(",") if name]
    follow = [one for text in options.follow for one in text.split(",") if one]
    verdicts = watch(find_recipes(names), _choice(options, outside), follow, options.to, outside)
    if options.page:
        options.page.write_text(tables.verdicts_page(verdicts), encoding="utf-8")
    if options.format == "github":
        rows = tables.due_rows(verdicts)
        found = {"due": {"include": rows}, "parts": tables.parts(rows), "count": len(rows)}
        print(outputs({name: json.dumps(value) for name, value in found.items()}), end="")
        # in a workflow, nobody would see the row of a table
        refuse_failures([Check(one.wanted.recipe, "", "", error=one.error) for one in verdicts if one.error])
    else:
        show_as(options.format, tables.verdicts_table(verdicts), tables.verdict_values(verdicts))


def declare_answer(parser: Parser) -> None:
    parser.add_path("event", "FILE", "the event of an issue, as GITHUB_EVENT_PATH names it")
    parser.add_text("--to", "TARGET", "where the releases are: github:OWNER/REPO", required=True)
    text = "the label by which a maintainer approves a request of others; default: %(default)s"
    parser.add_text("--label", "LABEL", text, default="build")
    text = "the result of a job that has built it; may be given several times; default: it was not built yet"
    parser.add_argument("--result", action="append", default=[], metavar="RESULT", help=text)
    parser.add_path("--page", "FILE", "a file for the answer, as the Markdown of a comment")
    add_format(parser, "json", "github", first="text", forms="the answer, JSON, or a workflow's outputs")


def run_answer(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.values import outputs
    from ci_tools.github.owners import run_of
    from ci_tools.recipes import answer

    event = answer.read_event(options.event, options.label)
    given = answer.answer(event, options.to, options.result, outside)
    page = answer.write_page(given, options.label, run_of(outside.environ))
    if options.page:
        options.page.write_text(page, encoding="utf-8")
    said = answer.outputs(event, given)
    if options.format == "json":
        print(json.dumps(said, indent=1))
    else:
        print(outputs(said) if options.format == "github" else page, end="")
