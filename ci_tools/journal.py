"""Reads what an observed build wrote into its journal: the answer at the end, held against what was told on the way.

A journal is a FIFO that all of the build can write to and none of it can read. The observer writes a line for each
thing that it sees, when it sees it; so do the Pythons and the compilers that the build starts. The answer is sealed
with a word that only the observer was told. The project's code may write lines too: they add doubts, and take nothing
back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any, NamedTuple

__all__ = ["read"]

MERGED = ("asked", "doubts", "imports")
UNENDED = "starts a Python that ends in a way that is not seen"
ELSEWHERE = "compiles in a Python of its own"
TAKEN_BACK = "changes what was written down of its compilations"


class Lines(NamedTuple):
    """A journal: what each observer told, and the commands of compilers that the project starts by itself."""

    told: tuple[dict[str, Any], ...]
    commands: tuple[str, ...]


def read(content: bytes, word: str) -> dict[str, Any] | None:
    """Return the answer that a journal ends with, and the doubts of all its lines; None where no answer is sealed."""
    lines = _lines(content)
    answer = next(filter(None, (_sealed(line, word) for line in lines.told)), None)
    if answer is None:
        return None
    for line in lines.told:
        _merge(answer, line)
    for doubt in _doubts(answer, lines.told):
        answer["doubts"].setdefault(doubt, "")
    return {**answer, "own_commands": list(lines.commands)}


def _lines(content: bytes) -> Lines:
    told, commands = [], []
    for line in content.decode(errors="replace").splitlines():
        value = _object(line)
        if value is None:
            commands.append(line)
        else:
            told.append(value)
    return Lines(tuple(told), tuple(commands))


def _object(text: object) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _sealed(line: dict[str, Any], word: str) -> dict[str, Any] | None:
    """Return the answer in a line, where the seal on it was made with the word, and it has tables to add to."""
    text = line.get("answer")
    if not isinstance(text, str):
        return None
    seal = hmac.new(word.encode(), text.encode(errors="replace"), hashlib.sha256).hexdigest()
    answer = _object(text) if hmac.compare_digest(seal.encode(), str(line.get("seal")).encode()) else None
    return answer if answer and all(isinstance(answer.get(table), dict) for table in MERGED) else None


def _merge(answer: dict[str, Any], line: dict[str, Any]) -> None:
    """Add what one line told to the answer that should have it already."""
    for table in MERGED:
        told = line.get(table)
        for what, place in told.items() if isinstance(told, dict) else ():
            if not answer[table].get(what):
                answer[table][what] = str(place)


def _doubts(answer: dict[str, Any], told: tuple[dict[str, Any], ...]) -> list[str]:
    """Return what is wrong with the lines: a Python without an end, and compilations that the answer leaves out."""
    children = {str(line.get("by")) for line in told if "began" in line}
    ended = {str(line.get("by")) for line in told if "ended" in line}
    made = [line for line in told if "compiled" in line or "linked" in line]
    own = [line for line in made if str(line.get("by")) not in children]
    doubts = [UNENDED] if children - ended else []
    doubts += [ELSEWHERE] if len(own) < len(made) else []
    counts = [sum(what in line for line in own) for what in ("compiled", "linked")]
    return doubts + ([TAKEN_BACK] if counts != [_count(answer, "compiles"), _count(answer, "links")] else [])


def _count(answer: dict[str, Any], name: str) -> int:
    found = answer.get(name)
    return len(found) if isinstance(found, list) else -1
