"""Options of a plan: each a possible change to its source or request; and the source of a plan as they see it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.model.evidence import Binding, CellEvidence, Evidence
from ci_tools.model.plan import JobKind, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import PathSource, PlatformRequest, Request
from ci_tools.model.versions import Minor
from ci_tools.source.backends import SETUPTOOLS
from ci_tools.source.files import Tree
from ci_tools.source.includes import Include, Includes, select_sources
from ci_tools.source.project_file import ProjectFile

Edit = Callable[[str], "str | None"]  # None: the text has no place for it
Edits = tuple[tuple[str, Edit], ...]  # file → the edit of its text


class Situation(NamedTuple):
    """The inputs of a plan."""

    request: Request
    evidence: Evidence


Change = Callable[[Situation], Situation]


def identity(situation: Situation) -> Situation:
    """Return the situation unchanged."""
    return situation


class Option(NamedTuple):
    """One possible change: its description, the places that prevent it, and how to make it."""

    name: str
    what: str
    places: tuple[str, ...]
    how: str
    change: Change = identity  # advice that makes builds better rather than fewer changes no plan
    edits: Edits = ()
    base: Change = identity  # the change that the request must make first, both before and after
    gives_up: bool = False  # whether it serves fewer cells
    is_known: bool = True  # False: a best case, based on unknown facts


def change_evidence(change: Callable[[CellEvidence], CellEvidence]) -> Change:
    """Return a Change that applies `change` to the evidence of every cell; equal evidence stays the same object."""

    def changed(situation: Situation) -> Situation:
        once = functools.cache(change)  # the planner groups cells by their evidence: one object for equal ones is quick

        platforms = (
            replace(found, shown=once(found.shown), apart={cell: once(one) for cell, one in found.apart.items()})
            for found in situation.evidence.platforms
        )
        return situation._replace(evidence=replace(situation.evidence, platforms=tuple(platforms)))

    return changed


def change_platform(platform: Platform, **changes: object) -> Change:
    """Return a Change that replaces fields of one platform's request."""

    def changed(situation: Situation) -> Situation:
        asked = situation.request.platforms
        platforms = tuple(replace(one, **changes) if one.platform is platform else one for one in asked)  # type: ignore[arg-type]  # its own fields
        return situation._replace(request=replace(situation.request, platforms=platforms))

    return changed


# ---------------------------------------------------------------- the source of a plan

SCIKIT_BUILD = "scikit_build_core.build"
BOUND = frozenset({Binding.FULL, Binding.UNKNOWN})  # the bindings that keep an axis

# Files that a tool turns into C that is not in the source: the tool, and how that code can use the limited API, if any.
CYTHON = "Cython compiles for the limited API from 3.1 on, with CYTHON_LIMITED_API and Py_LIMITED_API defined"
GENERATED = {
    ".pyx": ("Cython", CYTHON), ".rs": ("Rust", "pyo3's feature abi3-py{digits} in Cargo.toml"),
    ".i": ("SWIG", ""), ".pyf": ("f2py", ""), ".f90": ("Fortran", ""), ".f": ("Fortran", ""),
}  # fmt: skip


class ProjectView:
    """The source of a plan, with the views that options need."""

    def __init__(self, plan: Plan, evidence: Evidence, tree: Tree) -> None:
        self.plan = plan
        self.request = plan.request
        self.tree = tree
        self.includes = Includes(tree)
        self.project = ProjectFile(plan.request, tree)
        self.platforms = {found.platform: found for found in evidence.platforms}
        self.has_free_threaded = any(python.free_threaded for python in plan.request.pythons)
        self.is_setuptools = self.project.backend in SETUPTOOLS  # whether setuptools builds the project

    @cached_property
    def shown(self) -> tuple[CellEvidence, ...]:
        """The evidence of the cells that get a wheel of their own platform, without duplicates."""
        native = {job.name for job in self.plan.jobs if job.kind is JobKind.NATIVE}
        cells = (item.cell for item in self.plan.covered if item.job in native)
        return tuple(dict.fromkeys(self.platforms[cell.platform].of(cell) for cell in cells))

    @cached_property
    def native(self) -> tuple[PlatformRequest, ...]:
        """The platforms that have jobs of their own."""
        names = {job.platform for job in self.plan.jobs}
        return tuple(platform for platform in self.request.platforms if platform.platform in names)

    @cached_property
    def compiled(self) -> tuple[str, ...]:
        """The compiled sources: the observed ones, or all that a compiler may see if none was observed."""
        if observed := {one.source for shown in self.shown for built in shown.built for one in built.compiles}:
            return tuple(sorted(observed))
        found: set[str] = set()
        for platform in self.native:
            files = self.platforms[platform.platform].native_files
            found |= {*select_sources(self.tree.files, files, platform.native.exclude)}
        return tuple(sorted(found))

    @cached_property
    def generators(self) -> list[str]:
        """The files that a tool turns into C, the first of each kind."""
        kinds: dict[str, str] = {}
        is_observed = any(shown.built for shown in self.shown)
        for name in self.tree.files:
            if PurePosixPath(name).suffix in GENERATED and not (is_observed and name not in self.compiled):
                kinds.setdefault(PurePosixPath(name).suffix, name)  # one shows the way, the others need the same
        return list(kinds.values())

    @cached_property
    def external_includes(self) -> tuple[Include, ...]:
        """Every include of a header that is not the source's own."""
        return self.includes.external_includes(self.compiled)

    @cached_property
    def oldest(self) -> Minor | None:
        """The oldest Python, not free-threaded, that gets a wheel of its own platform, or None."""
        native = [job for job in self.plan.jobs if job.kind is JobKind.NATIVE]
        asked = [cell.python for job in native for cell in job.covers if not cell.python.free_threaded]
        return min((python.version for python in asked), default=None)

    def config(self, edit: Edit) -> Edits:
        """Return an edit of the config, or no edit if the config is not in the source."""
        is_there = isinstance(self.request.source, PathSource) and self.request.config in self.tree.names
        return ((self.request.config, edit),) if is_there else ()

    def build_files(self) -> Iterator[str]:
        """Yield the files of the project that may hold flags, and the config."""
        for name in self.tree.files:
            if PurePosixPath(name).name in {"setup.py", "CMakeLists.txt", "pyproject.toml"} or name.endswith(".cmake"):
                yield name
        if self.request.config in self.tree.names:
            yield self.request.config

    def meson_files(self) -> list[str]:
        """Return the files in which Meson builds an extension module."""
        files = (name for name in self.tree.files if PurePosixPath(name).name == "meson.build")
        return [name for name in files if "extension_module" in self.tree.text(name)]

    def possible(self, wanted: Edits) -> Edits:
        """Return the edits if all can be made and each changes its text, or none of them."""
        texts = [(self.tree.text(file), edit) for file, edit in wanted]
        return wanted if all(edit(text) not in {None, text} for text, edit in texts) else ()  # never half a patch


def keep(number: int) -> str:
    """Return the verb for a number of things."""
    return "keeps" if number == 1 else "keep"


def describe_include(include: Include) -> str:
    """Return an include with its place."""
    return f"{include.place}: includes {include.header}"
