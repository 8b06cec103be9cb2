"""Finds the packages of a source: the folders that an installer could build, and the one that a config is for."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.config.location import BUILD_FILES
from ci_tools.errors import InputError, nearest
from ci_tools.formats.toml.text import parse_toml
from ci_tools.source.imported import MAKERS
from ci_tools.source.project_file import TomlFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_tools.source.files import Tree

# Folders whose projects are not what a repository releases: other people's code, samples, and what tests build.
NOT_RELEASED = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "3rdparty benchmark benchmarks ci demo demos deps doc docs example examples extern external sample samples "
    "submodules template templates test testing tests third-party third_party thirdparty tools vendor vendored".split()
)
# Settings by which a project of a workspace says that it builds nothing: uv's, poetry's, pdm's and rye's.
NOT_A_PACKAGE = (("uv", "package", False), ("poetry", "package-mode", False), ("pdm", "distribution", False),
                 ("rye", "virtual", True))  # fmt: skip
# A path in a build file that leads above the file's folder, also where a setup.py joins it of parts.
LEADS_UP = re.compile(r"""(?<![\w.])(?:\.\./)+[\w./-]*|["']\.\.["']\s*,\s*["'](?P<part>[\w./-]+)["']""")
INHERITS = re.compile(r"\bworkspace\s*=\s*true\b")
MAX_SHOWN = 8  # packages that a message lists


class Package(NamedTuple):
    """A folder of the source that can be built, "" for its root, and the name that its pyproject.toml states."""

    folder: str
    name: str = ""

    def __str__(self) -> str:
        """Return the package as a person may name it."""
        return self.name or self.folder or "."

    def is_called(self, asked: str) -> bool:
        """Whether a person means this package: by its name, or by its folder."""
        same_folder = asked.removeprefix("./").strip("/") == (self.folder or ".")  # as a shell completes it: ./sub/
        return same_folder or bool(self.name and canonicalize_name(self.name) == canonicalize_name(asked))


def find_packages(tree: Tree) -> tuple[Package, ...]:
    """Return the packages of a source, the root's first; of a folder with nothing but tools' settings there is none."""
    made = {file.rpartition("/")[0] for file in tree.files if file.rpartition("/")[2] in BUILD_FILES}
    folders = sorted(made, key=_depth)
    released = [one for one in folders if not NOT_RELEASED & {part.lower() for part in one.split("/")}]
    found: list[Package] = []
    for chosen in (released, folders):  # a test's own pyproject.toml may be broken on purpose
        found = [package for folder in chosen for package in _packages_in(tree, folder)]
        if real := [one for one in found if not _is_virtual(tree, one.folder)]:
            return tuple(real)
    return tuple(found)  # a repository may have nothing else


def names_outside(tree: Tree) -> bool:
    """Whether a build file names what a checkout has beside the tree: a workspace, a crate, a readme, sources."""
    for name in tree.files if tree.prefix else ():
        if posixpath.basename(name) in MAKERS:
            text, folder = tree.text(name), posixpath.dirname(name)
            paths = [(one["part"] and f"../{one['part']}") or one[0] for one in LEADS_UP.finditer(text)]
            if name.endswith("Cargo.toml") and INHERITS.search(text):  # of the workspace above (Cargo)
                paths += [f"{'../' * level}Cargo.toml" for level in range(1, tree.prefix.count("/") + 1)]
            paths = [posixpath.normpath(posixpath.join(folder, path)) for path in paths]
            if any(path.startswith("../") and (tree.root / path).exists() for path in paths):
                return True
    return False


def explain_no_package(root: Path) -> InputError:
    """Return the error of a folder that has no package."""
    msg = f"{root} has no pyproject.toml with a project and no setup.py, expected the source of a package"
    return InputError(msg, hint="go there, or name its folder; `--sdist NAME` takes a project of the package index")


def choose_package(tree: Tree, asked: str) -> tuple[Package, tuple[Package, ...]]:
    """Return the package that `asked` names, or that of the root or the only one, and the others.

    Raises InputError if there is none, or only a person can choose.
    """
    found = find_packages(tree)
    if not found:
        raise explain_no_package(tree.root)
    chosen = next((one for one in found if one.is_called(asked)), None) if asked else found[0]
    if chosen is None:
        raise InputError(f'--package: the source has no package "{asked}", {nearest(asked, map(str, found))}')
    if not asked and chosen.folder and len(found) > 1:  # that of the root is the one, unless asked
        names = ", ".join(f"{one} ({one.folder})" if one.name else one.folder for one in found[:MAX_SHOWN])
        more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
        msg = f"the source has {len(found)} packages: {names}{more}, expected --package with one of them"
        raise InputError(msg, hint=f"`fatwheel init --package {chosen}` writes a config for one of them")
    return chosen, tuple(one for one in found if one != chosen)


def _packages_in(tree: Tree, folder: str) -> list[Package]:
    """Return the package in a folder, if its files make one."""
    prefix = f"{folder}/" if folder else ""
    name = f"{prefix}pyproject.toml"
    content = parse_toml(tree.text(name), name)
    if f"{prefix}setup.py" not in tree.names and not {"project", "build-system"} & content.keys():
        return []
    return [Package(folder, _stated_name(content))]


def _is_virtual(tree: Tree, folder: str) -> bool:
    """Whether a project only holds the settings of others."""
    file = TomlFile.of(tree, posixpath.join(folder, "pyproject.toml"))
    return any(file.value("tool", tool, key) is said for tool, key, said in NOT_A_PACKAGE)


def _stated_name(content: Mapping[str, object]) -> str:
    table = content.get("project")
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) else ""


def _depth(folder: str) -> tuple[int, str]:
    return folder.count("/") + bool(folder), folder  # the root is "", and has no slash as its children
