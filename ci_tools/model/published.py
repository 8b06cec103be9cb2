"""The known facts of a wheel, published or finished: its name, its METADATA, and the names and symbols inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.names import FileName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

__all__ = ["Inside", "PublishedWheel", "Release", "Symbols"]


class Release(NamedTuple):
    """A version of a project on a package index; one without a local version names all of its local versions."""

    project: NormalizedName
    version: Version

    def __str__(self) -> str:
        """Return `demo 1.0`."""
        return f"{self.project} {self.version}"


class Symbols(NamedTuple):
    """The dynamic symbols of a library: those that other libraries see, and those that others have to define."""

    exported: frozenset[str]
    required: frozenset[str]


class Inside(NamedTuple):
    """The members of a wheel without dist-info, each with its bytes in the archive, and the symbols that were read."""

    members: Mapping[str, int]
    symbols: Mapping[str, Symbols] = {}  # by member


class PublishedWheel(NamedTuple):
    """A wheel on a package index, as far as it was read."""

    file: FileName
    label: str  # its local version, such as cu130torch2.10
    tags: frozenset[Tag]
    size: int | None = None  # bytes; None: the index does not say
    is_yanked: bool = False
    requires_python: str = ""
    requires: tuple[str, ...] | None = None  # Requires-Dist; None: its METADATA could not be read
    inside: Inside | None = None  # None: it could not be read
    unread: str = ""  # why not
