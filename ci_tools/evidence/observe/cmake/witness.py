"""Refines what the files of a project say by what cmake's configure step shows: which of them a cell compiles.

cmake is asked only where the files leave an axis open: where a wheel would be bound to one torch because of a file
that may not be compiled at all.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_tools.evidence.includes import abi_of_commands
from ci_tools.evidence.observe.cmake.reply import LINKS_TORCH
from ci_tools.evidence.observe.cmake.run import Configured, Configurer
from ci_tools.model.evidence import Binding, Extension, TorchAbi
from ci_tools.model.platforms import AcceleratorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.evidence.backends.cmake_call import CmakeCall
    from ci_tools.evidence.includes import Includes
    from ci_tools.evidence.observe.cmake.reply import Target
    from ci_tools.evidence.observe.run import View
    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside
    from ci_tools.model.evidence import CellEvidence, Compile

__all__ = ["CmakeWitness"]

MOST = 16  # ways through a project's checks that are tried
TORCH_LIBRARY = re.compile(r"(?:^|[/\s]|-l|lib)(?:torch|c10)(?:_\w+)?(?:\.\w+)*(?:$|\s)")
CONFIGURED = "observed by running cmake's configure step"


class CmakeWitness:
    """Observes a project's configure step for one cell after another."""

    def __init__(self, tree: Tree, folder: str, includes: Includes, outside: Outside) -> None:
        self.includes = includes
        self.configurer = Configurer(tree, folder, outside)
        self.shown: dict[tuple[int, Configured], tuple[CellEvidence, CellEvidence]] = {}  # with the files' own

    def close(self) -> None:
        """Remove what the observations left."""
        self.configurer.close()

    def refine(self, files: CellEvidence, view: View, call: CmakeCall) -> CellEvidence:
        """Return the evidence of the files with what the configure step of a view shows.

        For ROCm and XPU it is that of the files: their compilers and torch have no stand-ins; and so it is where cmake
        has nothing to read.
        """
        if view.accelerator and view.accelerator.kind is not AcceleratorKind.CUDA:
            return files
        if not self.includes.has(self.configurer.script_of(call)):
            return files
        call = call._replace(arguments=(*call.arguments, *_list_sabi(files, view)))
        found = Configured(doubt=call.doubt) if call.doubt else self.decide(view, call)
        known = id(files), found._replace(asked=())
        if known not in self.shown:
            self.shown[known] = files, self.refined(files, found)
        return self.shown[known][1]

    def decide(self, view: View, call: CmakeCall) -> Configured:
        """Return what the configure step shows whatever the builder's compiler answers, or the doubt."""
        waiting: list[tuple[tuple[str, ...], int]] = [((), 0)]
        found: list[Configured] = []
        while waiting:
            no, settled = waiting.pop()
            looked = self.configurer.configure(view, call, no)
            found.append(looked)
            if looked.doubt:
                return looked
            checks = list(looked.checks)
            waiting += [((*no, name), index + 1) for index, name in enumerate(checks) if index >= settled]
            if len(found) + len(waiting) > MOST:
                return _doubt_check(found)
        known = [one for one in found if not one.failure]
        if not known:
            return Configured(doubt=found[0].failure)
        return known[0] if len({_list_decided(one.targets) for one in known}) == 1 else _doubt_check(found)

    def refined(self, files: CellEvidence, found: Configured) -> CellEvidence:
        """Return evidence with the targets of a configure step; with a warning if that shows nothing."""
        targets = [target._replace(compiles=tuple(map(self.in_source, target.compiles))) for target in found.targets]
        if doubt := found.doubt or next(self.list_unread(targets), ""):
            return replace(files, warnings=(*files.warnings, f"{doubt}: every file of the source counts as compiled"))
        linked = [target for target in targets if target.is_linked]
        return replace(
            files,
            torch_abi=self.torch_abi(targets),
            built=tuple(Extension(one.file, one.compiles, one.links, images=None) for one in linked),
            recipe=hashlib.sha256(repr(_list_decided(tuple(targets))).encode()).hexdigest(),
        )

    def list_unread(self, targets: Iterable[Target]) -> Iterator[str]:
        """Yield a doubt for each source that the build writes."""
        for command in (command for target in targets for command in target.compiles):
            if not self.includes.has(command.source):
                yield f"cmake compiles {command.source}, which is not in the source"

    def cython(self, source: str) -> str | None:
        """Return the Cython file of which a generated source is made; None if there is not exactly one."""
        stem = PurePosixPath(source).name.partition(".")[0]
        found = [name for name in self.includes.tree.files if name.endswith(f"/{stem}.pyx") or name == f"{stem}.pyx"]
        return found[0] if len(found) == 1 else None

    def in_source(self, command: Compile) -> Compile:
        """Return a command with the file of the source that it compiles."""
        if self.includes.has(command.source):
            return command
        return command._replace(source=self.cython(command.source) or command.source)

    def torch_abi(self, targets: Sequence[Target]) -> TorchAbi:
        """Return the torch ABI that the targets need: by what they include, and by what they link."""
        commands = tuple(dict.fromkeys(command for target in targets for command in target.compiles))
        abi = abi_of_commands(self.includes, commands)
        if abi.kind is not Binding.NONE:
            return abi
        if linking := [target.name for target in targets if _links_torch(target)]:
            where = f"{CONFIGURED}: {linking[0]} is linked with torch, and includes none of its headers"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
        names = ", ".join(target.name for target in targets) or "nothing"
        return TorchAbi(Binding.NONE, f"{CONFIGURED}: it builds {names}, and no file that is compiled includes torch")


def _list_sabi(files: CellEvidence, view: View) -> Iterator[str]:
    """Yield what scikit-build-core tells cmake of the limited API, where the wheel of this Python declares it."""
    lowest = files.python_api.lowest
    if lowest and not view.python.free_threaded and view.python.version >= lowest:
        yield "-DSKBUILD_SABI_COMPONENT=Development.SABIModule"
        yield f"-DSKBUILD_SABI_VERSION={lowest}"


def _links_torch(target: Target) -> bool:
    by_name = any(TORCH_LIBRARY.search(one) for one in target.links)
    return by_name or any(LINKS_TORCH in command.flags for command in target.compiles)


def _list_decided(targets: Sequence[Target]) -> tuple[object, ...]:
    """Return what a plan takes from targets: their names, their sources, and whether they link torch."""
    return tuple(
        (one.name, one.kind, tuple((command.source, _list_torch_flags(command)) for command in one.compiles))
        for one in targets
    )


def _list_torch_flags(command: Compile) -> tuple[str, ...]:
    return tuple(flag for flag in command.flags if "TORCH" in flag or flag.startswith("-include"))


def _doubt_check(found: Sequence[Configured]) -> Configured:
    """Return the doubt of a project whose targets depend on what its builder's compiler can do."""
    checks = {name: place for one in found for name, place in one.checks.items()}
    name, place = next(iter(checks.items()))
    others = f" (and {len(checks) - 1} more such)" if len(checks) > 1 else ""
    what = f"what cmake compiles may depend on the check {name}{others}, which no cell decides"
    return Configured(doubt=f"{place}: {what}")
