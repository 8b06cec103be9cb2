"""Reads which names a Python module has once it is imported, from its text: nothing is run.

A name's row is a text: `f` for a function and `c` for a class, `=[1, 2]` for a constant, `?` for any other value, and
`~` where a condition decides whether the name is there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import Any

VALUE, CONDITIONAL = "?", "~"
MAX_CONSTANT = 2000  # characters of a constant; a longer one is a table that no build script compares
MAX_TEXT = 100  # characters of a text; a longer one is a message
FEWEST = 2  # commas in a table within a function
# Conditions that never hold where a build runs: of a type checker, and of Pythons within torch::deploy.
NEVER = frozenset({"TYPE_CHECKING", "_running_with_deploy()"})
# Decorators that leave a function one.
TRANSPARENT = frozenset({"cache", "contextmanager", "deprecated", "lru_cache", "overload"})
CHANGES = frozenset({"append", "clear", "extend", "insert", "pop", "remove", "update"})  # methods of a constant


@dataclass
class ModuleNames:
    """The names of one module."""

    rows: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)  # the modules whose names it imports by `*`
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)  # name → the module and the name there
    loads: set[str] = field(default_factory=set)  # modules that it imports for certain, and names in them
    is_open: bool = False  # whether it may have other names: it writes them by a loop, or answers by a function
    deleted: set[str] = field(default_factory=set)  # names that it removes in the end
    has_proxy: bool = False  # whether an object of a class of its own takes its place


def read_names(text: str, module: str, *, is_package: bool = False) -> ModuleNames:
    """Return the names of a module with that text; raise SyntaxError or ValueError where it cannot be parsed."""
    tree = ast.parse(text)
    reader = _StatementReader(module if is_package else module.rpartition(".")[0])
    found = reader.found
    rows = reader.read_block(tree.body)
    found.rows = {name: row for name, row in rows.items() if row and not _is_special(name)}
    found.deleted = {name for name, row in rows.items() if not row}
    written = (name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)
    for name in written:  # by functions, which may not be called
        found.rows[name] = VALUE if name in found.rows else CONDITIONAL
    for name in _list_changed(tree):
        if found.rows.get(name, "").startswith("="):
            found.rows[name] = VALUE
    found.rows |= _read_inner_constants(tree)
    _note_dynamic(tree, found)
    return found


def _is_special(name: str) -> bool:
    """Whether Python itself looks for a name, other than the list of what a module exports."""
    return name.startswith("__") and name.endswith("__") and name != "__all__"


def list_declared(text: str, annotations: Collection[str]) -> Iterator[str]:
    """Yield the names that a stub declares with one of these annotations."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) in annotations:
            yield from _list_targets(node.target)


# ---------------------------------------------------------------- statements


class _StatementReader:
    """Reads the statements of a module in their order."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.found = ModuleNames()
        self.conditions = 0  # around the statement that is read

    def read_block(self, body: Sequence[ast.stmt]) -> dict[str, str]:
        """Return the rows that a block of statements leaves; "" for a name that it deletes."""
        rows: dict[str, str] = {}
        for statement in body:
            for name, row in self.read_statement(statement).items():
                rows[name] = _follow(rows.get(name, ""), row)
        return rows

    def read_statement(self, node: ast.stmt) -> dict[str, str]:
        """Return the rows that one statement leaves."""
        readers: tuple[tuple[type | tuple[type, ...], Callable[[Any], dict[str, str]]], ...] = (
            ((ast.FunctionDef, ast.AsyncFunctionDef), lambda one: {one.name: _read_function(one)}),
            (ast.ClassDef, lambda one: {one.name: "c"}),
            ((ast.Import, ast.ImportFrom), self.read_import),
            (ast.If, self.read_condition),
            (ast.Try, self.read_try),
            (ast.With, lambda one: self.read_block(one.body)),
            ((ast.For, ast.While), self.read_loop),
            (ast.Delete, lambda one: {name: "" for target in one.targets for name in _list_targets(target)}),
        )
        read = next((read for kind, read in readers if isinstance(node, kind)), None)
        return read(node) if read else dict(_read_assignment(node))

    def read_import(self, node: ast.Import | ast.ImportFrom) -> dict[str, str]:
        """Return the rows of an import, and note where the names come from."""
        if isinstance(node, ast.Import):
            self.found.loads |= {alias.name for alias in node.names} if not self.conditions else set()
            return {alias.asname or alias.name.partition(".")[0]: VALUE for alias in node.names}
        source = node.module or ""
        if node.level:
            above = self.package.split(".")  # one dot is the package itself
            source = ".".join([*above[: len(above) + 1 - node.level], *([source] if source else [])])
        if not self.conditions:
            self.found.loads |= {source, *(f"{source}.{alias.name}" for alias in node.names)}
        rows = {}
        for alias in node.names:
            if alias.name == "*":
                self.found.stars.append(source)
            else:
                rows[alias.asname or alias.name] = VALUE
                self.found.imported[alias.asname or alias.name] = (source, alias.name)
        return rows

    def read_condition(self, node: ast.If) -> dict[str, str]:
        """Return the rows of both branches, or of one where the other is never taken."""
        is_not = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        if ast.unparse(test).rpartition(".")[2] in NEVER:
            return self.read_block(node.body if is_not else node.orelse)
        with self.in_condition():
            return _join(self.read_block(node.body), self.read_block(node.orelse))

    @contextmanager
    def in_condition(self) -> Iterator[None]:
        """Count one more condition around what is read."""
        self.conditions += 1
        yield
        self.conditions -= 1

    def read_loop(self, node: ast.For | ast.While) -> dict[str, str]:
        """Return the rows of a loop; they are there for certain if it goes through a list that is written there."""
        with self.in_condition():
            rows = self.read_block(node.body)
        if isinstance(node, ast.For):
            rows |= dict.fromkeys(_list_targets(node.target), VALUE)
            if isinstance(node.iter, (ast.List, ast.Tuple)) and node.iter.elts:
                return rows
        return dict.fromkeys(rows, CONDITIONAL)  # a loop may not run once

    def read_try(self, node: ast.Try) -> dict[str, str]:
        """Return the rows of a statement that may fail: those that are there on every way through it."""
        with self.in_condition():
            ways = [self.read_block([*node.body, *node.orelse])]
            ways += [self.read_block(one.body) for one in node.handlers if not isinstance(one.body[-1], ast.Raise)]
        rows = ways[0]  # the body to its end, then each handler that goes on
        for other in ways[1:]:
            rows = _join(rows, other)
        return rows | self.read_block(node.finalbody)


def _follow(before: str, row: str) -> str:
    """Return the row of a name that a later statement binds again."""
    if row == CONDITIONAL and before not in {"", CONDITIONAL}:
        return VALUE
    return row


def _join(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Return the rows after one of two ways, of which nobody knows which one is taken."""
    both = {name: first[name] if first[name] == second[name] else VALUE for name in first.keys() & second.keys()}
    return {name: both.get(name, CONDITIONAL) for name in (*first, *second)}


def _list_targets(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.List, ast.Tuple)):
        for one in node.elts:
            yield from _list_targets(one)
    elif isinstance(node, ast.Starred):
        yield from _list_targets(node.value)


# ---------------------------------------------------------------- definitions


def _read_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    words = [ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
    return "f" if all(word.rpartition(".")[2] in TRANSPARENT for word in words) else VALUE


def _read_assignment(node: ast.stmt) -> Iterator[tuple[str, str]]:
    targets: list[ast.expr] = []
    value: ast.expr | None = None
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets, value = [node.target], node.value if isinstance(node, ast.AnnAssign) else None
    if isinstance(node, ast.AnnAssign) and value is None:
        return  # it declares a type, and makes no name
    for target in targets:
        for name in _list_targets(target):
            yield name, _write_constant(value) if value is not None and isinstance(target, ast.Name) else VALUE


def _write_constant(node: ast.expr) -> str:
    """Return the row of a value: a constant if the text says all of it, also as an ordered dictionary."""
    call = node if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "OrderedDict" else None
    try:
        is_ordered = call is not None and len(call.args) == 1
        text = repr(dict(ast.literal_eval(call.args[0])) if call and is_ordered else ast.literal_eval(node))
    except (TypeError, ValueError):  # no literal, or one of a dictionary that has no pairs
        return VALUE
    return f"={text}" if len(text) <= (MAX_TEXT if text[0] in "\"'" else MAX_CONSTANT) else VALUE


# ---------------------------------------------------------------- what statements cannot show


def _list_changed(tree: ast.AST) -> Iterator[str]:
    """Yield the names whose value the module changes after it is made."""
    for node in ast.walk(tree):
        target: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            target = node.func.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = node.value
        if isinstance(target, ast.Name):
            yield target.id


def _read_inner_constants(tree: ast.Module) -> dict[str, str]:
    """Return the tables and lists in functions of the module, such as `_get_cuda_arch_flags.named_arches`."""
    return {
        f"{function.name}.{name}": row
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for name, row in _read_assignment(statement)
        if row.startswith(("=[", "={")) and row.count(",") >= FEWEST
    }


def _note_dynamic(tree: ast.Module, found: ModuleNames) -> None:
    """Note by which ways a module has names that no statement of it binds."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            answers = set(_list_answers(node))
            found.is_open |= not answers
            defined = {one.name: "c" for one in tree.body if isinstance(one, ast.ClassDef)}
            for name in answers:  # it may define a class, and delete the name until it is asked for
                found.rows.setdefault(name, defined.get(name, VALUE))
    for inner in ast.walk(tree):
        _note_proxy(inner, tree, found)
        for name in _list_written(inner):
            if name:
                found.rows.setdefault(name, CONDITIONAL)
            else:
                found.is_open = True


def _list_answers(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a module's `__getattr__` answers, if it raises for all others; else nothing."""
    asked = function.args.args[0].arg
    *conditions, last = [node for node in function.body if not isinstance(node, ast.Expr)]
    names = [_read_comparison(node, asked) for node in conditions]
    if isinstance(last, ast.Raise) and all(names):
        yield from filter(None, names)


def _read_comparison(node: ast.stmt, asked: str) -> str:
    """Return `NAME` of a statement `if asked == "NAME": …`; "" for any other one."""
    test = node.test if isinstance(node, ast.If) and not node.orelse else None
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or test.left.id != asked:
        return ""
    word = test.comparators[0]
    is_equal = isinstance(test.ops[0], ast.Eq) and isinstance(word, ast.Constant)
    return str(word.value) if is_equal and isinstance(word, ast.Constant) else ""


def _list_written(node: ast.AST) -> Iterator[str]:
    """Yield the names that are written through the module's dictionary; "" for one that the text does not say."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "globals()":
        yield node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""
    if isinstance(node, ast.Call):
        words = ast.unparse(node.func)
        first = ast.unparse(node.args[0]) if node.args else ""
        if words == "globals().update" or (words == "setattr" and first.startswith("sys.modules[")):
            yield ""


def _note_proxy(node: ast.AST, tree: ast.Module, found: ModuleNames) -> None:
    """Add the attributes of a class whose object takes the module's place, as in torch.backends."""
    if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "sys.modules[__name__]":
        return
    made = node.value.func if isinstance(node.value, ast.Call) else None
    kinds = [one for one in tree.body if isinstance(one, ast.ClassDef) and made and one.name == ast.unparse(made)]
    if not kinds or [ast.unparse(base) for base in kinds[0].bases] != ["PropModule"]:
        found.is_open = True
        return
    found.has_proxy = True
    inner = _StatementReader("").read_block(kinds[0].body)
    for name in filterfalse(_is_special, inner):
        found.rows[name] = "f" if inner[name] == "f" else VALUE
