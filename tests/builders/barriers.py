"""What axe-core finds in a page that keeps somebody out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A scheme changes colours only, and these are the rules that look at them.
# Source: axe-core, "Rule Descriptions", the tag cat.color of WCAG 2 level A and AA.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
FIND = """([within, options]) =>
  axe.run(within.length ? within : document, { resultTypes: ["violations"], ...options }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)))"""


def find_barriers(page: Page, *within: str, colours_only: bool = False) -> list[str]:
    """Return what axe finds in a page, or in its elements of these selectors, each with the element it is about."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-core looks for barriers")
    if page.evaluate("typeof axe") == "undefined":  # a page that stays keeps it
        page.evaluate(axe.AXE_SCRIPT)
    found: list[str] = page.evaluate(FIND, [within, COLOURS if colours_only else {}])
    return found
