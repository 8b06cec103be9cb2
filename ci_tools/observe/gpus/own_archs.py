"""Finds the architectures that a setup.py tells cmake, and the variable of a project's own that chooses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.versions import CudaArch
from ci_tools.observe.build import RAN, find_arch_warnings, list_request_archs
from ci_tools.observe.gpus.images import list_images
from ci_tools.observe.switches import OWN_ARCHS, list_arch_variables, list_definitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_tools.observe.build import ObservedBuild
    from ci_tools.observe.observation import Observed
    from ci_tools.observe.views import View

NOTATIONS = ("{number}", "{version}")  # 90, 9.0
SETTING = re.compile(r'`arch-env: \{(?P<name>\w+): "(?P<notation>[^"]+)"\}`')  # as `find_setting` returns it
# One of CUDA_ARCHITECTURES (cmake-prop_tgt(7)); without an ending it is both machine code and PTX.
ENTRY = re.compile(r"(\d{2,3}[af]?)(-real|-virtual)?")


class CmakeArchs(NamedTuple):
    """The architectures that a build tells cmake and that are not those of the request, and a warning about them."""

    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_cmake_archs(observed: Observed, view: View) -> CmakeArchs:
    """Return the architectures that the build gives cmake in its notation, as in -DNATTEN_CUDA_ARCH_LIST=90a-real.

    A list without any `-real` or `-virtual` may have a notation of the project's own, so that it says nothing.
    """
    asked = tuple(list_request_archs(view))
    for name, value in list_definitions(observed) if asked else ():
        entries = [ENTRY.fullmatch(one) for one in value.split(";")]
        found = [one for one in entries if one]
        if OWN_ARCHS.search(name) and len(found) == len(entries) and any(one[2] for one in found):
            images = {image for one in found for image in _images(one[1], one[2])}
            if images == list_images(CUDA, asked):
                return CmakeArchs()
            names = CUDA.name_archs(images)
            said = f"it gives cmake -D{name}={value}, and not {' '.join(asked)} of the request"
            return CmakeArchs(names, (f"{RAN}: {said}",))
    return CmakeArchs()


def _images(number: str, ending: str | None) -> tuple[str, ...]:
    both = {"-real": f"sm_{number}", "-virtual": f"compute_{number}"}
    return (both[ending],) if ending else (*both.values(),)


class ArchVariables:
    """The variables that choose the architectures of a project, each tried once: a build takes a second or more."""

    def __init__(self, look: Callable[[View], ObservedBuild | None]) -> None:
        self.look = look  # None: the build fails, or is not understood
        self.known: dict[tuple[object, ...], str] = {}

    def warn(self, build: ObservedBuild, view: View) -> Iterator[str]:
        """Yield the warnings about architectures, with the setting of the config that would answer them."""
        for warning in find_arch_warnings(build.built, view):
            setting = self.find_setting(build, view)
            yield f"{warning}; {setting} in the config chooses them" if setting else warning

    def find_setting(self, build: ObservedBuild, view: View) -> str:
        """Return the `arch-env` with which the machine code is what the request names; "" if none is known."""
        if view.kind != CUDA:
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
