"""The nodes of an untrusted YAML file: each is read once, so aliases cost nothing.

Names that GitHub would not accept are ignored, and control characters are removed from every text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
SECRET = re.compile(r"\bsecrets\s*(?:\.\s*|\[\s*['\"])([A-Za-z_][A-Za-z0-9_]*)")
OWN_TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of a secret that every run has


def one_line(text: str, most: int = 200) -> str:
    """Return an untrusted text as one printable line that a runner does not take for a command."""
    line = "".join(char if char.isprintable() else " " for char in text[: most + 1]).replace("##[", "# #[")
    return line if len(line) <= most else f"{line[:most]}…"


def secrets_in(nodes: Iterable[yaml.Node]) -> frozenset[str]:
    """Return the names of secrets in the expressions of nodes, in upper case, since GitHub ignores case."""
    expressions = (part.partition("}}")[0] for text in list_texts(nodes) for part in text.split("${{")[1:])
    names = (found.upper() for expression in expressions for found in SECRET.findall(expression))
    return frozenset(names) - {OWN_TOKEN}


def list_texts(nodes: Iterable[yaml.Node]) -> Iterator[str]:
    """Yield every text below some nodes; each node is visited once, however many aliases it has."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def list_pairs(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """Return the keys and values of a mapping whose keys are scalars; empty for any other node."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return [(key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)]


def children_of(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return the values of a mapping by their keys; empty for any other node."""
    return {key.value: value for key, value in list_pairs(node)}


def list_items(node: yaml.Node | None) -> list[yaml.Node]:
    """Return the items of a sequence; empty for any other node."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def list_events(node: yaml.Node | None) -> list[str]:
    """Return the events of `on:`, which may be one name, a list, or a mapping."""
    names = children_of(node) or [text_of(item) for item in list_items(node)] or [text_of(node)]
    return [name for name in names if NAME.fullmatch(name)]


def text_of(node: yaml.Node | None) -> str:
    """Return the text of a scalar;  for any other node."""
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def line_of(node: yaml.Node) -> int:
    """Return the line of a node in its file, counted from 1."""
    return int(node.start_mark.line) + 1
