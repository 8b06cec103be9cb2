"""Finds the modules that a wheel installs, to import them in a trial: from its observed members, or in the source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.errors import close_names
from ci_tools.model.pep440 import name_of_required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.model.evidence import PlatformEvidence
    from ci_tools.source.project_file import ProjectFile

# Packages beside the real one, which wheels should not have and often do.
BESIDE = frozenset({"benchmarks", "build", "docs", "examples", "scripts", "test", "tests", "tools"})
SAYS_A_PROJECT = frozenset({"pyproject.toml", "setup.py"})
DEEPEST = 2  # folders between a package's root and the folder of its modules: src, bindings/python


def find_imports(name: str, project: ProjectFile, platforms: Iterable[PlatformEvidence]) -> tuple[str, ...]:
    """Return the module that a project of this name installs, in a tuple; empty if it is not known."""
    wanted = re.sub(r"[-_.]+", "_", name).lower()
    observed = {module for one in platforms for module in _top_modules(one.shown.members or ())}
    stated = project.text("tool", "maturin", "module-name").partition(".")[0]
    found = sorted(observed or {stated} - {""} or set(_modules_in(project)) - _required(project))
    same = [module for module in found if module.lower() == wanted]
    named = same or [module for module in found if module not in BESIDE and not module.startswith("_")]
    if len(named) > 1:
        # the whole of a name before its parts: "fast_transformers" for pytorch-fast-transformers
        named = close_names(wanted, named)
    return tuple(named)


def _required(project: ProjectFile) -> set[str]:
    """Return what the project requires: a folder of such a name is its part for that, in a namespace."""
    return {name_of_required(text).replace("-", "_") for text, _ in project.dependencies()}


def _top_modules(members: Iterable[str]) -> Iterator[str]:
    """Yield the packages and modules at the top of a wheel with these members."""
    for member in members:
        top, _, below = member.partition("/")
        module = top if below else re.sub(r"(\.[\w-]+)?\.(so|pyd)$|\.py$", "", top)
        if module.isidentifier():
            yield module


def _modules_in(project: ProjectFile) -> Iterator[str]:
    """Yield the packages that lie near the top of the project's folder, but those of another project inside it."""
    prefix = project.path("pyproject.toml").removesuffix("pyproject.toml")
    others = {file.rpartition("/")[0] for file in project.tree.files if file.rpartition("/")[2] in SAYS_A_PROJECT}
    for file in project.tree.files:
        *folders, last = file.removeprefix(prefix).split("/") if file.startswith(prefix) else ("",)
        if last == "__init__.py" and folders and len(folders) - 1 <= DEEPEST and not BESIDE & {*folders}:
            above = "/".join((*folders[:-1], "__init__.py"))
            within = {f"{prefix}{'/'.join(folders[:depth])}" for depth in range(1, len(folders))}
            if f"{prefix}{above}" not in project.tree.names and folders[-1].isidentifier() and not within & others:
                yield folders[-1]
