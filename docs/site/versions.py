"""The versions of the site: which releases it has, and how a reader gets from one to another."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
REDIRECT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Fatwheel</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Fatwheel's documentation</a>
</html>
"""


def newest_releases(tags: Iterable[str]) -> dict[str, str]:
    """Return the newest tag of each minor version, newest first: `{"0.2": "v0.2.1", "0.1": "v0.1.4"}`."""
    found = sorted(tuple(map(int, match.groups())) for match in map(RELEASE.fullmatch, tags) if match)
    newest = {f"{major}.{minor}": f"v{major}.{minor}.{patch}" for major, minor, patch in found}
    return dict(reversed(newest.items()))


def write_versions(site: Path, versions: Sequence[str], path: str) -> None:
    """Write the list that the theme reads, and a front page that leads to the first version.

    `path` is the place of the site on its server, from a slash to a slash.
    """
    entries = [
        {"name": version, "version": version, "url": f"{path}{version}/", "preferred": place == 0}
        for place, version in enumerate(versions)
    ]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(REDIRECT.format(version=versions[0]), encoding="utf-8")
