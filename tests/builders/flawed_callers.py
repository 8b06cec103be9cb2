"""Callers in which nothing is wrong, and flaws that are seeded into them; others have unusual shapes of their own."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / name).read_text(encoding="utf-8").replace("@v0.1.0", f"@v{__version__}"))


TABLE = _read("flawed_callers.toml")
UNUSUAL: list[dict[str, Any]] = _read("unusual_callers.toml")["caller"]
RELEASE = ".github/workflows/release.yml"
TODAY = dt.date(2026, 11, 28)
CONFIG = "package: demo\npublish: { pypi: wheels, targets: ['github:me/demo'] }\n"
CALLERS: dict[str, str] = TABLE["callers"]


class Flaw(NamedTuple):
    """What is added to a caller, and what has to be said of it."""

    rule: str
    edit: str
    jobs: str = ""  # of its release's workflow
    files: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


FLAWS = {row["name"]: Flaw(**{key: value for key, value in row.items() if key != "name"}) for row in TABLE["flaw"]}


def files_of(caller: str, flaw: Flaw | None = None) -> dict[str, str]:
    """Return the files of a caller, with a flaw."""
    more, files = (flaw.jobs, flaw.files) if flaw else ("", {})
    return {RELEASE: CALLERS[caller] + more, "fatwheel.yml": CONFIG, **files}


def places_of(files: dict[str, str]) -> set[str]:
    """Return `file:line` of each line that ends with the mark."""
    lines = ((path, number, line) for path, text in files.items() for number, line in enumerate(text.splitlines(), 1))
    return {f"{path}:{number}" for path, number, line in lines if line.endswith("# here")}
