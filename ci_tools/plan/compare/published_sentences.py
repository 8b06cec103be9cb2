"""Says in sentences what the comparison of a plan with published wheels found, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_tools.plan.compare.published import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.plan.compare.contents import SymbolDifference
    from ci_tools.plan.compare.published import Beside, Contents, Counterpart

__all__ = ["sentences", "to_json"]


def sentences(beside: Beside) -> Iterator[str]:
    """Yield the outcome: how many builds fewer, which published wheels have no counterpart, and what the plan adds."""
    replaced, partly = beside.having(Verdict.SERVED, Verdict.PARTLY), beside.having(Verdict.PARTLY)
    unserved = beside.having(Verdict.UNSERVED)
    yield f"{_count(len(beside.wheels), 'wheel')} published, {beside.jobs} in this plan."
    if replaced:
        whole = f" ({len(partly)} in part)" if partly else ""
        jobs = _count(len(beside.serving), "wheel")
        less = _describe_saving(len(replaced) - len(beside.serving))
        yield f"{jobs} in this plan for {len(replaced)} published{whole}: {less}."
    wider = [one for one in replaced if len(one.jobs) > 1]
    if wider:
        most = max(len(one.jobs) for one in wider)
        yield f"{_count(len(wider), 'published wheel')} for which this plan has several wheels, at most {most}."
    if unserved:
        yield f"{_count(len(unserved), 'published wheel')} without a wheel in this plan."
    added = sum(len(cells) for _, cells in beside.additions)
    if added:
        yield f"{_count(added, 'cell')} in this plan without a published wheel."


def _describe_saving(builds: int) -> str:
    if builds == 0:
        return "as many builds"
    return f"{_count(abs(builds), 'build')} {'fewer' if builds > 0 else 'more'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def to_json(beside: Beside) -> dict[str, Any]:
    """Return the comparison as one JSON object: docs/how-to/compare-with-published-wheels.md has its keys."""
    return {
        "release": str(beside.release),
        "sentences": list(sentences(beside)),
        "wheels": [_wheel(one) for one in beside.wheels],
        "additions": {job: [str(cell) for cell in cells] for job, cells in beside.additions},
        "contents": [_contents(one) for one in beside.contents],
        "notes": list(beside.notes),
    }


def _wheel(one: Counterpart) -> dict[str, Any]:
    inside = one.wheel.inside
    return {
        "file": one.wheel.file,
        "size": one.wheel.size,
        "yanked": one.wheel.is_yanked,
        "requires_python": one.wheel.requires_python,
        "requires": None if one.wheel.requires is None else list(one.wheel.requires),
        "members": None if inside is None else len(inside.members),
        "verdict": str(one.verdict),
        "jobs": list(one.jobs),
        "cells": one.cells,
        "losses": list(one.losses),
    }


def _contents(one: Contents) -> dict[str, Any]:
    return {
        "jobs": list(one.jobs),
        "files": list(one.files),
        "members": [
            {
                "kind": str(found.kind),
                "both": found.both,
                "published_only": list(found.published_only),
                "planned_only": None if found.planned_only is None else list(found.planned_only),
            }
            for found in one.members
        ],
        "symbols": [_symbols(found) for found in one.symbols],
    }


def _symbols(found: SymbolDifference) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else list(value) for name, value in found._asdict().items()}
