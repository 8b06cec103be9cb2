"""How long a project's GitHub Releases stay, as `release: retention` of its config says, and the tags it gives them.

It is not a part of the request: it changes nothing that is built, and makes no recipe due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.model.request import Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    Root = Mapping[str, Any]

KEY = "retention"


class Retention(NamedTuple):
    """What stays of a project's releases; stable ones always do."""

    nightlies: int = 7  # of each series: of the same Python, torch and CUDA, where the tag names them
    keep: tuple[str, ...] = ()  # patterns of tags, as in a shell
    gigabytes: float = 10  # of 10^9 bytes, of all assets together
    assets: int = 1000  # of all releases together


class Naming(NamedTuple):
    """The template of a project's tags, with what its constant fields stand for, and the retention of its releases."""

    package: str
    template: str
    display: str
    retention: Retention


def read_naming(root: Root) -> Naming:
    """Return the naming of a checked config, or of a checked recipe."""
    release = root.get("release") or {}
    said = dict(release.get(KEY) or {})
    said["keep"] = tuple(said.get("keep", ()))
    package = str(root["package"])
    return Naming(package, release.get("tag", Release().tag), str(release.get("display", package)), Retention(**said))
