"""Reads the version that a build backend takes from another file than pyproject.toml, if it is plainly stated there.

A version that only a repository, or running code, can tell is not read here: it is an `OwnVersion`, which a tool gave.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.versions import read_version
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from ci_tools.source.project_file import ProjectFile

SETUP = frozenset({"setup", "setuptools.setup", "core.setup", "skbuild.setup"})
MESON = re.compile(r"^\s*project\s*\(\s*'[^']*'[^()]*?\bversion\s*:\s*'(?P<version>[^']+)'\s*[,)]", re.MULTILINE)
# The default pattern of hatchling, which scikit-build-core and pdm-backend follow: their documentation of `regex`.
VERSION_NAMES = ("__version__", "VERSION")
PACKED = (".py", "/__init__.py")  # the ends of a module's path
PYTHON = re.compile(r"""^(?:__version__|VERSION)\s*(?::\s*str\s*)?=\s*(['"])v?(?P<version>[^'"\n]+)\1""", re.MULTILINE)


class OwnVersion(NamedTuple):
    """The version that a project's own tool gives, and what it came from."""

    version: str  # as the tool says it
    tool: str
    uses_git: bool = False
    is_of_tag: bool = True  # whether a tag of the repository decides it, or a file
    tags: tuple[str, ...] = ()  # those of the commit that make this version without the others
    told_tag: str = ""  # the template of a tag that tells it to a build, where no variable does
    hides_git: bool = False  # whether only a build that sees no repository leaves the label out
    said: str = ""  # the sentence of an earlier plan

    @property
    def public(self) -> str:
        """The version without its label: each wheel gets one of its own."""
        said = read_version(self.version)
        return said.public if said else ""

    @property
    def sentence(self) -> str:
        """The answer in words for people."""
        no_tag = "" if self.is_of_tag else ", as no tag of the repository says a version"
        no_label = "; its label is left out, as each wheel gets its own" if "+" in self.version else ""
        no_label += ", so builds see no repository" if self.hides_git else ""
        return self.said or f"{self.tool} says {self.version}{no_tag}{no_label}"


def read_file_version(project: ProjectFile) -> str:
    """Return the version in the file from which the project's backend takes it; "" if none states it plainly."""
    reader = READERS.get(re.split(r"[.:]", project.backend)[0])
    said = next(reader(project), "") if reader else ""
    return said if read_version(said) else ""  # a template, or a placeholder


def read_name(project: ProjectFile) -> Iterator[str]:
    """Yield the name that a project without a [project] table states where its backend looks for one."""
    yield from _from_cargo(project, "name") if project.backend == "maturin" else ()
    yield from filter(None, [project.text("tool", "poetry", "name")])
    yield from read_given(project, "name")


def _from_cargo(project: ProjectFile, key: str = "version") -> Iterator[str]:
    """Yield what Cargo.toml or its workspace states; maturin reads a version by PEP 440: 1.0-rc.1 as 1.0rc1."""
    from ci_tools.source.backends.maturin import find_crate  # noqa: PLC0415 - only a maturin project needs it

    if crate := find_crate(project):
        yield crate.stated(key)


def _from_table(project: ProjectFile, *tool: str, source: tuple[str, str], file: str, pattern: str) -> Iterator[str]:
    """Yield the version in the file that a backend's table names, if no pattern of the project's reads it."""
    found = project.table("tool", *tool, "version")
    if found.get(source[0], "regex") == source[1] and pattern not in found:
        yield from _python_versions(project, str(found.get(file, "")))


def _from_flit(project: ProjectFile) -> Iterator[str]:
    """Yield `__version__` of the module, which flit reads without importing where it can."""
    name = project.text("tool", "flit", "module", "name") or project.text("project", "name").replace("-", "_")
    for path in (f"{name}/__init__.py", f"src/{name}/__init__.py", f"{name}.py", f"src/{name}.py"):
        yield from _python_versions(project, path)


def read_given(project: ProjectFile, argument: str = "version") -> Iterator[str]:
    """Yield the text that setup.py gives `setup()` as an argument, itself or by a name that it assigns once."""
    if (module := parse_module(project.tree.text(project.path("setup.py")))) is None:
        return
    nodes = [*ast.walk(module)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in SETUP]
    given = [word.value for call in calls for word in call.keywords if word.arg == argument]
    names = {value.id for value in given if isinstance(value, ast.Name)}
    bound = (node for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    stored = [node for node in bound if node.id in names]
    given = [node.value for node in module.body if isinstance(node, ast.Assign) and node.targets == stored] or given
    if len(given) == 1 and isinstance(given[0], ast.Constant):
        yield str(given[0].value)


def _from_setuptools(project: ProjectFile) -> Iterator[str]:
    """Yield the text of the attribute that setuptools takes the version from without an import, else setup.py's."""
    told = project.setting("metadata", "version")
    named = project.table("tool", "setuptools", "dynamic", "version").get("attr") or told.partition("attr:")[2]
    module, _, name = str(named).strip().rpartition(".")
    for path in (f"{folder}{module.replace('.', '/')}{end}" for folder in ("", "src/") for end in PACKED):
        yield from _python_versions(project, path if name in VERSION_NAMES else "")
    yield from read_given(project)


def _python_versions(project: ProjectFile, path: str, pattern: re.Pattern[str] = PYTHON) -> Iterator[str]:
    for match in pattern.finditer(project.tree.text(project.path(path)) if path else ""):
        yield match["version"]


READERS: dict[str, Callable[[ProjectFile], Iterator[str]]] = {
    "flit_core": _from_flit,
    "hatchling": lambda one: _from_table(one, "hatch", source=("source", "regex"), file="path", pattern="pattern"),
    "maturin": _from_cargo,
    "mesonpy": lambda one: _python_versions(one, "meson.build", MESON),  # its "dynamic version"
    "pdm": lambda one: _from_table(one, "pdm", source=("source", "file"), file="path", pattern=""),
    "poetry": lambda one: iter([one.text("tool", "poetry", "version")]),
    "scikit_build_core": lambda one: _from_table(
        one,
        "scikit-build",
        "metadata",
        source=("provider", "scikit_build_core.metadata.regex"),
        file="input",
        pattern="regex",
    ),
    "setuptools": _from_setuptools,
}
