"""An option: a possible change to the source or the request of a plan, and how to make it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ci_tools.model.evidence import CellEvidence, Evidence
    from ci_tools.model.platforms import Platform
    from ci_tools.model.request import Request

Edit = Callable[[str], "str | None"]  # None: the text has no place for it
Edits = tuple[tuple[str, Edit], ...]  # file → the edit of its text


class Situation(NamedTuple):
    """The inputs of a plan."""

    request: Request
    evidence: Evidence


Change = Callable[[Situation], Situation]


def identity(situation: Situation) -> Situation:
    """Return the situation unchanged."""
    return situation


class Option(NamedTuple):
    """One possible change: its description, the places that prevent it, and how to make it."""

    name: str
    what: str
    places: tuple[str, ...]
    how: str
    change: Change = identity  # advice that makes builds better rather than fewer changes no plan
    edits: Edits = ()
    base: Change = identity  # the change that the request must make first, both before and after
    gives_up: bool = False  # whether it serves fewer cells
    is_known: bool = True  # False: a best case, based on unknown facts


def change_evidence(change: Callable[[CellEvidence], CellEvidence]) -> Change:
    """Return a Change that applies `change` to the evidence of every cell; equal evidence stays the same object."""

    def changed(situation: Situation) -> Situation:
        once = functools.cache(change)  # the planner groups cells by their evidence: one object for equal ones is quick

        platforms = (
            replace(found, shown=once(found.shown), apart={cell: once(one) for cell, one in found.apart.items()})
            for found in situation.evidence.platforms
        )
        return situation._replace(evidence=replace(situation.evidence, platforms=tuple(platforms)))

    return changed


def change_platform(platform: Platform, **changes: object) -> Change:
    """Return a Change that replaces fields of one platform's request."""

    def changed(situation: Situation) -> Situation:
        asked = situation.request.platforms
        platforms = tuple(replace(one, **changes) if one.platform is platform else one for one in asked)  # type: ignore[arg-type]  # its own fields
        return situation._replace(request=replace(situation.request, platforms=platforms))

    return changed
