"""Writes a starter `fatwheel.yml` from the evidence in the source: `fatwheel init`."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.config.packages import choose_package, explain_no_package
from ci_tools.config.project import refuse_existing
from ci_tools.config.starter.choices import choose
from ci_tools.config.starter.survey import survey
from ci_tools.config.starter.text import render
from ci_tools.errors import InputError
from ci_tools.machine.storage import write_atomically
from ci_tools.model.names import CONFIG_FILE, ProjectName
from ci_tools.model.request import PathSource, Request
from ci_tools.source import git
from ci_tools.source.files import open_tree, tree_at, whole_of

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.catalog import Catalog
    from ci_tools.config.packages import Package
    from ci_tools.config.starter.choices import Starter
    from ci_tools.machine.context import Outside
    from ci_tools.model.request import SdistSource
    from ci_tools.model.versions import Minor
    from ci_tools.source.files import Tree


WORKFLOWS = ".github/workflows/"
CALLED = "pytorch/test-infra/.github/workflows/build_wheels_"
# The request before anything is known: the source in the config's folder.
BLANK = Request(
    name=ProjectName(CONFIG_FILE), config=CONFIG_FILE, source=PathSource(path="."), pythons=(), platforms=()
)


class WrittenConfig(NamedTuple):
    """The config that was written, what it says, and the source's other packages."""

    path: Path
    starter: Starter
    others: tuple[Package, ...]
    callers: tuple[str, ...] = ()  # workflows of the source that call pytorch/test-infra's


def write(  # noqa: PLR0913 - each is an option of `fatwheel init`, and all have names
    folder: Path,
    catalog: Catalog,
    outside: Outside,
    *,
    package: str = "",
    torch: Minor | None = None,
    smart: bool = False,
    sdist: SdistSource | None = None,
) -> WrittenConfig:
    """Write a starter into `folder` for its package, or the one called `package`, and the torch to begin with, if any.

    With an `sdist` that is the source, and the folder need not exist. Raises InputError if a config exists, there is no
    package, a person has to choose one, or none can be built.
    """
    path = folder / CONFIG_FILE
    refuse_existing(folder if sdist is None or folder.exists() else folder.parent, [path])
    root = folder.resolve()
    if sdist is None and all(one.name == ".git" for one in folder.iterdir()):
        raise explain_no_package(root)
    blank = replace(BLANK, source=sdist) if sdist else replace(BLANK, subdirectory=_folder_of(package, root, outside))
    tree = open_tree(blank, root, outside)
    if tree.list_ways_out():  # the build compiles what they lead to
        whole, package = whole_of(blank, tree)
        blank = replace(BLANK, source=PathSource(path=whole), subdirectory=package)
        tree = open_tree(blank, root, outside)
    starter, others = read_starter(tree, catalog, outside, package=package, torch=torch, blank=blank)
    origin = (git.origin(root, outside.environ) or "") if folder.exists() else ""
    if not starter.version:
        raise _without_version(starter, tree)
    content = render(starter, origin, smart=smart, sdist=sdist)
    with write_atomically(path) as file:
        file.write(content.encode())
    return WrittenConfig(path, starter, others, tuple(name for name in tree.files if _calls_test_infra(tree, name)))


def _calls_test_infra(tree: Tree, name: str) -> bool:
    return name.startswith(WORKFLOWS) and name.endswith((".yml", ".yaml")) and CALLED in tree.text(name)


def _folder_of(package: str, root: Path, outside: Outside) -> str:
    """Return the folder of the package that is chosen: what others of the source lack does not matter."""
    return choose_package(tree_at(root, outside.environ), package)[0].folder


def read_starter(
    tree: Tree,
    catalog: Catalog,
    outside: Outside,
    *,
    package: str = "",
    torch: Minor | None = None,
    blank: Request = BLANK,
) -> tuple[Starter, tuple[Package, ...]]:
    """Return what a config for a source's package asks for, and the source's other packages.

    `blank` is a request for the source and nothing of it. Raises InputError if there is no package, a person has to
    choose one, or none can be built.
    """
    chosen, others = choose_package(tree, package)
    return choose(survey(blank, tree, chosen, catalog, outside), catalog, torch), others


def _without_version(starter: Starter, tree: Tree) -> InputError:
    """Return the error of a project that has no version: a person chooses one, and where it stands."""
    file = posixpath.join(starter.folder, "pyproject.toml")
    has_table = file in tree.names and "[project]" in tree.text(file)
    file = file if has_table else posixpath.join(starter.folder, "setup.py")
    line = '`version = "1.2.3"` to its [project]' if has_table else '`version="1.2.3"` to its setup()'
    msg = f"{file}: the project states no version, and no tool of its own makes one"
    return InputError(msg, hint=f"add {line}, or have a tool such as setuptools-scm read it from the tags")
