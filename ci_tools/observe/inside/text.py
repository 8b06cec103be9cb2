"""Reads the project's code for questions that nothing can intercept: each is a doubt where the cells answer otherwise.

A name without a module (`WindowsError`) is looked up by Python itself, and nobody can watch the methods of a class that
is written in C. A backslash says what the project expects of a path, and the paths here have none.
"""

from __future__ import annotations

import ast
import functools
import os
from types import CodeType
from typing import TYPE_CHECKING, Any

from ci_tools.observe.inside.facts import FACTS
from ci_tools.observe.inside.standard_library.library import LIBRARY, Condition, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = (3, 10)  # Python of a cell
BEFORE_INHERITING = 4  # arguments of `compile` before `dont_inherit`, without the text
BACKSLASH = "\\"
PARSED = "<unknown>"  # the file name of what `ast.parse` reads and nothing runs
# Methods of text that decide by what they are given; `replace` does not: "/" is what it would make of a backslash.
DECIDES = frozenset({"count", "endswith", "find", "index", "partition", "rfind", "rindex", "rpartition", "rsplit",
                     "split", "startswith"})  # fmt: skip
ASKS = frozenset({"getattr", "hasattr"})
LISTS = frozenset({"__dict__", "dir", "getmembers", "vars"})
WORTH = (BACKSLASH, *sorted(LISTS))  # a text without any of these has nothing to scan for
CODES: list[CodeType] = []
TEXTS: list[tuple[str, Any]] = []


def watch_compile(real: Any) -> Any:
    """Doubt a text that the project itself compiles, and that not every Python knows."""

    @functools.wraps(real)
    def compiled(source: Any, *args: Any, **kwargs: Any) -> Any:
        if FACTS.asks() and isinstance(source, (bytes, str)):
            try:
                ast.parse(source, feature_version=OLDEST)
            except (SyntaxError, ValueError):
                FACTS.doubt("compiles a text that not every Python knows")
        if len(args) < BEFORE_INHERITING:  # else it would inherit the features of this module
            kwargs.setdefault("dont_inherit", True)
        return real(source, *args, **kwargs)

    return compiled


def note_code(code: Any) -> None:
    """Keep code that runs, if it is the project's."""
    if isinstance(code, CodeType) and FACTS.is_own(code.co_filename):
        CODES.append(code)


def note_text(text: Any, file: Any) -> None:
    """Keep a text that is compiled, if it is the project's; one under the name of another file hides who asks."""
    name = os.fsdecode(file) if isinstance(file, bytes) else str(file)
    if name == PARSED:
        return
    if FACTS.is_own(name):
        if isinstance(text, (bytes, str)) and any(
            (word.encode() if isinstance(text, bytes) else word) in text for word in WORTH
        ):
            TEXTS.append((name, text))
    elif FACTS.asks():
        FACTS.doubt(f"compiles code under the name of {name}, a file that is not its own")


def scan() -> None:
    """Record a doubt for each question in the code that ran which was answered by this machine's Python."""
    names = {name: text for name, text in LIBRARY.table.get("builtins", {}).items() if name and "." not in name}
    methods = _list_methods("builtins")
    for code in [*CODES]:
        for inner in _unfold(code):
            mentioned, texts = {*inner.co_names}, {text for text in inner.co_consts if isinstance(text, str)}
            for name in names.keys() & mentioned:
                _judge(f"asks for {name}", parse(names[name]), inner.co_filename, inner.co_firstlineno)
            asked = texts if mentioned & ASKS else mentioned if "AttributeError" in mentioned else set()
            for name in methods.keys() & asked:
                _judge(f"asks for a method {name}", parse(methods[name]), inner.co_filename, inner.co_firstlineno)
    for file, text in [*TEXTS]:  # to parse one is an event as well
        _scan_text(file, text)


def _list_methods(*modules: str) -> dict[str, str]:
    """Return the conditions of the methods of these modules' classes, by name."""
    rows = (row for module in modules for row in LIBRARY.table.get(module, {}).items())
    return {row.partition(".")[2]: condition for row, condition in rows if "." in row}


def _unfold(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _unfold(inner)


def _judge(what: str, condition: Condition, file: str, line: int) -> None:
    """Record a doubt unless the cell and every host answer alike."""
    if condition.holds() if condition.holds_on_each_host() else not condition.is_of_linux() and not condition.holds():
        return
    FACTS.doubt(f"{what}, which not every system and Python has", f"{FACTS.shown(file)}:{line}")


def _scan_text(file: str, text: Any) -> None:
    """Record a doubt for a comparison with a backslash, in a cell of Windows."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    methods = _list_methods(*LIBRARY.shown)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_lists_names, node.comparators)):
            name = node.left.value if isinstance(node.left, ast.Constant) else ""
            if name in methods:
                _judge(f"looks for {name} in a list of names", parse(methods[name]), file, node.lineno)
        if _decides_by_backslash(node) and FACTS.ask("os") == "windows":
            FACTS.doubt("decides by a backslash, and the paths here have none", f"{FACTS.shown(file)}:{node.lineno}")


def _lists_names(node: ast.AST) -> bool:
    """Whether an expression lists the names of an object, such as `dir(Path)` or `Path.__dict__`."""
    words = {inner.id if isinstance(inner, ast.Name) else getattr(inner, "attr", "") for inner in ast.walk(node)}
    return bool(words & LISTS)


def _decides_by_backslash(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(_has(BACKSLASH, each) for each in (node.left, *node.comparators))
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DECIDES):
        return False
    # A pattern matches a backslash by two of them: "\s" matches none.
    is_pattern = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    wanted = BACKSLASH * 2 if is_pattern else BACKSLASH
    return any(_has(wanted, each) for each in node.args)


def _has(wanted: str, node: ast.AST) -> bool:
    values = node.elts if isinstance(node, (ast.List, ast.Set, ast.Tuple)) else [node]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    return any(wanted in text for text in texts if isinstance(text, str)) or any(
        wanted.encode() in text for text in texts if isinstance(text, bytes)
    )
