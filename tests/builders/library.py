"""Builds that ask which names a module has, and the conditions in the table of the standard library.

The conditions are read in another way than the observer reads them.
"""

from __future__ import annotations

from pathlib import Path

from ci_tools.observe.observation import Observed
from ci_tools.observe.setup_py.run import ObservedProject, Observer
from ci_tools.observe.views import View
from ci_tools.source.files import Tree
from tests.builders.sources import world, write

HEAD = """\
import importlib, inspect, operator, os, pathlib, pkgutil, subprocess, sys
from setuptools import Distribution, Extension, setup
found, missing = [], object()
def answer(ask):
    try:
        found.append('1' if ask() else '0')
    except (AttributeError, ImportError, NameError, NotImplementedError):
        found.append('0')
def import_from(module, name):
    exec(f'from {module} import {name}')
    return True
def use(module, name):
    exec(f'import {module}; {module}.{name}')
    return True
"""
TAIL = "setup(name='demo', version='1.0', packages=['demo'], keywords=''.join(found))\n"
# The ways to ask whether a module has a name.
WAYS = (
    "hasattr(importlib.import_module('{m}'), '{n}')",
    "getattr(importlib.import_module('{m}'), '{n}', missing) is not missing",
    "import_from('{m}', '{n}')",
    "'{n}' in vars(importlib.import_module('{m}'))",
    "'{n}' in dir(importlib.import_module('{m}'))",
    "pkgutil.resolve_name('{m}:{n}') is not missing",
    "'{n}' in importlib.import_module('{m}').__dict__.keys()",
    "use('{m}', '{n}')",
    "operator.attrgetter('{n}')(importlib.import_module('{m}')) is not missing",
    "'{n}' in [name for name, _ in inspect.getmembers(importlib.import_module('{m}'))]",
)


def observe_lines(folder: Path, lines: list[str], view: View) -> Observed:
    """Return what is observed of a build that asks all these questions, each in a line of its own."""
    write(folder / "a", {"setup.py": HEAD + "".join(f"{line}\n" for line in lines) + TAIL, "demo/__init__.py": ""})
    tree = Tree(folder / "a", ("demo/__init__.py", "setup.py"))
    observer = Observer(ObservedProject(tree, "", "setuptools.build_meta:__legacy__", (), ()), world(folder))
    try:
        return observer.observe(view)
    finally:
        observer.close()


def answers(observed: Observed) -> list[bool]:
    """Return the answers that the build put into its METADATA."""
    (keywords,) = (field.partition(": ")[2] for field in observed.metadata if field.startswith("Keywords: "))
    return [digit == "1" for digit in keywords]


def holds(condition: str, os: str, python: str) -> bool:
    """Whether the table says that a cell has a name: `linux macos <3.14; windows`. An empty condition always holds."""
    version = int(python.removesuffix("t").partition(".")[2])
    for part in condition.split("; "):
        words = part.split()
        bounds = [word for word in words if not word.isalpha()]
        if os in words or len(bounds) == len(words):
            return all(eval(f"{version}{word.replace('3.', '')}") for word in bounds)  # noqa: S307 - `12>=11`
    return False
