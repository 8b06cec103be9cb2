"""A first `fatwheel.yml`, written from what the source shows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidName, canonicalize_name

from ci_tools.config import DEFAULT_NAME
from ci_tools.errors import InputError
from ci_tools.includes import Includes, compiled, torch_abi
from ci_tools.model import Globs, Minor
from ci_tools.source import Tree, matching, tree_at
from ci_tools.storage import write_atomically

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.catalog import Catalog

__all__ = ["text", "write"]

# What shows that a platform has native code, by the ending of its files.
ENDINGS = {
    "linux-cuda": ("cu", "cuh"),
    "linux-rocm": ("hip",),
    "linux-xpu": ("sycl",),
    "linux-cpu": (),
    "linux-aarch64": (),
    "macos-arm64": ("metal", "mm"),
    "windows": (),
}
ARCHS = '["8.0", "9.0", "10.0+PTX"]'


def write(folder: Path, catalog: Catalog, environ: Mapping[str, str]) -> Path:
    """Write a starter into `folder` and return its path; raise InputError where one is there, or nothing to build."""
    path = folder / DEFAULT_NAME
    if path.exists():
        msg = f"{path} is there already, expected none to start from"
        raise InputError(msg)
    if not folder.is_dir():
        msg = f"there is no folder {folder}, expected the source of a project"
        raise InputError(msg)
    content = text(tree_at(folder.resolve(), environ), catalog)
    with write_atomically(path) as file:
        file.write(content.encode())
    return path


class _Project(NamedTuple):
    """What a project's pyproject.toml says, as far as a starter needs it."""

    file: str
    name: str
    has_version: bool
    requires_python: str
    dependencies: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The project's folder below the source root, nothing where it is the root."""
        return self.file.rpartition("/")[0]


def text(tree: Tree, catalog: Catalog) -> str:
    """Return a config for the project in `tree`: what was found, and comments where a person has to choose.

    Raises InputError where there is no project, or what it says of itself cannot be.
    """
    project = _project(tree)
    module = re.sub(r"[-.]+", "_", project.name).lower()
    lines = [
        "# What `fatwheel plan` reads: who is served, and what is native. Every key: docs/reference/config.md",
        f"package: {_scalar(project.name)}",
        *([] if project.has_version else ['version: "0.0.0" # the project\'s own is dynamic: say which is released']),
        *(["", "source:", f"  subdirectory: {_scalar(project.folder)}"] if project.folder else []),
        "",
        f"python: [{', '.join(_quoted(_pythons(project, catalog)))}]",
        *_torch(tree, project, catalog),
        "",
        "platforms:",
        *(line for platform, endings in ENDINGS.items() for line in _platform(platform, endings, tree)),
        *(["", "validate:", f"  imports: [{_scalar(module)}]"] if module.isidentifier() else []),
    ]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Return a text as YAML writes it, in quotes where it would be read as something else."""
    try:
        plain = yaml.safe_load(f"[{text}]") == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)


def _comment(text: str) -> str:
    """Return a comment of one line; a file's name may hold a line break."""
    return f"# {''.join(char if char.isprintable() else '?' for char in text)}"


def _project(tree: Tree) -> _Project:
    """Return what the project nearest to the root says of itself."""
    found = sorted((name for name in tree.files if PurePosixPath(name).name == "pyproject.toml"), key=_depth)
    if not found:
        msg = f"{tree.root} has no pyproject.toml, expected the source of a project"
        raise InputError(msg)
    file = found[0]
    try:
        table = tomllib.loads(tree.text(file)).get("project", {})
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        msg = f"{file}: this is not TOML: {error}"
        raise InputError(msg) from None
    if not isinstance(table, dict):
        raise _not(file, "project", table, "a table")
    dependencies = table.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise _not(file, "project.dependencies", dependencies, "a list of texts")
    name = _text(file, table, "name") or tree.root.name
    return _Project(
        file, _name(file, name), "version" in table, _text(file, table, "requires-python"), tuple(dependencies)
    )


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
    except InvalidName:
        raise _not(file, "project.name", name, "a name of letters, digits, dots and dashes") from None
    return name


def _depth(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _pythons(project: _Project, catalog: Catalog) -> list[str]:
    """Return the catalogued Pythons that the project admits and torch ships for."""
    try:
        admitted = SpecifierSet(project.requires_python)
    except InvalidSpecifier:
        admitted = SpecifierSet()
    newest = catalog.torch[max(catalog.torch)].pythons["linux-x86_64"]
    older = catalog.torch[Minor(max(catalog.torch).major, max(catalog.torch).minor - 1)].pythons["linux-x86_64"]
    shipped = [python for python in catalog.pythons if python in newest | older]
    found = [str(python) for python in shipped if f"{python.version}.999" in admitted]
    if not found:
        known = f"one that admits some of {', '.join(map(str, shipped))}"
        raise _not(project.file, "project.requires-python", project.requires_python, known)
    return found


def _torch(tree: Tree, project: _Project, catalog: Catalog) -> list[str]:
    """Return the torch axis where the project uses torch, from the version its source targets."""
    abi = torch_abi(Includes(tree), compiled(tree.files, (), ()), project.folder)
    if abi.target in catalog.torch:
        return [f'torch: {{ lowest: "{abi.target}" }} {_comment(abi.where)}']
    uses = any(re.match(r"torch\b(?![-_.])", requirement) for requirement in project.dependencies)
    return ['torch: { lowest: "2.10" } # the oldest torch you serve'] if uses else []


def _platform(platform: str, endings: tuple[str, ...], tree: Tree) -> Iterator[str]:
    """Yield a platform's lines: its native globs where such files are there, its name alone where not."""
    globs = [f"**/*.{ending}" for ending in endings]
    found = matching(tree.files, Globs(tuple(globs)))
    if not found:
        # A CUDA platform says what it is built for, and there is nothing to build.
        yield f"  {'# ' if platform == 'linux-cuda' else ''}{platform}:"
        return
    yield f"  {platform}:"
    yield f"    native: [{', '.join(_quoted(globs))}] {_comment(found[0])}"
    yield '    owner: "@your-org/your-team" # who looks after this code'
    if platform == "linux-cuda":
        yield '    cuda: ["13.0"]'
        yield f"    archs: {ARCHS}"


def _quoted(names: Iterable[str]) -> Iterator[str]:
    return (f'"{name}"' for name in names)
