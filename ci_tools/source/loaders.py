"""Finds how a package loads its own libraries: by `torch.ops.load_library`, for each file that a pattern matches.

Such a library may have any file name that the pattern matches, also one with the suffix of another Python: no `import`
looks for it. And where the call is in a `try` of its own, a library that cannot be loaded does no harm to the others.

Only what is certain by the text counts: a loop over a `glob` in the package's own folder, whose pattern is written out.
"""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.formats.wheel import record_hash
from ci_tools.source.files import Tree
from ci_tools.source.includes import SourceLine
from ci_tools.source.syntax import parse_module

LOAD = "load_library"
LOADS = f"torch.ops.{LOAD}"
WRAPPERS = frozenset({"list", "sorted", "str", "tuple"})  # their results name the same files
# ctypes raises OSError for a library with a symbol that nothing defines: torch loads by it.
CAUGHT = frozenset({"BaseException", "Exception", "OSError"})
ABSOLUTE = ("", ".resolve()", ".absolute()")
FILES = ("__file__", "os.path.abspath(__file__)", "os.path.realpath(__file__)")
HERE = {f"{path}(__file__){end}.parent" for path in ("Path", "pathlib.Path") for end in ABSOLUTE}
HERE |= {f"os.path.dirname({file})" for file in FILES}


class Loader(NamedTuple):
    """A loop that loads every file of a package's folder whose name matches a pattern."""

    folder: str  # in the wheel
    pattern: str  # _C*.so
    place: SourceLine
    is_tolerant: bool  # whether a library that cannot be loaded is passed over

    def takes(self, member: str) -> bool:
        """Whether a library of the wheel is loaded here."""
        path = PurePosixPath(member)
        return str(path.parent) == self.folder and fnmatch.fnmatchcase(path.name, self.pattern)


def find_loaders(tree: Tree, members: Iterable[tuple[str, str]]) -> tuple[Loader, ...]:
    """Return the loaders in a wheel's Python files; `members` are their paths and hashes.

    A file that the build writes or changes is not read: its text is not in the source.
    """
    return tuple(
        loader
        for member, digest in members
        if member.endswith(".py")
        for name in _find_source(tree, member, digest)
        for loader in _PythonFile(member, name, tree.text(name)).loaders()
    )


def _find_source(tree: Tree, member: str, digest: str) -> Iterator[str]:
    """Yield the file of the source that is a member of the wheel, if its text loads a library."""
    for name in (member, f"src/{member}"):
        if name in tree.names and LOAD in (text := tree.text(name)) and record_hash(text.encode()) == digest:
            yield name
            return


class _PythonFile:
    """The text of one Python file of a package."""

    def __init__(self, member: str, name: str, text: str) -> None:
        self.folder = str(PurePosixPath(member).parent)
        self.name = name
        self.tree = parse_module(text) or ast.Module([], [])
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.values = _find_values(self.tree)

    def loaders(self) -> Iterator[Loader]:
        """Yield the loops that load the files of a pattern."""
        for call in ast.walk(self.tree):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != LOADS or len(call.args) != 1:
                continue
            loop = self.find_loop(call)
            pattern = self.pattern(loop.iter) if loop else None
            if loop and pattern:
                place = SourceLine(self.name, call.lineno)
                yield Loader(self.folder, pattern, place, is_tolerant=self.is_tolerant(call, loop))

    def find_loop(self, call: ast.Call) -> ast.For | None:
        """Return the loop whose variable a call loads, also through str(); None if there is none."""
        loaded = _unwrap(call.args[0])
        for node in self.above(call):
            if isinstance(node, ast.For) and isinstance(loaded, ast.Name) and isinstance(node.target, ast.Name):
                return node if node.target.id == loaded.id else None
        return None

    def pattern(self, files: ast.expr) -> str | None:
        """Return the pattern of a glob in the package's folder, None for anything else."""
        files = self.resolve(_unwrap(files))
        files = self.resolve(_unwrap(files))
        if not isinstance(files, ast.Call) or len(files.args) != 1 or files.keywords:
            return None
        what = files.args[0]  # the pattern, or a join with the folder
        if isinstance(files.func, ast.Attribute) and files.func.attr == "glob" and self.is_here(files.func.value):
            return _file_pattern(what)
        if ast.unparse(files.func) in {"glob.glob", "glob.iglob"} and isinstance(what, ast.Call):
            joins = ast.unparse(what.func) == "os.path.join" and len(what.args) == 2 and self.is_here(what.args[0])  # noqa: PLR2004 - folder, name
            return _file_pattern(what.args[1]) if joins else None
        return None

    def is_here(self, folder: ast.expr) -> bool:
        """Whether an expression is the folder of this file."""
        return ast.unparse(self.resolve(folder)) in HERE

    def resolve(self, value: ast.expr) -> ast.expr:
        """Return what a name stands for, if it is assigned once in the whole file."""
        return self.values.get(value.id) or value if isinstance(value, ast.Name) else value

    def is_tolerant(self, call: ast.Call, loop: ast.For) -> bool:
        """Whether an error of a call ends with its own library: a `try` inside the loop passes over it."""
        inner: ast.AST = call
        for node in self.above(call):
            if node is loop:
                return False
            if isinstance(node, ast.Try) and inner in node.body and any(map(_passes_over, node.handlers)):
                return not any(isinstance(found, ast.Raise) for last in node.finalbody for found in ast.walk(last))
            inner = node
        return False

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node


def _find_values(tree: ast.Module) -> Mapping[str, ast.expr]:
    """Return the value of each name that a file binds once, by a plain assignment."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.setdefault(node.id, []).append(None)  # an assignment's own target, and any other binding
    return {name: found[0] for name, found in bound.items() if len(found) == 2 and found[0] is not None}  # noqa: PLR2004 - value and target


def _unwrap(value: ast.expr) -> ast.expr:
    """Return what list(), sorted() or str() is given."""
    while isinstance(value, ast.Call) and ast.unparse(value.func) in WRAPPERS and len(value.args) == 1:
        value = value.args[0]
    return value


def _file_pattern(value: ast.expr) -> str | None:
    """Return a pattern that is written out and names files of one folder only."""
    text = value.value if isinstance(value, ast.Constant) else None
    return text if isinstance(text, str) and "/" not in text and "\\" not in text and "**" not in text else None


def _passes_over(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches the error of a library that cannot be loaded, and goes on."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type] if handler.type else []
    catches = not kinds or any(ast.unparse(kind) in CAUGHT for kind in kinds)
    ends = (ast.Raise, ast.Return, ast.Break)  # each of them ends the loop
    calls_exit = any(
        isinstance(node, ast.Call) and ast.unparse(node.func) in {"exit", "quit", "sys.exit", "os._exit", "os.abort"}
        for node in ast.walk(handler)
    )
    return catches and not calls_exit and not any(isinstance(node, ends) for node in ast.walk(handler))
