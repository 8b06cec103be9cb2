"""Asks the targets, before anything is compiled, what they would refuse of the release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import FatwheelError, InputError, MachineError, RejectedInput
from ci_tools.index.ledger import Damaged
from ci_tools.index.units import CORE, Item, Unit
from ci_tools.model.edition import tag_of, title_of
from ci_tools.model.request import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from ci_tools.model.files import Receipt
    from ci_tools.model.plan import Plan
    from ci_tools.model.request import Edition
    from ci_tools.publish.targets import Target

NOTHING_COMPILED = "nothing was compiled yet"


def core_of(plan: Plan, edition: Edition, made: tuple[Path, Receipt] | None = None) -> Unit:
    """Return the known part of a plan's core before it is built: its names, and its sdist if that is built.

    The bytes of a smart sdist are known only when every wheel is; until then, the sdist that it is made of is a draft.
    """
    sdist = (Item(made[0], made[1].sha256, made[1].size, None),) if made else ()
    known = {"name": plan.project.name, "version": plan.project.version}
    is_smart = plan.request.publish.pypi is Route.SMART
    return Unit(
        name=CORE,
        project=plan.project.name,
        version=plan.project.version,
        items=() if is_smart else sdist,
        drafts=sdist if is_smart else (),
        edition=edition,
        commit=plan.pins.commit or "",
        tag=tag_of(edition, plan.request.release.tag, known),
        title=title_of(edition, plan.request.release.title, known),
        route=plan.request.publish.pypi,
    )


def refuse_clash(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Raise the error of a target that will certainly refuse a release, judged by its sdist: it has the whole source.

    A target that does not answer is reported and refuses nothing: it may answer once everything is built.
    """
    refusals = [refusal for target in targets if (refusal := _ask_target(core, target, say))]
    if refusals:
        hint = "; ".join(filter(None, (NOTHING_COMPILED, refusals[0].hint)))
        problems = [problem for error in refusals if isinstance(error, RejectedInput) for problem in error.problems]
        raise RejectedInput(problems, hint=hint) if problems else InputError(refusals[0].message, hint=hint)


def _ask_target(core: Unit, target: Target, say: Callable[[str], None]) -> FatwheelError | None:
    """Return a target's refusal; a damaged file of an index's own state blocks every release."""
    try:
        target.foresee(core)
    except Damaged:
        raise
    except MachineError as error:
        say(f"{target.address} could not be checked for {core.project} {core.version}: {error.message}")
    except FatwheelError as error:
        return error
    return None


def say_clash(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Report what publishing would refuse, for a build that may go elsewhere or be one part of a release."""
    try:
        refuse_clash(core, targets, say)
    except FatwheelError as error:
        say(f"warning: publishing this would be refused: {error.message}")


def report_existing(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Report which targets have files of a version, if none of its files is built yet to compare with them."""
    for target, count in find_holders(core, targets, say):
        what = f"{count} file{'' if count == 1 else 's'} of {core.project} {core.version}"
        rule = "it accepts a file of the same name only with the same bytes"
        say(f"warning: {target.address} already has {what}: {rule}")


def find_holders(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> Iterator[tuple[Target, int]]:
    """Yield the targets that have files of a version, and how many; report the targets that do not answer."""
    for target in targets:
        if held := _list_existing(core, target, say):
            yield target, len(held)


def _list_existing(core: Unit, target: Target, say: Callable[[str], None]) -> frozenset[str]:
    try:
        return target.holds(core)
    except FatwheelError as error:
        say(f"{target.address} could not be checked for {core.project} {core.version}: {error.message}")
        return frozenset()
