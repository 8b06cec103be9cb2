"""Finds the compiled files that reach Python's headers and use nothing of them, so each Python compiles them again.

A file without Python.h gives the same object for every Python, which a compiler cache has after the first. A name that
only looks like one of Python's counts as a use: then the file stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.source.includes import INCLUDE, PYTHON_HEADER, uncommented

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.source.includes import Include, Includes

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
        found_in = (one for name in reached for one in includes.of(name))
        bound = [one for one in found_in if _is_python(one.header, is_setuptools=is_setuptools)]
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
            narrow = (TYPES if OF_TORCH.search(code) else ATEN) if code and _is_of_types(code) else ALL
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


def _is_python(header: str, *, is_setuptools: bool) -> bool:
    return bool(PYTHON_HEADER.match(header)) or (is_setuptools and header == FRONTEND)


def _code(file: str, includes: Includes) -> str:
    """Return a file's text without comments, strings and includes."""
    text = LINE_COMMENT.sub("", uncommented(file, includes.text(file)))
    return STRING.sub("", INCLUDE.sub("", text))


def _is_of_types(code: str) -> bool:
    """Whether a file names nothing of torch beyond what torch/types.h has."""
    return not MACRO.search(code) and all(OF_TYPES.fullmatch(name) for name in OF_TORCH.findall(code))
