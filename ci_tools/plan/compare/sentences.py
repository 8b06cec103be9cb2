"""Says in sentences what a comparison of two plans found, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import count

if TYPE_CHECKING:
    from ci_tools.plan.compare.comparison import Comparison, PlanStep

    Quote = Callable[[str], str]

MAX_NAMED = 2  # places that a sentence names


# ---------------------------------------------------------------- in words


class Said(NamedTuple):
    """One effect of a change, and the plan's reasons at the places that caused it."""

    sentence: str
    reasons: tuple[str, ...] = ()


def sentences(comparison: Comparison, quote: Quote = lambda text: f"`{text}`", say: Quote = str) -> list[Said]:
    """Return the effects of a change, the largest first; `quote` marks up places, `say` any other text."""
    if comparison.refusal:
        jobs = f"there is nothing to compare these {count(comparison.jobs[1], 'job')} with"
        return [Said(f"No plan can be made at {quote(comparison.against)}, so {jobs}.", (comparison.refusal,))]
    steps = sorted(comparison.steps, key=lambda step: -abs(step.after - step.before))  # many more, or many fewer
    told = [Said(_sentence(step, quote, say), _reasons(step)) for step in steps]
    if comparison.jobs[0] != comparison.jobs[1] and all(step.before == step.after for step in steps):
        told.insert(0, Said(f"{count(comparison.jobs[0], 'job')} became {comparison.jobs[1]}."))
    if not told or comparison.is_same:
        told.append(Said(_nothing(comparison)))
    return told


def _reasons(step: PlanStep) -> tuple[str, ...]:
    """Return the plan's reasons at the places of a step, or its earlier reasons at places that are gone."""
    shown = (cause for cause in step.causes if cause.what and not step.asked)
    return tuple(f"{'no more: ' if cause.gone else ''}{part}" for cause in shown for part in cause.what.split("; "))


def _nothing(comparison: Comparison) -> str:
    if comparison.is_same:
        return "No job changes."
    moved = f", {len(comparison.moved)} combinations are served by other jobs" if comparison.moved else ""
    changed = f", {len(comparison.changed)} of them changed" if comparison.changed else ""
    return f"The number of jobs is the same{moved}{changed}."


def _sentence(step: PlanStep, quote: Quote, say: Quote) -> str:
    """Describe one step: `k.cu:3` turned 2 jobs into 24; `fatwheel.yml:9` adds Python 3.14: no new job."""
    if step.asked:
        causes = "; ".join(f"{quote(cause.where)} {say(cause.what)}" for cause in step.causes)
        if step.before != step.after:
            return f"{causes}: {count(step.before, 'job')} became {step.after}."
        adds = any("adds" in cause.what for cause in step.causes)
        return f"{causes}: {'no new job' if adds else 'the same number of jobs'}."
    places = [f"{quote(cause.where)}{', which is gone,' if cause.gone else ''}" for cause in step.causes]
    more = len(places) - MAX_NAMED
    named = [*places[:MAX_NAMED], f"{more} more places"] if more > 0 else places
    subject = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    if step.before == step.after:
        return f"{subject} changed the plan, but not the number of its jobs: {step.after}."
    return f"{subject} turned {count(step.before, 'job')} into {step.after}."


# ---------------------------------------------------------------- as JSON


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as one JSON object: docs/how-to/see-what-a-change-does-to-the-plan.md has its keys."""
    return {
        "against": comparison.against,
        "refusal": comparison.refusal,
        "sentences": [said.sentence for said in sentences(comparison)],
        "jobs": _pair(comparison.jobs),
        "cells": _pair(comparison.cells),
        "covered": _pair(comparison.covered),
        "steps": [
            {
                "causes": [cause._asdict() for cause in step.causes],
                "jobs": _pair((step.before, step.after)),
                "asked": step.asked,
            }
            for step in comparison.steps
        ],
        "platforms": [
            {"platform": row.platform, "jobs": _pair(row.jobs), "cells": _pair(row.cells), "bytes": _pair(row.bytes)}
            for row in comparison.rows
        ],
        "added": [job.name for job in comparison.added],
        "removed": [job.name for job in comparison.removed],
        "changed": {name: list(what) for name, what in comparison.changed},
        "moved": [{"cell": str(cell), "before": was, "after": now} for cell, was, now, _ in comparison.moved],
        "warnings": list(comparison.warnings),
        "same_source": comparison.same_source,
    }


def _pair(values: tuple[int | None, int | None]) -> dict[str, int | None]:
    return {"before": values[0], "after": values[1]}
