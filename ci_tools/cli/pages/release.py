"""Sections about the files of a release: its state, sizes and hashes, findings, failures and trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.cli.pages.layout import MAX_NAMES, PageSection, cut, fold, join_lines, show_output, table
from ci_tools.errors import count
from ci_tools.formats import markdown
from ci_tools.formats.markdown import code, text
from ci_tools.index.units import CORE
from ci_tools.model.files import Finding, Level, Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import SDIST

if TYPE_CHECKING:
    from ci_tools.publish.folder import Finished


MAX_LOG = 20_000  # characters, the last ones
SHORT_HASH = 12  # digits; the whole one is folded below


def describe_state(finished: Finished) -> Iterator[PageSection]:
    """Yield whether the release is ready, and each platform that failed with its owner."""
    failing = _failing(finished)
    owners = {str(platform.platform): platform.owner for platform in finished.plan.request.platforms}
    rows = tuple(
        f"- ❌ **{text(platform)} failed**{whose}: {'; '.join(map(cut, _few(what)))}\n"
        for platform, what in failing.items()
        for whose in [_describe_owner(owners.get(platform, ""))]
    )
    if rows:
        yield PageSection("", rows, "\n")
    names = [withheld.name for withheld in finished.withheld]
    is_part = not finished.plan.sdist and not finished.plan.request.run.torch  # of one platform only
    if CORE in names or (names and is_part):
        what = "what everybody needs" if CORE in names else text(names[0])
        yield PageSection(f"⛔ **Not ready to publish:** {what} is not whole yet.\n\n")
    elif names:
        parts = ", ".join(map(text, names))
        yield PageSection(f"🟡 **Ready to publish without {parts}.** The rest does not wait for it.\n\n")
    else:
        files = count(len(finished.files), "file")
        untried = " Not everything could be tried." if any(find_missing_trials(finished)) else ""
        yield PageSection(f"✅ **Ready to publish:** {files}, each built, audited and good.{untried}\n\n")


def _few(parts: Sequence[str]) -> list[str]:
    """Return the first few of some parts, and the number of the others."""
    more = len(parts) - MAX_NAMES
    return [*parts[:MAX_NAMES], *([f"and {more} more"] if more > 0 else [])]


def _describe_owner(owner: str | None) -> str:
    """Return the owner of a platform; a user or team is mentioned, so that GitHub notifies them."""
    if not owner:
        return ""
    # Any other text could mention a stranger.
    return f", owned by {owner if markdown.OWNER.fullmatch(owner) else code(owner)}"


def _failing(finished: Finished) -> dict[str, list[str]]:
    """Return the failures by platform: audit errors, failed trials and missing wheels."""
    jobs = {job.name: job for job in finished.plan.jobs}
    sites = {site.name: site for site in finished.plan.sites}
    failing: dict[str, list[str]] = {}
    for receipt in finished.receipts.values():
        job = jobs.get(receipt.job)
        # The sdist and a pure wheel have no platform.
        own = (str(job.platform),) if job and job.platform else (receipt.job,)
        errors = sum(finding.level is Level.ERROR for finding in receipt.findings)
        if errors:
            failing.setdefault(own[0], []).append(f"{count(errors, 'error')} in the audit of {receipt.file}")
        for place in receipt.validated:
            site = sites.get(place.where)
            # A wheel for all platforms failed for those of the machine.
            names = tuple(map(str, site.platforms)) if site and job and not job.platform else own
            for name in names if place.failures else ():
                more = f" and {len(place.failures) - 1} more" if len(place.failures) > 1 else ""
                failing.setdefault(name, []).append(f"{place.failures[0].what}{more}, {place.where}")
    for job in finished.plan.jobs:
        if job.wheel not in finished.receipts:
            failing.setdefault(str(job.platform or job.name), []).append(f"there is no wheel of {job.name}")
    return {platform: list(dict.fromkeys(what)) for platform, what in failing.items()}  # several Pythons may fail alike


def list_files(finished: Finished) -> Iterator[PageSection]:
    """Yield the files with their sizes and short hashes, and the full hashes in the format of `sha256sum --check`."""
    rows = (_file(name, job, finished) for name, job in finished.files.items())
    yield from table("### Files", ("File", " Size", "sha256", "Audit"), rows)
    known = [receipt for name in finished.files if (receipt := finished.receipts.get(name))]
    if known:
        sums = (f"{receipt.sha256}  {receipt.file}" for receipt in known)
        yield from fold("sha256 of each file", [show_output(sums)])


def _file(name: str, job: str, finished: Finished) -> tuple[str, ...]:
    receipt = finished.receipts.get(name)
    if receipt is None:
        why = "⛔ no receipt of its present bytes" if name in finished.unsure else "⬜ not built"
        return f"{code(name)}<br>{text(job)}", "", "", why
    size = markdown.size(receipt.size).replace(" ", "&nbsp;")
    return f"{code(name)}<br>{text(job)}", size, code(receipt.sha256[:SHORT_HASH]), _audit(receipt)


def _audit(receipt: Receipt) -> str:
    """Return the result of a file's audit."""
    errors = sum(finding.level is Level.ERROR for finding in receipt.findings)
    warnings = len(receipt.findings) - errors
    if errors:
        return f"❌ {count(errors, 'error')}"
    if not receipt.audited:
        return "⬜ not audited"
    return f"⚠️ {count(warnings, 'warning')}" if warnings else "✅ good"


def list_withheld(finished: Finished) -> Iterator[PageSection]:
    """Yield the parts of the release that are not published, and the reasons."""
    owners = {str(platform.platform): platform.owner for platform in finished.plan.request.platforms}
    rows = (
        (text(name), code(owner) if (owner := owners.get(name, "")) else "", join_lines(map(cut, why.split("; "))))
        for name, why in finished.withheld
    )
    yield from table("### Withheld", ("Part", "Owner", "Why"), rows)


def list_findings(finished: Finished) -> Iterator[PageSection]:
    """Yield the findings of the audits, errors first."""
    found = [finding for receipt in finished.receipts.values() for finding in receipt.findings]
    found.sort(key=lambda finding: finding.level is not Level.ERROR)
    errors = sum(finding.level is Level.ERROR for finding in found)
    title = f"Findings: {count(errors, 'error')}, {count(len(found) - errors, 'warning')}"
    columns = ("", "Rule", "What", "Found", "Expected", "File")
    yield from fold(title, table("", columns, map(_finding, found)), is_open=bool(errors))


def _finding(finding: Finding) -> tuple[str, ...]:
    mark = "❌" if finding.level is Level.ERROR else "⚠️"
    words = (finding.message, finding.found, finding.expected)
    return mark, code(finding.rule), *map(cut, words), code(finding.wheel)


def list_failures(finished: Finished) -> Iterator[PageSection]:
    """Yield the output of every trial that failed."""
    for receipt in finished.receipts.values():
        for place in receipt.validated:
            for trial in place.failures:
                title = f"❌ {code(receipt.file)} at {text(place.where)}: {cut(trial.what)}"
                yield from fold(title, [show_output(trial.detail[-MAX_LOG:].splitlines())])  # the end says why


MARKS = {"passed": "✅", "passed in part": "🟡", "failed": "❌", "not exercised": "⚪", "not run": "⬜"}


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
            machine, _, python = where.partition(", Python ")  # as `Site.name` is written
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
        # no line break between a mark and its versions
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
