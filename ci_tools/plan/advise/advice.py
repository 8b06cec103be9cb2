"""Finds advice that makes a plan smaller: each piece of advice is an option that was planned, never a guess.

An option counts if the plan with it has fewer jobs and serves every cell that the plan without it serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ci_tools.errors import InputError, count
from ci_tools.model.files import Receipt
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Cell
from ci_tools.plan import planner
from ci_tools.plan.advise.option import Option, Situation, identity
from ci_tools.plan.advise.options import options
from ci_tools.plan.make import Planned


class Advice(NamedTuple):
    """A planned option: the number of jobs without and with it, and the minutes and megabytes that it saves."""

    option: Option
    before: int
    after: int
    minutes: float | None = None  # None: not measured
    megabytes: float | None = None

    @property
    def sentence(self) -> str:
        """The advice in one sentence, with the count."""
        if self.before == self.after:
            return self.option.what
        wheels = count(self.before, "wheel")
        return f"{self.option.what}: {wheels} become{'s' if self.before == 1 else ''} {self.after}"

    def to_json(self, patch: str) -> dict[str, Any]:
        """Return the advice as a JSON value."""
        return {
            "name": self.option.name,
            "advice": self.sentence,
            "jobs": {"before": self.before, "after": self.after, "saved": self.before - self.after},
            "minutes": self.minutes,
            "megabytes": self.megabytes,
            "places": list(self.option.places),
            "how": self.option.how,
            "gives_up": self.option.gives_up,
            "patch": patch,
        }


class Advised(NamedTuple):
    """All advice for one plan, the largest saving first, and the number of jobs with all of it together."""

    advice: tuple[Advice, ...]
    before: int
    after: int
    smaller: Plan | None = None  # the plan with all of it together

    @property
    def limits(self) -> str:
        """The limits of the total count, in words: advice it leaves out, and assumptions."""
        limits = " that gives up no cell" if any(one.option.gives_up for one in self.advice) else ""
        return limits if all(one.option.is_known for one in self.advice) else f"{limits}, at best"


def advise(planned: Planned, receipts: Mapping[str, Receipt]) -> Advised:
    """Return the advice that makes the plan smaller; empty if there is none.

    `receipts` are of its wheels that were built earlier, by file name.
    """
    found = options(planned.plan, planned.evidence, planned.tree)
    weighed = [advice for option in found if (advice := _assess_option(option, planned, receipts))]
    weighed.sort(key=lambda advice: advice.after - advice.before)  # stable: equals keep the order of `options`
    smaller = _together(weighed, planned)
    return Advised(tuple(weighed), len(planned.plan.jobs), len(smaller.jobs), smaller)


# ---------------------------------------------------------------- the savings of an option


def _assess_option(option: Option, planned: Planned, receipts: Mapping[str, Receipt]) -> Advice | None:
    """Return an option with its savings, or None if it saves nothing or leaves a cell unserved."""
    situation = option.base(Situation(planned.plan.request, planned.evidence))
    before, after = _try_plan(situation, planned), _try_plan(option.change(situation), planned)
    if before is None or after is None:
        return None
    if option.change is identity:  # advice for better builds, which changes no plan: there is nothing to compare
        return Advice(option, len(before.jobs), len(after.jobs))
    if len(after.jobs) >= len(before.jobs) or not (option.gives_up or _cells(before) <= _cells(after)):
        return None
    return Advice(option, len(before.jobs), len(after.jobs), *_estimate_savings(before, after, receipts))


def _try_plan(situation: Situation, planned: Planned) -> Plan | None:
    """Return the plan of a situation, or None if its parts contradict each other."""
    try:
        return planner.make_plan(*situation, planned.catalog)
    except InputError:
        return None


def _cells(plan: Plan) -> set[Cell]:
    return {item.cell for item in plan.covered}


def _together(weighed: Sequence[Advice], planned: Planned) -> Plan:
    """Return the plan with all advice applied, except advice that gives up cells."""
    situation = Situation(planned.plan.request, planned.evidence)
    for option in (advice.option for advice in weighed if not advice.option.gives_up):
        situation = option.change(situation)
    return _try_plan(situation, planned) or planned.plan  # two changes may contradict each other, though each is valid


def _estimate_savings(before: Plan, after: Plan, known: Mapping[str, Receipt]) -> tuple[float | None, float | None]:
    """Return the minutes and megabytes saved, or None for both unless every removed wheel has a receipt.

    A wheel that replaces several is counted as the costliest of them.
    """
    stay = {job.wheel for job in before.jobs} & {job.wheel for job in after.jobs}
    gone = [job for job in before.jobs if job.wheel not in stay]
    found = [known.get(job.wheel) for job in gone]
    receipts = {job.name: receipt for job, receipt in zip(gone, found, strict=True) if receipt}
    if len(receipts) < len(gone):  # a sum over only some of them would be too small
        return None, None
    came = []
    for job in after.jobs:
        if job.wheel not in stay:
            earlier = {item.job for item in before.covered if item.cell in job.covers}
            came.append([receipts[name] for name in earlier if name in receipts])
    seconds = sum(one.seconds for one in receipts.values()) - sum(max(one.seconds for one in some) for some in came)
    size = sum(one.size for one in receipts.values()) - sum(max(one.size for one in some) for some in came)
    return round(seconds / 60, 2), round(size / 1e6, 3)
