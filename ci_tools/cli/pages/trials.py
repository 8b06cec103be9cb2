"""Sections about the trials of a release: where each file was tried, and where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.cli.pages.layout import (
    PageSection,
    cut,
    join_lines,
    table,
)
from ci_tools.formats.markdown import (
    code,
    text,
)
from ci_tools.model.files import Outcome
from ci_tools.model.plan import SDIST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.model.files import Trial, Validated
    from ci_tools.publish.folder import Finished

MARKS = {
    "passed": "✅",
    "passed in part": "🟡",
    "failed": "❌",
    "not exercised": "⚪",
    "not run": "⬜",
}


class _Place(NamedTuple):
    """A place where a file was tried, or should be: a machine, and a Python on it."""

    job: str
    machine: str
    python: str
    name: str  # as in the receipt
    validated: Validated | None

    @property
    def verdict(self) -> str:
        """The outcome, as a key of MARKS."""
        return _verdict(self.validated.trials) if self.validated else "not run"


def _verdict(trials: Sequence[Trial]) -> str:
    outcomes = {trial.outcome for trial in trials}
    if Outcome.FAILED in outcomes:
        return "failed"
    if Outcome.PASSED not in outcomes:
        return "not exercised"
    return "passed in part" if Outcome.NOT_EXERCISED in outcomes else "passed"


def _places(finished: Finished) -> list[_Place]:
    """Return the plan's sites, then every other place in the receipts."""
    known = {(site.job, site.name): site for site in finished.plan.sites}
    tried: dict[tuple[str, str], Validated] = {}
    for receipt in finished.receipts.values():
        for place in receipt.validated:
            key = (receipt.job, place.where)
            before = tried.get(key)
            tried[key] = place._replace(trials=(*before.trials, *place.trials)) if before else place
    places = [
        _Place(site.job, _machine(site.runner, gpu=site.gpu), str(site.python), site.name, tried.get(key))
        for key, site in known.items()
    ]
    for (job, where), place in tried.items():
        if (job, where) not in known:
            machine, _, python = where.partition(", Python ")
            places.append(_Place(job, machine, python, where, place))
    return places


def _machine(runner: Sequence[str], *, gpu: bool) -> str:
    return f"{' '.join(runner)}{' with a GPU' if gpu else ''}"


def list_trials(finished: Finished) -> Iterator[PageSection]:
    """Yield a table of the trials: a row for each wheel, a column for each machine."""
    places = _places(finished)
    machines = list(dict.fromkeys(place.machine for place in places))
    rows = []
    for job in (SDIST, *(job.name for job in finished.plan.jobs)):
        cells = [[place for place in places if (place.job, place.machine) == (job, machine)] for machine in machines]
        if any(cells):
            rows.append((code(job), *(join_lines(_format_verdicts(cell)) for cell in cells)))
    columns = ("Wheel", *(text(machine) for machine in machines))
    for head, lines, tail in table("### What was tried where", columns, rows):
        yield PageSection(head, lines, f"{tail}{_legend(places)}\n\n")


def _format_verdicts(places: Iterable[_Place]) -> Iterator[str]:
    """Yield each verdict on a machine, with its Pythons."""
    pythons: dict[str, list[str]] = {}
    for place in places:
        pythons.setdefault(place.verdict, []).append(place.python)
    for verdict, which in pythons.items():
        yield f"{MARKS[verdict]} {text(', '.join(which))}".rstrip().replace(" ", "&nbsp;")


def _legend(places: Iterable[_Place]) -> str:
    """Return the meaning of the marks in the table; the numbers beside the marks are Python versions."""
    shown = {place.verdict for place in places}
    return f"<sub>{' · '.join(f'{mark} {word}' for word, mark in MARKS.items() if word in shown)}</sub>"


def find_missing_trials(finished: Finished) -> Iterator[tuple[_Place, str, str]]:
    """Yield everything that was not tried at a place, with the reason."""
    for place in _places(finished):
        if place.validated is None:
            built = place.job in {receipt.job for receipt in finished.receipts.values()}
            yield place, "everything", "no machine has reported on it" if built else "it is not built"
        for trial in place.validated.trials if place.validated else ():
            if trial.outcome is Outcome.NOT_EXERCISED:
                yield place, trial.what, trial.detail


def list_missing_trials(finished: Finished) -> Iterator[PageSection]:
    """Yield a table of everything that was not tried, with one row for all places that share a reason."""
    pythons: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for place, what, why in find_missing_trials(finished):
        pythons.setdefault((what, why, place.job, place.machine), {})[place.python] = None
    machines: dict[tuple[str, str, str], list[str]] = {}
    for (what, why, job, machine), which in pythons.items():
        machines.setdefault((what, why, job), []).append(_where(machine, which))
    jobs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (what, why, job), where in machines.items():
        jobs.setdefault((what, why, tuple(where)), []).append(code(job))
    rows = ((join_lines(names), cut(what), join_lines(where), cut(why)) for (what, why, where), names in jobs.items())
    yield from table("### What was not tried", ("Wheel", "What", "Where", "Why"), rows)


def _where(machine: str, pythons: Iterable[str]) -> str:
    return cut(", Python ".join(filter(None, (machine, ", ".join(pythons)))))
