"""The command line, as a program that `tests.servers.prepared` forks."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = ("-m", "ci_tools")
# Scripts; the observer, which takes modules' places; what packages get, which imports torch.
SKIPPED = ("inside", "_confined", "_fork_server", "_lifeline", "__main__", "guard")
BESIDE = ("boto3", "jsonschema", "readme_renderer.rst", "twine", "abi3audit")


def load() -> None:
    """Import every module that a verb may import, and ask pip for its settings, so that a fork finds them."""
    import ci_tools  # noqa: PLC0415 - the client needs none of it

    for module in pkgutil.walk_packages(ci_tools.__path__, "ci_tools."):
        if not any(part in SKIPPED for part in module.name.split(".")):
            importlib.import_module(module.name)
    for name in BESIDE:
        importlib.import_module(name)
    from ci_tools.machine.installers import choose_installer  # noqa: PLC0415 - the client needs none of it

    choose_installer(os.environ).translate(os.environ)  # it keeps what pip says under the variables that decide it


def run(arguments: Sequence[str]) -> int:
    """Run `fatwheel` with these arguments."""
    from ci_tools.cli.main import main  # noqa: PLC0415 - the client needs none of it

    sys.argv = ["fatwheel", *arguments]
    return main(arguments)
