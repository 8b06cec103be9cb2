"""Finds the files of a source that state its version, and edits them to state another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ci_tools.formats import edits
from ci_tools.formats.toml import parse_toml

if TYPE_CHECKING:
    from ci_tools.source.project_file import ProjectFile

    Edit = Callable[[str, str], str | None]

USUAL = ("setup.py", "meson.build", "version.txt", "VERSION", "VERSION.txt")
ELSEWHERE = ("attr:", "file:")  # setup.cfg's prefixes for a version that is in another file


def restate_version(project: ProjectFile, version: str) -> dict[str, str]:
    """Return the edited text of each file that states the project's version, by its path in the tree.

    A file that cannot be edited with certainty is left out; the version of the built file shows that.
    """
    edit, places = _places(project)
    said = {path: _text(project, path) for path in places}
    changed = {path: edit(text, version) for path, text in said.items() if text}
    return {path: text for path, text in changed.items() if text is not None and text != said[path]}


def _places(project: ProjectFile) -> tuple[Edit, list[str]]:
    """Return the files that a version is read from, and the function that edits them."""
    if project.text("project", "version") or project.text("tool", "poetry", "version"):
        return _edit_toml_version, [project.path("pyproject.toml")]
    said = project.setting("metadata", "version")
    if said and not said.startswith(ELSEWHERE):
        return edits.set_ini_version, [project.path("setup.cfg")]
    paths = (str(PurePosixPath(project.path(name))) for name in (*USUAL, *_find_version_paths(project)))
    return edits.set_version, [path for path in dict.fromkeys(paths) if path in project.tree.names]


def _edit_toml_version(text: str, version: str) -> str | None:
    """Return an edited pyproject.toml, or None if the edit changed more than the version."""
    edited, expected = edits.set_toml_version(text, version), parse_toml(text, "pyproject.toml")
    for table in (_table(expected, "project"), _table(expected, "tool", "poetry")):
        table.update({"version": version} if "version" in table else {})
    return edited if edited and parse_toml(edited, "pyproject.toml") == expected else None


def _table(content: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        found = content.get(key)
        content = found if isinstance(found, dict) else {}
    return content


def _text(project: ProjectFile, path: str) -> str:
    """Return a file's text without newline translation, or "" if it is not UTF-8."""
    try:
        return (project.tree.root / path).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _find_version_paths(project: ProjectFile) -> Iterator[str]:
    """Yield the files, relative to the project's folder, that its configuration names for its version."""
    dynamic = project.table("tool", "setuptools", "dynamic", "version")
    kind, _, name = project.setting("metadata", "version").partition(":")
    dynamic = dynamic or {kind: name.strip()}
    yield from _modules(project, str(dynamic.get("attr", "")).rpartition(".")[0])
    named = dynamic.get("file", ())
    yield from (named,) if isinstance(named, str) else map(str, named if isinstance(named, list) else ())
    for keys in (
        ("tool", "hatch", "version", "path"),
        ("tool", "pdm", "version", "path"),
        ("tool", "scikit-build", "metadata", "version", "input"),
    ):
        yield project.text(*keys)
    plugins = [table for table in project.list("tool", "dynamic-metadata") if isinstance(table, dict)]
    yield from (str(table.get("input", "")) for table in plugins if table.get("field") == "version")
    if project.backend.startswith("flit"):
        own = project.text("project", "name").replace("-", "_")
        yield from _modules(project, project.text("tool", "flit", "module", "name") or own)


def _modules(project: ProjectFile, name: str) -> Iterator[str]:
    """Yield the paths where the source of a module may be."""
    path = name.replace(".", "/")
    root = str(project.table("tool", "setuptools", "package-dir").get("", "src"))
    for folder in ("", root, "src") if path else ():
        yield from (f"{folder}/{path}.py".lstrip("/"), f"{folder}/{path}/__init__.py".lstrip("/"))
