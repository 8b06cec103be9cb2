"""Reads an observed build's journal: the answer at its end, compared with the events reported before it.

A journal is a FIFO that every process of the build can write to and none can read. The observer writes a line for each
event when it happens; so do the Pythons and the compilers that the build starts. The answer is sealed with a secret
word that only the observer gets. The project's code may write lines too: these add doubts and remove nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER = re.compile(rb"^answer ([0-9a-f]*) (.*)$", re.MULTILINE)  # its seal and its JSON, parsed if the seal is valid
TABLES = ("asked", "doubts", "imports", "reads")
MADE = {
    "compiled": "compiles",
    "configured": "configured",
    "linked": "links",
}  # event → the answer's list of such events
MAX_TOLD = 16 << 20  # bytes of the other lines: parsed, they take twenty times as much memory
MAX_LINES = 100_000
MAX_COMMANDS = 100
UNENDED = "starts a Python whose end is not observed"
ELSEWHERE = "compiles in a separate Python"
TAKEN_BACK = "changes the record of its compilations"
FORGED = "writes its own answer"
ENDLESS = "reports more than can be read"


def read(content: bytes, word: str) -> dict[str, Any] | None:
    """Return the journal's answer with the doubts of all its lines, or None without a sealed answer."""
    answer, told = None, JournalEvents()
    for found in ANSWER.finditer(content):
        sealed = _unseal(found[1], found[2], word)
        answer = sealed or answer
        told.tables["doubts"] |= {} if sealed else {FORGED: ""}
    rest = ANSWER.sub(b"", content)
    for line in rest[:MAX_TOLD].split(b"\n", MAX_LINES)[:MAX_LINES]:
        if line:
            told.add(line)
    told.tables["doubts"] |= {ENDLESS: ""} if len(rest) > MAX_TOLD or rest.count(b"\n") > MAX_LINES else {}
    return told.merge_into(answer) if answer else None


def _unseal(seal: bytes, text: bytes, word: str) -> dict[str, Any] | None:
    """Return a line's answer, or None unless its seal was made with the word and its tables can be added to."""
    own = hmac.new(word.encode(), text, hashlib.sha256).hexdigest().encode()
    answer = _object(text) if hmac.compare_digest(own, seal) else None
    return answer if answer and all(isinstance(answer.get(table), dict) for table in TABLES) else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass
class JournalEvents:
    """The events that a journal's lines report."""

    tables: dict[str, dict[str, str]] = field(default_factory=lambda: {table: {} for table in TABLES})
    began: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)  # (a key of MADE, process) → count
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)  # doubt → the questions asked until then
    commands: list[str] = field(default_factory=list)  # of compilers that the project starts itself

    def add(self, line: bytes) -> None:
        """Record one line; a line that is not a JSON object is a compiler's command."""
        value = _object(line)
        if value is None:
            self.commands += [line.decode(errors="replace")][: MAX_COMMANDS - len(self.commands)]
            return
        for name, table in self.tables.items():
            found = value.get(name)
            for what, place in found.items() if isinstance(found, dict) else ():
                if not table.get(what):
                    table[what] = str(place)
                if name == "doubts":
                    self.before.setdefault(what, tuple(self.tables["asked"]))
        by = str(value.get("by"))
        self.began |= {by} if "began" in value else set()
        self.ended |= {by} if "ended" in value else set()
        self.made.update((what, by) for what in MADE if what in value)

    def merge_into(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer with the reported events that it leaves out, and what was asked before its first doubt."""
        for name, table in self.tables.items():
            for what, place in table.items():
                answer[name][what] = answer[name].get(what) or place
        for doubt in self._contradictions(answer):
            answer["doubts"].setdefault(doubt, "")
        before = self.before.get(next(iter(answer["doubts"]), ""), answer["asked"])
        return {**answer, "own_commands": self.commands, "before": [*before]}

    def _contradictions(self, answer: dict[str, Any]) -> Iterator[str]:
        if self.began - self.ended:
            yield UNENDED
        if any(by in self.began for _, by in self.made):
            yield ELSEWHERE
        for what, name in MADE.items():
            found = answer.get(name)
            count = sum(times for (made, by), times in self.made.items() if made == what and by not in self.began)
            if not isinstance(found, list) or len(found) != count:
                yield TAKEN_BACK
