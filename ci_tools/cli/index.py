"""The verbs about an index: adopt, verify, repair, add, pages, yank, unyank and promote."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import show
from ci_tools.cli.tables.release import findings_table, preview_tables, publication_tables
from ci_tools.cli.tables.upkeep import adoption_tables, flaws_table
from ci_tools.cli.values import BAD, DONE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ci_tools.machine.context import Outside
    from ci_tools.publish.index.maintain import Flaw
    from ci_tools.publish.index.wheel_index import WheelIndex

    Verb = Callable[[argparse.Namespace, Outside], int]


def run_index_adopt(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel index adopt`."""
    from ci_tools.publish.index.foreign import adoption
    from ci_tools.publish.targets.addresses import index_of

    index = index_of(options.target, outside)
    if not options.yes:
        outline = adoption.survey(index, options.project, outside)
        show(adoption_tables(outline, done=False))
        way = "the same command with --yes does it; nothing is changed yet"
        outside.reporter.say("all of it is adopted, there is nothing to do" if outline.is_done else way)
        return DONE
    show(adoption_tables(adoption.adopt(index, options.project, outside), done=True))
    return DONE


def run_index_verify(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel index verify`."""
    from ci_tools.publish.index import maintain
    from ci_tools.publish.index.maintain import mirrors

    flaws = _find_flaws(options.target, outside, lambda index: maintain.verify(index, outside))
    flaws += _compare_mirrors(options.target, outside, mirrors.differences)
    show(flaws_table(flaws))
    return BAD if flaws else DONE


def _find_flaws(target: str, outside: Outside, look: Callable[[WheelIndex], Sequence[Flaw]]) -> tuple[Flaw, ...]:
    """Return the flaws of an index and its mirrors; if there are mirrors, with the full address of each flaw."""
    from ci_tools.publish.targets.addresses import indexes_of

    indexes = indexes_of(target, outside)
    flaws = ((index, flaw) for index in indexes for flaw in look(index))
    return tuple(flaw._replace(key=index.store.url(flaw.key)) if indexes[1:] else flaw for index, flaw in flaws)


def _compare_mirrors(
    target: str, outside: Outside, look: Callable[[WheelIndex, WheelIndex], Sequence[Flaw]]
) -> tuple[Flaw, ...]:
    """Return the differences between an index and its mirrors."""
    from ci_tools.publish.targets.addresses import indexes_of

    first, *others = indexes_of(target, outside)
    return tuple(flaw for mirror in others for flaw in look(first, mirror))


def run_index_repair(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel index repair`."""
    from ci_tools.publish.index import maintain
    from ci_tools.publish.index.maintain import mirrors

    def mend(index: WheelIndex) -> Sequence[Flaw]:
        if options.undo:
            return maintain.undo_repair(index, outside)
        return maintain.repair(index, outside, remove_unlisted=options.remove_unlisted)

    flaws = _find_flaws(options.target, outside, mend)
    if not options.undo:
        flaws += _compare_mirrors(options.target, outside, partial(mirrors.copy_missing, outside=outside))
    show(flaws_table(flaws))
    return BAD if any(flaw.is_left for flaw in flaws) else DONE


def run_index_add(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel index add`."""
    from ci_tools.publish.index.maintain import additions
    from ci_tools.publish.targets.addresses import indexes_of

    targets, folders = indexes_of(options.target, outside), (options.folder or "", tuple(options.also))
    addition = additions.Addition(tuple(options.files), *folders, frozenset(options.despite))
    if options.dry_run:
        changes, findings = additions.preview(targets, addition, outside)
        show(preview_tables(changes, ()))
    else:
        shown, findings = additions.add(targets, addition, outside)
        show(publication_tables(shown, ()))
    if findings:
        show(findings_table(findings, len(addition.files)))
    return DONE


def run_index_pages(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel index pages`."""
    from ci_tools.publish.index import release_pages

    for path in release_pages.write_pages(options.target, options.project, options.out, outside):
        print(path)
    return DONE


def run_yank(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel yank`."""
    return _mark(options, outside, options.reason)


def run_unyank(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel unyank`."""
    return _mark(options, outside, None)


def _mark(options: argparse.Namespace, outside: Outside, reason: str | None) -> int:
    from ci_tools.publish.index import maintain
    from ci_tools.publish.targets.addresses import indexes_of

    indexes = indexes_of(options.target, outside)
    marked = {name: None for index in indexes for name in maintain.yank(index, options.release, reason)}
    for name in marked:
        print(name)
    return DONE


def run_promote(options: argparse.Namespace, outside: Outside) -> int:
    """Run `fatwheel promote`."""
    from ci_tools.publish.index import maintain
    from ci_tools.publish.targets.addresses import index_of

    source, target = index_of(options.source, outside), index_of(options.target, outside)
    shown = maintain.promote(source, (target,), options.release, outside)
    show(publication_tables(shown, ()))
    return DONE
