"""Prints each phrase of `phrases.toml` that somebody wrote, with its place; exits with 1 if there is one."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.language.phrases import find_phrases

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    found = [str(finding) for finding in find_phrases(ROOT)]
    print("\n".join(found))
    sys.exit(bool(found))
