"""Writes a starter `fatwheel.yml` from what the source shows: `fatwheel init`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.config.location import DEFAULT_NAME
from ci_tools.config.project import (
    ARCHS,
    ENDINGS,
    Project,
    find_abi,
    list_pythons,
    package_lines,
    project_of,
    quote_names,
    refuse_existing,
    to_comment,
    to_scalar,
)
from ci_tools.evidence import git
from ci_tools.evidence.source import Tree, matching, tree_at
from ci_tools.machine.storage import write_atomically
from ci_tools.model.repository import REPOSITORY
from ci_tools.model.request import Globs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_tools.catalog import Catalog

__all__ = ["text", "write"]

ON_GITHUB = re.compile(rf"github\.com[:/]({REPOSITORY.pattern}?)(?:\.git)?/?$")  # in the address of a repository
GFX_ARCHS = "[gfx90a, gfx942, gfx1100]"


def write(folder: Path, catalog: Catalog, environ: Mapping[str, str], *, smart: bool = False) -> Path:
    """Write a starter into `folder` and return its path; raise InputError if one exists or there is no project.

    With `smart`, releases go to GitHub and, as a smart sdist, to PyPI.
    """
    path = folder / DEFAULT_NAME
    refuse_existing(folder, [path])
    content = text(tree_at(folder.resolve(), environ), catalog)
    if smart:
        content += _publish(git.origin(folder.resolve(), environ))
    with write_atomically(path) as file:
        file.write(content.encode())
    return path


def text(tree: Tree, catalog: Catalog) -> str:
    """Return a config for the project in `tree`: the found values, and comments where a person has to choose.

    Raises InputError if there is no project, or its metadata is not valid.
    """
    project = project_of(tree)
    module = re.sub(r"[-.]+", "_", project.name).lower()
    lines = [
        "# Read by `fatwheel plan`: who is served, and which code is native. Every key: docs/reference/config.md",
        *package_lines(project, _owner(tree)),
        "",
        f"python: [{', '.join(quote_names(list_pythons(project, catalog)))}]",
        *_torch(tree, project, catalog),
        "",
        "platforms:",
        *(line for platform, endings in ENDINGS.items() for line in _platform(platform, endings, tree)),
        *(["", "validate:", f"  imports: [{to_scalar(module)}]"] if module.isidentifier() else []),
    ]
    return "\n".join(lines) + "\n"


def _publish(origin: str | None) -> str:
    """Return the lines that publish a smart sdist: its wheels are in GitHub Releases of the repository at `origin`."""
    found = ON_GITHUB.search(origin or "")
    target = f"github:{found[1]}" if found else "github:your-org/your-project"
    lines = ["", "publish:", "  pypi: smart # an sdist that finds the wheel of the release that fits", "  targets:"]
    return "\n".join([*lines, f"    - {target} # has the wheels", "    - pypi"]) + "\n"


def _torch(tree: Tree, project: Project, catalog: Catalog) -> list[str]:
    """Return the line of the torch axis if the project uses torch, from the version its source targets."""
    abi = find_abi(tree, project)
    if abi.target in catalog.torch:
        return [f'torch: {{ lowest: "{abi.target}" }} {to_comment(abi.where)}']
    uses = any(re.match(r"torch\b(?![-_.])", requirement) for requirement in project.dependencies)
    return ['torch: { lowest: "2.10" } # the oldest torch you serve'] if uses else []


def _globs(endings: tuple[str, ...]) -> list[str]:
    return [f"**/*.{ending}" for ending in endings]


def _owner(tree: Tree) -> str:
    """Return an owner to be replaced if a platform has native files, else ""."""
    native = any(matching(tree.files, Globs(tuple(_globs(endings)))) for endings in ENDINGS.values())
    return "@your-org/your-team" if native else ""


def _platform(platform: str, endings: tuple[str, ...], tree: Tree) -> Iterator[str]:
    """Yield a platform's lines: with its native globs if such files exist, else only its name."""
    globs = _globs(endings)
    found = matching(tree.files, Globs(tuple(globs)))
    if not found:
        # A CUDA platform must name versions and architectures, and here is nothing to build.
        yield f"  {'# ' if platform == 'linux-cuda' else ''}{platform}:"
        return
    yield f"  {platform}:"
    yield f"    native: [{', '.join(quote_names(globs))}] {to_comment(found[0])}"
    if platform == "linux-cuda":
        yield '    cuda: ["13.0"]'
        yield f"    archs: [{', '.join(quote_names(ARCHS))}]"
    if platform == "linux-rocm":
        yield '    rocm: ["7.2"]'
        yield f"    archs: {GFX_ARCHS}"
