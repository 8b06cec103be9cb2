"""Tables about what Fatwheel looks after: an index, a repository on GitHub, its releases and its rehearsed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ci_tools.cli.tables.layout import Table, add_row, filled, new_table, readable_size
from ci_tools.errors import count
from ci_tools.index.manifest import Root

if TYPE_CHECKING:
    from ci_tools.doctor.check import Checked
    from ci_tools.index.foreign.adoption import Outline
    from ci_tools.index.maintain import IndexFlaw
    from ci_tools.publish.retention.judgement import Judged
    from ci_tools.publish.retention.removal import Removed
    from ci_tools.publish.retention.tags import Naming

    Values = Mapping[str, Any]

MAX_PROJECTS = 30  # projects of an index that get a row each


def adoption_tables(outline: Outline, *, done: bool) -> Iterator[Table]:
    """Yield the changes of an index's adoption: by project, or as a sum if there are many, and the parts left as is."""
    title = "adopted" if done else "to adopt"
    columns = ("hashed", "METADATA written") if done else ("to hash", "METADATA to write")
    table = new_table(title, "project", "files", "new", *columns, "other links")
    shown = outline.projects if len(outline.projects) <= MAX_PROJECTS else ()  # a public index may have thousands
    for name, files, new, unhashed, size, metadata, links in shown:
        add_row(table, name, files, new, f"{unhashed} ({readable_size(size)})" if size else unhashed, metadata, links)
    if not shown or len(shown) > 1:  # the sum of one is itself
        numbers = ((row.files, row.new, row.unhashed, row.metadata, row.links) for row in outline.projects)
        sums = (f"{sum(column):,}" for column in zip(*numbers, strict=True))
        add_row(table, count(len(outline.projects), "project"), *sums)
    yield table
    fronts = {Root.OWN: "ours from then on", Root.SHARED: "shared: our line is added to them", Root.KEPT: "left alone"}
    kept = ", kept in .fatwheel/replaced" if outline.pages else ""
    pages = (
        ("pages of others that ours replace", f"{outline.pages:,}{kept}"),
        ("pages that list projects", fronts[outline.root]),
    )
    yield new_table("", "", "", rows=pages)
    yield from filled(new_table("left as it is", "where", "why", rows=outline.left))


def flaws_table(flaws: Sequence[IndexFlaw]) -> Iterator[Table]:
    """Yield the flaws of an index, and the repair of each."""
    rows = ((flaw.key, flaw.what, flaw.done) for flaw in flaws)
    yield new_table(count(len(flaws), "flaw"), "where", "what", "", rows=rows)


def doctor_tables(checked: Checked) -> Iterator[Table]:
    """Yield the findings in a repository on GitHub, then for each the reason why it matters and the fix."""
    yield from filled(new_table("fixed over the API", "what", "outcome", rows=checked.fixed))
    title = count(len(checked.findings), "finding") if checked.findings else "nothing is wrong"
    table = new_table(f"{checked.repository}: {title}", "", "weight", "where", "what")
    ways = new_table("why, and what to do", "", "")
    for number, finding in enumerate(checked.findings, 1):
        add_row(table, number, finding.weight, finding.where, finding.what)
        add_row(ways, number, finding.why)
        add_row(ways, "", f"→ {finding.how}{' (--fix does it)' if finding.fix else ''}")
    yield table
    yield from filled(ways)


def judged_tables(judged: Sequence[Judged], namings: Sequence[Naming]) -> Iterator[Table]:
    """Yield every release with its fate, and then what each project has of its quota."""
    table = new_table(count(len(judged), "release"), "tag", "project", "assets", "size", "", "why")
    for one in judged:
        release, project = one.release, one.tag.project if one.tag else ""
        size = readable_size(release.size)
        add_row(table, release.tag or "none", project, f"{len(release.assets):,}", size, one.fate.value, one.reason)
    yield table
    sums = new_table("quotas", "project", "releases", "assets", "of", "size", "of")
    for naming in namings:
        # Releases of others count for no quota.
        own = [one.release for one in judged if one.tag and one.tag.project == naming.package and one.release.is_ours]
        most, assets = naming.retention, sum(len(one.assets) for one in own)
        whole = readable_size(sum(one.size for one in own))
        if own:
            add_row(sums, naming.package, len(own), f"{assets:,}", f"{most.assets:,}", whole, f"{most.gigabytes:g} GB")
    yield from filled(sums)


def judged_values(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return every release with its fate as JSON values."""
    return [
        {
            "tag": one.release.tag,
            "project": one.tag.project if one.tag else None,
            "version": str(one.tag.version) if one.tag else None,
            "assets": len(one.release.assets),
            "size": one.release.size,
            "fate": one.fate.value,
            "reason": one.reason,
        }
        for one in judged
    ]


def removed_table(removed: Sequence[Removed]) -> Iterator[Table]:
    """Yield the result for each release that was to be removed."""
    number = sum(one.outcome == "removed" for one in removed)
    yield new_table(f"{count(number, 'release')} removed", "tag", "", "why", rows=removed)


def rehearsal_tables(found: Values) -> Iterator[Table]:
    """Yield for each event the jobs of the runs that it starts; of a re-run, what starts again for each failed job."""
    for event in found["events"]:
        if not event["runs"]:
            yield new_table(f"{event['title']}: it starts nothing")
        elif event["kind"] == "rerun":
            yield _again_table(event)
        else:
            yield from (table for run in event["runs"] for table in (_jobs_table(event, run), _cost_table(run)))
    if found["unseen"]:
        table = new_table("not known here", "what")
        for line in found["unseen"]:
            add_row(table, line)
        yield table


def _jobs_table(event: Values, run: Values) -> Table:
    where = "" if event["file"] else f": {run['workflow']}"
    title = f"{event['title']}{where}{', if ' * bool(run['condition'])}{run['condition']}"
    table = new_table(title, "job", "runs", "on", "rights", "publishes", "minutes at most")
    for name, group in groupby(run["jobs"], key=lambda job: job["job"]):  # the rows of a matrix stand together
        jobs = list(group)
        first = jobs[0]
        shown = f"{name} x {len(jobs)}" if jobs[1:] else f"{name} x ?" if first["row"] is None else name
        whether = f"if {first['condition']}" if first["condition"] else "no" if first["runs"] is False else "yes"
        minutes = sum(job["minutes"] for job in jobs)
        rest = (_labels(jobs), _rights(first), _published(jobs), str(minutes))
        rest = ("", f"not looked at: {first['calls']}", _published(jobs), "") if first["calls"] else rest
        add_row(table, shown, whether, *(rest if first["runs"] is not False else [""] * 4))  # skipped: nothing else
    return table


def _labels(jobs: Sequence[Values]) -> str:
    counted = Counter(job["runner"] for job in jobs)
    return ", ".join(f"{number} {label}" if counted.keys() - {label} else label for label, number in counted.items())


def _rights(job: Values) -> str:
    """Return the permissions of a job's token, its environment, and the secrets that it names."""
    granted = "the repository's default" if job["rights"] is None else "none"
    rights = ", ".join(f"{scope}: {wanted}".replace("*", "all") for scope, wanted in (job["rights"] or {}).items())
    parts = [rights or granted, f"environment {job['environment']}" if job["environment"] else ""]
    return "; ".join(filter(None, [*parts, f"secrets {', '.join(job['secrets'])}" if job["secrets"] else ""]))


def _published(jobs: Sequence[Values]) -> str:
    published = dict.fromkeys(tuple(one.values()) for job in jobs for one in job["publishes"])
    lines = (
        f"{what}{' → ' if what and to else ''}{to}{f' ({channel})' if to and channel else ''}"
        for what, to, channel in published
    )
    return "; ".join(lines)


def _cost_table(run: Values) -> Table:
    jobs = sum(cost["jobs"] for cost in run["cost"])
    unknown = any(job["runs"] is not False and job["row"] is None for job in run["jobs"])
    more = ", and the rows of a matrix that only the run knows" if unknown else ""
    if called := {job["calls"] for job in run["jobs"] if job["calls"] and job["runs"] is not False}:
        more += f", and those of {count(len(called), 'workflow')} not looked at"
    title = f"at most {count(jobs, 'job')}{more}, in {count(run['waves'], 'wave')} of up to 20 at once"
    table = new_table(title, "runner", "jobs", "minutes at most")
    for cost in run["cost"]:
        add_row(table, *cost.values())
    return table


def _again_table(event: Values) -> Table:
    title = f"{event['title']}: what starts again"
    table = new_table(title, "workflow", "failed", "jobs", "start again", "publish", "minutes at most")
    for run in event["runs"]:
        names = ", ".join(dict.fromkeys(job["job"] for job in run["jobs"]))  # each row of a matrix is a job
        minutes = sum(cost["minutes"] for cost in run["cost"])
        add_row(table, run["workflow"], run["failed"], len(run["jobs"]), names, _published(run["jobs"]), minutes)
    return table
