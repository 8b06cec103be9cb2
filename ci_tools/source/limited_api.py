"""Finds what C and C++ sources say of Python's limited API (PEP 384): which they ask for, and what they use beyond it.

Judged by their text, it errs on the safe side: a name that is not known to be in the limited API counts as lacking, and
a definition behind an `#if` or after Python.h does not count. A compiler decides.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from abi3info import DATAS, FUNCTIONS, MACROS, STRUCTS, TYPEDEFS  # type: ignore[import-untyped]  # it has no types

from ci_tools.model.versions import Minor
from ci_tools.source.includes import PYTHON_HEADER, Include, SourceLine, uncommented
from ci_tools.source.macros import is_unconditional

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.source.includes import Includes

COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
DEFINITION = re.compile(
    r"^[ \t]*#[ \t]*(?:define[ \t]+|(?=undef))((?:undef[ \t]+)?Py_LIMITED_API\b[^\n]*)", re.MULTILINE
)
UNDONE = "undef"
VERSION = re.compile(r"\b0[xX]([0-9a-fA-F]{2})([0-9a-fA-F]{2})[0-9a-fA-F]{4}")  # as in PY_VERSION_HEX
CALL = re.compile(r"\b(_?Py[A-Z]\w*|_Py_\w+|Py_[A-Z]\w*)\s*\(")
STRUCTURE = re.compile(r"\bPyTypeObject\s+\w+\s*(?:=|\{)|->\s*(?:tp|ob|nb|sq|mp)_\w+")
# Macros and inline functions of the limited API that abi3info does not list. They were found with a compiler.
CHECKED = (
    "AnySet Bool ByteArray Bytes CFunction Callable Capsule Complex Dict ExceptionClass ExceptionInstance "
    "Float FrozenSet Index Iter List Long Mapping MemoryView Module Number Range Sequence Set Slice "
    "Tuple Type Unicode Weakref"
)
ALWAYS = re.compile(
    rf"""
    Py(?:{CHECKED.replace(" ", "|")})_Check(?:Exact)?
    | PyArg_\w+ | PyInit_\w+ | PyDoc_STR(?:VAR)? | PyMODINIT_FUNC | PyVarObject_HEAD_INIT
    | PyModule_(?:Create|AddIntMacro|AddStringMacro) | PyType_(?:HasFeature|FastSubclass)
    | PyObject_(?:New|NewVar|Del|TypeCheck|MALLOC|REALLOC|FREE|INIT|HEAD_INIT)
    | PyMem_(?:New|Resize|Del|MALLOC|REALLOC|FREE|NEW|RESIZE|DEL)
    | Py_X?(?:INCREF|DECREF) | Py_(?:BEGIN|END|BLOCK|UNBLOCK|RETURN)_\w+
    | Py_(?:CLEAR|VISIT|UNUSED|TYPE|SIZE|REFCNT|IS_TYPE|SET_SIZE)
    | Py_(?:ABS|MIN|MAX|CHARMASK|ARRAY_LENGTH|STRINGIFY|UNREACHABLE)
    """,
    re.VERBOSE,
)


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
    text = COMMENT.sub(_blank, text)
    # The macros that the file defines itself; names already reported are added: the first use is enough.
    told = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
    for match in CALL.finditer(text):
        name = match[1]
        since = KNOWN.get(name)
        is_there = (since and since <= lowest) or ALWAYS.fullmatch(name)  # abi3info, or found with a compiler
        if not is_there and name not in told and not name.startswith("PyArray"):  # NumPy's own macros
            told.add(name)
            yield Use(name, SourceLine.at(file, text, match.start()), since)
    for match in STRUCTURE.finditer(text):
        name = " ".join(match[0].rstrip("={ ").split())
        if name not in told:
            told.add(name)
            yield Use(name, SourceLine.at(file, text, match.start()), None)


def _blank(comment: re.Match[str]) -> str:
    """Return only the line ends of a comment; an unterminated block is not a comment and stays."""
    if comment[0].startswith("/*") and not comment[0].endswith("*/"):
        return comment[0]
    return "\n" * comment[0].count("\n")
