"""An index over the files of another place: pages alone, and the files stay on GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.storage import write_atomically
from ci_tools.targets import releaseindex

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.outside import Outside

__all__ = ["write_pages"]


def write_pages(address: str, project: str, out: Path, outside: Outside) -> tuple[Path, ...]:
    """Write an index of a project's GitHub Releases into a folder, and return its pages; the files stay on GitHub."""
    kind, _, repository = address.partition(":")
    if kind != "github" or not repository:
        msg = f'"{address}" has no releases to make an index of, expected github:OWNER/REPO'
        raise InputError(msg)
    from ci_tools.targets.github import GitHubTarget  # noqa: PLC0415 - no other verb needs its client

    pages = releaseindex.pages(GitHubTarget(repository, outside).linked(project))
    for name, content in pages.items():
        with write_atomically(out / name) as sink:
            sink.write(content)
    return tuple(out / name for name in sorted(pages))
