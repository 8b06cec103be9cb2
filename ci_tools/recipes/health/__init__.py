"""How the builds of recipes and platforms have gone: their lines, a page and a badge."""

from __future__ import annotations

from ci_tools.recipes.health.history import KnownConfig, Line, list_lines, summarize
from ci_tools.recipes.health.page import write_badge, write_page

__all__ = ["KnownConfig", "Line", "list_lines", "summarize", "write_badge", "write_page"]
