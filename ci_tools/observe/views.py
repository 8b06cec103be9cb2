"""The view of a cell's build: the machine, the torch and the variables that its job gives it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import NamedTuple

from ci_tools.catalog import TORCH_HEADERS, TORCH_NAMES, Catalog, TorchRelease
from ci_tools.catalog.accelerators import KINDS
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.platforms import Accelerator, AcceleratorKind, Cell, name_archs_for_torch
from ci_tools.model.request import PlatformRequest, Request
from ci_tools.model.versions import Minor, Python
from ci_tools.observe.inside.torch_names.table import OF_HEADER, QUESTIONS, TorchHeaders, TorchTable, read_table


@functools.cache
def load_table() -> TorchTable:
    """Return the table of torch's names."""
    return read_table(TORCH_NAMES.read_text(encoding="utf-8"))


@functools.cache
def load_headers() -> TorchHeaders:
    """Return the table of torch's headers."""
    headers = TorchHeaders()
    headers.read(str(TORCH_HEADERS))
    return headers


def describe_names(release: TorchRelease) -> str:
    """Return what names a torch in the table: its release, the rows of a project's catalog, or "" without both."""
    table = load_table()
    if table.patches.get(str(release.version)) == release.patch:
        return str(release.version)
    rows = dict(release.names)
    base = rows.pop("base", "")
    return json.dumps({"base": base, "rows": rows}, sort_keys=True) if base in table.patches else ""


def is_question(name: str) -> bool:
    """Whether a build's question is about the names of torch, or about its headers."""
    return name.startswith((*QUESTIONS, OF_HEADER))


@functools.cache
def answer_question(names: str, question: str) -> object:
    """Return the answer of a torch, named as `describe_names` does."""
    if question.startswith(OF_HEADER):
        return load_headers().has(names, question.removeprefix(OF_HEADER))
    return load_table().answer(names, question)


@functools.cache
def is_same_everywhere(question: str) -> bool:
    """Whether every torch in the table gives the same answer."""
    if question.startswith(OF_HEADER):
        return load_headers().has("", question.removeprefix(OF_HEADER)) is not None
    return not load_table().differs(question)


def name_subject(question: str) -> str:
    """Return what a question is about: `torch.xpu.is_available`, or `torch.xpu` where it lists its names."""
    if question.startswith(OF_HEADER):
        return question
    word = next(one for one in QUESTIONS if question.startswith(one))
    return question.removeprefix(word).replace(":", ".").removeprefix(".")


SUPPOSED = "supposed:"  # see inside/facts.py
LISTED = "library:"  # before the name of one that package_data lists, noted among the questions


class View(NamedTuple):
    """All facts that one build is given and may depend on."""

    os: str
    machine: str
    python: Python
    torch: str = ""  # 2.10.0+cu130
    accelerator: Accelerator | None = None
    capability: str = ""  # of the GPU, if any
    env: tuple[tuple[str, str], ...] = ()
    nccl: str = ""  # the version that torch brings, where it is known
    oneapi: str = ""  # the version of icpx that the torch of an XPU build is for, where it is known
    torch_names: str = ""  # whose names in the table it has, see torch_questions; empty: nobody knows them
    gpu: bool = False
    chance: bool = False  # whether this is the second run: at a later time, with more processors
    supposed: tuple[str, ...] = ()  # questions about the builder whose answer is yes; to all others it is no
    version: str = ""  # that the project's own tool says, where it was asked

    @property
    def kind(self) -> AcceleratorKind | None:
        """The kind of its accelerator."""
        return self.accelerator.kind if self.accelerator else None

    def fact(self, name: str) -> object:
        """Return the answer to a question that a build asked."""
        variables = {**name_homes(self, "a toolkit"), **dict(self.env)}
        if name.startswith("env:"):
            return variables.get(name.removeprefix("env:"))
        if name.startswith(SUPPOSED):
            return name.removeprefix(SUPPOSED) in self.supposed
        if is_question(name):
            return answer_question(self.torch_names, name)
        answers: dict[str, object] = {
            "env": variables,
            "python": self.python.version,
            "free_threaded": self.python.free_threaded,
            **dict.fromkeys(("cuda", "hipify"), self.accelerator),
            # No questions: that they were run is noted among them.
            **dict.fromkeys(("cmake", "get_tag", "git", "make")),
        }
        return answers.get(name) if name in answers or name.startswith(LISTED) else getattr(self, name)


Switches = tuple[tuple[str, str], ...]  # variables that are set for a build, with their values


def kind_of(view: View) -> tuple[str, str, str]:
    """Return the kind of a cell: cells of one kind need the same switches."""
    return view.os, view.machine, str(view.kind or "")


def list_facts(view: View) -> dict[str, object]:
    """Return the facts of a view as JSON has them."""
    version = str(view.accelerator.version or "") if view.accelerator else None
    return {
        **{name: value for name, value in view._asdict().items() if name != "env"},
        "python": str(view.python.version),
        "free_threaded": view.python.free_threaded,
        "accelerator": {"kind": view.kind or "", "version": version},
        "torch_versions": _list_torch_versions(view),
    }


def name_homes(view: View, home: str) -> dict[str, str]:
    """Return the variables that a job sets for its accelerator: its home folder, and its compilers' settings."""
    if not view.accelerator:
        return {}
    kind, version = view.accelerator
    return {kind.homes[0]: home, **kind.variables(version)}


def _list_torch_versions(view: View) -> dict[str, str | None]:
    """Return what each name in torch.version holds: None for those of other accelerators, "" if it is not known."""
    every = {name: None for kind in KINDS.values() for name in kind.torch_versions}
    if not view.accelerator:
        return {**every}
    kind, version = view.accelerator
    return {**every, **dict.fromkeys(kind.torch_versions, kind.name_torch_version(version, view.oneapi))}


def make_view(request: Request, platform: PlatformRequest, cell: Cell, catalog: Catalog) -> View:
    """Return the facts and variables that the build would get from the cell's job."""
    facts = catalog.platforms[cell.platform]
    env = {**name_archs_for_torch(cell.accelerator, platform.archs), **dict(request.build.env), **dict(platform.env)}
    release = catalog.torch[cell.torch or catalog.newest_torch]
    is_xpu = facts.accelerator == XPU
    return View(
        facts.os,
        facts.machine,
        cell.python,
        _describe_torch(cell, catalog),
        cell.accelerator,
        env=tuple(env.items()),
        nccl=release.find_nccl(cell.accelerator) if facts.os == "linux" else "",
        # Of a torch whose oneAPI is not known, the newest: such a torch has no wheel, or is a nightly.
        oneapi=str(release.oneapi or max(catalog.stacks[XPU])) if is_xpu else "",
        torch_names=describe_names(release),
    )


def _describe_torch(cell: Cell, catalog: Catalog) -> str:
    """Return the version string of torch on the cell's builder, such as `2.10.0+cu130`."""
    release = catalog.torch[cell.torch or catalog.newest_torch]
    label = cell.accelerator.label if cell.accelerator else "cpu"
    return release.patch if catalog.platforms[cell.platform].os == "macos" else f"{release.patch}+{label}"


def list_versions(cell: Cell, catalog: Catalog) -> Iterator[Cell]:
    """Yield the cell, or one for each version of an accelerator whose version the config does not name.

    Only a platform without native code may go without; torch on its builder has a version all the same.
    """
    named = cell.accelerator
    shipped: list[Minor] = []
    if named and not named.version:
        host = catalog.platforms[cell.platform].host
        release = catalog.torch[cell.torch or catalog.newest_torch]
        shipped = sorted(filter(None, release.accelerators.get((host, named.kind), ())))
    for accelerator in (named._replace(version=version) for version in shipped) if named and shipped else [named]:
        yield cell._replace(accelerator=accelerator)
