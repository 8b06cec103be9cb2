"""Reads the tags of releases by the templates of configs. No I/O."""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.pep440 import read_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.version import Version

    from ci_tools.publish.retention.naming import Naming

# What may stand for each field of a template; the other fields are constants of the config.
FIELDS = {
    "name": r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
    "version": r"[0-9][0-9A-Za-z.!+]*",
    "python": r"[0-9]{2,3}t?",
    "python_title": r"[0-9.]+t?(?: \(Free-threaded\))?",
    "torch": r"[0-9]+(?:\.[0-9]+)+[0-9a-z]*",
    "cuda": r"[0-9]{2,4}",
    "cuda_version": r"[0-9]+\.[0-9]+",
    "archs": r"sm[0-9][0-9a-z]*",
    "rebuild": r"[1-9][0-9]{0,3}",
}
ENDS = r"(?:-rc(?P<_candidate>[1-9][0-9]{0,3}))?(?:-r(?P<_rebuild>[1-9][0-9]{0,3}))?"


class ReleaseTag(NamedTuple):
    """The fields of a tag, read by a project's template."""

    project: str
    series: tuple[tuple[str, str], ...]  # the fields in which releases of one version differ, such as Python
    version: Version
    candidate: int = 0  # the N of -rcN; 0: none
    rebuild: int = 0  # the N of -rN; 0: the first build

    @property
    def is_nightly(self) -> bool:
        """Whether the version is that of a nightly, such as 1.2.0.dev20261121."""
        return self.version.is_devrelease


def read_tag(text: str, namings: Sequence[Naming]) -> ReleaseTag | None:
    """Return what a tag says by the first template that gives it; None if no template does."""
    for naming in namings:
        found = re.fullmatch("".join(_patterns(naming)) + ENDS, text)
        if found is None:
            continue
        values = {name: value for name, value in found.groupdict().items() if value}
        version = read_version(values.pop("version", ""))
        if version is None:
            continue
        candidate = int(values.pop("_candidate", 0))
        rebuild = int(values.pop("_rebuild", 0) or values.pop("rebuild", 0))
        return ReleaseTag(naming.package, tuple(sorted(values.items())), version, candidate, rebuild)
    return None


def _patterns(naming: Naming) -> Iterator[str]:
    """Yield the parts of a regular expression for a template's tags."""
    constants = {"package": naming.package, "display": naming.display}
    seen: set[str] = set()
    for literal, field, *_ in Formatter().parse(naming.template):
        yield re.escape(literal)
        if field in constants:
            yield re.escape(constants[field])
        elif field in seen:
            yield f"(?P={field})"
        elif field is not None:
            seen.add(field)
            yield f"(?P<{field}>{FIELDS[field]})"
