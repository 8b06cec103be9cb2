"""Decides which releases of recipes are due, by what is published. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ci_tools.errors import FatwheelError


class State(str, Enum):
    """Whether a release is due, published already, impossible, or not known."""

    DUE = "due"
    DONE = "done"
    CANNOT = "cannot"
    UNKNOWN = "unknown"


class WantedRelease(NamedTuple):
    """A release that a recipe, or news of upstream, asks for."""

    recipe: str
    tag: str
    title: str
    request: str  # the hash of what its config asks for
    version: str
    python: str  # 3.13, or several with commas; so are the next three
    torch: str
    cuda: str
    archs: str
    why: str  # what asks for it
    runner: tuple[str, ...] = ()  # the labels of the runner that builds it, its image and its time limit
    container: str = ""
    minutes: int = 0
    cannot: str = ""  # why no wheel is possible


class DueVerdict(NamedTuple):
    """A release, whether it is due, and the reason."""

    state: State
    reason: str
    wanted: WantedRelease
    rebuild: int = 0  # the number of the rebuild that is due; 0: the first build
    age: float = math.inf  # how many releases are newer than the one that it replaces
    error: FatwheelError | None = None  # why it is not known


def decide(wanted: WantedRelease, published: Mapping[str, str]) -> DueVerdict:
    """Return whether a release is due; `published` has each tag, newest first, with its request's hash, "" if unknown.

    Nothing is built for nothing: what has its tag is due again only if what its config asks for has changed since.
    """
    if wanted.cannot:
        return DueVerdict(State.CANNOT, wanted.cannot, wanted)
    if wanted.tag not in published:
        return DueVerdict(State.DUE, wanted.why, wanted)
    numbers = {0: wanted.tag} | {
        int(found[1]): tag
        for tag in published
        if (found := re.fullmatch(rf"{re.escape(wanted.tag)}-r(\d{{1,4}})", tag))
    }
    newest = max(numbers)
    known = published[numbers[newest]]
    if not known:
        return DueVerdict(State.DONE, f"{numbers[newest]} is published; which recipe made it is not known", wanted)
    if known == wanted.request:
        return DueVerdict(State.DONE, f"{numbers[newest]} is published, by the same recipe", wanted)
    age = list(published).index(numbers[newest])
    return DueVerdict(State.DUE, f"the recipe has changed since {numbers[newest]}", wanted, newest + 1, age)
