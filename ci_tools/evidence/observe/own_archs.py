"""Finds the variable of a project's own that chooses its architectures, for the config's `arch-env`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.evidence.observe.build import find_arch_warnings, list_request_archs
from ci_tools.evidence.observe.switches import list_arch_variables
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import CudaArch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_tools.evidence.observe.build import Build
    from ci_tools.evidence.observe.run import View

__all__ = ["ArchVariables"]

NOTATIONS = ("{number}", "{version}")  # 90, 9.0


class ArchVariables:
    """The variables that choose the architectures of a project, each tried once: a build takes a second or more."""

    def __init__(self, look: Callable[[View], Build | None]) -> None:
        self.look = look  # None: the build fails, or is not understood
        self.known: dict[tuple[object, ...], str] = {}

    def warn(self, build: Build, view: View) -> Iterator[str]:
        """Yield the warnings about architectures, with the setting of the config that would answer them."""
        for warning in find_arch_warnings(build.built, view):
            setting = self.find_setting(build, view)
            yield f"{warning}; {setting} in the config chooses them" if setting else warning

    def find_setting(self, build: Build, view: View) -> str:
        """Return the `arch-env` with which the machine code is what the request names; "" if none is known."""
        if view.accelerator is None or view.accelerator.kind is not AcceleratorKind.CUDA:
            return ""
        archs = tuple(map(CudaArch.parse, list_request_archs(view)))
        names = tuple(list_arch_variables(build.observed, view))
        key = (view.os, view.machine, archs, names)
        if key not in self.known:
            tried = (self.try_variable(name, text, archs, view) for name in names for text in NOTATIONS)
            self.known[key] = next(filter(None, tried), "") if archs else ""
        return self.known[key]

    def try_variable(self, name: str, text: str, archs: tuple[CudaArch, ...], view: View) -> str:
        """Return the setting if it leads to the machine code of these architectures, and of no others."""
        value = ";".join(arch.spell(text) for arch in archs)
        build = self.look(view._replace(env=(*view.env, (name, value))))
        images = {image for one in build.built for image in one.images or ("",)} if build else {""}
        found = {image for image in images if not image.startswith("compute_")}
        return f'`arch-env: {{{name}: "{text}"}}`' if found == {arch.sm for arch in archs} else ""
