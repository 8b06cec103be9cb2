"""Reads one table of a TOML file as plain values, with the line and column of each of them.

tomllib reads the values, and says of no value where it is. So a scanner goes over the text once tomllib has accepted
it, and notes where keys and values begin; it needs no care for mistakes (the grammar is that of TOML 1.0.0).

As in `yaml_file`, a number with a decimal point stays text, so that `python = [3.10]` means 3.10, and so does a date.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path

from ci_tools.errors import InputError
from ci_tools.formats.toml import parse_toml
from ci_tools.formats.yaml_file import Document, Keys, Value, YamlPlace, text_of

GAP = re.compile(r"[ \t]*")
BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' + r"|'''.*?'''(?:'{0,2})" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'", re.DOTALL
)
WORD = re.compile(r"[A-Za-z0-9_-]+")
PLAIN = re.compile(r"[^,\]}\s#]+(?: [0-9][^,\]}\s#]*)?")  # a number, a boolean, or a date, in which a blank may be
BEYOND = 10**18  # a whole number of more digits stays text, as in `yaml_file`


def read(path: Path, name: str, table: tuple[str, ...]) -> Document:
    """Read a table of the TOML file at `path`, called `name` in messages; its keys are relative to the table.

    Raises InputError if the file is not TOML, or has no such table.
    """
    text = text_of(path, name, "a TOML file").replace("\r\n", "\n")
    found = require_table(text, name, table)
    scanner = _Scanner(text, name)
    scanner.scan()
    keys, values = (
        {at[len(table) :]: place for at, place in places.items() if at[: len(table)] == table}
        for places in (scanner.keys, scanner.values)
    )
    return Document(name, _plain(found), values, keys)


def require_table(text: str, name: str, table: tuple[str, ...]) -> object:
    """Return the value of a table in the text of a TOML file; raise InputError if it has no such table."""
    found = find_table(text, name, table)
    if found is None:
        msg = f"{name} has no table [{'.'.join(table)}], expected a config there"
        raise InputError(msg, hint="or name the fatwheel.yml that is the config")
    return found


def find_table(text: str, name: str, table: tuple[str, ...]) -> object | None:
    """Return the value of a table in the text of a TOML file; None if it has no such table."""
    found: object = parse_toml(text, name, numbers=str)
    for key in table:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _plain(value: object) -> Value:
    """Return a value of tomllib as YAML would have it."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < BEYOND else str(value)
    return str(value)  # a date or a time


class _Scanner:
    """Goes over the text of a valid TOML file, and notes the place of each key and value."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.at = 0
        self.lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self.keys: dict[Keys, YamlPlace] = {}
        self.values: dict[Keys, YamlPlace] = {}
        self.counts: dict[Keys, int] = {}  # of each array of tables, how many tables it has so far

    def scan(self) -> None:
        """Go over the whole text."""
        table: Keys = ()
        while self._starts():
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _starts(self) -> bool:
        """Skip blanks and comments; return whether something follows."""
        self._skip(BLANK)
        return self.at < len(self.text)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at + 1  # valid TOML always matches
        return found[0] if found else ""

    def _place(self) -> YamlPlace:
        line = bisect(self.lines, self.at)
        return YamlPlace(line, self.at - self.lines[line - 1] + 1, self.name)

    def _note(self, keys: Keys, key: YamlPlace, value: YamlPlace) -> None:
        """Note a key and its value, and the tables around it that have no header of their own."""
        for depth in range(len(keys)):
            self.keys.setdefault(keys[:depth], key)
            self.values.setdefault(keys[:depth], key)
        self.keys.setdefault(keys, key)
        self.values.setdefault(keys, value)

    def _header(self) -> Keys:
        """Return the keys of the table whose header comes next; those of an array have a number."""
        place = self._place()
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        *above, last = self._parts()
        keys: Keys = ()
        for part in above:
            keys = (*keys, part)
            keys = (*keys, self.counts[keys] - 1) if keys in self.counts else keys
        keys = (*keys, last)
        if brackets > 1:
            self._note(keys, place, place)
            self.counts[keys] = self.counts.get(keys, 0) + 1
            keys = (*keys, self.counts[keys] - 1)
        self.at += brackets
        self._note(keys, place, place)
        return keys

    def _parts(self) -> list[str]:
        """Return the parts of a dotted key, up to what follows it."""
        parts = [self._part()]
        while self.text[self.at] == ".":
            self.at += 1
            parts.append(self._part())
        return parts

    def _part(self) -> str:
        self._skip(GAP)
        is_quoted = self.text[self.at] in "\"'"
        part = self._skip(STRING if is_quoted else WORD)
        self._skip(GAP)
        return str(parse_toml(f"key = {part}", self.name)["key"]) if is_quoted else part

    def _pair(self, table: Keys) -> None:
        place = self._place()
        keys = (*table, *self._parts())
        self.at += len("=")
        self._skip(GAP)
        self._value(keys, place)

    def _value(self, keys: Keys, key: YamlPlace) -> None:
        self._note(keys, key, self._place())
        first = self.text[self.at]
        if first in "\"'":
            self._skip(STRING)
        elif first == "[":
            for number in self._until("]"):
                self._value((*keys, number), self._place())
        elif first == "{":
            for _ in self._until("}"):
                self._pair(keys)
        else:
            self._skip(PLAIN)

    def _until(self, end: str) -> Iterator[int]:
        """Yield the number of each item of an array or an inline table when its place is reached."""
        self.at += 1
        number = 0
        while self._starts() and self.text[self.at] != end:
            if self.text[self.at] == ",":
                self.at += 1
                continue
            yield number
            number += 1
        self.at += 1
