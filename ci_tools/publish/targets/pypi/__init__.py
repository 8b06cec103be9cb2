"""PyPI as a target, and every other index with its upload API."""

from __future__ import annotations

from ci_tools.publish.targets.pypi.target import PyPITarget, archive_of

__all__ = ["PyPITarget", "archive_of"]
