"""Reads a build backend's configuration; none of the project's code is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.source.backends import declarative, scikit_build_core, unknown
from ci_tools.source.backends.facts import CellFacts, Forced, Read
from ci_tools.source.backends.sdist_contents import select_binaries
from ci_tools.source.project_file import LEGACY_SETUPTOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.source.project_file import ProjectFile

__all__ = ["CellFacts", "Forced", "Read", "read", "select_binaries"]

# Backends whose setup.py has to run before its extensions are known.
SETUPTOOLS = frozenset({"setuptools", "setuptools.build_meta", LEGACY_SETUPTOOLS})


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read | None:
    """Return the facts in the backend's configuration about a cell's build, with the config's variables `env`.

    Returns None if only the project's own code can answer: its setup.py, or a backend inside its source.
    """
    if project.value("build-system", "backend-path") or project.backend in SETUPTOOLS:
        return unknown.read_wrapper(project, env)
    if project.backend in declarative.BACKENDS:
        return declarative.read(project, env)
    if project.backend in scikit_build_core.BACKENDS:
        return scikit_build_core.read(project, env, cell)
    if project.backend == "mesonpy":
        from ci_tools.source.backends import meson  # noqa: PLC0415 - a plan loads only the backend it needs

        return meson.read(project, env, cell)
    if project.backend == "maturin":
        from ci_tools.source.backends import maturin  # noqa: PLC0415 - see above

        return maturin.read(project, env, cell)
    return unknown.read(project)
