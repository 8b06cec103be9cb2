"""Tries both answers to what a build asks of its builder, and says which sources of the config its wheel would lack.

A file, a program or a function of the compiler is there or not, and no cell defines it. If every way through such
questions makes the same wheel, they decide nothing that a plan says; if not, they are a doubt that names the first.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ci_tools.catalog import Catalog
from ci_tools.model.evidence import Binding, CellEvidence, Extensions, LeftOut, PythonApi, TorchAbi
from ci_tools.model.request import Globs, Request
from ci_tools.observe.build import CMAKE, MAKE, ObservedBuild
from ci_tools.observe.device_code import JIT, METAL, select_kernels
from ci_tools.observe.python_label import GET_TAG
from ci_tools.observe.views import LISTED, SUPPOSED, View, is_question, is_same_everywhere, name_subject
from ci_tools.source.files import Tree, matching
from ci_tools.source.includes import COMPILED

MOST = 8  # ways that are tried
# Questions that make no difference to evidence by themselves.
UNTOLD = frozenset({"chance", CMAKE, MAKE, "free_threaded", GET_TAG, "hipify"})


class TriedWay(NamedTuple):
    """The evidence of one way, and the questions on it, in the order in which they were asked, each with its place."""

    evidence: CellEvidence
    questions: Mapping[str, str]


def decide(view: View, look: Callable[[View], TriedWay]) -> CellEvidence | str:
    """Return the evidence that all answers of a builder lead to, or why they lead to none."""
    waiting = [(view, 0)]
    found: list[CellEvidence] = []
    questions: dict[str, str] = {}
    while waiting:
        each, settled = waiting.pop()
        looked = look(each)
        found.append(looked.evidence)
        questions |= looked.questions
        is_unknown = looked.evidence.extensions is Extensions.UNKNOWN and not looked.evidence.unsupported
        if is_unknown or looked.evidence.doubt:
            return looked.evidence
        waiting += _suppose_otherwise(each, list(looked.questions), settled)
        if len(found) + len(waiting) > MOST:
            return _explain(questions)
    built = [
        one for one in found if not one.unsupported or one.is_hollow
    ] or found  # others give no wheel that is wrong
    return built[0] if len({_list_decided(one) for one in built}) == 1 else _explain(questions)


def _suppose_otherwise(view: View, questions: Sequence[str], settled: int) -> Iterator[tuple[View, int]]:
    """Yield a view for each question after the settled ones: it gets the other answer, and those before it the same.

    A build asks the same until the first answer that differs, so each way through its questions is taken once.
    """
    told = [name.removeprefix(SUPPOSED) for name in questions]
    for index in range(settled, len(told)):
        before = (name for name in told[:index] if name in view.supposed)
        yield view._replace(supposed=(*before, told[index])), index + 1


def _list_decided(one: CellEvidence) -> tuple[object, ...]:
    """Return what a plan takes from evidence, without the commands by which a library is made."""
    api = one.python_api._replace(where="", tagged_at="", mislabel=None)
    return (
        *(one.extensions, api, one.torch_abi._replace(where=""), one.unsupported),
        *(one.pure_tag, one.switches, one.build_requires, one.members, one.contents, one.metadata, one.warnings),
        *((library.member, library.images) for library in one.built),
    )


def _explain(questions: Mapping[str, str]) -> str:
    name, place = next(iter(questions.items()))
    others = f" (and {len(questions) - 1} more such)" if len(questions) > 1 else ""
    what = f"its result may depend on whether {name.removeprefix(SUPPOSED)}{others}, which no cell defines"
    return f"{place}: {what}" if place else what


def is_told(name: str) -> bool:
    """Whether a question is shown with the evidence."""
    if is_question(name):
        return not is_same_everywhere(name)
    return name not in UNTOLD and not name.startswith((SUPPOSED, LISTED))


def describe_question(name: str) -> str:
    """Return a readable name for a question."""
    if is_question(name):
        return name_subject(name)
    words = {"gpu": "whether there is a GPU", "os": "the system", "machine": "the processor", "env": "the environment",
             "python": "the version of Python",
             "torch": "the version of torch", "accelerator": "the accelerator of torch"}  # fmt: skip
    return words.get(name) or name.removeprefix("env:")


def make_unknown(where: str, unsupported: str = "", *, imports_torch: bool = False) -> CellEvidence:
    """Return evidence of a build that is not understood, so that nothing collapses, or of an unsupported one."""
    return CellEvidence(
        extensions=Extensions.UNKNOWN,
        extensions_where=where,
        python_api=PythonApi(Binding.UNKNOWN, where),
        torch_abi=TorchAbi(Binding.UNKNOWN, where, uses_torch=imports_torch),
        unsupported=unsupported,
    )


# ---------------------------------------------------------------- the sources that the config names

DECIDING = ("accelerator", "env:CUDA_HOME", "cuda", "gpu")  # questions by which a build leaves kernels out


class Owned:
    """The sources that `native` of each platform includes and excludes, relative to the project's folder."""

    def __init__(self, request: Request, tree: Tree, catalog: Catalog) -> None:
        self.tree = tree
        self.folder = request.subdirectory or "."
        self.native: dict[tuple[str, str, str], Globs] = {}
        for one in request.platforms:
            facts = catalog.platforms[one.platform]
            self.native[facts.os, facts.machine, str(facts.accelerator or "")] = one.native

    def named(self, view: View) -> frozenset[str]:
        """Return the files for a compiler that the config names as native code of the view's platform."""
        return frozenset(filter(COMPILED.search, self._matching(self._globs(view))))

    def excluded(self, view: View) -> frozenset[str]:
        """Return the files that the config excludes from the native code of the view's platform."""
        return self._matching(Globs(self._globs(view).exclude))

    def list_kernels(self, view: View) -> tuple[str, ...]:
        """Return the kernels for the platform's GPUs in the source that the config does not exclude."""
        kind = view.kind or (METAL if view.os == "macos" else None)
        return select_kernels(self.tree, kind, self.folder, self._globs(view)) if kind else ()

    def warn_of_kernels(self, build: ObservedBuild, view: View, off: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Yield a warning where a build for an accelerator compiles none of the source's kernels, with what is off.

        Kernels that its wheel holds, and that its own code hands to a compiler, are for run time.
        """
        other = build.runs_other
        kernels = () if other == CMAKE or build.observed.device_sources else self.list_kernels(view)
        if {command.source for command in build.compiles} & {*kernels}:
            return
        members = [name for name, _ in build.observed.members]
        is_jit = any(JIT.search(build.includes.text(name)) for name in self._find_packed(members, ".py"))
        if is_jit or not view.accelerator:
            kernels = tuple(one for one in kernels if one not in self._find_packed(members, one))
        if kernels and other:
            what = f"whether {kernels[0]} is compiled is not known"
            yield f"{what}; its build runs {other} ({build.observed.asked[other]})"
        elif kernels:
            names = ", ".join(f"{name} ({place})" for name, place in off)
            listed = f"; off by default: {names}" if names else ""
            asked = [f"{describe_question(name)} ({at})" for name in DECIDING if (at := build.observed.asked.get(name))]
            by = f"; its build asks for {' and '.join(asked)}" if asked and not names else ""
            yield f"no kernel is compiled for it, though the source has {kernels[0]}{listed}{by}"

    def warn_of_libraries(self, build: ObservedBuild) -> Iterator[str]:
        """Yield a warning for each library that package_data lists, but neither the source has nor the build makes."""
        for name, place in build.observed.asked.items():
            library = name.removeprefix(LISTED)
            if library != name and not any(member.endswith(library) for member, _ in build.observed.members):
                who = "nor does this build make it (a command of `build: {before: […]}` can)"
                yield f"{place}: package_data lists {library}: the source does not have it, {who}"

    def _find_packed(self, members: Iterable[str], ending: str) -> frozenset[str]:
        """Return the files of the source with an ending that a wheel holds, below whatever folder they are there."""
        packed = tuple(f"/{one}" for one in members if one.endswith(ending) or ending.endswith(one))
        return frozenset(name for name in self.tree.files if packed and f"/{name}".endswith(packed))

    def in_tree(self, source: str) -> str:
        """Return a source as it is named from the root of the tree."""
        return posixpath.normpath(posixpath.join(self.folder, source))

    def _matching(self, globs: Globs) -> frozenset[str]:
        return frozenset(posixpath.relpath(name, self.folder) for name in matching(self.tree.files, globs))

    def _globs(self, view: View) -> Globs:
        kind = str(view.kind or "")
        return self.native.get((view.os, view.machine, kind), Globs(()))


def explain_loss(lost: Sequence[LeftOut]) -> str | None:
    """Return why a build without a GPU cannot be used; None if it compiles all that one with a GPU would."""
    if not lost:
        return None
    first = lost[0]
    return f"without a GPU its build leaves {first.source} out, and no switch for that is known ({first.where})"
