"""Reads the GPU architectures of configured targets from their flags, and spells those of a request for cmake.

An ordinary `set(CMAKE_CUDA_ARCHITECTURES …)` hides the cache entry that `-D` makes; one with CACHE keeps it, as one
does behind `if(NOT DEFINED …)` (cmake-commands(7), set). Which of them a project does, its targets say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.versions import CudaArch
from ci_tools.observe.gpus.images import read_images

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_tools.observe.cmake.reply import CmakeTarget

VARIABLE = "CMAKE_CUDA_ARCHITECTURES"
CUDA = "CUDA"  # the language, as the file API names it


class Images(NamedTuple):
    """The device images that targets are compiled for: None where their compiler chooses, or where targets differ."""

    names: frozenset[str] | None
    differing: tuple[str, ...] = ()  # targets and their images, where they differ


def images_of(targets: Iterable[CmakeTarget]) -> Images:
    """Return the device images that all targets with CUDA sources have in common; none without such a target."""
    found: dict[str, frozenset[str] | None] = {}
    for target in targets:
        commands = [command for command in target.compiles if command.compiler == CUDA]
        if commands:
            every = [_images(command.flags) for command in commands]
            found[target.name] = every[0] if all(one == every[0] for one in every) else None
    kinds = set(found.values())
    if len(kinds) > 1:
        shown = (
            f"{name} for {' '.join(sorted(one)) if one else 'what its compiler chooses'}" for name, one in found.items()
        )
        return Images(None, tuple(shown))
    return Images(next(iter(kinds), frozenset()))


def _images(flags: Iterable[str]) -> frozenset[str] | None:
    found = read_images(flags)
    return None if found is None else frozenset(found)


def spell_for_cmake(archs: Sequence[str]) -> str:
    """Return requested architectures as CMAKE_CUDA_ARCHITECTURES names them: `90-real;100`, both kinds of code."""
    parsed = map(CudaArch.parse, archs)
    return ";".join(f"{arch.sm.removeprefix('sm_')}{'' if arch.ptx else '-real'}" for arch in parsed)
