"""The facts about a project that a new config needs: its name, folder, Pythons and torch, and how YAML spells them."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import yaml
from packaging.utils import canonicalize_name

from ci_tools.catalog import Catalog
from ci_tools.config.location import BUILD_FILES, PROJECT_FILE, table_in
from ci_tools.errors import InputError, nearest
from ci_tools.model.names import CONFIG_FILE, ProjectName
from ci_tools.model.request import PathSource, Request
from ci_tools.model.versions import Minor, Python, admits, parse_or_all
from ci_tools.source.files import Tree
from ci_tools.source.includes import SourceLine
from ci_tools.source.project_file import ProjectFile, TomlFile
from ci_tools.source.requirements import MAKERS

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
    """A folder of the source that can be built, "" for its root, and the name that its build files state."""

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
    """Return the packages of a source, the root's first; of a folder with nothing but tools' settings there is none.

    A submodule is another repository, which releases its own.
    """
    made = {file.rpartition("/")[0] for file in tree.files if file.rpartition("/")[2] in BUILD_FILES}
    nested = tuple(f"{folder}/" for folder in tree.checkout.nested(tree.files)) if tree.checkout else ()
    made = {folder for folder in made if not f"{folder}/".startswith(nested)}
    # The root is "", and has no slash as its children.
    folders = sorted(made, key=lambda folder: (folder.count("/") + bool(folder), folder))
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
    file = TomlFile.of(tree, posixpath.join(folder, "pyproject.toml"))
    if posixpath.join(folder, "setup.py") not in tree.names and not {"project", "build-system"} & file.content.keys():
        return []
    return [Package(folder, ProjectFile(replace(BLANK, subdirectory=folder), tree).own_name(""))]


def _is_virtual(tree: Tree, folder: str) -> bool:
    """Whether a project only holds the settings of others."""
    file = TomlFile.of(tree, posixpath.join(folder, "pyproject.toml"))
    return any(file.value("tool", tool, key) is said for tool, key, said in NOT_A_PACKAGE)


# ---------------------------------------------------------------- the starter of a config

# File name endings that show that a platform has native code.
ENDINGS = {"linux-cuda": ("cu", "cuh"), "linux-rocm": ("hip",), "linux-xpu": ("sycl",), "macos-arm64": ("metal", "mm")}
ARCHS = ("8.0", "9.0", "10.0+PTX")
# The request before anything is known: the source in the config's folder.
BLANK = Request(
    name=ProjectName(CONFIG_FILE), config=CONFIG_FILE, source=PathSource(path="."), pythons=(), platforms=()
)


def refuse_existing(folder: Path, paths: Iterable[Path]) -> None:
    """Raise InputError if a file exists already, the folder has a config in its pyproject.toml, or does not exist."""
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists already, expected no such file: `fatwheel plan` reads it; or move it away")
    if table_in(folder / PROJECT_FILE) is not None:
        raise InputError(f"{folder / PROJECT_FILE} has a table [tool.fatwheel] already, expected no config")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}, expected the source of a project")


class StarterProject(NamedTuple):
    """The facts that a starter needs from a project's files; its folder is "" for the source's root."""

    folder: str
    name: str
    requires_python: str
    where: SourceLine  # of `requires-python`


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
    project = ProjectFile(replace(BLANK, subdirectory=package.folder), tree)
    own = package.name or name or tree.root.name
    return StarterProject(package.folder, own, *project.own_pythons({}))


def list_admitted(said: str, where: object, pythons: Iterable[Python]) -> list[Python]:
    """Return the Pythons that a `requires-python` admits, all if it is invalid; raise InputError if it admits none."""
    known, allowed = [*pythons], parse_or_all(said)
    if found := [python for python in known if admits(allowed, python.version)]:
        return found
    msg = f"{where}: requires-python is {said!r}, expected one that admits some of {', '.join(map(str, known))}"
    raise InputError(msg, hint="`fatwheel catalog update` adds what is newer than Fatwheel")


def list_pythons(project: StarterProject, catalog: Catalog) -> list[str]:
    """Return the catalogued Pythons that the project admits and torch ships for."""
    newest = catalog.torch[max(catalog.torch)].pythons["linux-x86_64"]  # it may not be built for every Python yet
    older = catalog.torch[Minor(max(catalog.torch).major, max(catalog.torch).minor - 1)].pythons["linux-x86_64"]
    shipped = [python for python in catalog.pythons if python in newest | older]
    return [str(python) for python in list_admitted(project.requires_python, project.where, shipped)]


def quote_names(names: Iterable[str]) -> Iterator[str]:
    """Return the names in quotes."""
    return (f'"{name}"' for name in names)
