"""Compiles the sources of a folder by `make -j2`, with its store, in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from ci_tools.build.units.store import UnitStore
from tests.builders.units import open_units

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with open_units(folder, UnitStore(folder=folder / "store")) as units:
        made = units.run("make", "--always-make", "-j2")
    sys.exit(made.returncode)
