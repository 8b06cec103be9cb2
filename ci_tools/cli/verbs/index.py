"""The verbs about a published index: those that change it, those that look at it, and those that mark its files.

`retract` also reaches GitHub Releases and PyPI. People look for it beside `yank`, which marks one index.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ci_tools.cli.arguments import NEAREST_CONFIG, Parser, add_format
from ci_tools.cli.tables.layout import show, show_as
from ci_tools.errors import BAD, DONE, InputError

if TYPE_CHECKING:
    from ci_tools.index.finder.search import Shelves
    from ci_tools.index.maintain import IndexFlaw
    from ci_tools.index.wheel_index import WheelIndex
    from ci_tools.machine.context import Outside

    Compare = Callable[[WheelIndex, WheelIndex], Sequence[IndexFlaw]]


def _add_target(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="dir:PATH or s3://BUCKET/PREFIX, down to the channel")


def declare_adopt(parser: Parser) -> None:
    _add_target(parser)
    parser.add_text("--project", "NAME", "take over only this project, and share the root with the others", many=True)
    parser.add_flag("--yes", "do it; without this, only show what would be done")


def run_adopt(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.upkeep import adoption_tables
    from ci_tools.index.foreign import adoption
    from ci_tools.publish.targets.addresses import index_of

    index = index_of(options.target, outside)
    if not options.yes:  # what others filled is changed only when asked
        outline = adoption.survey(index, options.project, outside)
        show(adoption_tables(outline, done=False))
        way = "the same command with --yes does it; nothing is changed yet"
        outside.reporter.say("all of it is adopted, there is nothing to do" if outline.is_done else way)
        return
    show(adoption_tables(adoption.adopt(index, options.project, outside), done=True))


def declare_add(parser: Parser) -> None:
    _add_target(parser)
    parser.add_path("files", "FILE", "a wheel or an sdist, of any project", nargs="+")
    text = "the folder that lists them, such as cu130; default: what their local versions name, or every folder"
    parser.add_text("--folder", "FOLDER", text)
    parser.add_text("--also", "FOLDER", "a folder that lists them too", many=True)
    parser.add_text("--despite", "RULE", "add them although this rule of the audit finds something wrong", many=True)
    parser.add_flag("--dry-run", "show what would change, and change nothing")


def run_add(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.release import findings_table, preview_tables, publication_tables
    from ci_tools.publish import additions
    from ci_tools.publish.targets.addresses import indexes_of

    targets, folders = indexes_of(options.target, outside), (options.folder or "", tuple(options.also))
    addition = additions.Addition(tuple(options.files), *folders, frozenset(options.despite))
    if options.dry_run:
        changes, findings = additions.preview(targets, addition, outside)
        show(preview_tables(changes, ()))
    else:
        shown, findings = additions.add(targets, addition, outside)
        show(publication_tables(shown, ()))
    if findings:  # those that --despite lets pass
        show(findings_table(findings, len(addition.files)))


def declare_verify(parser: Parser) -> None:
    _add_target(parser)


def run_verify(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.upkeep import flaws_table
    from ci_tools.index import maintain
    from ci_tools.index.maintain import mirrors

    flaws = _find_flaws(options.target, outside, lambda index: maintain.verify(index, outside), mirrors.differences)
    show(flaws_table(flaws))
    return BAD if flaws else DONE


def _find_flaws(
    target: str, outside: Outside, look: Callable[[WheelIndex], Sequence[IndexFlaw]], compare: Compare
) -> tuple[IndexFlaw, ...]:
    """Return the flaws of an index and its mirrors, each with its full address, and then how the mirrors differ."""
    from ci_tools.publish.targets.addresses import indexes_of

    first, *others = indexes = indexes_of(target, outside)
    found = [(index, flaw) for index in indexes for flaw in look(index)]  # before what differs
    named = (flaw._replace(key=index.store.url(flaw.key)) if others else flaw for index, flaw in found)
    return (*named, *(flaw for mirror in others for flaw in compare(first, mirror)))


def declare_repair(parser: Parser) -> None:
    _add_target(parser)
    what = parser.add_mutually_exclusive_group()
    text = "also remove files that a stopped publisher left and no page lists; only while no publisher runs"
    what.add_argument("--remove-unlisted", action="store_true", help=text)
    text = "undo the last repair, except for files that were changed since"
    what.add_argument("--undo", action="store_true", help=text)


def run_repair(options: argparse.Namespace, outside: Outside) -> int:
    from ci_tools.cli.tables.upkeep import flaws_table
    from ci_tools.index import maintain
    from ci_tools.index.maintain import mirrors

    def repair(index: WheelIndex) -> Sequence[IndexFlaw]:
        if options.undo:
            return maintain.undo_repair(index, outside)
        return maintain.repair(index, outside, remove_unlisted=options.remove_unlisted)

    def copy(first: WheelIndex, mirror: WheelIndex) -> Sequence[IndexFlaw]:
        return () if options.undo else mirrors.copy_missing(first, mirror, outside)

    flaws = _find_flaws(options.target, outside, repair, copy)
    show(flaws_table(flaws))
    return BAD if any(flaw.is_left for flaw in flaws) else DONE


def declare_pages(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="github:OWNER/REPO")
    text = "more repositories as github:OWNER/REPO, and the projects; default: every project of the releases"
    parser.add_argument("more", nargs="*", metavar="TARGET|PROJECT", help=text)
    parser.add_path("--out", "DIR", "where the pages go", required=True)
    text = "also list wheels that Fatwheel did not publish, if GitHub has their sha256 and their METADATA fits"
    parser.add_flag("--others", text)


def run_pages(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.catalog.targets import kind_of
    from ci_tools.catalog.targets.github import GITHUB
    from ci_tools.github.client import open_hub
    from ci_tools.publish.targets.github_release import release_pages
    from ci_tools.recipes.makers import list_makers
    from ci_tools.recipes.shelf import list_recipes

    targets = [options.target, *(word for word in options.more if kind_of(word) == GITHUB)]
    hubs = [open_hub(target, outside) for target in dict.fromkeys(targets)]  # each repository is read once
    projects = [word for word in options.more if kind_of(word) != GITHUB]
    makers = list_makers(list_recipes())
    for path in release_pages.write_pages(hubs, projects, options.out, outside, others=options.others, makers=makers):
        print(path)


def declare_find(parser: Parser) -> None:
    parser.add_argument("target", metavar="TARGET", help="dir:PATH, s3://BUCKET/PREFIX, or the https:// address of it")
    text = "only these projects; default: all that the index has, and those of the recipes that it knows"
    parser.add_text("projects", "PROJECT", text, nargs="*")
    for name, example in (("torch", "2.10"), ("cuda", "13.0, or none"), ("python", "3.14 or 3.14t"), ("gpu", "9.0")):
        what = "compute capability" if name == "gpu" else "version"
        text = f"the {what} of the machine, such as {example}; default: this machine's"
        parser.add_argument(f"--{name}", default="", metavar=what.upper().replace(" ", "_"), help=text)
    text = "the machine's system, such as linux-arm64 or windows-x86_64; default: this machine's"
    parser.add_argument("--system", default="", metavar="SYSTEM", help=text)
    text = "the facts of the machine, as `fatwheel install facts` prints them there; default: this machine's"
    parser.add_path("--for", "FILE", text, dest="facts")
    add_format(parser, "json")


def run_find(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables import finder
    from ci_tools.index.finder.search import GivenMachine, describe_machine, search
    from ci_tools.install.bundle import here, read_facts

    facts = read_facts(options.facts) if options.facts else here()
    wanted = GivenMachine(options.system, options.torch, options.cuda, options.python, options.gpu)
    machine, shelves = describe_machine(facts, wanted), _read_shelves(options, outside)
    found = finder.SearchResult(search(shelves.projects, shelves.makers, machine), machine, shelves)
    show_as(options.format, finder.found_tables(found), finder.found_values(found))


def _read_shelves(options: argparse.Namespace, outside: Outside) -> Shelves:
    from packaging.utils import canonicalize_name

    from ci_tools.index.finder.search import open_web, read_shelves
    from ci_tools.publish.targets.addresses import index_of

    only = [canonicalize_name(name) for name in options.projects]
    if options.target.startswith(("https://", "http://")):
        with open_web(options.target) as read:
            return read_shelves(read, options.target, only, outside.reporter)
    store = index_of(options.target, outside).store
    # Of a key that the store does not have, `read` returns None.
    return read_shelves(lambda key: (store.read(key) or (None,))[0], options.target, only, outside.reporter)


def declare_promote(parser: Parser) -> None:
    parser.add_argument("source", metavar="FROM", help="the index that has it: s3://BUCKET/whl/test")
    parser.add_argument("target", metavar="TO", help="the index that gets it, as a stable release: s3://BUCKET/whl")
    parser.add_argument("release", metavar="RELEASE", help="such as demo==1.0")


def run_promote(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.release import publication_tables
    from ci_tools.publish.promotion import promote
    from ci_tools.publish.targets.addresses import index_of

    source, target = index_of(options.source, outside), index_of(options.target, outside)
    shown = promote(source, (target,), options.release, outside)
    show(publication_tables(shown, ()))


# ---------------------------------------------------------------- a bad release


def _add_release(parser: Parser) -> None:
    text = "such as demo==1.0, only a part of it as demo==1.0+cu130, or one file by its name"
    parser.add_argument("release", metavar="RELEASE", help=text)


def declare_yank(parser: Parser) -> None:
    _add_target(parser)
    _add_release(parser)
    parser.add_argument("--reason", default="", help="the reason that users who pin it see")


def run_yank(options: argparse.Namespace, outside: Outside) -> None:
    _mark(options, outside, options.reason)


def declare_unyank(parser: Parser) -> None:
    _add_target(parser)
    _add_release(parser)


def run_unyank(options: argparse.Namespace, outside: Outside) -> None:
    _mark(options, outside, None)


def _mark(options: argparse.Namespace, outside: Outside, reason: str | None) -> None:
    from ci_tools.index import maintain
    from ci_tools.publish.targets.addresses import indexes_of

    indexes = indexes_of(options.target, outside)
    # Mirrors have the same files: each is printed once.
    marked = {name: None for index in indexes for name in maintain.yank(index, options.release, reason)}
    for name in marked:
        print(name)


def declare_remade(parser: Parser) -> None:
    _add_target(parser)
    text = "github:OWNER/REPO, whose runs of verify.yml signed what they made; or a name, which signs nothing"
    parser.add_text("--by", "WHO", text, required=True)
    text = "what `fatwheel verify --format json` printed for who is named; may be given several times"
    parser.add_path("--record", "FILE", text, action="append", default=[])


def run_remade(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.catalog.targets import kind_of
    from ci_tools.catalog.targets.github import GITHUB
    from ci_tools.github.client import open_hub
    from ci_tools.index.maintain import remakes
    from ci_tools.publish.targets.addresses import index_of

    index, is_signed = index_of(options.target, outside), kind_of(options.by) == GITHUB
    if is_signed == bool(options.record):
        msg = f"--by: {options.by} is a name, expected a --record of what was made beside it"
        if is_signed:
            msg = f"--by: GitHub keeps what runs of {options.by} signed, expected no --record beside it"
        raise InputError(msg)
    if is_signed:
        noted = remakes.note_attested(index, open_hub(options.by, outside))
    else:
        noted = remakes.note_word(index, options.record, options.by)
        outside.reporter.say(f"the finder says that this is the word of {options.by}: nothing is signed")
    for name in noted:
        print(name)


def declare_retract(parser: Parser) -> None:
    parser.add_argument("release", metavar="NAME==VERSION", help="such as demo==1.0")
    parser.add_text("--to", "TARGET", "a target that may have it; default: the config's publish: targets", many=True)
    parser.add_path("--config", "FILE", f"the config that names the targets; default: {NEAREST_CONFIG}")
    text = "the reason and what to use instead, shown by the finder, pip and uv"
    parser.add_argument("--reason", metavar="TEXT", help=text)
    parser.add_flag("--undo", "remove the mark, and restore everything as it was before")


def run_retract(options: argparse.Namespace, outside: Outside) -> None:
    from ci_tools.cli.tables.release import retraction_table
    from ci_tools.cli.values import find_config
    from ci_tools.publish import retraction

    if options.undo == (options.reason is not None):  # an empty reason is one
        msg = "expected --reason, which says what is wrong with the release, or --undo"
        raise InputError(msg, hint='such as --reason "wrong results on Hopper, use 1.2.1"')
    addresses = tuple(options.to) or retraction.targets_in(find_config(options, outside), outside)
    if options.undo:
        outcomes = retraction.restore(options.release, addresses, outside)
    else:
        outcomes = retraction.retract(options.release, options.reason, addresses, outside)
    show(retraction_table(options.release, outcomes))
