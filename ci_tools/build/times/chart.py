"""Draws builds as one HTML page without scripts: each unit in time, and the memory in use below it."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from ci_tools.build.times.trace import TracedJob, add_up, describe_size, list_lanes
from ci_tools.build.units.report import COMPILED, FAILED, LEFT, PLAIN, SAME_TEXT, UNCHANGED, DoneUnit
from ci_tools.errors import count
from ci_tools.machine.waits import duration

HERE = Path(__file__).parent
WORDS = {
    COMPILED: "compiled",
    PLAIN: "compiled, not shared",
    SAME_TEXT: "from the store, by its text",
    UNCHANGED: "from the store",
    FAILED: "failed",
    LEFT: "left for the time limit",
}
# Of the drawing: a lane, the curve of the memory, and the place of its figure, such as 23.5 GiB.
WIDTH, LANE, MEMORY, MARGIN = 1000, 18, 70, 44
LETTER = 6.2  # width of a letter in a bar
FEW = 12  # longest units in the table
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400)  # seconds between two lines
MOST_LINES = 12
MOST_SAMPLES = 500


def write_chart(jobs: Sequence[TracedJob]) -> bytes:
    """Return the page. Its content security policy allows nothing but its own style."""
    style = f"\n{(HERE / 'chart.css').read_text(encoding='utf-8')}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    told, longest_job = add_up(jobs), max((job.ended - job.began for job in jobs), default=0.0)
    kinds = {kind: WORDS[kind] for kind in WORDS if any(unit.how == kind for job in jobs for unit in job.units)}
    kinds |= {"memory": "memory in use"} if told.used else {}
    kinds |= {"swap": "memory in swap"} if any(one.swapped for job in jobs for one in job.samples) else {}
    longest = sorted((unit for job in jobs for unit in job.units if unit.wall), key=lambda one: -one.wall)[:FEW]
    page = Template((HERE / "chart.html").read_text(encoding="utf-8")).substitute(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        style=style,
        wall=duration(told.wall),
        units=f"{told.units:,}",
        taken=f"{told.taken:,}",
        compiling=duration(told.compiling),
        peak=describe_size(told.peak),
        waited=duration(told.waited),
        legend="".join(f'<li class="{_name(kind)}">{words}</li>' for kind, words in kinds.items()),
        charts="\n".join(_draw_job(job, longest_job) for job in jobs),
        rows="\n".join(map(_write_row, longest)),
    )
    return page.encode()


def _write_row(unit: DoneUnit) -> str:
    figures = (duration(unit.wall), duration(unit.compiling), describe_size(unit.peak), duration(unit.waited))
    cells = "".join(f"<td>{figure}</td>" for figure in figures)
    return f'<tr><th scope="row">{html.escape(unit.source)}</th>{cells}</tr>'


def _draw_job(job: TracedJob, width: float) -> str:
    """Return the figure of a job: a row of bars for each lane, and the memory of its machine, in so many seconds."""
    lanes, seconds = list_lanes(job.units), job.ended - job.began
    scale = (WIDTH - MARGIN) / max(width, 1)
    height = LANE * (1 + max((lane for lane, _ in lanes), default=-1))
    bars = "\n".join(_draw_unit(lane, unit, job.began, scale) for lane, unit in lanes)
    units, cores = count(len(job.units), "unit"), count(job.cores, "core")
    figures = [units, duration(seconds), cores, describe_size(job.memory)]
    name = html.escape(job.name)
    return f"""\
<figure tabindex="0"><figcaption><strong>{name}</strong> {", ".join(figures)}</figcaption>
<svg viewBox="0 0 {WIDTH} {height + MEMORY + 24}" role="img" aria-label="{name}: {", ".join(figures)}">
{"".join(_draw_lines(seconds, scale, height + MEMORY + 8))}
{bars}
{_draw_memory(job, scale, height + 8)}
</svg></figure>"""


def _draw_unit(lane: int, unit: DoneUnit, began: float, scale: float) -> str:
    left, width = MARGIN + (unit.began - began) * scale, max(unit.took * scale, 0.8)  # a unit of no time is still seen
    what = f"{unit.source}: {WORDS[unit.how]}, {duration(unit.took)}"
    memory = f", {describe_size(unit.peak)}" if unit.peak else ""
    waited = f", {duration(unit.waited)} of it waiting for memory" if unit.waited >= 1 else ""
    fits = Path(unit.source).name[: int((width - 4) / LETTER)]  # no text over the bar's end
    text = f'<text x="{left + 3:.1f}" y="{lane * LANE + 12}">{html.escape(fits)}</text>' if len(fits) > 2 else ""  # noqa: PLR2004
    bar = _draw_bar(left, lane, width)
    if unit.waited >= 1:
        began_waiting = left + (unit.took - unit.wall - unit.waited) * scale
        bar += _draw_bar(began_waiting, lane, unit.waited * scale, ' class="waits"')
    return f'<g class="{_name(unit.how)}"><title>{html.escape(what + memory + waited)}</title>{bar}{text}</g>'


def _draw_bar(left: float, lane: int, width: float, more: str = "") -> str:
    return f'<rect x="{left:.1f}" y="{lane * LANE}" width="{width:.1f}" height="{LANE - 3}" rx="2"{more}/>'


def _draw_lines(seconds: float, scale: float, height: float) -> Iterator[str]:
    """Yield the lines of the time, each with its figure."""
    step = next((tick for tick in TICKS if WIDTH / scale / tick <= MOST_LINES), TICKS[-1])
    for at in range(0, int(seconds) + 1, step):
        x = MARGIN + at * scale
        yield f'<path class="line" d="M{x:.1f} 0V{height}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{height + 13}">{duration(at)}</text>'


def _draw_memory(job: TracedJob, scale: float, top: float) -> str:
    """Return the curve of the memory in use, of all that there is; what is in swap is a curve of its own."""
    samples = job.samples[:: len(job.samples) // MOST_SAMPLES + 1]  # one a second: hours would be megabytes
    if not samples or not job.memory:
        return ""
    bottom = top + MEMORY
    places = [(MARGIN + (one.at - job.began) * scale, one) for one in samples]
    used = " ".join(f"L{x:.1f} {bottom - min(1, one.used / job.memory) * MEMORY:.1f}" for x, one in places)
    swapped = " ".join(f"L{x:.1f} {bottom - min(1, one.swapped / job.memory) * MEMORY:.1f}" for x, one in places)
    most = max(one.used for one in samples)
    first, last = places[0][0], places[-1][0]
    swap = f'<path class="swap" d="M{first:.1f} {bottom} {swapped}"/>' if any(one.swapped for one in samples) else ""
    figure = f'<text class="tick" x="0" y="{top + 9}">{describe_size(job.memory)}</text>'
    area = f'<path class="memory" d="M{first:.1f} {bottom} {used} L{last:.1f} {bottom}Z"/>'
    return f"<g><title>memory in use: {describe_size(most)} at most</title>{area}{swap}{figure}</g>"


def _name(kind: str) -> str:
    return kind.replace(" ", "-")
