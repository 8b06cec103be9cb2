"""Says which axes a doubt cannot touch: what a build shows beside it stays known, and only the others are kept.

A wheel that is native whatever the answer stays native. Where nothing brings torch to a build, one wheel serves every
torch: builds are isolated (PEP 517). Every other axis stays: better one wheel too many than one that cannot serve.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Binding, CellEvidence, Extensions, PythonApi, TorchAbi
from ci_tools.observe.python_label import trust_tag
from ci_tools.source.files import NOT_PACKED
from ci_tools.source.includes import Includes, select_sources, torch_abi
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.requirements import exclude_torch

if TYPE_CHECKING:
    from ci_tools.observe.build import ObservedBuild
    from ci_tools.observe.observation import Observed

# Doubts about the record itself, and about what a build installs or fetches: they can touch everything.
OF_ALL = re.compile(
    r"chang|writes its own|reports more|computes or waits|took over|started over|wrote over|ended Python|understood|"
    r"network|by setup_requires|the keyword|\b(pip3?|uv|conda|mamba|micromamba)\b"
)
# Doubts about what the builder has, or what its programs say: it decides how something is compiled.
OF_BUILDER = re.compile(
    r"runs (?!a |the |cmake)|compiles by its own command|asks the preprocessor|fails after it ran make|looks for "
)
BUILD_FILE = re.compile(r"\.(ac|am|cmake|in|mk|py|sh)$|(^|/)(CMakeLists\.txt|Makefile|configure|meson\.build)$")
DEFAULT = ("setuptools", "wheel")  # requirements of a build that states none (PEP 518)
TORCH = re.compile(r"torch", re.IGNORECASE)
# In Python: an import, words of a command, or a variable that leads to it. Others may be names of extras.
TORCH_IN_PYTHON = re.compile(
    r"\b(?:import|from)\s+torch\b|\(\s*['\"]torch[\w.]*['\"]|\binstall\b.*torch|-m\b.*torch|\b(?:FATWHEEL_)?TORCH_[A-Z]"
)


def limit_doubt(
    found: CellEvidence, build: ObservedBuild, doubts: Collection[str], project: ProjectFile, *, has_all: bool
) -> CellEvidence:
    """Return the evidence of a doubted build, `found`, with what the doubts cannot change of what it was seen to do.

    `has_all` says that it compiles the kernels of its accelerator, if the source has any.
    """
    observed = build.observed
    found = replace(found, python_api=trust_tag(observed) or found.python_api)
    if any(map(OF_ALL.search, doubts)):
        return found
    found = keep_torch_out(found, project, build.includes, observed)
    is_native = build.runs_other if observed.failure else not observed.is_pure
    if not is_native or not has_all or not all(map(OF_BUILDER.match, doubts)):
        return found
    python = found.python_api
    seen = build.torch_abi
    return replace(
        found,
        extensions=Extensions.SOME,
        extensions_where=f"{build.where}; {found.extensions_where}",
        python_api=PythonApi(Binding.FULL, found.extensions_where) if python.kind is Binding.UNKNOWN else python,
        torch_abi=seen if seen.kind is Binding.FULL else found.torch_abi,
        doubt=found.extensions_where,
    )


def keep_axes(sibling: CellEvidence, why: str, project: ProjectFile, includes: Includes) -> CellEvidence:
    """Return the evidence of a cell that is not observed: as its sibling's build, but it shares nothing."""
    if sibling.extensions is Extensions.UNKNOWN or sibling.unsupported:
        return sibling
    where = f"its build {why}; as another cell of the platform, it {sibling.extensions_where.partition(': ')[2]}"
    python, torch = sibling.python_api, TorchAbi(Binding.UNKNOWN, where, uses_torch=sibling.torch_abi.uses_torch)
    found = replace(
        sibling,
        extensions=Extensions.SOME if sibling.extensions is Extensions.SOME else Extensions.UNKNOWN,
        extensions_where=where,
        python_api=python if python.kind is Binding.STABLE else PythonApi(Binding.FULL, where),
        torch_abi=sibling.torch_abi if sibling.torch_abi.kind is Binding.FULL else torch,
        built=(),
        spared=(),
        contents=(),
        written=(),
        configured=(),
        members=None,
        metadata=None,
        recipe=None,
        doubt=where,
    )
    return keep_torch_out(found, project, includes)


def keep_torch_out(
    found: CellEvidence, project: ProjectFile, includes: Includes, observed: Observed | None = None
) -> CellEvidence:
    """Return evidence without a torch axis, if nothing brings torch to the build and none of its files names it.

    Code that includes one of torch's headers uses torch, whatever the build is.
    """
    sources = (name for name in project.tree.files if not NOT_PACKED.intersection(PurePosixPath(name).parts[:-1]))
    if torch_abi(includes, select_sources(sources, (), ()), str(project.folder)).uses_torch:
        return replace(found, torch_abi=found.torch_abi._replace(uses_torch=True))
    members = {name for name, _ in observed.members} if observed else ()
    abi = exclude_torch(found.torch_abi, project, DEFAULT)
    return found if names_torch(project, members) else replace(found, torch_abi=abi)


def names_torch(project: ProjectFile, members: Collection[str]) -> bool:
    """Whether a file that a build may run names torch; files of the wheel run only where it is installed."""
    for name in project.tree.files:
        folders = PurePosixPath(name).parts[:-1]
        is_run = BUILD_FILE.search(name) and not NOT_PACKED.intersection(folders) and name not in members
        if is_run and (TORCH_IN_PYTHON if name.endswith(".py") else TORCH).search(project.tree.text(name)):
            return True
    return False
