"""An index with releases, for what adds to it and promotes from it."""

from __future__ import annotations

from tests.unit.index.maintain.conftest import index, outside

__all__ = ["index", "outside"]  # fixtures
