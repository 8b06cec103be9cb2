"""s3pypi and dumb-pypi, as a program that `tests.servers.prepared` forks: most of their time is the start of boto3."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

PROGRAMS = {"s3pypi": "s3pypi.__main__", "dumb-pypi": "dumb_pypi.main"}


def load() -> None:
    """Import both, and what an upload imports."""
    for name in (*PROGRAMS.values(), "boto3.s3.inject", "boto3.s3.transfer"):
        importlib.import_module(name)


def run(arguments: Sequence[str]) -> int:
    """Run one of them with its arguments."""
    program, *rest = arguments
    sys.argv = [program, *rest]
    importlib.import_module(PROGRAMS[program]).main()
    return 0
