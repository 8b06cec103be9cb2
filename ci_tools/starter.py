"""A first `fatwheel.yml`, written from what the source shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

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
    from collections.abc import Iterator, Mapping

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


def text(tree: Tree, catalog: Catalog) -> str:
    """Return a config for the project in `tree`: what was found, and comments where a person has to choose."""
    subdirectory, project = _project(tree)
    version, table = project.get("version"), project.get("requires-python", "")
    lines = [
        "# What `fatwheel plan` reads: who is served, and what is native. Every key: docs/reference/config.md",
        f"package: {project['name']}",
        *([] if version else ['version: "0.0.0" # the project\'s own is dynamic: say which is released']),
        *(["", "source:", f"  subdirectory: {subdirectory}"] if subdirectory else []),
        "",
        f"python: [{', '.join(_quoted(_pythons(table, catalog)))}]",
        *_torch(tree, subdirectory, project),
        "",
        "platforms:",
        *(line for platform, endings in ENDINGS.items() for line in _platform(platform, endings, tree)),
        "",
        "validate:",
        f"  imports: [{_module(project['name'])}]",
    ]
    return "\n".join(lines) + "\n"


def _project(tree: Tree) -> tuple[str, dict[str, Any]]:
    """Return the folder of the project nearest to the root, and its `[project]` table."""
    found = sorted((name for name in tree.files if PurePosixPath(name).name == "pyproject.toml"), key=_depth)
    if not found:
        msg = f"{tree.root} has no pyproject.toml, expected the source of a project"
        raise InputError(msg)
    try:
        project = tomllib.loads(tree.text(found[0])).get("project", {})
    except tomllib.TOMLDecodeError as error:
        msg = f"{found[0]}: this is not TOML: {error}"
        raise InputError(msg) from None
    folder = str(PurePosixPath(found[0]).parent)
    return folder if folder != "." else "", {"name": tree.root.name, **project}


def _depth(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _pythons(requires: str, catalog: Catalog) -> Iterator[str]:
    """Yield the catalogued Pythons that the project admits and torch ships for."""
    try:
        admitted = SpecifierSet(requires)
    except InvalidSpecifier:
        admitted = SpecifierSet()
    newest = catalog.torch[max(catalog.torch)].pythons["linux-x86_64"]
    older = catalog.torch[Minor(max(catalog.torch).major, max(catalog.torch).minor - 1)].pythons["linux-x86_64"]
    for python in catalog.pythons:
        if python in newest | older and f"{python.version}.999" in admitted:
            yield str(python)


def _torch(tree: Tree, folder: str, project: dict[str, Any]) -> list[str]:
    """Return the torch axis where the project uses torch, from the version its source targets."""
    abi = torch_abi(Includes(tree), compiled(tree.files, (), ()), folder)
    if abi.target:
        return [f'torch: {{ lowest: "{abi.target}" }} # {abi.where}']
    uses = any(re.match(r"torch\b", requirement) for requirement in project.get("dependencies", ()))
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
    yield f"    native: [{', '.join(_quoted(iter(globs)))}] # {found[0]}"
    yield '    owner: "@your-org/your-team" # who looks after this code'
    if platform == "linux-cuda":
        yield '    cuda: ["13.0"]'
        yield f"    archs: {ARCHS}"


def _quoted(names: Iterator[str]) -> Iterator[str]:
    return (f'"{name}"' for name in names)


def _module(name: str) -> str:
    return re.sub(r"[-.]+", "_", name).lower()
