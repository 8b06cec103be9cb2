"""How long a project's GitHub Releases stay, and what their tags say by the template of its config. No I/O.

The retention is not a part of the request: it changes nothing that is built, and makes no recipe due.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.version import Version

from ci_tools.config.release_names import FREE_THREADED
from ci_tools.model.request import Release
from ci_tools.model.versions import read_version

if TYPE_CHECKING:
    from ci_tools.publish.retention.judgement import Stored

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


def read_namings(root: Root) -> list[Naming]:
    """Return the naming of a checked config, or of a checked recipe, and that of its free-threaded Pythons, if any."""
    release = root.get("release") or {}
    apart = release.get(FREE_THREADED) or {}
    return [_read_naming(root, release), *([_read_naming(root, {**release, **apart})] if "tag" in apart else [])]


def _read_naming(root: Root, release: Root) -> Naming:
    said = dict(release.get(KEY) or {})
    said["keep"] = tuple(said.get("keep", ()))
    package = str(root["package"])
    return Naming(package, release.get("tag", Release().tag), str(release.get("display", package)), Retention(**said))


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
# A template need not name the candidate and the rebuild.
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
        found = re.fullmatch("".join(_patterns(naming)) + ENDS, text)  # of several projects, the first that fits
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
            yield f"(?P={field})"  # the same value as before
        elif field is not None:
            seen.add(field)
            yield f"(?P<{field}>{FIELDS[field]})"


def newest_of_series(
    releases: Sequence[Stored], namings: Sequence[Naming]
) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[ReleaseTag, Stored]]:
    """Return the newest stable release by its project and series; drafts, candidates and nightlies do not count."""
    newest: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[ReleaseTag, Stored]] = {}
    for release in releases:
        tag = read_tag(release.tag, namings)
        if tag is None or release.is_draft or tag.candidate or tag.is_nightly:
            continue
        series = (tag.project, tag.series)
        known = newest.get(series)
        if known is None or (known[0].version, known[0].rebuild) < (tag.version, tag.rebuild):
            newest[series] = (tag, release)
    return newest
