"""Reads a YAML file as plain values, with the line and column of each of them.

It is stricter than YAML: one document, no duplicate keys, no tags, no expansion beyond `MAX_VALUES`. A number with a
decimal point stays text, so that `python: [3.10]` means 3.10.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import yaml

from ci_tools.errors import InputError, Problem, RejectedInput

Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | bool | None"
Keys: TypeAlias = "tuple[str | int, ...]"

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000  # a request for 100,000 cells needs a few hundred
DEEPEST = 40
MOST_BRACKETS = 2 * DEEPEST  # within each other
CORE = "tag:yaml.org,2002:"
TEXT_TAGS = frozenset(CORE + tag for tag in ("str", "float", "timestamp", "merge", "value"))
BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+")
# What libyaml reads otherwise than PyYAML, or places elsewhere: characters beside printable text and line feeds, tags,
# explicit keys, comments at an indicator, empty values in brackets, and no line feed at the end. What stands before
# GitHub's `!` and `!=` is never before a tag.
PECULIAR = re.compile(
    r"[^\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
    r"|(?<![\w)\].(])(?<!\$\{\{ )(?<!&& )(?<!\|\| )!(?!= )|(?<![\w'\")\]] )(?<![\w)\].])!= "
    r"|\?|[|>][-+0-9]*#|:[ \n]*[]},]|[^\n]\Z"
)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # escapes such as "\\0" can produce these


class YamlPlace(NamedTuple):
    """The place of a value or a key; line and column count from 1."""

    line: int
    column: int
    file: str

    def __str__(self) -> str:
        """Return `file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


class Document(NamedTuple):
    """A parsed file: its values, and the place of each value and key."""

    name: str
    value: Value
    values: Mapping[Keys, YamlPlace]
    keys: Mapping[Keys, YamlPlace]

    def where(self, keys: Keys = (), *, key: bool = False) -> str:
        """Return `file:line:column` of the value at `keys`, or of its key; of the nearest parent if it has none."""
        table = self.keys if key else self.values
        while keys and keys not in table:
            keys = keys[:-1]
        return str(table.get(keys, YamlPlace(1, 1, self.name)))

    def replace_part(self, keys: Keys, part: Document) -> Document:
        """Return this document with another one as its value at `keys`; every value keeps its original place."""
        return Document(
            self.name,
            _replace_value(self.value, keys, part.value),
            {**_outside(self.values, keys), **{(*keys, *inner): place for inner, place in part.values.items()}},
            {**_outside(self.keys, keys, 1), **{(*keys, *inner): place for inner, place in part.keys.items()}},
        )


def _replace_value(value: Value, keys: Keys, part: Value) -> Value:
    """Return a mapping of mappings with another value at `keys`."""
    if not keys:
        return part
    table = value if isinstance(value, dict) else {}
    return {**table, str(keys[0]): _replace_value(table.get(str(keys[0])), keys[1:], part)}


def _outside(places: Mapping[Keys, YamlPlace], keys: Keys, below: int = 0) -> dict[Keys, YamlPlace]:
    """Return the places except those at least `below` levels under `keys`; with 0, `keys` itself is dropped, too."""
    return {at: place for at, place in places.items() if at[: len(keys)] != keys or len(at) < len(keys) + below}


def read(path: Path, name: str) -> Document:
    """Read the YAML file at `path`, called `name` in messages; raise InputError with every mistake in it."""
    return parse(text_of(path, name), name)


def parse(text: str, name: str, most: int = MAX_VALUES, *, by_core: bool = False) -> Document:
    """Read a YAML text of at most `most` values; raise InputError with every mistake in it.

    By the core schema of YAML 1.2, as GitHub reads workflows, `yes` is a text, and 3.10 the number 3.1.
    """
    node = compose(text, name)
    if node is None:
        raise InputError(f"{name} is empty", hint="`fatwheel init` writes a starter from what it finds in the source")
    reader = _Reader(name, most, by_core=by_core)
    value = reader.value(node, ())
    if reader.problems:
        raise RejectedInput(reader.problems)
    return Document(name, value, reader.values, reader.keys)


def text_of(path: Path, name: str, kind: str = "a YAML file") -> str:
    """Return the file's text; raise InputError if it is not a regular file, unreadable, too large or not UTF-8."""
    if path.is_dir():
        raise InputError(f"{name} is a folder, expected {kind}")
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise InputError(f"{name} is not a regular file, expected {kind}")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text: byte {error.start} is not UTF-8, expected {kind}") from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise InputError(f"{name} is larger than {MAX_BYTES:,} bytes, expected a config written by a person")
    return text


def compose(text: str, name: str) -> yaml.Node | None:
    """Return the document's root node; raise RejectedInput with the place of the syntax error."""
    try:
        return _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"
        reason = ", ".join(filter(None, (error.context, error.problem)))
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        where = f"{name}:{before.count(chr(10)) + 1}:{error.position - before.rfind(chr(10))}"
        reason = f"the character U+{ord(text[error.position]):04X} is not allowed in it"
    except RecursionError:
        where, reason = f"{name}:1:1", "values are nested too deep"
    except (OverflowError, ValueError):  # raised by PyYAML for "\UFFFFFFFF"
        where, reason = f"{name}:1:1", "an escape in it is of no character"
    raise RejectedInput([Problem(where, f"this is not YAML: {reason}")])


@functools.lru_cache(maxsize=16)  # a command reads the same config for its values, for its places and for an edit
def _compose(text: str) -> yaml.Node | None:
    """Return the document's root node, which nobody may change.

    libyaml reads usual text. PyYAML itself reads the rest, and says what is wrong with what libyaml refuses.
    """
    if yaml.__with_libyaml__ and not PECULIAR.search(text):
        with contextlib.suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=yaml.CSafeLoader)
    return yaml.compose(text, Loader=_Loader)


class _Loader(yaml.SafeLoader):
    """PyYAML's, which looks at every open bracket at each of its tokens; some are more than anybody needs."""

    def fetch_flow_collection_start(self, TokenClass: type) -> None:  # noqa: N803 - its name
        if self.flow_level > MOST_BRACKETS:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass)


class _Reader:
    """Converts nodes into values, records their places and collects problems."""

    def __init__(self, name: str, most: int, *, by_core: bool) -> None:
        self.name = name
        self.most = most
        self.by_core = by_core
        self.problems: list[Problem] = []
        self.values: dict[Keys, YamlPlace] = {}
        self.keys: dict[Keys, YamlPlace] = {}
        self.count = 0
        self.printable: set[int] = set()

    def problem(self, node: yaml.Node, what: str) -> None:
        self.problems.append(Problem(str(self.place(node)), what))

    def place(self, node: yaml.Node) -> YamlPlace:
        return YamlPlace(*position(node), self.name)

    def value(self, node: yaml.Node, keys: Keys) -> Value:
        self.count += 1
        if self.count > self.most or len(keys) > DEEPEST:
            what = f"aliases expand to more than {self.most:,} values or {DEEPEST} levels, expected a plain config"
            raise RejectedInput([Problem(str(self.place(node)), what)])
        self.values.setdefault(keys, self.place(node))
        if isinstance(node, yaml.MappingNode) and node.tag == CORE + "map":
            return self.mapping(node, keys)
        if isinstance(node, yaml.SequenceNode) and node.tag == CORE + "seq":
            return [self.value(item, (*keys, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        self.refuse_tag(node)
        return None

    def refuse_tag(self, node: yaml.Node) -> None:
        self.problem(node, f'the YAML tag "{short(node.tag)}" is not allowed, expected a plain value')

    def mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(key_node, "a key must be a plain word")
                continue
            self.scalar(key_node)
            name = key_node.value
            path = (*keys, name)
            if name in result:
                self.problem(key_node, f'the key "{name}" is here twice, first on line {self.keys[path].line}')
            self.keys.setdefault(path, self.place(key_node))
            result[name] = self.value(value_node, path)
        return result

    def scalar(self, node: yaml.ScalarNode) -> Value:
        text: str = node.value
        unprintable = None if id(node) in self.printable else UNPRINTABLE.search(text)
        self.printable.add(id(node))  # of an alias the text is searched once
        if unprintable:
            self.problem(
                node, f"the character U+{ord(unprintable[0]):04X} is not allowed here, expected printable text"
            )
        if self.by_core and not node.style and FLOAT.fullmatch(text):
            return int(text, 0) if text[1] in "ox" else float(text)  # type: ignore[return-value]  # no config has one
        if node.tag == CORE + "bool" and text.lower() in (BOOLEANS if not self.by_core else {"true", "false"}):
            return BOOLEANS[text.lower()]
        if node.tag == CORE + "null":
            return None
        if node.tag == CORE + "int":
            return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
        if node.tag not in TEXT_TAGS and not (self.by_core and node.tag == CORE + "bool"):
            self.refuse_tag(node)
        return text


def position(node: yaml.Node) -> tuple[int, int]:
    """Return the node's line and column, counted from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def short(tag: str) -> str:
    """Return a tag in the notation of YAML files, such as `!!set` or `!mine`."""
    return tag.replace(CORE, "!!", 1)
