"""Finds the newest stable release of each series of a project. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.publish.retention.tags import read_tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.publish.retention.judgement import Stored
    from ci_tools.publish.retention.naming import Naming
    from ci_tools.publish.retention.tags import ReleaseTag


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
