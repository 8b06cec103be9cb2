"""Sections about the files of a release: its state, sizes and hashes, findings and failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.cli.pages.layout import (
    MAX_NAMES,
    PageSection,
    count,
    cut,
    fold,
    join_lines,
    show_output,
    table,
)
from ci_tools.cli.pages.trials import find_missing_trials
from ci_tools.formats import markdown
from ci_tools.formats.markdown import (
    code,
    text,
)
from ci_tools.index.units import CORE
from ci_tools.model.files import Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.model.files import Finding, Receipt
    from ci_tools.publish.folder import Finished

MAX_LOG = 20_000  # characters, the last ones
SHORT_HASH = 12


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
    return f", owned by {owner if markdown.OWNER.fullmatch(owner) else code(owner)}"


def _failing(finished: Finished) -> dict[str, list[str]]:
    """Return the failures by platform: audit errors, failed trials and missing wheels."""
    jobs = {job.name: job for job in finished.plan.jobs}
    sites = {site.name: site for site in finished.plan.sites}
    failing: dict[str, list[str]] = {}
    for receipt in finished.receipts.values():
        job = jobs.get(receipt.job)
        own = (str(job.platform),) if job and job.platform else (receipt.job,)
        errors = sum(finding.level is Level.ERROR for finding in receipt.findings)
        if errors:
            failing.setdefault(own[0], []).append(f"{count(errors, 'error')} in the audit of {receipt.file}")
        for place in receipt.validated:
            site = sites.get(place.where)
            names = tuple(map(str, site.platforms)) if site and job and not job.platform else own
            for name in names if place.failures else ():
                more = f" and {len(place.failures) - 1} more" if len(place.failures) > 1 else ""
                failing.setdefault(name, []).append(f"{place.failures[0].what}{more}, {place.where}")
    for job in finished.plan.jobs:
        if job.wheel not in finished.receipts:
            failing.setdefault(str(job.platform or job.name), []).append(f"there is no wheel of {job.name}")
    return {platform: list(dict.fromkeys(what)) for platform, what in failing.items()}


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
                yield from fold(title, [show_output(trial.detail[-MAX_LOG:].splitlines())])
