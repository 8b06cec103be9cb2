"""Draws the badge: how many lines are good, as an SVG image for a README. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_tools.recipes.health.history import Summary

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
