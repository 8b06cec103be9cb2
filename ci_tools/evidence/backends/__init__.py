"""What the configuration of a build backend says of a build: nothing of the project's is run to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.evidence.backends import declarative, scikit_build_core
from ci_tools.evidence.backends.facts import CellFacts, Forced, Read
from ci_tools.evidence.backends.sdist_contents import select_binaries
from ci_tools.evidence.project_file import LEGACY_SETUPTOOLS
from ci_tools.model.evidence import Binding, Extensions, PythonApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.evidence.project_file import ProjectFile

__all__ = ["CellFacts", "Forced", "Read", "read", "select_binaries"]

# Their setup.py has to run to know.
SETUPTOOLS = frozenset({"setuptools", "setuptools.build_meta", LEGACY_SETUPTOOLS})


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read | None:
    """Return what the backend's configuration says of the build of a cell with the config's variables `env`.

    None where only the project's own code tells: that of its setup.py, or of a backend within its source.
    """
    if project.value("build-system", "backend-path") or project.backend in SETUPTOOLS:
        return None
    if project.backend in declarative.BACKENDS:
        return declarative.read(project, env)
    if project.backend in scikit_build_core.BACKENDS:
        return scikit_build_core.read(project, env, cell)
    if project.backend == "mesonpy":
        from ci_tools.evidence.backends import meson  # noqa: PLC0415 - a plan loads the one it needs

        return meson.read(project, env, cell)
    if project.backend == "maturin":
        from ci_tools.evidence.backends import maturin  # noqa: PLC0415 - see above

        return maturin.read(project, env, cell)
    where = f"{project.place('build-system', 'build-backend')}: what {project.backend} compiles is not known"
    return Read(Extensions.UNKNOWN, where, PythonApi(Binding.FULL, f"{project.name}:1"))
