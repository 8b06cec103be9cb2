"""GitHub Releases as a target: drafts, uploads, limits, and the lists of files that an index is made of."""

from __future__ import annotations

from ci_tools.publish.targets.github_release.target import GitHubTarget

__all__ = ["GitHubTarget"]
