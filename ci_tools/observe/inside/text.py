"""Reads the project's code for questions that nothing can intercept: each is a doubt where the cells answer otherwise.

A name without a module (`WindowsError`) is looked up by Python itself, and nobody can watch the methods of a class that
is written in C. The paths here have slashes, and those of Windows backslashes: to look for either in one is a question.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Iterator
from types import CodeType
from typing import Any

from ci_tools.observe.inside.environ import LISTERS, is_of_windows
from ci_tools.observe.inside.facts import FACTS
from ci_tools.observe.inside.standard_library.library import LIBRARY, Condition, parse

OLDEST = (3, 10)  # Python of a cell
BEFORE_INHERITING = 4  # arguments of `compile` before `dont_inherit`, without the text
BACKSLASH = "\\"
PARSED = "<unknown>"  # the file name of what `ast.parse` reads and nothing runs
# Methods of text that decide by what they are given; `replace` does not: "/" is what it would make of a backslash.
DECIDES = frozenset({"count", "endswith", "find", "index", "partition", "rfind", "rindex", "rpartition", "rsplit",
                     "split", "startswith"})  # fmt: skip
ASKS = frozenset({"getattr", "hasattr"})
LISTS = frozenset({"__dict__", "dir", "getmembers", "vars"})
# Functions that make paths, as Windows spells them there, and those that hand on what they are given.
MAKES_PATHS = frozenset({"abspath", "expanduser", "fspath", "getcwd", "glob", "iglob", "join", "normpath", "realpath",
                         "relpath", "rglob", "walk", "Path"})  # fmt: skip
HANDS_ON = frozenset("dirname enumerate list lower map reversed set sorted str strip tuple".split())  # noqa: SIM905
WORTH = (BACKSLASH, "/", *sorted(LISTS))  # a text without any of these has nothing to scan for
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
            for name in filter(is_of_windows, texts - {"os"} if LISTERS else ()):  # that is also a module
                _judge(f"looks for {name} in all variables", parse("windows"), inner.co_filename, inner.co_firstlineno)
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
    """Record a doubt for a comparison with a backslash, or of a path with a slash, in a cell of Windows."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    methods = _list_methods(*LIBRARY.shown)
    paths = _list_paths(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_lists_names, node.comparators)):
            name = node.left.value if isinstance(node.left, ast.Constant) else ""
            if name in methods:
                _judge(f"looks for {name} in a list of names", parse(methods[name]), file, node.lineno)
        what = _say_separator(node, paths)
        if what and FACTS.ask("os") == "windows":
            FACTS.doubt(what, f"{FACTS.shown(file)}:{node.lineno}")


def _lists_names(node: ast.AST) -> bool:
    """Whether an expression lists the names of an object, such as `dir(Path)` or `Path.__dict__`."""
    return not LISTS.isdisjoint(map(_word, ast.walk(node)))


def _word(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else str(getattr(node, "attr", ""))


def _say_separator(node: ast.AST, paths: set[str]) -> str:
    """Return what an expression decides by, if that is a backslash, or a slash in a path."""
    if isinstance(node, ast.Compare):
        sides, asked = [node.left, *node.comparators], [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DECIDES:
        sides, asked = node.args, [node.func.value]
    else:
        return ""
    # A pattern matches a backslash by two of them: "\s" matches none.
    is_pattern = isinstance(node, ast.Call) and _word(asked[0]) == "re"
    if any(_has(BACKSLASH * 2 if is_pattern else BACKSLASH, each) for each in sides):
        return "decides by a backslash, and the paths here have none"
    is_slash = any(_has("/", each) and not _has("://", each) for each in sides)
    is_path = any(_is_path(each, paths) for each in asked)
    return "decides by a slash in a path, which has backslashes on Windows" if is_slash and is_path else ""


def _list_paths(tree: ast.AST) -> set[str]:
    """Return the names of variables that hold paths, as far as the text shows it."""
    found: set[str] = {"__file__"}
    for _ in range(2):  # one may be made of another that is set below it
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                made, targets = node.value, node.targets
            elif isinstance(node, (ast.For, ast.comprehension)):
                made, targets = node.iter, [node.target]
            else:
                continue
            if _is_path(made, found):
                found |= {_word(each) for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


def _is_path(node: ast.AST, paths: set[str]) -> bool:
    """Whether an expression is a path, or several, that this machine's Python has spelled."""
    if isinstance(node, ast.Call):
        word, of = _word(node.func), getattr(node.func, "value", None)
        if word in MAKES_PATHS:
            return word != "join" or "path" in _word(of or node.func)
        return word in HANDS_ON and any(_is_path(each, paths) for each in (*node.args, *filter(None, [of])))
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return _is_path(node.elt, paths)
    return _word(getattr(node, "value", node) if isinstance(node, ast.Subscript) else node) in paths


def _has(wanted: str, node: ast.AST) -> bool:
    values = node.elts if isinstance(node, (ast.List, ast.Set, ast.Tuple)) else [node]
    texts = [value.value for value in values if isinstance(value, ast.Constant)]
    return any(wanted in text for text in texts if isinstance(text, str)) or any(
        wanted.encode() in text for text in texts if isinstance(text, bytes)
    )
