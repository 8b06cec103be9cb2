"""The command line, as a program that `tests.servers.prepared` forks."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

COMMAND = ("-m", "ci_tools")
# Scripts; the observer, which takes modules' places; what packages get, which imports torch.
SKIPPED = ("inside", "_confined", "_fork_server", "_lifeline", "__main__", "guard")
BESIDE = ("boto3", "jsonschema", "readme_renderer.rst", "twine", "abi3audit")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
USED_LATER = ("auditwheel.architecture", "auditwheel.policy", "cattrs.cols", "cattrs.gen", "difflib", "pathspec")


def load() -> None:
    """Import every module that a verb may import, and find out what all verbs find out, so that a fork knows it."""
    import ci_tools  # noqa: PLC0415 - the client needs none of it

    for name in _modules(ci_tools.__path__, "ci_tools."):
        importlib.import_module(name)
    for name in (*BESIDE, *USED_LATER):
        importlib.import_module(name)
    from ci_tools.evidence.observe.stage import identify_tools  # noqa: PLC0415 - the client needs none of it
    from ci_tools.machine.installers import choose_installer  # noqa: PLC0415 - see above
    from ci_tools.machine.python import find  # noqa: PLC0415 - see above
    from ci_tools.machine.sandbox import why_not  # noqa: PLC0415 - see above
    from ci_tools.model.versions import Python  # noqa: PLC0415 - see above

    choose_installer(os.environ).translate(os.environ)  # it keeps what pip says under the variables that decide it
    identify_tools()  # which reads the observer's files
    why_not()  # which confines a program
    for python in PYTHONS:
        find(Python.parse(python), os.environ)  # which asks each interpreter that this machine has of it
    _learn_plans()
    _hurry()


def _hurry() -> None:
    """Write to a server without a second between two writes: GitHub asks for it, and no server of a test does."""
    from ci_tools.github import client  # noqa: PLC0415 - see above

    client.PAUSE = 0.05


def _learn_plans() -> None:
    """Read the catalog, and make the functions that read a plan, of which cattrs writes the code."""
    from ci_tools import catalog  # noqa: PLC0415 - see above
    from ci_tools.errors import RejectedInput  # noqa: PLC0415 - see above
    from ci_tools.formats import json_file  # noqa: PLC0415 - see above
    from ci_tools.plan.plan_reader import Cell, Plan, Request  # noqa: PLC0415 - see above

    catalog.load()
    for kind, kept in ((Request, ()), (Plan, (Cell, Request))):
        with contextlib.suppress(RejectedInput):
            json_file.structure({}, kind, "no plan", kept=kept)


def _modules(paths: Iterable[str], prefix: str) -> Iterator[str]:
    """Yield the names of all modules below a package; `pkgutil.walk_packages` would import those to be skipped."""
    for module in pkgutil.iter_modules(paths, prefix):
        last = module.name.rpartition(".")[2]
        if last not in SKIPPED:
            yield module.name
            if module.ispkg:
                yield from _modules([str(Path(path) / last) for path in paths], f"{module.name}.")


def run(arguments: Sequence[str]) -> int:
    """Run `fatwheel` with these arguments."""
    from ci_tools.cli.main import main  # noqa: PLC0415 - the client needs none of it

    sys.argv = ["fatwheel", *arguments]
    return main(arguments)
