"""`plan` says which compile units and links of a job are in the store, and what has changed of the others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.builders.sources import committed, write
from tests.integration.build.units.test_build_systems import BINDING, CONFIG, PROJECT, VERSION, build
from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.long

NEWER = f"3.{sys.version_info.minor + 1}"
JOB, NEXT = (f"linux-cpu-cp{version.replace('.', '')}" for version in (VERSION, NEWER))
KERNEL = '#include "h.h"\nint answer() { return N; }\n'
SETUP = """\
from setuptools import Extension, setup
setup(ext_modules=[
    Extension("demo", ["binding.cpp", "kernel.cpp"]),
    Extension("named", ["named.cpp"], extra_link_args=["-Wl,--version-script=names"]),
    Extension("whole", ["whole.cpp"], extra_link_args=["-flto"]),
])
"""
SOURCES = {
    "kernel.cpp": KERNEL,
    "h.h": "\n\n#define N 42\n",
    "binding.cpp": BINDING,
    "named.cpp": "int one() { return 1; }\n",
    "whole.cpp": "int two() { return 2; }\n",
    "names": "{ global: *; };\n",
    "setup.py": SETUP,
    "pyproject.toml": PROJECT.format(requires='"setuptools>=77"', backend="setuptools.build_meta"),
    "fatwheel.yml": CONFIG.replace(f'["{VERSION}"]', f'["{VERSION}", "{NEWER}"]'),
}


def foretell(fatwheel: CommandLine, folder: Path, **cache: str) -> dict[str, list[str]]:
    """Return the row of each job in the table of units: how many are stored, and what has changed."""
    ran = fatwheel("plan", "--explain", cwd=folder, **cache)
    assert ran.status == 0, ran.stderr
    found: dict[str, list[str]] = {}
    for line in ran.stdout.partition("compile units, by")[2].splitlines():
        name, *cells = re.split(r" {2,}", line.strip())
        if name in {JOB, NEXT}:
            found[name] = cells
        elif found and not name:
            break
        elif found:
            found[[*found][-1]].append(name)
    return found


def test_a_plan_tells_what_the_next_build_compiles_and_links_and_why(fatwheel: CommandLine, tmp_path: Path) -> None:
    folder, cache = tmp_path / "demo", {"FATWHEEL_CACHE": str(tmp_path / "cache")}
    committed(write(folder, SOURCES))
    assert foretell(fatwheel, folder, **cache) == {}
    build(fatwheel, folder, JOB, tmp_path / "1", **cache)
    of_python = ["link: its options name a Python (2)", "it reads Python's headers (1)", "link: -flto (1)"]
    assert foretell(fatwheel, folder, **cache) == {
        JOB: ["4 of 4", "2 of 3", "link: -flto (1)"],
        NEXT: ["3 of 4", "0 of 3", *of_python],
    }
    write(folder, {"h.h": "\n\n#define N 43\n"})
    changed = ["h.h:3 (1)", "link: it links what is compiled again (1)", "link: -flto (1)"]
    assert foretell(fatwheel, folder, **cache)[JOB] == ["3 of 4", "1 of 3", *changed]
    _, said = build(fatwheel, folder, JOB, tmp_path / "2", **cache)
    assert said == ["4 compile units: 3 from the store, 1 compiled; 1 linked before"]
    assert foretell(fatwheel, folder, **cache)[JOB] == ["4 of 4", "2 of 3", "link: -flto (1)"]
    write(folder, {"names": "{ global: *; local: x; };\n"})
    assert foretell(fatwheel, folder, **cache)[JOB] == ["4 of 4", "1 of 3", "link: names:1 (1)", "link: -flto (1)"]
