"""`plan` says which compile units of a job are in the store, and what has changed of the others."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.sources import write
from tests.integration.build.units.test_build_systems import BINDING, CONFIG, PROJECT, SETUP, VERSION, build, check_out

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.long

NEWER = f"3.{sys.version_info.minor + 1}"
JOB, NEXT = (f"linux-cpu-cp{version.replace('.', '')}" for version in (VERSION, NEWER))
KERNEL = '#include "h.h"\nint answer() { return N; }\n'
SOURCES = {
    "kernel.cpp": KERNEL,
    "h.h": "\n\n#define N 42\n",
    "binding.cpp": BINDING,
    "setup.py": SETUP,
    "pyproject.toml": PROJECT.format(requires='"setuptools>=77"', backend="setuptools.build_meta"),
    "fatwheel.yml": CONFIG.replace(f'["{VERSION}"]', f'["{VERSION}", "{NEWER}"]'),
}


def foretell(fatwheel: CommandLine, folder: Path, **cache: str) -> dict[str, str]:
    """Return the row of each job in the table of units."""
    ran = fatwheel("plan", "--explain", cwd=folder, **cache)
    assert ran.status == 0, ran.stderr
    table = ran.stdout.partition("compile units, by")[2].splitlines()
    return {row[0]: " ".join(row[1:]) for line in table if (row := line.split()) and row[0] in {JOB, NEXT}}


def test_a_plan_tells_what_the_next_build_compiles_and_why(fatwheel: CommandLine, tmp_path: Path) -> None:
    folder, cache = tmp_path / "demo", {"FATWHEEL_CACHE": str(tmp_path / "cache")}
    write(folder, SOURCES)
    check_out(folder)
    assert foretell(fatwheel, folder, **cache) == {}
    build(fatwheel, folder, JOB, tmp_path / "1", **cache)
    assert foretell(fatwheel, folder, **cache) == {JOB: "2 0", NEXT: "1 1 it reads Python's headers (1)"}
    write(folder, {"h.h": "\n\n#define N 43\n"})
    assert foretell(fatwheel, folder, **cache)[JOB] == "1 1 h.h:3 (1)"
    _, said = build(fatwheel, folder, JOB, tmp_path / "2", **cache)
    assert said == ["2 compile units: 1 from the store, 1 compiled"]
    assert foretell(fatwheel, folder, **cache)[JOB] == "2 0"
