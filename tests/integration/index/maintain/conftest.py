"""The fixtures of the quick tests of this room."""

from tests.unit.index.maintain.conftest import index, outside

__all__ = ["index", "outside"]
