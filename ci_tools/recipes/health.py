"""Tells how the builds of recipes and platforms have gone, from the runs of their workflows: lines, a page and a badge.

The page is one HTML file without scripts. It reads its template.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.doctor.runs import RepositoryRun, RunJob, RunOutcome
from ci_tools.model.platforms import Platform
from ci_tools.publish.retention.judgement import Stored
from ci_tools.publish.retention.tags import Naming, ReleaseTag, newest_of_series, read_tag

if TYPE_CHECKING:
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
            # The platform that begins the name; a job of several platforms has none, and keeps its own.
            fitting = [str(one) for one in Platform if f"{named['what']}-".startswith(f"{one}-")]
            platform = max(fitting, key=len, default=named["what"])
            yield SeriesKey(package or run.workflow, (("job", platform),)), job


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


# ---------------------------------------------------------------- the page

HERE = Path(__file__).parent
ENDED = {
    RunOutcome.GOOD: "succeeded",
    RunOutcome.BAD: "failed",
    RunOutcome.RUNNING: "is running",
    RunOutcome.NONE: "was cancelled",
}
SIGNS = {RunOutcome.GOOD: "✓", RunOutcome.BAD: "✗", RunOutcome.RUNNING: "…", RunOutcome.NONE: "-"}
SCHEMES = ("https://", "http://")


def write_page(repository: str, lines: Sequence[Line], now: datetime) -> bytes:
    """Return the page: a row for each line, with its owner, its newest release and the results of its runs.

    Its content security policy allows nothing but its own style. The text of others has no effect in it.
    """
    style = f"\n{(HERE / 'health.css').read_text(encoding='utf-8')}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    summary = summarize(lines)
    page = Template((HERE / "health.html").read_text(encoding="utf-8")).substitute(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        style=style,
        repository=html.escape(repository),
        summary=f"{summary.good} of {summary.known} build" if summary.known else "No run has ended yet",
        now=_time(now),
        parts="\n".join(_row(line) for line in lines if line.part),
        wholes="\n".join(_row(line) for line in lines if not line.part),
    )
    return page.encode()


def _row(line: Line) -> str:
    last = _time(line.last_success) if line.last_success else "never"
    part = f"<span>{html.escape(line.part)}</span>" if line.part else ""
    owner = f'<td data-label="Owner">{html.escape(line.owner) or "none"}</td>' if line.part else ""
    release = f'<td data-label="Newest release">{_link(line.published, line.page) or "none"}</td>' if line.part else ""
    marks = "".join(map(_mark, reversed(line.results)))
    return f"""\
<tr class="{line.outcome}">
<th scope="row">{html.escape(line.name)} {part}</th>
<td data-label="State"><strong>{ENDED[line.outcome]}</strong></td>
{owner}{release}<td data-label="Last success">{last}</td>
<td data-label="Runs, oldest first">{line.succeeded} of {line.tried}<ol>{marks}</ol></td>
</tr>"""


def _mark(result: Result) -> str:
    said = f"{result.when:%Y-%m-%d}: {ENDED[result.outcome]}"
    sign = f'<span aria-hidden="true">{SIGNS[result.outcome]}</span><span class="said">{said}</span>'
    linked = f'<a href="{html.escape(result.page)}" title="{said}">{sign}</a>' if _is_address(result.page) else sign
    return f'<li class="{result.outcome}">{linked}</li>'


def _link(shown: str, address: str) -> str:
    text = html.escape(shown)
    return f'<a href="{html.escape(address)}">{text}</a>' if shown and _is_address(address) else text


def _is_address(text: str) -> bool:
    return text.startswith(SCHEMES)


def _time(when: datetime) -> str:
    return f'<time datetime="{when:%Y-%m-%dT%H:%M:%SZ}">{when:%Y-%m-%d %H:%M} UTC</time>'


LABEL = "wheels"
# Each has a contrast of at least 4.5:1 with the white text (WCAG 2.2, 1.4.3).
GOOD, BAD, UNKNOWN = "#23762b", "#b3261e", "#5f5f5f"
LETTER, MARGIN, HEIGHT = 6.5, 6, 20  # pixels: a letter of this font on average, the blank beside a text, the image


def write_badge(summary: Summary) -> str:
    """Return an SVG image that says how many lines are good; a reader of the screen reads its title."""
    text = f"{summary.good} of {summary.known} build" if summary.known else "no run yet"
    colour = (GOOD if summary.good == summary.known else BAD) if summary.known else UNKNOWN
    said = f"{LABEL}: {text}"
    left, right = (round(len(part) * LETTER) + 2 * MARGIN for part in (LABEL, text))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" aria-label="{said}">
  <title>{said}</title>
  <rect width="{left + right}" height="{HEIGHT}" rx="3" fill="#3b3b3b"/>
  <path fill="{colour}" d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v{HEIGHT - 6}a3 3 0 0 1-3 3h-{right - 3}z"/>
  <g fill="#fff" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">
    <text x="{MARGIN}" y="14" textLength="{left - 2 * MARGIN}" lengthAdjust="spacingAndGlyphs">{LABEL}</text>
    <text x="{left + MARGIN}" y="14" textLength="{right - 2 * MARGIN}" lengthAdjust="spacingAndGlyphs">{text}</text>
  </g>
</svg>
"""
