"""Compiles a.cpp twice below a folder, with its store, in a process of its own; prints where the objects are from."""

from __future__ import annotations

import sys
from pathlib import Path

from ci_tools.build.units.store import UnitStore
from tests.builders.units import open_units

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with open_units(folder, UnitStore(folder=folder / "store")) as units:
        for _ in range(2):
            sys.stdout.write(units.compile("g++", "a.cpp")[1] + "\n")
    sys.stderr.write("\n".join(units.report.describe()))
