"""pip, as a program that `tests.servers.prepared` forks: its own code and settings, without the start of a Python."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = ("-m", "pip")
USED_LATER = (
    "pip._internal.commands.download",
    "pip._internal.commands.install",
    "pip._internal.commands.wheel",
    "pip._internal.operations.build.wheel",
    "pip._internal.operations.build.metadata",
    "pip._internal.resolution.resolvelib.resolver",
    "pip._vendor.requests",
)


def load() -> None:
    """Import what an installation imports."""
    for name in USED_LATER:
        importlib.import_module(name)


def run(arguments: Sequence[str]) -> int:
    """Run `pip` with these arguments."""
    from pip._internal.cli.main import main  # noqa: PLC0415 - as pip/__main__.py does

    sys.argv = ["pip", *arguments]
    return main(list(arguments))
