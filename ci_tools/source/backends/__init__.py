"""Reads a build backend's configuration; none of the project's code is run.

Of a backend that nobody knows, or that is in the source itself, no code runs either. But where the source has nothing
that a compiler reads, a plan says one pure wheel, which the build and the audit hold to; where it has, the platforms
count as native.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from ci_tools.model.evidence import Binding, Extensions, PythonApi
from ci_tools.model.versions import name_of_required
from ci_tools.source.backends import declarative, scikit_build_core
from ci_tools.source.backends.facts import COMPILERS, CellFacts, Forced, Read, select_binaries
from ci_tools.source.files import NOT_PACKED
from ci_tools.source.includes import COMPILED
from ci_tools.source.project_file import LEGACY_SETUPTOOLS, ProjectFile
from ci_tools.source.requirements import build_requirements

__all__ = ["SETUPTOOLS", "CellFacts", "Forced", "Read", "read", "select_binaries"]


OTHER_LANGUAGES = re.compile(
    r"\.(f|for|f\d\d|go|pyf|rs|sip|swift|zig)$|(^|/)(CMakeLists\.txt|Cargo\.toml|SConstruct|meson\.build)$",
    re.IGNORECASE,
)
# Words of a backend that does more than pass on: it fetches, runs a program, or tags the wheel itself.
DOES_MORE = re.compile(
    r"urllib|urlopen|requests|httpx|ctypes|subprocess|os\.system|\btags?\b|pure_?(python|lib)|platlib"
)
IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


def read_unknown(project: ProjectFile) -> Read:
    """Return NONE as the extensions if the source has nothing to compile, else UNKNOWN."""
    doubt = next(list_compiled(project), "")
    where = f"{project.place('build-system', 'build-backend')}: what {project.backend} compiles is not known"
    why = f", beside {doubt}" if doubt else ", and the source has no file that a compiler reads"
    extensions = Extensions.UNKNOWN if doubt else Extensions.NONE
    return Read(extensions, f"{where}{why}", PythonApi(Binding.FULL, f"{project.name}:1"))


def read_wrapper(project: ProjectFile, env: Mapping[str, str]) -> Read | None:
    """Return what the known backend says that the source's own imports, if there is nothing to compile; else None."""
    name = project.backend.partition(":")[0].replace(".", "/")
    folders = [project.path(str(folder)) for folder in project.list("build-system", "backend-path")]
    paths = (str(PurePosixPath(folder, name)) for folder in folders)
    files = (f"{path}{end}" for path in paths for end in (".py", "/__init__.py"))
    text = next(filter(None, map(project.tree.text, files)), "")
    modules = {module.partition(".")[0] for module in IMPORT.findall(text)}
    known = [one for one in declarative.BACKENDS if re.split(r"[.:]", one)[0] in modules]
    if not known or DOES_MORE.search(text) or any(list_compiled(project)):
        return None
    return declarative.read(project, env, known[0])


def list_compiled(project: ProjectFile) -> Iterator[str]:
    """Yield what may be compiled, or is, outside of tests and documentation: files, and build requirements."""
    binaries = set(project.tree.binaries)
    for name in project.tree.files:
        folders = PurePosixPath(name).parts[:-1]
        is_packed = not any(folder in NOT_PACKED or folder.startswith(".") for folder in folders)
        if is_packed and (COMPILED.search(name) or OTHER_LANGUAGES.search(name) or name in binaries):
            yield name
    for requirement, place in build_requirements(project):
        if COMPILERS.fullmatch(name_of_required(requirement)):
            yield f"{requirement} ({place})"


# ---------------------------------------------------------------- the backend of a project

# Backends whose setup.py has to run before its extensions are known.
SETUPTOOLS = frozenset({"setuptools", "setuptools.build_meta", LEGACY_SETUPTOOLS})
RARE = frozenset({"maturin", "mesonpy", "py_build_cmake.build"})


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read | None:
    """Return the facts in the backend's configuration about a cell's build, with the config's variables `env`.

    Returns None if only the project's own code can answer: its setup.py, or a backend inside its source.
    """
    if project.value("build-system", "backend-path") or project.backend in SETUPTOOLS:
        return read_wrapper(project, env)
    if project.backend in declarative.BACKENDS:
        return declarative.read(project, env)
    if project.backend in scikit_build_core.BACKENDS:
        return scikit_build_core.read(project, env, cell)
    if project.backend in RARE:
        from ci_tools.source.backends import maturin, meson, py_build_cmake  # noqa: PLC0415 - few plans need them

        readers = {"maturin": maturin.read, "mesonpy": meson.read}
        return readers.get(project.backend, py_build_cmake.read)(project, env, cell)
    return read_unknown(project)
