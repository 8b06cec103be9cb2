"""Run every benchmark in this folder: `python -m tests.benchmarks [NAME ...]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from tests import benchmarks

OVER, AT_FAULT = 1, 2  # exit statuses


def main(names: list[str]) -> int:
    """Print a table of all figures against their limits; return 1 where one is over, 2 where one cannot be."""
    return report(chain.from_iterable(_measure(names)))


def _measure(names: list[str]) -> Iterator[Iterable[tuple[str, float, str, float]]]:
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name != "__main__" and (not names or module.name in names):
            yield importlib.import_module(f"tests.benchmarks.{module.name}").measure()


def report(figures: Iterable[tuple[str, float, str, float]]) -> int:
    """Print figures against their limits; stop at one that is not above 0, since no time or size is."""
    over = False
    for what, figure, unit, limit in figures:
        if not figure > 0:  # NaN is not
            sys.stderr.write(f"{what}: {figure} {unit} is no figure, expected one above 0: its benchmark is at fault\n")
            return AT_FAULT
        over = over or figure > limit
        share = f"{figure:>9.3f} {unit:<3} of {limit:>6g} {unit:<3} {figure / limit:>6.0%}"
        print(f"{what:<60} {share}", flush=True)  # noqa: T201 - it is what was asked for
    return OVER if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
