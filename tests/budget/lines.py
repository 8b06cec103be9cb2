"""Counts the lines of Python in ci_tools: per room, stand-ins with the room they serve, and per verb."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ci_tools.formats.toml import parse_toml

TABLE = Path(__file__).with_name("lines.toml")
TOP = "ci_tools"


class Count(NamedTuple):
    """The lines of a room, a verb or the whole, and the most that the table allows."""

    kind: str
    name: str
    lines: int
    ceiling: int | None  # None: the table has no row for it, or it has a row for something that is gone

    @property
    def is_over(self) -> bool:
        """Whether it has more lines than the table allows, or is not where the table says."""
        return self.ceiling is None or self.lines > self.ceiling

    def __str__(self) -> str:
        of = "no row that fits" if self.ceiling is None else f"of {self.ceiling:,}"
        return f"{self.kind:<5} {self.name:<20} {self.lines:>7,} {of}{'  <- too much' if self.is_over else ''}"


def count_lines(root: Path, table: Path = TABLE) -> list[Count]:
    """Return every count of a repository, and each row of the table that nothing in the repository has."""
    rows = parse_toml(table.read_text(encoding="utf-8"), table.name)
    files = {_dotted(path.relative_to(root)): path for path in sorted((root / TOP).rglob("*.py"))}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in files.items()}
    rooms: Counter[str] = Counter()
    for name, count in lines.items():
        rooms[name.split(".")[1] if "." in name else TOP] += count
    verbs = {verb: sum(lines[name] for name in reached) for verb, reached in _reach(files).items()}
    whole = {TOP: sum(lines.values())}
    tested = (path for path in (root / "tests").rglob("*.py") if root / "tests" / "maintain" not in path.parents)
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tested)
    per_thousand = {"tests per 1,000": 1000 * tests // whole[TOP]}
    counted = {"room": rooms, "verb": verbs, "all": {**whole, **per_thousand}}
    return [
        Count(kind, name, numbers.get(name, 0), rows[kind].get(name) if name in numbers else None)
        for kind, numbers in counted.items()
        for name in sorted({*numbers, *rows[kind]})
    ]


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _reach(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each verb imports, itself or through others, however late."""
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}
    imports = {name: set(_imported(tree, files)) for name, tree in trees.items()}
    reached = {}
    for verb, module in _verbs(trees[f"{TOP}.cli.verbs"]).items():
        home = f"{TOP}.cli.verbs.{module}"
        found, left = {home}, set(_imported_by(trees[home], verb.split()[-1].replace("-", "_"), files))
        while left:
            found |= left
            left = set().union(*(imports[name] for name in left)) - found
        reached[verb] = found
    return reached


def _verbs(tree: ast.Module) -> dict[str, str]:
    """Return the module of each verb in the table VERBS: the third word of its row, or the first of its name."""
    table = next(node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "VERBS")
    rows = {key.value: value.args[2:] for key, value in zip(table.keys, table.values, strict=True)}
    return {verb: named[0].value if named else verb.partition(" ")[0] for verb, named in rows.items()}


def _imported_by(tree: ast.Module, verb: str, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield what the functions of a verb import, and all of their module that they call, without its siblings."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found: set[str] = set()
    left = {f"declare_{verb}", f"run_{verb}"} & functions.keys()  # a verb without arguments declares none
    while left:
        found |= left
        named = {node.id for name in left for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
        left = named & functions.keys() - found
    body = [node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.name in found]
    yield from _imported(ast.Module(body, []), files)


def _imported(node: ast.AST, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of the toolkit that are imported below a node, but for types only."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom):
        yield from (name for each in node.names if (name := f"{node.module}.{each.name}") in files)
        yield from [node.module] if node.module in files else []
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _imported(child, files)
