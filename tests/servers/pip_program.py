"""pip, as a program that `tests.servers.prepared` forks: its own code and settings, without the start of a Python."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress

COMMAND = ("-m", "pip")
USED_LATER = (
    "argparse",
    "distutils.command.build",
    "netrc",
    "pip._internal.cli.autocompletion",
    "pip._internal.cli.main",
    "pip._internal.cli.main_parser",
    "pip._internal.commands.download",
    "pip._internal.commands.install",
    "pip._internal.commands.wheel",
    "pip._internal.operations.build.wheel",
    "pip._internal.metadata.importlib",
    "pip._internal.metadata.pkg_resources",
    "pip._internal.operations.build.metadata",
    "pip._internal.operations.install.wheel",
    "pip._internal.resolution.resolvelib.resolver",
    "pip._vendor.distro",
    "pip._vendor.requests",
    "pip._vendor.truststore",
)


def load() -> None:
    """Import what an installation imports, of which an old pip has only a part, and a new Python another."""
    importlib.import_module("pip")
    for name in USED_LATER:
        with suppress(ImportError):
            importlib.import_module(name)
    with suppress(ImportError):
        session = importlib.import_module("pip._internal.network.session")
        session.user_agent = functools.cache(session.user_agent)  # it asks four programs, rustc among them
        session.user_agent()


def run(arguments: Sequence[str]) -> int:
    """Run `pip` with these arguments."""
    from pip._internal.cli.main import main  # as pip/__main__.py does

    sys.argv = ["pip", *arguments]
    return main(list(arguments))
