"""From a plan and its finished files to release units: what is published all or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model import Edition, Route

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CORE", "Change", "Item", "Made", "Offer", "Published", "Unit"]

CORE = "core"  # the pure wheel, the sdist and every required platform


class Made(NamedTuple):
    """What a plan says of the job that made a wheel, in the words of plan.json; all that depends on none is empty."""

    job: str  # linux-cuda-cu130, pure
    kind: str  # pure, native
    platform: str  # linux-cuda; empty for the pure wheel
    python: str  # the oldest it serves, 3.10 or 3.14t
    torch: str  # the torch whose headers it was built with
    accelerator: str  # cu130, rocm7.1
    archs: tuple[str, ...]  # 9.0, 10.0+PTX; gfx942
    toolchain: str
    owner: str
    covers: tuple[str, ...]  # linux-cuda / cu130 / torch2.10 / cp312


class Item(NamedTuple):
    """One file of a release."""

    path: Path
    sha256: str
    size: int  # bytes
    made: Made | None  # None for the sdist
    folder: str = ""  # the index folder it lies in, cu130; empty: every one lists it
    also: tuple[str, ...] = ()  # the other index folders that list it

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


class Offer(NamedTuple):
    """What a release has for one combination a user may have: a file, or the reason why there is none."""

    platform: str  # linux-cuda
    accelerator: str  # cu130; empty where the platform has none
    torch: str  # 2.10; empty where the project uses no torch
    python: str  # 3.12, 3.14t
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is published all or not at all: the core, or one optional platform."""

    name: str  # core, or the platform's
    project: str
    version: str  # without a local version
    items: tuple[Item, ...]
    edition: Edition = Edition()
    commit: str = ""  # of the source; empty where that is no git checkout
    tag: str = ""  # of its GitHub Release
    title: str = ""
    route: Route = Route.NONE  # what PyPI gets of it
    offers: tuple[Offer, ...] = ()  # every combination asked for


class Change(NamedTuple):
    """One thing that publishing would change at a target, or leaves as it is."""

    what: str  # add, keep, replace, remove, update
    where: str  # an address, or a path
    detail: str = ""


class Published(NamedTuple):
    """One file at a target, and whether this run put it there."""

    file: str
    where: str  # an address, or a path
    new: bool
