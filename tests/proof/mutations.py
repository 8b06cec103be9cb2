"""How a good file is changed: a text, a binary file, or a tree of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

MAX_RATIO = 30_000  # how often a mutant may have a part again and again
NUMBERS = (b"0", b"-1", b"9" * 5000, b"1e999", b"0x7fffffffffffffff", b"99999999999999999999")
MARKS = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b"\t",
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"\\",
    b'"',
    b"'",
    b"'''",
)
BRACKETS = (
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"${",
    b"$<",
    b"/*",
    b"*/",
    b"#",
    b"#[[",
    b"]]",
    b",",
    b":",
    b"=",
    b".",
    b";",
)
WORDS = (
    b"a.", b"[a", b"set(", b"if(\n", b"endif()\n", b"subdir(x)\n", b"\\'", b"set(CMAKE_CUDA_ARCHITECTURES ", b" CACHE ",
    b"#if 1\n", b"#include ", b"#define TORCH_TARGET_VERSION 0x020a000000000000\n", b"&a ", b"*a ", b"<<: ", b"- ",
    b"? ", b"-gencode arch=", b"foreach(", b"PyTypeObject x", b"->", b"//", b"-----BEGIN ", b"Requires-Dist: a ; ",
    b"..  a:: b\n", b"torch/a.h", b"PK\x03\x04", b"\x7fELF", b"-DTORCH_TARGET_VERSION=0x020a000000000000\n", b"Py_X(",
    b'R"(', b"::", b"requires-python = '>=9999999999", b">=" + b"9" * 5000,
)  # fmt: skip
TOKENS = (*NUMBERS, *MARKS, *BRACKETS, *WORDS)
VALUES = (
    None, True, False, 0, -1, 1 << 70, 1e308, -0.5, float("nan"), float("inf"), "", "x", "\0", "\ud800", "../../a",
    "1" * 5000, "\u202e\x1b[2J", "a\nb", [], [[]], {}, {"": ""}, [None], ["x"] * 2000,
)  # fmt: skip
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def _span(content: bytes, chance: random.Random, longest: int) -> tuple[int, int]:
    start = chance.randint(0, len(content))
    return start, min(len(content), start + chance.randint(1, longest))


def _flip(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def _delete(content: bytes, chance: random.Random) -> bytes:
    start, end = _span(content, chance, 200)
    return content[:start] + content[end:]


def _copy(content: bytes, chance: random.Random) -> bytes:
    start, end = _span(content, chance, 400)
    at = chance.randint(0, len(content))
    return content[:at] + content[start:end] + content[at:]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randint(0, len(content))]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(content))
    return content[:at] + chance.choice(TOKENS) + content[at:]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    """Put a word, a few words, or a part of the file in so often that what is not linear takes minutes."""
    start, end = _span(content, chance, 20)
    part = chance.choice((chance.choice(TOKENS), b"".join(chance.choices(TOKENS, k=3)), content[start:end])) or b"x"
    times = min(chance.choice((100, 3000, MAX_RATIO)), 300_000 // len(part))
    at = chance.choice((0, len(content), chance.randint(0, len(content))))
    return content[:at] + part * times + content[at:]


def _number(content: bytes, chance: random.Random) -> bytes:
    """Write an extreme number over some bytes."""
    size = chance.choice((1, 2, 4, 8))
    at = chance.randrange(max(1, len(content) - size))
    value = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return content[:at] + value.to_bytes(size, "little") + content[at + size :]


def _header(content: bytes, chance: random.Random) -> bytes:
    """Write an extreme number over a field of a binary file's first header."""
    at, size = 2 * chance.randrange(32), chance.choice((2, 4, 8))
    value = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return content[:at] + value.to_bytes(size, "little") + content[at + size :]


def _value(content: bytes, chance: random.Random) -> bytes:
    """Put another value, or a value of another place, in a place of a JSON file, or leave the place out."""
    try:
        table = json.loads(content)
    except (ValueError, RecursionError):
        return _flip(content, chance)
    places = list(_places(table))
    if not places:
        return json.dumps(chance.choice(VALUES)).encode()
    (holder, key), (other, another) = chance.choice(places), chance.choice(places)
    if chance.random() < 0.2:  # every fifth
        del holder[key]
    else:
        holder[key] = json.loads(json.dumps(chance.choice((*VALUES, other[another], [other[another]] * 3))))
    return json.dumps(table).encode()


def _places(table: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - whatever JSON can hold
    """Yield where each value of a JSON file stands."""
    keys = table if isinstance(table, dict) else range(len(table)) if isinstance(table, list) else ()
    for key in keys:
        yield table, key
        yield from _places(table[key])


TEXT = (_flip, _delete, _copy, _cut, _insert, _insert, _repeat, _repeat, _number)
TREE = (*(_value,) * 40, *TEXT)
BINARY = (_flip, _delete, _copy, _cut, _number, _number, _number, _header, _header, _repeat)
MUTATORS = {"text": TEXT, "binary": BINARY, "tree": TREE}
