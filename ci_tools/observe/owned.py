"""The sources that the config names for a platform, or excludes, and the loss of a wheel without some of them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Extensions
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.request import Globs
from ci_tools.observe.observation import DEVICE_ENDINGS
from ci_tools.source.files import matching
from ci_tools.source.includes import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.model.evidence import LeftOut
    from ci_tools.model.request import Request
    from ci_tools.observe.build import Build
    from ci_tools.observe.views import View
    from ci_tools.source.files import Tree


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
        """Return the kernels of CUDA in the source that the config does not exclude; none for another platform."""
        if view.accelerator is None or view.accelerator.kind is not AcceleratorKind.CUDA:
            return ()
        excluded = set(map(self.in_tree, self.excluded(view)))
        return tuple(sorted(name for name in self.tree.files if name.endswith(".cu") and name not in excluded))

    def warn_of_kernels(self, build: Build, view: View, off: Sequence[tuple[str, str]]) -> Iterator[str]:
        """Yield a warning where a build for an accelerator compiles none of the source's kernels, with what is off.

        Where it compiles nothing at all, the kernels may be for run time: then only switches that are off are listed.
        """
        if not view.accelerator or build.runs_cmake or build.observed.device_sources:
            return
        names = ", ".join(f"{name} ({place})" for name, place in off)
        listed = f"; off by default: {names}" if names else ""
        if build.extensions is Extensions.NONE:
            if listed and any(name.endswith(DEVICE_ENDINGS) for name in self.tree.files):
                yield f"nothing is compiled for it{listed}"
        elif kernels := self.list_kernels(view):
            yield f"no kernel is compiled for it, though the source has {kernels[0]}{listed}"

    def in_tree(self, source: str) -> str:
        """Return a source as it is named from the root of the tree."""
        return posixpath.normpath(posixpath.join(self.folder, source))

    def _matching(self, globs: Globs) -> frozenset[str]:
        return frozenset(posixpath.relpath(name, self.folder) for name in matching(self.tree.files, globs))

    def _globs(self, view: View) -> Globs:
        kind = str(view.accelerator.kind) if view.accelerator else ""
        return self.native.get((view.os, view.machine, kind), Globs(()))


def explain_loss(lost: Sequence[LeftOut]) -> str | None:
    """Return why a build without a GPU cannot be used; None if it compiles all that one with a GPU would."""
    if not lost:
        return None
    first = lost[0]
    return f"without a GPU its build leaves {first.source} out, and no switch for that is known ({first.where})"
