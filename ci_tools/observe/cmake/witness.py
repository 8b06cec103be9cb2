"""Refines what the files of a project say by what cmake's configure step shows: which of them a cell compiles.

cmake is asked only where the files leave something open: where a wheel would be bound to one torch because of a file
that may not be compiled at all, and for which GPU architectures kernels are compiled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.evidence import Binding, CellEvidence, Compile, Extension, Mislabel, TorchAbi
from ci_tools.model.platforms import Cell
from ci_tools.observe.build import list_request_archs
from ci_tools.observe.cmake.options import CONFIGURED, LeftOff, find_lacking
from ci_tools.observe.cmake.reply import LINKS_TORCH, CmakeTarget
from ci_tools.observe.cmake.run import Configured, Configurer
from ci_tools.observe.images import VARIABLE, images_of, list_images, spell_for_cmake
from ci_tools.observe.python_label import judge_targets
from ci_tools.observe.views import View
from ci_tools.source.backends.cmake_call import CmakeCall
from ci_tools.source.backends.facts import FORCED
from ci_tools.source.includes import Includes, abi_of_commands

MOST = 16  # ways through a project's checks that are tried, if they are all
MAX_CHECKS = 24  # that are tried one by one
TORCH_LIBRARY = re.compile(r"(?:^|[/\s]|-l|lib)(?:torch|c10)(?:_\w+)?(?:\.\w+)*(?:$|\s)")
WITHOUT_ARCHS = "without which it would not be for the architectures of the request"
MAX_NAMED = 3  # targets of a message


class Ask(NamedTuple):
    """One configure step to observe: the cell with one version of its accelerator, and how cmake is called for it."""

    view: View
    call: CmakeCall


class OpenFacts(NamedTuple):
    """The facts that the files leave open: the ABI of torch and of Python, the GPU architectures, the kernels."""

    torch: bool = False
    archs: bool = False
    kernels: tuple[str, ...] = ()
    python: bool = False  # whether what is compiled keeps to the limited API of its tag


class Refinement(NamedTuple):
    """The result of a configure step, and the variables without which it would be another."""

    configured: Configured
    switches: tuple[tuple[str, str], ...] = ()
    archs: tuple[str, ...] = ()  # those of its targets, where they are not the request's
    told: tuple[str, ...] = ()  # warnings about them


class CmakeWitness:
    """Observes a project's configure step for one cell after another."""

    def __init__(self, configurer: Configurer, includes: Includes) -> None:
        self.includes = includes
        self.configurer = configurer
        self.others: dict[int, CmakeWitness] = {}  # by the includes of a source with files that a build writes
        self.shown: dict[tuple[int, Refinement], tuple[CellEvidence, CellEvidence]] = {}  # with the files' own

    def close(self) -> None:
        """Remove what the observations left."""
        self.configurer.close()

    def with_generated(self, generated: Mapping[str, str]) -> CmakeWitness:
        """Return the witness of the source with the files that a build writes."""
        includes = self.includes.with_generated(generated)
        if includes is self.includes:
            return self
        return self.others.setdefault(id(includes), CmakeWitness(self.configurer, includes))

    def refine(self, files: CellEvidence, asks: Sequence[Ask], cell: Cell | None, open_: OpenFacts) -> CellEvidence:
        """Return the evidence of the files with what the configure step of a cell shows of what is open.

        A doubt changes nothing where the files already say how the cell is bound to torch. For ROCm and XPU it is that
        of the files: their compilers and torch have no stand-ins; and so it is where cmake has nothing to read. A cell
        whose accelerator has no version is several asks, which have to show the same.
        """
        is_for_others = any(one.view.kind not in {None, CUDA} for one in asks)
        if is_for_others or not all(self.includes.has(self.configurer.script_of(one.call)) for one in asks):
            unknown = Configured(doubt="cmake's configure step is not followed there")
            return self.judge_label(files, unknown) if open_.python else files
        if open_.python:
            files = self.judge_label(files, self.decide(asks[0].view, self.add_sabi(files, asks[0])))
        refined = self.refine_targets(files, asks, cell, open_) if open_.torch or open_.archs else files
        return self.add_lacking(refined, self.find_lacking(files, asks[0], open_.kernels)) if open_.kernels else refined

    def find_lacking(self, files: CellEvidence, ask: Ask, kernels: Sequence[str]) -> LeftOff:
        """Return what the configure step of a cell with CUDA leaves off, of a source with these kernels."""
        call = self.add_sabi(files, ask)
        if call.doubt:
            return LeftOff(warnings=(f"{call.doubt}: whether {kernels[0]} is compiled is not known",))
        return find_lacking(partial(self.configurer.configure, ask.view), call, kernels)

    def add_sabi(self, files: CellEvidence, ask: Ask) -> CmakeCall:
        """Return a call with what scikit-build-core tells cmake of the limited API."""
        return ask.call._replace(arguments=(*ask.call.arguments, *_list_sabi(files, ask.view)))

    def judge_label(self, files: CellEvidence, found: Configured) -> CellEvidence:
        """Return the evidence of a wheel tagged abi3 with what its libraries break."""
        targets = [one._replace(compiles=tuple(map(self.in_source, one.compiles))) for one in found.targets]
        by_name = {one.name: one for one in targets}
        linked = [one for one in targets if one.is_linked and one.kind != "EXECUTABLE"]
        installed = [one for one in linked if one.is_installed] or linked
        libraries = [Extension(one.file, _list_parts(one, by_name), one.links) for one in installed]
        api = judge_targets(files.python_api, libraries, self.includes)
        if doubt := found.doubt or ("" if libraries else "cmake makes no library"):
            what = f"whether its libraries keep to the limited API is not known ({doubt})"
            api = api._replace(mislabel=Mislabel(what, is_certain=False))
        return replace(files, python_api=api)

    def add_lacking(self, files: CellEvidence, lacking: LeftOff) -> CellEvidence:
        """Return evidence with what a configure step leaves off."""
        if lacking == LeftOff():
            return files
        return replace(
            files,
            off=(*files.off, *lacking.off),
            left_out=(lacking.left_out,) if lacking.left_out else (),
            unsupported=files.unsupported or lacking.unsupported,
            warnings=(*files.warnings, *lacking.warnings),
        )

    def refine_targets(
        self, files: CellEvidence, asks: Sequence[Ask], cell: Cell | None, open_: OpenFacts
    ) -> CellEvidence:
        """Return the evidence of the files with the targets that the configure step of a cell makes."""
        found = [self.look(files, one) for one in asks]
        gists = [
            one._replace(configured=one.configured._replace(asked=(), archs="", kernels=(), off=())) for one in found
        ]
        if any(one != gists[0] for one in gists):
            said = _explain_difference(asks, [one.configured for one in found], cell)
            return replace(files, warnings=(*files.warnings, said))
        known = id(files), gists[0]
        if known not in self.shown:
            refined = self.refined(files, found[0])
            if not open_.torch:
                refined = replace(refined, torch_abi=files.torch_abi)
            self.shown[known] = files, refined if open_.torch or not found[0].configured.doubt else files
        return self.shown[known][1]

    def look(self, files: CellEvidence, ask: Ask) -> Refinement:
        """Return what a configure step shows, told the architectures of the request where that makes it heed them."""
        view, call = ask.view, self.add_sabi(files, ask)
        found = Configured(doubt=call.doubt) if call.doubt else self.decide(view, call)
        asked = tuple(list_request_archs(view)) if view.accelerator else ()
        wanted = list_images(CUDA, asked)
        if not asked or (found.doubt and not found.failure):
            return Refinement(found)
        if not found.failure and images_of(found.targets).names in {frozenset[str](), wanted}:
            return Refinement(found)
        own = dict(view.env)  # the config's variables, which may tell cmake the architectures already
        if call.variable and "CUDAARCHS" not in own and VARIABLE not in own.get(call.variable, ""):
            words = f"-D{VARIABLE}={spell_for_cmake(asked)}"
            value = f"{dict(call.env).get(call.variable, '')} {words}".strip()
            told = call._replace(
                arguments=(*call.arguments, words), env=tuple({**dict(call.env), call.variable: value}.items())
            )
            tried = self.decide(view, told)
            is_heeded = not tried.doubt and images_of(tried.targets).names == wanted
            if is_heeded and (found.failure or _list_decided(tried.targets) == _list_decided(found.targets)):
                return Refinement(tried, ((call.variable, value),))
        return Refinement(found) if found.failure else _describe_own_archs(found, asked)

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
                return self.decide_apart(view, call, found[0])
        return _agree(found)

    def decide_apart(self, view: View, call: CmakeCall, yes: Configured) -> Configured:
        """Return what the configure step shows whatever each check says, if all others say yes, or all say no.

        So every two and every three answers meet, of checks that are too many to try in every way. What only four
        answers together would compile is left to the audit, which looks for torch in each wheel.
        """
        names = list(yes.checks)
        if len(names) > MAX_CHECKS:
            return _doubt_check([yes])
        found = {name: self.configurer.configure(view, call, (name,)) for name in names}
        no = tuple(name for name in names if not found[name].failure)  # without the others nothing is configured
        none = self.configurer.configure(view, call, no)
        if more := [name for name in none.checks if name not in names]:  # asked only after a no
            no = (*no, *more)
            none = self.configurer.configure(view, call, no)
        others = [tuple(name for name in no if name != one) for one in no]
        looked = [yes, *found.values(), none, *(self.configurer.configure(view, call, one) for one in others)]
        return next((one for one in looked if one.doubt), None) or _agree(looked)

    def refined(self, files: CellEvidence, found: Refinement) -> CellEvidence:
        """Return evidence with the targets of a configure step; with a warning if that shows nothing."""
        configured = found.configured
        targets = [one._replace(compiles=tuple(map(self.in_source, one.compiles))) for one in configured.targets]
        sources = (command.source for target in targets for command in target.compiles)
        written = next((name for name in sources if not self.includes.has(name)), "")
        unread = f"cmake compiles {written}, which is not in the source" if written else ""
        if doubt := configured.doubt or unread:
            return replace(files, warnings=(*files.warnings, f"{doubt}: every file of the source counts as compiled"))
        by_name = {one.name: one for one in targets}
        linked = [target for target in targets if target.is_linked]
        decided = _list_decided(tuple(targets)), found.archs
        recipe = hashlib.sha256(repr(decided if found.archs else decided[0]).encode()).hexdigest()
        switched = [f"built with {'='.join(found.switches[0])}, {WITHOUT_ARCHS}"] if found.switches else []
        return replace(
            files,
            torch_abi=self.torch_abi(targets),
            built=tuple(Extension(one.file, _list_parts(one, by_name), one.links, images=None) for one in linked),
            archs=found.archs,
            switches=(*files.switches, *found.switches),
            switches_where="; ".join(filter(None, (files.switches_where, *switched))),
            recipe=hashlib.sha256((files.recipe + recipe).encode()).hexdigest() if files.recipe else recipe,
            warnings=(*(one for one in files.warnings if not one.endswith(FORCED)), *found.told),
        )

    def cython(self, source: str) -> str | None:
        """Return the Cython file of which a generated source is made; None if there is not exactly one."""
        stem = PurePosixPath(source).name.partition(".")[0]
        found = [name for name in self.includes.tree.files if name.endswith(f"/{stem}.pyx") or name == f"{stem}.pyx"]
        return found[0] if len(found) == 1 else None

    def in_source(self, command: Compile) -> Compile:
        """Return a command with the file of the source that it compiles."""
        found = self.includes.find(command.source) or self.cython(command.source)
        return command._replace(source=found or command.source)

    def torch_abi(self, targets: Sequence[CmakeTarget]) -> TorchAbi:
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


def _list_parts(target: CmakeTarget, targets: Mapping[str, CmakeTarget]) -> tuple[Compile, ...]:
    """Return the compiler calls of a linked target, and those of the static libraries and objects in it."""
    parts, waiting = dict.fromkeys(target.compiles), list(target.needs)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        part = targets.get(name)
        if part and not part.is_linked and name not in seen:
            seen.add(name)
            parts |= dict.fromkeys(part.compiles)
            waiting += part.needs
    return tuple(parts)


def _describe_own_archs(found: Configured, asked: Sequence[str]) -> Refinement:
    """Return what a configure step shows that does not heed the request's architectures."""
    images = images_of(found.targets)
    archs = CUDA.name_archs(images.names or frozenset())
    shown = " ".join(archs or sorted(images.names or ()))
    if images.names is None:
        of_targets = "; ".join(images.differing[:MAX_NAMED]) or "those that its compiler chooses"
        said = f"it compiles for its own architectures, {of_targets}, and not for {' '.join(asked)} of the request"
    elif archs:
        said = f"its wheels are for {shown}, and not for {' '.join(asked)} of the request"
    else:
        said = f"its kernels are compiled for {shown}, which no request can name, and not for {' '.join(asked)}"
    place = f"{found.archs}: " if found.archs else f"{CONFIGURED}: no file sets {VARIABLE}: "
    return Refinement(found, archs=archs, told=(f"{place}{said}",))


def _explain_difference(asks: Sequence[Ask], found: Sequence[Configured], cell: Cell | None) -> str:
    """Return which targets differ between the versions of torch that a cell stands for, and what is asked of them."""
    first, other = next((0, index) for index, one in enumerate(found) if one.targets != found[0].targets or one.doubt)
    shown = [{one.name: one for one in found[index].targets} for index in (first, other)]
    names = [name for name in {**shown[0], **shown[1]} if shown[0].get(name) != shown[1].get(name)]
    doubt = next((one.doubt for one in found if one.doubt), "")
    what = doubt or f"cmake makes different targets ({', '.join(names[:MAX_NAMED])})"
    counted = "every file of the source counts as compiled"
    asked = {name: place for one in found for name, place in one.asked if name in {"cuda", "torch"}}
    place = next((f"{place}: " for place in asked.values()), "")
    versions = " and ".join(asks[index].view.torch for index in (first, other))
    return f"{place}{what} for torch {versions}, and {cell} stands for both: {counted}"


def _list_sabi(files: CellEvidence, view: View) -> Iterator[str]:
    """Yield what scikit-build-core tells cmake of the limited API, where the wheel of this Python declares it."""
    lowest = files.python_api.lowest
    if lowest and not view.python.free_threaded and view.python.version >= lowest:
        yield "-DSKBUILD_SABI_COMPONENT=Development.SABIModule"
        yield f"-DSKBUILD_SABI_VERSION={lowest}"


def _agree(found: Sequence[Configured]) -> Configured:
    """Return what the ways through a project's checks show, or the doubt if they differ."""
    known = [one for one in found if not one.failure]
    if not known:
        return Configured(doubt=found[0].failure, failure=found[0].failure)
    return known[0] if len({_list_decided(one.targets) for one in known}) == 1 else _doubt_check(found)


def _links_torch(target: CmakeTarget) -> bool:
    by_name = any(TORCH_LIBRARY.search(one) for one in target.links)
    return by_name or any(LINKS_TORCH in command.flags for command in target.compiles)


def _list_decided(targets: Sequence[CmakeTarget]) -> tuple[object, ...]:
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
