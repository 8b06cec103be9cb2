"""The command line, as a program that `tests.servers.prepared` forks."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

COMMAND = ("-m", "ci_tools")
BUILDS = "FATWHEEL_TESTS_BUILDS"  # the folder of a call's builds, in place of the one that all machines have
# Scripts; the observer, which takes modules' places; what packages get, which imports torch.
SKIPPED = ("inside", "_confined", "_fork_server", "_lifeline", "__main__", "guard")
BESIDE = (
    *("boto3", "boto3.s3.inject", "jsonschema", "readme_renderer.rst", "twine", "abi3audit"),
    *("rich._emoji_codes", "rich.progress"),
)
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
USED_LATER = ("auditwheel.architecture", "auditwheel.policy", "cattrs.cols", "cattrs.gen", "difflib", "pathspec")


def load() -> None:
    """Import every module that a verb may import, and find out what all verbs find out, so that a fork knows it."""
    import ci_tools  # noqa: PLC0415 - the client needs none of it

    for name in _modules(ci_tools.__path__, "ci_tools."):
        importlib.import_module(name)
    for name in (*BESIDE, *USED_LATER):
        importlib.import_module(name)
    from ci_tools.machine.installers import choose_installer  # noqa: PLC0415 - see above
    from ci_tools.machine.python import find  # noqa: PLC0415 - see above
    from ci_tools.model.versions import Python  # noqa: PLC0415 - see above
    from ci_tools.observe.stage import identify_tools  # noqa: PLC0415 - the client needs none of it
    from ci_tools.sandbox import why_not  # noqa: PLC0415 - see above

    choose_installer(os.environ).translate(os.environ)  # it keeps what pip says under the variables that decide it
    identify_tools()  # which reads the observer's files
    why_not()  # which confines a program
    for python in PYTHONS:
        find(Python.parse(python), os.environ)  # which asks each interpreter that this machine has of it
    _learn_kinds()
    _make_plan()
    _hurry()


def _hurry() -> None:
    """Write to a server without a second between two writes: GitHub asks for it, and no server of a test does."""
    from ci_tools.github import client  # noqa: PLC0415 - see above

    client.PAUSE = 0.05


def _make_plan() -> None:
    """Make a plan of a small project: patterns that are compiled, and a schema's functions, are made for the first."""
    from ci_tools.cli.dispatch import parse  # noqa: PLC0415 - see above
    from ci_tools.machine.workplace import scratch  # noqa: PLC0415 - see above
    from ci_tools.plan.make import make_plan  # noqa: PLC0415 - see above
    from tests.builders.sources import demo, world  # noqa: PLC0415 - see above

    parse(["plan"])
    with scratch() as folder:
        make_plan(demo(folder / "demo") / "fatwheel.yml", world(folder))


def _learn_kinds() -> None:
    """Make the functions that read what verbs read, of which cattrs writes the code."""
    from ci_tools.index.manifest import DirectoryTable, ManifestTable, StagedTable  # noqa: PLC0415 - see above
    from ci_tools.index.of_releases import ListingTable  # noqa: PLC0415 - see above
    from ci_tools.model.files import Receipt  # noqa: PLC0415 - see above
    from ci_tools.model.request import CatalogRow  # noqa: PLC0415 - see above
    from ci_tools.plan.plan_reader import Cell, Plan, Request  # noqa: PLC0415 - see above

    for _ in range(2):  # whenever cattrs makes the function of a mapping, it forgets those that it has made before
        _learn_kind(Plan, kept=(Cell, Request))
        for kind in (Request, tuple[CatalogRow, ...], ListingTable):
            _learn_kind(kind)
        for kind in (Receipt, DirectoryTable, ManifestTable, StagedTable):
            _learn_kind(kind, exact=True)


def _learn_kind(kind: Any, **how: Any) -> None:  # noqa: ANN401 - any type
    """Make the functions that read values of a kind, and of every kind that is in them."""
    from ci_tools.errors import RejectedInput  # noqa: PLC0415 - the client needs none of it
    from ci_tools.formats import json_file  # noqa: PLC0415 - see above

    known: set[Any] = set()
    waiting = [kind]
    while waiting:
        one = waiting.pop()
        if one in known:
            continue
        known.add(one)
        fields = get_type_hints(one) if is_dataclass(one) or hasattr(one, "_fields") else {}
        if fields or get_origin(one) is tuple:
            with contextlib.suppress(RejectedInput):
                json_file.structure({} if fields else [], one, "nothing", **how)
        waiting += [*fields.values(), *get_args(one)]


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
    from ci_tools.build import builder  # noqa: PLC0415 - the client needs none of it
    from ci_tools.cli.main import main  # noqa: PLC0415 - see above

    if folder := os.environ.pop(BUILDS, ""):
        builder.base_folder = lambda: Path(folder)
        bytecode = Path(sys.argv[1]).with_name("bytecode")  # beside the server's address, with which it is removed
        builder.SAME_EVERY_TIME["PYTHONPYCACHEPREFIX"] = str(bytecode)  # see tests/integration/conftest.py
    sys.argv = ["fatwheel", *arguments]
    return main(arguments)
