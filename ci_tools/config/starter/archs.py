"""Chooses the GPU architectures that a starter asks for: those that the project compiles for, or the usual ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.observe.gpus.images import list_images
from ci_tools.observe.gpus.own_archs import SETTING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.model.evidence import CellEvidence
    from ci_tools.model.platforms import AcceleratorKind


class Archs(NamedTuple):
    """The architectures that a project chooses itself, if any, and the variable of its own that would choose others."""

    names: tuple[str, ...] = ()
    variable: tuple[str, str] | None = None  # with the notation of `arch-env`


def choose_archs(shown: CellEvidence, asked: Sequence[str], kind: AcceleratorKind) -> Archs:
    """Return what a build is for that was asked for some architectures, as PyTorch's own builds are."""
    images = {image for one in shown.built for image in one.images or ()}
    if not shown.archs and (not images or images == list_images(kind, asked)):
        return Archs()
    own = kind.name_archs(images)
    found = next(filter(None, map(SETTING.search, shown.warnings)), None)
    return Archs(shown.archs or own, (found["name"], found["notation"]) if found else None)
