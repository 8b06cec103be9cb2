"""Finds what C and C++ sources say of Python: which limited API (PEP 384) they ask for, and what they use.

Judged by their text, it errs on the safe side: a name that is not known to be in the limited API counts as lacking, and
a definition behind an `#if` or after Python.h does not count. A compiler decides. A name that only looks like one of
Python's counts as a use. A file without Python.h gives the same object for every Python, which a compiler cache has
after the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from abi3info import DATAS, FUNCTIONS, MACROS, STRUCTS, TYPEDEFS  # type: ignore[import-untyped]  # it has no types

from ci_tools.catalog.tables import read
from ci_tools.model.versions import Minor
from ci_tools.source.includes import (
    DIRECTIVE,
    INCLUDE,
    PYTHON_HEADER,
    Include,
    Includes,
    SourceLine,
    blank,
    is_unconditional,
    uncommented,
)

COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
DEFINITION = re.compile(
    r"^[ \t]*#[ \t]*(?:define[ \t]+|(?=undef))((?:undef[ \t]+)?Py_LIMITED_API\b[^\n]*)", re.MULTILINE
)
UNDONE = "undef"
VERSION = re.compile(r"\b0[xX]0?([0-9a-fA-F])([0-9a-fA-F]{2})[0-9a-fA-F]{4}")  # as in PY_VERSION_HEX
CALL = re.compile(r"\b(_?Py[A-Z]\w*|_Py_\w+|Py_[A-Z]\w*)\s*\(")
# A condition, without spaces and brackets, that tells Python 2 from 3; IS_PY3K is what porting guides call it.
NAMED = r"(?:IS_|HAVE_|USE_)?PY(?:THON)?_?"
TWO_OR_THREE = re.compile(
    rf"(!?)(?:(PY_MAJOR_VERSION(?:<3|<=2|==2)|PY_VERSION_HEX<0x0300\w+|{NAMED}2)"
    rf"|PY_MAJOR_VERSION(?:>=3|>2|==3)|PY_VERSION_HEX>=0x0300\w+|{NAMED}3K?)"
)
OTHERS = {"3": "not 3", "not 3": "not 3"}  # the branches after one
STRUCTURE = re.compile(r"\bPyTypeObject\s+\w+\s*(?:=|\{)|->\s*(?:tp|ob|nb|sq|mp)_\w+")
ALWAYS = re.compile("|".join(read("limited_api")["names"]))  # macros that abi3info does not list


class Limit(NamedTuple):
    """A definition of Py_LIMITED_API, and the oldest Python that has this limited API."""

    what: str
    lowest: Minor | None  # None: it names no version


class Use(NamedTuple):
    """A name that a version of the limited API lacks: its place, and the Python that added it to the limited API."""

    name: str
    place: SourceLine
    since: Minor | None  # None: no version has it


def _first_versions() -> dict[str, Minor]:
    """Return the Python version that added each name to the limited API."""
    named = [(symbol.name, entry.added) for table in (FUNCTIONS, DATAS) for symbol, entry in table.items()]
    named += [(name, entry.added) for table in (MACROS, STRUCTS, TYPEDEFS) for name, entry in table.items()]
    return {name: Minor(added.major, added.minor) for name, added in named}


KNOWN = _first_versions()


def closure(includes: Includes, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files, and the source's own files that they include."""
    queue = sorted(files)
    seen = set(queue)
    for file in queue:  # the queue grows in this loop
        found = {own for include in includes.of(file) for own in includes.own(include.header)} - seen
        queue += sorted(found)
        seen |= found
    return tuple(queue)


def read_limit(definition: str, place: SourceLine | None = None) -> Limit:
    """Return the limited API that a definition asks for, such as `-DPy_LIMITED_API=0x030A0000`."""
    version = VERSION.search(definition)
    lowest = Minor(int(version[1], 16), int(version[2], 16)) if version else None
    return Limit(f"{definition.strip()} ({place})" if place else definition, lowest)


def find_limit(includes: Includes, files: Iterable[str], flagged: Limit | None = None) -> Limit | None:
    """Return the last definition that files make, read in turn, before one includes Python.h; None if there is none.

    A definition by a compiler's flags, `flagged`, comes before those of files, until a file undoes it.
    """
    found = flagged
    seen: set[str] = set()
    for step in (step for file in files for step in _read_in_order(includes, file, seen)):
        if step is None:
            break
        is_undone = step.what.startswith(UNDONE)
        flagged = None if is_undone else flagged
        found = None if is_undone else flagged or step
    return found


def _read_in_order(includes: Includes, file: str, seen: set[str]) -> Iterator[Limit | None]:
    """Yield the definitions of a file and of those it includes, in their order, and None for Python.h."""
    seen.add(file)
    text = uncommented(file, includes.text(file))
    found = (match for match in DEFINITION.finditer(text) if is_unconditional(text, match))
    steps: list[tuple[int, Include | str]] = [
        (SourceLine.at(file, text, match.start()).line, match[1]) for match in found
    ]
    steps += [(include.place.line, include) for include in includes.of(file)]
    for line, step in sorted(steps, key=lambda one: one[0]):
        if isinstance(step, str):
            yield read_limit(step, SourceLine(file, line))
        elif PYTHON_HEADER.match(step.header):  # from here on a definition is too late
            yield None
        else:
            for own in (own for own in includes.own(step.header) if own not in seen):
                yield from _read_in_order(includes, own, seen)


def uses(includes: Includes, files: Iterable[str], lowest: Minor) -> tuple[Use, ...]:
    """Return the names that the files use and the limited API of Python `lowest` lacks, each once per file."""
    found = {
        (use.name, use.place.file): use
        for file in closure(includes, files)
        for use in reversed([*_lacking(file, includes.text(file), lowest)])  # so that the first use stays in the dict
    }
    return tuple(sorted(found.values(), key=lambda use: use.place))


def _lacking(file: str, text: str, lowest: Minor) -> Iterator[Use]:
    text = COMMENT.sub(blank, text)
    # The macros that the file defines itself; names already reported are added: the first use is enough.
    told = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
    for match in (*CALL.finditer(text), *STRUCTURE.finditer(text)):
        name = " ".join(match[0].rstrip("={(").split())
        since = KNOWN.get(name)
        is_there = (since and since <= lowest) or ALWAYS.fullmatch(name)  # abi3info, or found with a compiler
        # The macros of NumPy are its own.
        if not (is_there or name in told or name.startswith("PyArray") or _is_old(text, match)):
            told.add(name)
            yield Use(name, SourceLine.at(file, text, match.start()), since)


def _is_old(text: str, match: re.Match[str]) -> bool:
    """Whether only Python 2 compiles a use."""
    branches: list[str] = []
    for directive in DIRECTIVE.finditer(text, 0, match.start()):
        if directive[1].startswith("if"):
            found = TWO_OR_THREE.fullmatch(re.sub(r"\bdefined\b|[\s()]", "", directive[2]))
            is_two = found and bool(found[2]) != (bool(found[1]) != (directive[1] == "ifndef"))
            branches.append("" if found is None else "2" if is_two else "3")
        elif branches and directive[1] == "endif":
            branches.pop()
        elif branches:
            branches[-1] = OTHERS.get(branches[-1], "")
    return not {"2", "not 3"}.isdisjoint(branches)


# ---------------------------------------------------------------- needless headers

EXTENSION = "torch/extension.h"  # torch/all.h and torch/python.h
FRONTEND = "torch/torch.h"  # with BuildExtension, the same: it defines TORCH_API_INCLUDE_EXTENSION_H
ALL, TYPES, ATEN = "torch/all.h", "torch/types.h", "ATen/ATen.h"  # each with less than the one before
# The headers that can be replaced, or dropped (""): the others of Python's are somebody's choice.
MOVED = {EXTENSION: ALL, FRONTEND: ALL, "torch/python.h": TYPES, "Python.h": ""}
LINE_COMMENT = re.compile(r"//[^\n]*")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
PYTHON_NAME = re.compile(
    r"\bpy::|\bpybind11|\bPYBIND11_|\bPy_?[A-Z]\w*|\bPy_\w+|\b_Py\w*|\bTHP[A-Z]\w*|\bnb::|\bnanobind\b|\bNB_MODULE"
    r"|\btorch::(?:python|utils|detail)\b"
)
# An empty module, which Windows needs to link a library: `PyMODINIT_FUNC PyInit_x(void) { return NULL; }`.
STUB = re.compile(r"\bPyMODINIT_FUNC\b|(?:\bPyObject\s*\*\s*)?\bPyInit_\w+|\bPy_LIMITED_API\b")
# What torch/types.h has of the namespace torch: ATen's names, and the functions that make tensors.
OF_TYPES = re.compile(
    r"Tensor(?:Options|List)?|Device(?:Type)?|ScalarType|Scalar|IntArrayRef|Dtype|dtype|device|layout|requires_grad"
    r"|k[A-Z]\w*|(?:empty|zeros|ones|full|rand|randn|randint)(?:_like)?|arange|linspace|eye|tensor|from_blob"
)
OF_TORCH = re.compile(r"\btorch::(\w+)")
# Names that more of torch may have than torch/types.h.
MACRO = re.compile(r"\bTORCH_(?!CHECK|INTERNAL_ASSERT|WARN)\w+|\bnamespace\s+torch\b|\bnamespace\s+\w+\s*=\s*torch\b")


class Needless(NamedTuple):
    """A compiled file that uses nothing of Python, and the includes by which it reaches Python's headers."""

    file: str
    includes: tuple[Include, ...]


def find_needless(includes: Includes, compiled: Iterable[str], *, is_setuptools: bool) -> tuple[Needless, ...]:
    """Return the compiled files that reach Python's headers and use nothing of them.

    Only those count whose every such include can be replaced.
    """
    found = []
    for file in compiled:
        reached = _reach(includes, file)
        found_in = [one for name in reached for one in includes.of(name)]
        frontend = FRONTEND if is_setuptools else None
        bound = [one for one in found_in if PYTHON_HEADER.match(one.header) or one.header == frontend]
        is_movable = all(one.header in MOVED for one in bound)
        if bound and is_movable and not any(PYTHON_NAME.search(_code(name, includes)) for name in reached):
            found.append(Needless(file, tuple(bound)))
    return tuple(found)


def names_python(includes: Includes, files: Iterable[str]) -> bool:
    """Whether the code of files uses Python's names, beyond those of a module that is empty."""
    return any(PYTHON_NAME.search(STUB.sub("", _code(name, includes))) for name in files)


def narrower(needless: Iterable[Needless], includes: Includes, compiled: Iterable[str]) -> Mapping[str, dict[str, str]]:
    """Return the headers to replace in each file, and what by; "" drops the line.

    A file of its own gets ATen/ATen.h, which compiles quickest, or torch/types.h, if it names nothing beyond that. A
    header that others include gets what has all of torch but Python, and they get torch/extension.h where they use
    Python's names.
    """
    lines: dict[str, dict[str, str]] = {}
    sources = frozenset(compiled)
    for one in needless:
        for found in one.includes:
            file, header = found.place.file, found.header
            code = _code(file, includes) if file in sources else ""
            named = OF_TORCH.findall(code)
            is_of_types = bool(code) and not MACRO.search(code) and all(map(OF_TYPES.fullmatch, named))
            narrow = (TYPES if named else ATEN) if is_of_types else ALL
            lines.setdefault(file, {})[header] = narrow if MOVED[header] == ALL else MOVED[header]
    return lines


def users_of(changed: Iterable[str], includes: Includes, compiled: Iterable[str]) -> Iterator[str]:
    """Yield the compiled files that use Python's names and reach its headers only through changed files."""
    edited = frozenset(changed)
    for file in compiled:
        reached = [name for name in _reach(includes, file) if name not in edited]
        bound = any(PYTHON_HEADER.match(one.header) for name in reached for one in includes.of(name))
        uses = any(PYTHON_NAME.search(_code(name, includes)) for name in _reach(includes, file))
        if uses and not bound and edited.intersection(_reach(includes, file)):
            yield file


def replace_headers(text: str, headers: Mapping[str, str]) -> str | None:
    """Return a text with includes replaced, or dropped where the new header is ""; None if one is not found."""
    for old, new in headers.items():
        line = re.compile(rf"^([ \t]*#[ \t]*include[ \t]*)[<\"]{re.escape(old)}[>\"]([^\n]*)\n", re.MULTILINE)
        text, count = line.subn(rf"\1<{new}>\2\n" if new else "", text)
        if not count:
            return None
    return text


def _reach(includes: Includes, file: str) -> list[str]:
    """Return a file and the source's own files that it includes, through others too."""
    found = [file]
    for name in found:  # it grows in this loop
        for one in includes.of(name):
            found += [own for own in includes.own(one.header) if own not in found and not one.is_torch]
    return found


def _code(file: str, includes: Includes) -> str:
    """Return a file's text without comments, strings and includes."""
    text = LINE_COMMENT.sub("", uncommented(file, includes.text(file)))
    return STRING.sub("", INCLUDE.sub("", text))
