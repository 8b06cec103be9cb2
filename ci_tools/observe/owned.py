"""The sources that the config names for a platform, or excludes, and the loss of a wheel without some of them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ci_tools.model.request import Globs
from ci_tools.observe.build import CMAKE
from ci_tools.observe.device_code import JIT, METAL, select_kernels
from ci_tools.observe.suppositions import describe_question
from ci_tools.source.files import matching
from ci_tools.source.includes import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.model.evidence import LeftOut
    from ci_tools.model.request import Request
    from ci_tools.observe.build import ObservedBuild
    from ci_tools.observe.views import View
    from ci_tools.source.files import Tree


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
