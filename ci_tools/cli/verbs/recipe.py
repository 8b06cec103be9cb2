"""The verbs about recipes: configs for packages that others publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import add_format, add_trust, parse_nonempty, parse_number
from ci_tools.cli.statuses import DONE
from ci_tools.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ci_tools.cli.arguments import Parser
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.choice import RecipeChoice
    from ci_tools.recipes.releases import RecipeRelease


def _add_choice(parser: Parser) -> None:
    """Add the options that take the place of what a recipe says; a list may have commas, as in a workflow's input."""
    for name, text, metavar in (
        ("python", "the Pythons, such as 3.13 or 3.13,3.14t", "VERSION"),
        ("torch", "the torch versions, such as 2.10", "VERSION"),
        ("cuda", "the CUDA versions, such as 13.0", "VERSION"),
        ("archs", "the GPU architectures, such as 8.9 or 8.0,9.0+PTX; or native: those of this machine's GPUs", "ARCH"),
    ):
        more = f"{text}; may be given several times; default: the recipe's"
        parser.add_argument(f"--{name}", action="append", default=[], type=parse_nonempty, metavar=metavar, help=more)
    text = "the version; default: the recipe's"
    parser.add_argument("--version", type=parse_nonempty, metavar="VERSION", help=text)
    text = "the number of a rebuild of the same version, which installers prefer"
    parser.add_argument("--rebuild", type=parse_number, metavar="N", help=text)


def _choice(options: argparse.Namespace, outside: Outside) -> RecipeChoice:
    from ci_tools.config.native import read_archs
    from ci_tools.recipes.choice import RecipeChoice

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
    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.tables.recipes import release_values, releases_table

    show_as(form, releases_table(releases), release_values(releases))


def declare_list(parser: Parser) -> None:
    add_format(parser, "json")


def run_list(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.recipes.releases import list_or_reject
    from ci_tools.recipes.shelf import list_recipes

    releases, rejected = list_or_reject(list_recipes(), outside)
    _print_releases(releases, options.format)
    if rejected:
        raise rejected
    return DONE


def declare_show(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe's name")
    _add_choice(parser)
    add_format(parser, "json")


def run_show(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.recipes.releases import releases_of_all
    from ci_tools.recipes.shelf import find_recipe

    releases = releases_of_all([find_recipe(options.recipe)], _choice(options, outside), outside)
    _print_releases(releases, options.format)
    return DONE


def declare_check(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    _add_choice(parser)
    add_format(parser, "json")
    add_trust(parser)


def run_check(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.tables.recipes import check_values, checks_table
    from ci_tools.recipes.check import check_recipes, refuse_failures
    from ci_tools.recipes.shelf import find_recipes

    checks = check_recipes(find_recipes(options.recipes), _choice(options, outside), outside)
    show_as(options.format, checks_table(checks), check_values(checks))
    refuse_failures(checks)
    return DONE


def declare_copy(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe's name")
    text = "the new folder; default: recipes/RECIPE"
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help=text)
    text = "write the config of the one release that is chosen, for `fatwheel plan` and `fatwheel release`"
    parser.add_flag("--release", text)
    _add_choice(parser)


def run_copy(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.recipes.choice import RecipeChoice
    from ci_tools.recipes.releases import copy_release
    from ci_tools.recipes.shelf import CALLERS, copy_recipe, find_recipe

    recipe, choice = find_recipe(options.recipe), _choice(options, outside)
    if choice != RecipeChoice() and not options.release:
        msg = "a choice such as --python is for the config of one release, expected --release beside it"
        raise InputError(msg, hint="without it, the recipe is copied as it is, to be changed")
    if options.release and options.folder is None:
        msg = "--release needs the folder for the config"
        raise InputError(msg)
    folder = options.folder or CALLERS / recipe.name
    path = copy_release(recipe, choice, folder, outside) if options.release else copy_recipe(recipe, folder)
    print(path)
    return DONE


def declare_new(parser: Parser) -> None:
    parser.add_argument("source", metavar="URL|NAME", help="a git repository, or a project on the package index")
    text = "the new folder; default: recipes/NAME"
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help=text)
    add_trust(parser)


def run_new(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.recipes.first import write_first

    written = write_first(options.source, options.folder, outside)
    print(written.config)
    for line in written.decisions:
        outside.reporter.say(f"decide: {line}")
    return DONE


def declare_outdated(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    add_format(parser, "json")


def run_outdated(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.tables.recipes import news_table
    from ci_tools.recipes.shelf import find_recipes
    from ci_tools.recipes.upstream import read_news

    news = read_news(find_recipes(options.recipes), outside)
    show_as(options.format, news_table(news), [one._asdict() for one in news])
    return DONE


def declare_watch(parser: Parser) -> None:
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="the recipes' names; default: all")
    text = "where the releases are: github:OWNER/REPO"
    parser.add_argument("--to", required=True, type=parse_nonempty, metavar="TARGET", help=text)
    text = "whose news make a release due beside what the recipes say: version, torch or python; or none; several times"
    parser.add_argument("--follow", action="append", default=[], type=parse_nonempty, metavar="WHAT", help=text)
    _add_choice(parser)
    text = "a file for the same as a page of Markdown, as for the summary of a workflow's run"
    parser.add_argument("--page", type=Path, metavar="FILE", help=text)
    forms = "what stdout gets: a table, JSON, or a workflow's outputs; default: %(default)s"
    parser.add_argument("--format", choices=("table", "json", "github"), default="table", help=forms)


def run_watch(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables import recipes as tables
    from ci_tools.cli.tables.layout import show_as
    from ci_tools.cli.values import outputs
    from ci_tools.recipes.check import Check, refuse_failures
    from ci_tools.recipes.shelf import find_recipes
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
    return DONE


def declare_answer(parser: Parser) -> None:
    text = "the event of an issue, as GITHUB_EVENT_PATH names it"
    parser.add_argument("event", type=Path, metavar="FILE", help=text)
    text = "where the releases are: github:OWNER/REPO"
    parser.add_argument("--to", required=True, type=parse_nonempty, metavar="TARGET", help=text)
    text = "the label by which a maintainer approves a request of others; default: %(default)s"
    parser.add_argument("--label", type=parse_nonempty, default="build", metavar="LABEL", help=text)
    text = "the result of a job that has built it; may be given several times; default: it was not built yet"
    parser.add_argument("--result", action="append", default=[], metavar="RESULT", help=text)
    parser.add_argument("--page", type=Path, metavar="FILE", help="a file for the answer, as the Markdown of a comment")
    forms = "what stdout gets: the answer, JSON, or a workflow's outputs; default: %(default)s"
    parser.add_argument("--format", choices=("text", "json", "github"), default="text", help=forms)


def run_answer(options: argparse.Namespace, outside: Outside) -> int:
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
    return DONE
