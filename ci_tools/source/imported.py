"""Finds what importing a package needs and its dependencies do not bring: a trial in a clean environment lacks it.

Only what is certain by the text counts: imports that run whenever the package is imported, of a package that an extra
of the project names, or that nothing which the project requires could bring.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.catalog.distributions import bring_all, distribution_of
from ci_tools.model.pep440 import name_of_required
from ci_tools.source.includes import SourceLine
from ci_tools.source.requirements import WITHOUT_TORCH
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.source.project_file import ProjectFile

LEFT_TO_USERS = frozenset({"numpy", "torch"})  # what projects use and often do not declare
EXTRA = re.compile(r"\bextra\s*==\s*['\"]([^'\"]+)")  # the marker of an extra in METADATA: extra == 'gpu'
PASSED_OVER = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})
MAKERS = ("setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "meson.build", "Cargo.toml")  # they name modules
MAX_FILES = 200  # of a package; what its import reaches is mostly far less


class Lacking(NamedTuple):
    """A requirement of an import that is not one of the project, the place of the import, and the extra that has it."""

    requirement: str
    module: str  # the one of the package that is imported
    place: SourceLine
    extra: str  # "": none has it

    def __str__(self) -> str:
        """Return it as a sentence without its end."""
        who = f"only the extra {self.extra} has" if self.extra else "nothing that the project requires brings"
        return f"`import {self.module}` needs {self.requirement} ({self.place}), which {who}"


def find_lacking(project: ProjectFile, modules: Iterable[str], metadata: Sequence[str]) -> tuple[Lacking, ...]:
    """Return what importing some modules of a project needs that is not installed with it, each requirement once.

    `metadata` are the fields that its observed build writes; without them and a [project] table, nothing is known.
    """
    observed = [line.partition(": ")[2] for line in metadata if line.startswith("Requires-Dist: ")]
    if not metadata and (not project.table("project") or "dependencies" in project.list("project", "dynamic")):
        return ()
    required = [*(text for text, _ in project.dependencies()), *(text for text in observed if not EXTRA.search(text))]
    known = {*map(name_of_required, required), *map(name_of_required, project.request.validate.requires)}
    known |= {"torch"} if project.request.validate.torch else set()
    extras = dict(_extras(project, observed))
    found: dict[str, Lacking] = {}
    for module in modules:
        for top, place in _ImportReader(project).imports(module):
            name = canonicalize_name(re.split("[<>=!~ ]", distribution_of(top))[0])
            is_left = name in LEFT_TO_USERS and {*map(name_of_required, required)} <= WITHOUT_TORCH
            if name not in known and (name in extras or is_left or _is_brought_by_none(project, top, name, known)):
                found.setdefault(name, Lacking(name, module, place, extras.get(name, "")))
    return tuple(found.values())


def _is_brought_by_none(project: ProjectFile, top: str, name: str, known: Iterable[str]) -> bool:
    """Whether a module is of another project, and none of the known requirements can bring it."""
    brought = bring_all(known)
    if brought is None or name in brought or top in sys.stdlib_module_names:  # None: not known
        return False
    if top.startswith("_") or name.startswith(canonicalize_name(project.request.name)):
        return False  # it may be an extension module of the project's own
    if any(top in {part.partition(".")[0] for part in PurePosixPath(file).parts} for file in project.tree.files):
        return False
    named = re.compile(rf"""(?:["'][\w.]*|(?:library|module)\s*\(\s*)\b{re.escape(top)}\b""", re.IGNORECASE)
    return not any(named.search(project.tree.text(project.path(file))) for file in MAKERS)


def _extras(project: ProjectFile, observed: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the packages that extras name, each with its extra."""
    for extra, texts in project.table("project", "optional-dependencies").items():
        yield from ((name_of_required(str(text)), extra) for text in (texts if isinstance(texts, list) else ()))
    yield from ((name_of_required(text), found[1]) for text in observed if (found := EXTRA.search(text)))


class _ImportReader:
    """Reads the files of a package that its import runs."""

    def __init__(self, project: ProjectFile) -> None:
        self.tree = project.tree
        self.prefix = project.path("x").removesuffix("x")
        self.seen: set[str] = set()

    def imports(self, module: str) -> Iterator[tuple[str, SourceLine]]:
        """Yield the top names of all modules outside the package that importing one of its modules imports."""
        package = module.replace(".", "/")
        endings = (f"{package}/__init__.py", f"{package}.py")
        wanted = tuple(f"/{end}" for end in endings)
        found = (name for name in self.tree.files if name.startswith(self.prefix))
        if near := [name for name in found if f"/{name.removeprefix(self.prefix)}".endswith(wanted)]:
            own = min(near, key=lambda name: (name.count("/"), name))  # the outermost: others are of its parts
            root = own.removesuffix(next(end for end in endings if own.endswith(end)))
            yield from self._read(root, own)

    def _read(self, root: str, file: str) -> Iterator[tuple[str, SourceLine]]:
        if file in self.seen or len(self.seen) > MAX_FILES:
            return
        self.seen.add(file)
        module = parse_module(self.tree.text(file))
        if module is None:
            return
        package = file.removeprefix(root).removesuffix(".py").split("/")[:-1]  # [""] for its __init__.py
        for node, name in _imported(module.body, package):
            path = root + name.replace(".", "/")
            own = next((one for one in (f"{path}/__init__.py", f"{path}.py") if one in self.tree.names), "")
            if own:
                yield from self._read(root, own)
            elif not name.startswith(f"{package[0] if package else ''}."):
                yield name.partition(".")[0], SourceLine(file, node.lineno)


def _imported(body: Iterable[ast.stmt], package: Sequence[str]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the names of the modules that statements import in any case: not those of a condition or an attempt."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            yield node, base
            yield from (
                (node, f"{base}.{alias.name}") for alias in node.names if node.level or base in _parents(package)
            )
        elif isinstance(node, ast.Try) and not any(map(_passes_over, node.handlers)):
            yield from _imported([*node.body, *node.finalbody], package)


def _parents(package: Sequence[str]) -> set[str]:
    return {".".join(package[:depth]) for depth in range(1, len(package) + 1)}


def _passes_over(handler: ast.ExceptHandler) -> bool:
    """Whether a handler goes on where an import fails."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {ast.unparse(kind) if kind else "BaseException" for kind in kinds}
    return bool(names & PASSED_OVER) and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
