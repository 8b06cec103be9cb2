"""The two files of the guide "Your own wheel house", which tests follow, and a package that a house may build."""

from __future__ import annotations

import re

from tests.builders.walkthroughs import REPOSITORY, Block, read_blocks

PAGE = REPOSITORY / "docs" / "how-to" / "run-a-wheel-house.md"
PROJECT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"

[project]
name = "{}"
version = "1.0"
description = "Hello."
license = "MIT"
requires-python = ">=3.10"
"""
SOURCE = re.compile(r"https://github\.com/their-org/hello-native")


def read_template() -> tuple[str, str]:
    """Return the workflow and the recipe of the guide, as they are written there."""
    workflow, recipe = (block.text for block in read_blocks(PAGE) if block.language in {"yml", "yaml"})
    return workflow, recipe


def read_typed() -> list[Block]:
    """Return the commands of the guide, without the indent of its list."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^ {3}```console\n(.*?)^ {3}```", text, re.DOTALL | re.MULTILINE)
    return [Block("", "console", re.sub(r"^ {3}", "", part, flags=re.MULTILINE)) for part in found]


def flit_project(name: str) -> str:
    """Return the pyproject.toml of a pure package of that name, at version 1.0."""
    return PROJECT.format(name)


def with_source(recipe: str, address: str) -> str:
    """Return the recipe with another repository of its source."""
    changed, count = SOURCE.subn(address, recipe)
    assert count == 1, recipe
    return changed
