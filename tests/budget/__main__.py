"""Prints the lines of every room, of every verb and in all, beside the most of each; exits with 1 if one has more."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.budget.lines import TABLE, count_lines

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    counts = count_lines(ROOT)
    print(*counts, sep="\n")
    if any(count.is_over for count in counts):
        sys.exit(f"{TABLE.relative_to(ROOT)} allows fewer lines, or has a row that fits nothing: say things once")
