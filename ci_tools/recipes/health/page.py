"""Writes the page of a repository's builds, one HTML file without scripts, and their badge. It reads its template."""

from __future__ import annotations

import base64
import hashlib
import html
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ci_tools.doctor.runs import RunOutcome
from ci_tools.recipes.health.history import Line, Result, Summary, summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


HERE = Path(__file__).parent
WORDS = {
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
    style = f"\n{(HERE / 'page.css').read_text(encoding='utf-8')}"
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    summary = summarize(lines)
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
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
<td data-label="State"><strong>{WORDS[line.outcome]}</strong></td>
{owner}{release}<td data-label="Last success">{last}</td>
<td data-label="Runs, oldest first">{line.succeeded} of {line.tried}<ol>{marks}</ol></td>
</tr>"""


def _mark(result: Result) -> str:
    said = f"{result.when:%Y-%m-%d}: {WORDS[result.outcome]}"
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
