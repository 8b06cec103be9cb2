"""Run every benchmark in this folder: `python -m tests.benchmarks [NAME ...]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from tests import benchmarks


def main(names: list[str]) -> int:
    """Print a table of all figures against their limits; return 1 where one is over."""
    over = False
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name == "__main__" or (names and module.name not in names):
            continue
        for what, figure, unit, limit in importlib.import_module(f"tests.benchmarks.{module.name}").measure():
            over = over or figure > limit
            share = f"{figure:>9.3f} {unit:<3} of {limit:>6g} {unit:<3} {figure / limit:>6.0%}"
            print(f"{what:<60} {share}", flush=True)  # noqa: T201 - it is what was asked for
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
