"""Which module of ci_tools may import which, and which of them touch nothing outside."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2] / "ci_tools"

# From low to high. A module imports from lower lines alone, never from its own line or one above.
LAYERS = (
    "errors observer",
    "model workflowcommands",
    "outside process lifeline yamlfile elf confined surroundings binaryformat edition markdown steps tomltext waits"
    # ruff: noqa: ISC004 - one line of the table
    " specifiers seals journal",
    "storage catalog interpreter shape fatbinary torchsymbols sandbox index release runner attestation",
    "registry wheelfile receipts git hooks manifest platformfiles pypirules",
    "config source remotewheel edits cells blocks changes variants sites callers",
    "stage checkup",
    "observation diagnosis",
    "includes",
    "projectfile limitedapi testinfra",
    "backends versionfiles",
    "observing",
    "evidence planner planfile audit sdist starter options finder",
    "buildtorch toolchain planning advise repair notes releaseplan comparison planvalues matrix gathering",
    "builder validator targets summary",
    "transaction finished arguments",
    "adopt publishing upkeep releasepages doctor baseline owners comments",
    "pipeline prover retraction",
    "advisor assembly",
    "terminal",
    "__main__ torchtable",
)
# These decide and do not act: what they know of the world is in their arguments.
PURE = tuple(
    # ruff: noqa: SIM905 - as words they fit on a page
    "advise blocks changes checkup comparison diagnosis edition edits errors includes index journal limitedapi "
    "manifest markdown matrix model notes options outside planner pypirules release shape sites steps summary "
    "workflowcommands".split()
)
OUTSIDE_WORLD = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "getpass http multiprocessing os platform random requests secrets shutil signal socket subprocess sys tarfile "
    "tempfile threading time urllib.request uuid zipfile".split()
)
# lifeline is a script that process starts; process gives its own variables to a command that has none.
# The observer runs beside a project's code, which it ends, and whose variables it makes.
ENDS_A_PROCESS = frozenset({"__main__", "lifeline", "observer"})
SPEAKS = frozenset({"__main__", "terminal"})
KNOWS_THE_ENVIRONMENT = frozenset({"__main__", "observer", "process", "torchtable"})
ACTS = frozenset({"open", "print", "input", "exec", "eval", "exit", "read_text", "read_bytes", "write_text", "mkdir"})


class Import(NamedTuple):
    """A module that imports another one, and where."""

    importer: str
    imported: str
    line: int


def level(module: str) -> int:
    return next(number for number, line in enumerate(LAYERS) if module in line.split())


def modules() -> dict[str, ast.Module]:
    """Return every module, those of a package together under its name."""
    files = {path: path.relative_to(ROOT).parts for path in ROOT.rglob("*.py") if path.parent.name != "__pycache__"}
    return {
        ".".join(parts).removesuffix(".py").removesuffix(".__init__"): ast.parse(path.read_text(encoding="utf-8"))
        for path, parts in files.items()
        if parts != ("__init__.py",)
    }


MODULES = modules()


def imports() -> list[Import]:
    """Return every import of one module by another, those for types alone included."""
    return [
        Import(name.partition(".")[0], imported, line)
        for name, module in MODULES.items()
        for imported, line in _imported(module)
        if imported in {other.partition(".")[0] for other in MODULES} and imported != name.partition(".")[0]
    ]


def _imported(module: ast.Module) -> list[tuple[str, int]]:
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == "ci_tools":
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ci_tools."):
            found.append(((node.module or "").split(".")[1], node.lineno))
        elif isinstance(node, ast.Import):
            found += [(alias.name.split(".")[1], node.lineno) for alias in node.names if "ci_tools." in alias.name]
    return found


def test_every_module_has_a_layer_and_every_layer_its_modules() -> None:
    assert sorted(" ".join(LAYERS).split()) == sorted({name.partition(".")[0] for name in MODULES})


def test_imports_go_downwards() -> None:
    assert len(imports()) > 50
    upward = [found for found in imports() if level(found.importer) <= level(found.imported)]
    assert upward == []


def test_imports_are_never_relative() -> None:
    nodes = (node for module in MODULES.values() for node in ast.walk(module) if isinstance(node, ast.ImportFrom))
    assert [node.lineno for node in nodes if node.level] == []


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_does_nothing(name: str) -> None:
    nodes = list(ast.walk(MODULES[name]))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert (imported & OUTSIDE_WORLD, called(name) & ACTS) == (set(), set())


@pytest.mark.parametrize("name", sorted(MODULES.keys() - SPEAKS))
def test_a_library_module_never_prints(name: str) -> None:
    assert called(name) & {"print", "input"} == set()


@pytest.mark.parametrize("name", [name for name in sorted(MODULES) if name.partition(".")[0] not in ENDS_A_PROCESS])
def test_a_library_module_never_exits(name: str) -> None:
    assert called(name) & {"exit", "_exit", "abort"} == set()


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_asserts_nothing(name: str) -> None:
    assert [node.lineno for node in ast.walk(MODULES[name]) if isinstance(node, ast.Assert)] == []


@pytest.mark.parametrize(
    "name", [name for name in sorted(MODULES) if name.partition(".")[0] not in KNOWS_THE_ENVIRONMENT]
)
def test_a_module_reads_no_environment_by_itself(name: str) -> None:
    nodes = (node for node in ast.walk(MODULES[name]) if isinstance(node, ast.Attribute))
    assert [node.lineno for node in nodes if node.attr in {"environ", "getenv"} and _name(node.value) == "os"] == []


def called(name: str) -> set[str]:
    """Return the names of all that a module calls."""
    return {_name(node.func) for node in ast.walk(MODULES[name]) if isinstance(node, ast.Call)}


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def test_the_benchmarks_of_style_hold() -> None:
    functions = [node for module in MODULES.values() for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    lengths = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    median, high, longest = lengths[len(lengths) // 2], lengths[len(lengths) * 9 // 10], lengths[-1]
    assert (median <= 9, high <= 30, longest <= 50) == (True, True, True), (median, high, longest)
