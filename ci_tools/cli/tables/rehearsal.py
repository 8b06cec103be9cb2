"""Tables of a rehearsal, from its JSON values: for each run the jobs, and what they cost."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ci_tools.cli.tables.layout import Table, add_row, new_table
from ci_tools.errors import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Values = Mapping[str, Any]


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
    for name, group in groupby(run["jobs"], key=lambda job: job["job"]):
        jobs = list(group)
        first = jobs[0]
        shown = f"{name} x {len(jobs)}" if jobs[1:] else f"{name} x ?" if first["row"] is None else name
        whether = f"if {first['condition']}" if first["condition"] else "no" if first["runs"] is False else "yes"
        minutes = sum(job["minutes"] for job in jobs)
        rest = (_labels(jobs), _rights(first), _published(jobs), str(minutes))
        rest = ("", f"not looked at: {first['calls']}", _published(jobs), "") if first["calls"] else rest
        add_row(table, shown, whether, *(rest if first["runs"] is not False else [""] * 4))
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
        names = ", ".join(dict.fromkeys(job["job"] for job in run["jobs"]))
        minutes = sum(cost["minutes"] for cost in run["cost"])
        add_row(table, run["workflow"], run["failed"], len(run["jobs"]), names, _published(run["jobs"]), minutes)
    return table
