"""Tables about the GitHub Releases of a repository: which stay, which are removed, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_tools.cli.tables.layout import Table, add_row, count, filled, new_table, readable_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.publish.retention.judgement import Judged
    from ci_tools.publish.retention.removal import Removed
    from ci_tools.publish.retention.tags import Naming


def judged_tables(judged: Sequence[Judged], namings: Sequence[Naming]) -> Iterator[Table]:
    """Yield every release with its fate, and then what each project has of its quota."""
    table = new_table(count(len(judged), "release"), "tag", "project", "assets", "size", "", "why")
    for one in judged:
        release, project = one.release, one.tag.project if one.tag else ""
        size = readable_size(release.size)
        add_row(table, release.tag or "none", project, f"{len(release.assets):,}", size, one.fate.value, one.reason)
    yield table
    sums = new_table("quotas", "project", "releases", "assets", "of", "size", "of")
    for naming in namings:
        own = [one.release for one in judged if one.tag and one.tag.project == naming.package and one.release.is_ours]
        most, assets = naming.retention, sum(len(one.assets) for one in own)
        whole = readable_size(sum(one.size for one in own))
        if own:
            add_row(sums, naming.package, len(own), f"{assets:,}", f"{most.assets:,}", whole, f"{most.gigabytes:g} GB")
    yield from filled(sums)


def judged_values(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return every release with its fate as JSON values."""
    return [
        {
            "tag": one.release.tag,
            "project": one.tag.project if one.tag else None,
            "version": str(one.tag.version) if one.tag else None,
            "assets": len(one.release.assets),
            "size": one.release.size,
            "fate": one.fate.value,
            "reason": one.reason,
        }
        for one in judged
    ]


def removed_table(removed: Sequence[Removed]) -> Iterator[Table]:
    """Yield the result for each release that was to be removed."""
    number = sum(one.outcome == "removed" for one in removed)
    yield new_table(f"{count(number, 'release')} removed", "tag", "", "why", rows=removed)
