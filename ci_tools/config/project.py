"""The facts about a project that a new config needs: its name, folder, Pythons and torch, and how YAML spells them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import yaml
from packaging.utils import InvalidName, canonicalize_name

from ci_tools.config.location import BUILD_FILES, PROJECT_FILE, table_in
from ci_tools.config.packages import choose_package
from ci_tools.errors import InputError
from ci_tools.formats.toml.text import parse_toml
from ci_tools.model.pep440 import parse_or_all
from ci_tools.model.versions import Minor, admits
from ci_tools.source.includes import Includes, select_sources, torch_abi

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_tools.catalog import Catalog
    from ci_tools.model.evidence import TorchAbi
    from ci_tools.source.files import Tree

# File name endings that show that a platform has native code.
ENDINGS = {"linux-cuda": ("cu", "cuh"), "linux-rocm": ("hip",), "linux-xpu": ("sycl",), "macos-arm64": ("metal", "mm")}
ARCHS = ("8.0", "9.0", "10.0+PTX")


def refuse_existing(folder: Path, paths: Iterable[Path]) -> None:
    """Raise InputError if a file exists already, the folder has a config in its pyproject.toml, or does not exist."""
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists already, expected no such file")
    if table_in(folder / PROJECT_FILE) is not None:
        raise InputError(f"{folder / PROJECT_FILE} has a table [tool.fatwheel] already, expected no config")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}, expected the source of a project")


class StarterProject(NamedTuple):
    """The facts that a starter needs from a project's pyproject.toml, or that it has only a setup.py."""

    file: str
    name: str
    requires_python: str
    dependencies: tuple[str, ...]
    states_version: bool = False  # in its pyproject.toml

    @property
    def folder(self) -> str:
        """The project's folder below the source root, or "" for the root itself."""
        return self.file.rpartition("/")[0]


def package_lines(project: StarterProject, owner: str = "") -> list[str]:
    """Return the lines for the project's name, owner of native code, if any, and folder; a plan reads its version."""
    return [
        f"package: {to_scalar(project.name)}",
        *([f"owner: {to_scalar(owner)} # who looks after the native code"] if owner else []),
        *(["", "source:", f"  subdirectory: {to_scalar(project.folder)}"] if project.folder else []),
    ]


def to_scalar(text: str) -> str:
    """Return a text as a YAML scalar, in quotes if YAML would read it as something else."""
    try:
        plain = text.isprintable() and yaml.safe_load(f"[{text}]") == [text]  # in a list: commas count
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)


def to_comment(text: str) -> str:
    """Return a comment on one line; the text may have a file name with a line break."""
    return f"# {''.join(char if char.isprintable() else '?' for char in text)}"


def project_of(tree: Tree, name: str = "") -> StarterProject:
    """Return the facts of the source's package; `name` is used if it states no name.

    Raises InputError if the source has no package, or several.
    """
    package, _ = choose_package(tree, "")
    files = (f"{package.folder}/{name}".removeprefix("/") for name in BUILD_FILES)
    file = next(name for name in files if name in tree.names)  # pyproject.toml before setup.py
    name = name or tree.root.name
    if file.endswith("setup.py"):
        return StarterProject(file, _name(file, name), requires_python="", dependencies=())
    content = parse_toml(tree.text(file), file)
    table = content.get("project", {})
    if not isinstance(table, dict):
        raise _not(file, "project", table, "a table")
    dependencies = table.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise _not(file, "project.dependencies", dependencies, "a list of texts")
    name = _name(file, _text(file, table, "name") or name)
    return StarterProject(file, name, _text(file, table, "requires-python"), tuple(dependencies), "version" in table)


def _not(file: str, key: str, value: object, expected: str) -> InputError:
    return InputError(f"{file}: {key} is {value!r}, expected {expected}")


def _text(file: str, table: Mapping[str, object], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise _not(file, f"project.{key}", value, "text")
    return value


def _name(file: str, name: str) -> str:
    try:
        canonicalize_name(name, validate=True)
    except InvalidName as error:
        raise _not(file, "project.name", name, "a name of letters, digits, dots and dashes") from error
    return name


def list_pythons(project: StarterProject, catalog: Catalog) -> list[str]:
    """Return the catalogued Pythons that the project admits and torch ships for."""
    admitted = parse_or_all(project.requires_python)
    newest = catalog.torch[max(catalog.torch)].pythons["linux-x86_64"]  # it may not be built for every Python yet
    older = catalog.torch[Minor(max(catalog.torch).major, max(catalog.torch).minor - 1)].pythons["linux-x86_64"]
    shipped = [python for python in catalog.pythons if python in newest | older]
    found = [str(python) for python in shipped if admits(admitted, python.version)]
    if not found:
        known = f"one that admits some of {', '.join(map(str, shipped))}"
        raise _not(project.file, "project.requires-python", project.requires_python, known)
    return found


def find_abi(tree: Tree, project: StarterProject) -> TorchAbi:
    """Return the torch ABI that the project's sources bind to."""
    return torch_abi(Includes(tree), select_sources(tree.files, (), ()), project.folder)


def quote_names(names: Iterable[str]) -> Iterator[str]:
    """Return the names in quotes."""
    return (f'"{name}"' for name in names)
