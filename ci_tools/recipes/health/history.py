"""Sorts the results of jobs by what they built: each recipe and platform, with its owner and its past. No I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.doctor.runs import RepositoryRun, RunJob, RunOutcome
from ci_tools.model.platforms import Platform
from ci_tools.publish.retention.tags import Naming, ReleaseTag, newest_of_series, read_tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ci_tools.publish.retention.judgement import Stored

    Series = tuple[tuple[str, str], ...]
    Newest = Mapping[tuple[str, Series], tuple[ReleaseTag, Stored]]

# The jobs of wheels.yml and recipes.yml that are about one job of a plan, or about the tag of one release. A workflow
# that calls another puts the name of its own job and " / " in front.
NAMED = re.compile(r"(?:.* / )?(?:Build|Validate) (?P<what>\S+)(?: .*)?")
# The fields of a tag in words; tags leave out the dot of a Python, after its first digit, and of CUDA, before the last.
WORDS = {
    "python": "Python {1}.{2}",
    "python_title": "Python {0}",
    "torch": "torch {0}",
    "cuda": "CUDA {3}.{4}",
    "cuda_version": "CUDA {0}",
}


class SeriesKey(NamedTuple):
    """The subject of a line; a platform is a series with the one field `job`."""

    project: str
    series: Series


class KnownConfig(NamedTuple):
    """A config: how it names its releases, and the owner of each platform, "" for none."""

    naming: Naming
    owners: Mapping[str, str]


class Result(NamedTuple):
    """What one run says of a line."""

    outcome: RunOutcome
    when: datetime
    page: str


class Line(NamedTuple):
    """A recipe's series, a platform of a config, or a whole workflow, with its results, the newest first."""

    name: str  # of the project, or of the workflow's file
    part: str  # the series or the platform; "" for all of a workflow
    owner: str
    results: tuple[Result, ...]
    published: str = ""  # the tag of the newest stable release
    page: str = ""  # its address

    @property
    def outcome(self) -> RunOutcome:
        """The newest outcome that says something; else that of the newest run."""
        spoken = [one.outcome for one in self.results if one.outcome in {RunOutcome.GOOD, RunOutcome.BAD}]
        return spoken[0] if spoken else self.results[0].outcome

    @property
    def tried(self) -> int:
        """The number of runs that ended in success or failure."""
        return sum(one.outcome in {RunOutcome.GOOD, RunOutcome.BAD} for one in self.results)

    @property
    def succeeded(self) -> int:
        """The number of runs that ended in success."""
        return sum(one.outcome is RunOutcome.GOOD for one in self.results)

    @property
    def last_success(self) -> datetime | None:
        """When the newest run that succeeded had begun."""
        return next((one.when for one in self.results if one.outcome is RunOutcome.GOOD), None)


class Summary(NamedTuple):
    """How many lines are good, of those that are known to be good or bad."""

    good: int
    known: int


def list_lines(
    runs: Sequence[RepositoryRun], known: Sequence[KnownConfig], releases: Sequence[Stored], package: str = ""
) -> list[Line]:
    """Return a line for each recipe's series and each platform that a job has built, then one for each workflow.

    `package` is the project whose plan the jobs of wheels.yml follow; "" stands for the name of the workflow.
    """
    newest = newest_of_series(releases, [one.naming for one in known])
    parts: dict[SeriesKey, dict[int, Result]] = {}
    wholes: dict[str, list[Result]] = {}
    for run in runs:
        wholes.setdefault(run.workflow, []).append(Result(run.outcome, run.when, run.page))
        for key, job in _list_built(run, known, package):
            own = parts.setdefault(key, {})
            own[run.number] = _worst(own.get(run.number), Result(job.outcome, run.when, job.page))
    lines = [_line(key, tuple(results.values()), known, newest) for key, results in sorted(parts.items())]
    return lines + [Line(name, "", "", tuple(results)) for name, results in sorted(wholes.items())]


def _list_built(run: RepositoryRun, known: Sequence[KnownConfig], package: str) -> Iterator[tuple[SeriesKey, RunJob]]:
    """Yield the jobs of a run that are about a release's tag, or about a job of a plan, with what they are about."""
    for job in run.jobs:
        named = NAMED.fullmatch(job.name)
        if named is None or "$" in named["what"]:  # a matrix that had no row keeps its expression as its name
            continue
        tag = read_tag(named["what"], [one.naming for one in known])
        if tag:
            yield SeriesKey(tag.project, tag.series), job
        else:
            yield SeriesKey(package or run.workflow, (("job", _platform_of(named["what"])),)), job


def _line(key: SeriesKey, results: tuple[Result, ...], known: Sequence[KnownConfig], newest: Newest) -> Line:
    owners = next((one.owners for one in known if one.naming.package == key.project), {})
    platform = dict(key.series).get("job")
    found = owners.values() if platform is None else [owners.get(platform, "")]
    release = newest[key][1] if key in newest else None
    return Line(
        key.project,
        _describe(key.series),
        ", ".join(dict.fromkeys(filter(None, found))),
        results,
        *((release.tag, release.page) if release else ()),
    )


def summarize(lines: Sequence[Line]) -> Summary:
    """Return how many lines are good; the workflows count only where no job is known to have built anything."""
    parts = [line for line in lines if line.part] or list(lines)
    outcomes = [line.outcome for line in parts if line.tried]
    return Summary(outcomes.count(RunOutcome.GOOD), len(outcomes))


def _worst(known: Result | None, new: Result) -> Result:
    """Return the result that counts of two of one run: a failure, then what has not ended."""
    order = (RunOutcome.BAD, RunOutcome.RUNNING, RunOutcome.GOOD, RunOutcome.NONE)
    return new if known is None or order.index(new.outcome) < order.index(known.outcome) else known


def _describe(series: Series) -> str:
    """Return a series in words: Python 3.14t, torch 2.10.0, CUDA 13.0."""
    return ", ".join(
        WORDS.get(name, "{0}").format(value, value[:1], value[1:], value[:-1], value[-1:])
        for name, value in sorted(series, key=_rank)
    )


def _rank(field: tuple[str, str]) -> tuple[int, str]:
    order = [*WORDS]
    return (order.index(field[0]) if field[0] in order else len(order)), field[0]


def _platform_of(job: str) -> str:
    """Return the platform that a job of a plan is for, by its name; the name itself for those of several platforms."""
    fitting = [str(one) for one in Platform if job == one or job.startswith(f"{one}-")]
    return max(fitting, key=len, default=job)
