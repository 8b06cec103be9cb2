"""Reads a TOML file of the source: its values and their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.formats.toml.text import parse_toml
from ci_tools.source.includes import SourceLine

if TYPE_CHECKING:
    from ci_tools.source.files import Tree


class TomlFile(NamedTuple):
    """A TOML file's path in the tree, its content and its lines."""

    path: str
    content: dict[str, Any]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, tree: Tree, path: str) -> TomlFile:
        """Read a file; empty if the tree does not have it. Raises InputError if it is not TOML."""
        text = tree.text(path)
        return cls(path, parse_toml(text, path), tuple(text.splitlines()))

    def value(self, *keys: str) -> Any:  # noqa: ANN401 - TOML
        """Return a value, or None if it is not set."""
        value: Any = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def table(self, *keys: str) -> dict[str, Any]:
        """Return a table; empty if it is not set."""
        value = self.value(*keys)
        return value if isinstance(value, dict) else {}

    def place(self, *words: str) -> SourceLine:
        """Return the first line that has all the words, or line 1."""
        patterns = [re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])") for word in words]
        numbers = (
            number for number, line in enumerate(self.lines, 1) if all(pattern.search(line) for pattern in patterns)
        )
        return SourceLine(self.path, next(numbers, 1))


def table(value: object, key: str) -> dict[str, Any]:
    """Return the table `key` inside another table; empty if it is not set."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
