"""Compares what is inside a published wheel with what is, or will be, inside one of the plan: members and symbols.

The name of an extension module says for which Python and system it is. Without that, the modules of two wheels have the
same names, and so have libraries that a repair tool copied in and named by their content.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.wheel import GRAFTED
from ci_tools.model.names import Name
from ci_tools.model.plan import JobKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ci_tools.model.plan import Job
    from ci_tools.model.published import Inside

    Parts = Mapping["Kind", Mapping[str, str]]  # by kind, each common name with the member's own

__all__ = ["Difference", "Kind", "SymbolDifference", "compare_parts", "compare_symbols", "expect_parts", "sort_members"]

LIBRARY = re.compile(r"\.(?:so(?:\.\d+)*|pyd|dylib|dll)$")
INSTALLED = re.compile(r"^[^/]+\.data/(?:(?:purelib|platlib)/)?")  # PEP 427
DEBUG = ".dSYM/"  # the debug information of a library on macOS, in a file of its name
HASHED = re.compile(r"-[0-9a-f]{8,}$")  # auditwheel and delvewheel name a library by its content


class Kind(Name):
    """The kinds of members that are compared apart."""

    MODULE = "extension module"
    GRAFTED = "grafted library"
    PYTHON = "Python file"
    OTHER = "other file"


class Difference(NamedTuple):
    """The members of one kind that only one side has, by their common names, and the number that both have.

    If those of the plan are not known before a build, all published ones are `published_only`.
    """

    kind: Kind
    published_only: tuple[str, ...]
    planned_only: tuple[str, ...] | None  # None: not known before a build
    both: int


class SymbolDifference(NamedTuple):
    """The dynamic symbols of one extension module that only one side exports or requires."""

    module: str
    published_exports: tuple[str, ...]
    planned_exports: tuple[str, ...]
    published_requires: tuple[str, ...]
    planned_requires: tuple[str, ...]


def sort_members(members: Iterable[str]) -> Parts:
    """Return the members of a wheel by kind, each with its common name."""
    parts: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
    for member in members:
        kind, name = _classify(member)
        parts[kind].setdefault(name, member)
    return parts


def _classify(member: str) -> tuple[Kind, str]:
    path = INSTALLED.sub("", member)
    folder, slash, base = path.rpartition("/")
    stem = base.partition(".")[0]
    if GRAFTED.search(path):
        return Kind.GRAFTED, HASHED.sub("", stem)
    if LIBRARY.search(base) and DEBUG not in path:
        return Kind.MODULE, f"{folder}{slash}{stem}"
    return (Kind.PYTHON if base.endswith(".py") else Kind.OTHER), path


def expect_parts(job: Job) -> Parts:
    """Return the members that a job's wheel will have, by kind, without the kinds that are not known before a build."""
    if job.members is not None:
        parts = sort_members(job.members)
        return {kind: names for kind, names in parts.items() if kind is not Kind.GRAFTED or names}
    if job.libraries is not None or job.kind is JobKind.PURE:
        return {Kind.MODULE: sort_members(one.member for one in job.libraries or ())[Kind.MODULE]}
    return {}


def compare_parts(planned: Parts, published: Parts) -> tuple[Difference, ...]:
    """Return the difference of each kind of members."""
    return tuple(_compare_kind(kind, planned.get(kind), published[kind].keys()) for kind in Kind)


def _compare_kind(kind: Kind, planned: Mapping[str, str] | None, published: AbstractSet[str]) -> Difference:
    if planned is None:
        return Difference(kind, tuple(sorted(published)), None, 0)
    ours = planned.keys()
    only = tuple(sorted(published - ours)), tuple(sorted(ours - published))
    return Difference(kind, *only, len(ours & published))


def compare_symbols(planned: Inside, published: Inside) -> Iterator[SymbolDifference]:
    """Yield the difference of each extension module whose symbols are known of both, also where there is none."""
    ours, theirs = (sort_members(inside.symbols)[Kind.MODULE] for inside in (planned, published))
    for module in sorted(ours.keys() & theirs.keys()):
        own, other = planned.symbols[ours[module]], published.symbols[theirs[module]]
        yield SymbolDifference(
            module,
            tuple(sorted(other.exported - own.exported)),
            tuple(sorted(own.exported - other.exported)),
            tuple(sorted(other.required - own.required)),
            tuple(sorted(own.required - other.required)),
        )
