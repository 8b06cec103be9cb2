"""Finds phrases to avoid in docstrings, comments, messages, workflow steps and documentation."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from ci_tools.formats.toml import parse_toml

TABLE = Path(__file__).with_name("phrases.toml")
SENTENCE = re.compile(r"(?<=[.;:!?])\s+(?=[A-Z\"`])|\n\s*\n|\n\s*[-*#|] ")
QUOTED = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)  # code, and what others say


class Phrase(NamedTuple):
    """A phrase to avoid, what to write instead, and the places where it counts (empty: everywhere)."""

    pattern: re.Pattern[str]
    instead: str
    places: frozenset[str]


class Text(NamedTuple):
    """A text that people read: where it begins and the kind of place."""

    path: str
    line: int
    place: str
    text: str


class Finding(NamedTuple):
    """A phrase that was found."""

    where: str
    sentence: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.sentence!r}: write {self.instead}"


def find_phrases(root: Path) -> Iterator[Finding]:
    """Yield each phrase to avoid in the files that git tracks below `root`."""
    phrases = read_phrases()
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        for text in _texts(root / name, name):
            yield from _findings(text, phrases)


def read_phrases() -> tuple[Phrase, ...]:
    """Return the phrases of the table."""
    rows = parse_toml(TABLE.read_text(encoding="utf-8"), TABLE.name)["phrases"]
    return tuple(
        Phrase(re.compile(row["phrase"], re.IGNORECASE), row["instead"], frozenset(row.get("in", ()))) for row in rows
    )


def _findings(text: Text, phrases: tuple[Phrase, ...]) -> Iterator[Finding]:
    for start, sentence in _sentences(QUOTED.sub(_blank, text.text)):
        plain = " ".join(sentence.split())
        for phrase in phrases:
            found = phrase.pattern.search(plain)
            if found and (not phrase.places or text.place in phrase.places):
                words = re.search(r"\s+".join(map(re.escape, found[0].split())), sentence)
                line = text.line + text.text.count("\n", 0, start + (words.start() if words else 0))
                shown = plain[max(found.start() - 30, 0) : found.end() + 30]
                yield Finding(f"{text.path}:{line}", shown, phrase.instead)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence with its offset in the text."""
    start = 0
    for mark in SENTENCE.finditer(text):
        yield start, text[start : mark.start()]
        start = mark.end()
    yield start, text[start:]


def _blank(code: re.Match[str]) -> str:
    return "`" + re.sub(r"[^\n]", "x", code[0][1:-1]) + "`"


def _texts(path: Path, name: str) -> Iterator[Text]:
    if name.startswith("ci_tools/") and path.suffix == ".py":
        yield from _of_python(path.read_text(encoding="utf-8"), name)
    elif path.suffix in {".yml", ".yaml"} and (name.startswith(".github/") or name == "action.yml"):
        yield from _of_workflow(path.read_text(encoding="utf-8"), name)
    elif path.suffix == ".md" and name != "CHANGELOG.md":
        yield Text(name, 1, "docs", path.read_text(encoding="utf-8"))


def _of_python(source: str, name: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 1:
            yield Text(name, node.lineno, "python", node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(name, token.start[0], "python", token.string.lstrip("# "))


def _of_workflow(source: str, name: str) -> Iterator[Text]:
    for node in _mappings(yaml.compose(source)):
        for key, value in node.value:
            if key.value in {"name", "description"} and isinstance(value, yaml.ScalarNode) and " " in value.value:
                yield Text(name, value.start_mark.line + 1, "steps" if key.value == "name" else "text", value.value)


def _mappings(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _mappings(value)
