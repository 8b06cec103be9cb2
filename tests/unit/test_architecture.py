"""What the modules of ci_tools may do: which touch nothing outside, who prints, who ends a process.

Which room may import which is held by import-linter: the contract is in pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.language.modules import ROOT, find_modules, list_modules, read_module

MAX_MODULES = 15  # in a room; docs/explanation/architecture.md

# These decide and do not act: what they know of the world is in their arguments.
PURE = tuple(
    # ruff: noqa: SIM905 - as words they fit on a page
    "cli.pages cli.pages.layout cli.pages.plan cli.pages.release config.overrides "
    "errors source.includes source.python_api formats.json_file formats.edits formats.markdown "
    "formats.pypi_rules formats.schema github.commands doctor.documents doctor.report "
    "doctor.rules doctor.rules.environments doctor.rules.jobs doctor.rules.jobs "
    "doctor.rules.repository doctor.rules.repository github.step install.lock machine.context model model.edition "
    "model.versions plan.advise.advice plan.advise.option plan.advise.options plan.advise.source_options plan.axes "
    "plan.batches plan.cell_ranges "
    "plan.compare.changes plan.compare.comparison plan.compare.sentences plan.contradictions plan.matrix plan.planner "
    "plan.sites plan.wheel_names index.manifest index.manifest index.pages publish.notes "
    "publish.retention.judgement publish.retention.tags index.units recipes.choice "
    "recipes.due".split()
)
OUTSIDE_WORLD = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "getpass http multiprocessing os platform random requests secrets shutil signal socket subprocess sys tarfile "
    "tempfile threading time urllib.request uuid zipfile".split()
)
# The observer runs beside a project's code, which it ends, and whose variables it makes.
INSIDE = "observe.inside"
# _lifeline is a script that process starts, and hands its variables on; so does process to a command that has none.
# bucket_reader tells sessions of boto apart by the variables that boto itself reads.
BACKEND = "install.fatwheel_backend"  # lies in a user's sdist, and is all that is there
ASKED = "observe.versions.inside"  # a script that runs a project's backend, confined
IN_AN_IMAGE = "build.containers._prepare"  # a script that an image of a build runs
LAUNCHER = "build.units.launcher"  # a script that stands for a compiler
SCRIPTS = ("machine._lifeline", ASKED, IN_AN_IMAGE, LAUNCHER)
ENDS_A_PROCESS = ("__main__", "sandbox._fork_server", *SCRIPTS, INSIDE, BACKEND)
VERBS = tuple(
    f"cli.verbs.{name}"
    for name in (
        "build",
        "catalog",
        "ci",
        "completion",
        "index",
        "install",
        "plan",
        "publish",
        "recipe",
        "releases",
        "repository",
    )
)
SPEAKS = (
    *(*VERBS, "cli.failures", "cli.session", "cli.reporter", "cli.tables.layout"),
    *(BACKEND, IN_AN_IMAGE, LAUNCHER),
)
KNOWS_THE_ENVIRONMENT = (
    *("cli.dispatch", "cli.failures"),
    *("machine.process", "machine._lifeline", "index.objects.bucket_reader", "sandbox._fork_server"),
    *(ASKED, INSIDE, BACKEND, "build.sdk.inside"),
)
# packaging raises these for most of what others wrote, and a plain ValueError for a number of too many digits.
HALF_CAUGHT = frozenset(
    {"InvalidRequirement", "InvalidSdistFilename", "InvalidSpecifier", "InvalidVersion", "InvalidWheelFilename"}
)
READS_VERSIONS = ("model.versions", INSIDE)  # the observer answers a project's code as packaging does
ACTS = frozenset({"open", "print", "input", "exec", "eval", "exit", "read_text", "read_bytes", "write_text", "mkdir"})


def below(rooms: tuple[str, ...]) -> list[str]:
    """Return the modules that are not of these rooms."""
    return [name for name in list_modules() if not f"{name}.".startswith(tuple(f"{room}." for room in rooms))]


class Seen(NamedTuple):
    """What a module imports, calls and catches by name, the lengths of its functions, and where it does the rest."""

    imported: frozenset[str]
    called: frozenset[str]
    caught: frozenset[str]
    lengths: tuple[int, ...]
    asserts: tuple[int, ...]
    reads_environment: tuple[int, ...]


@functools.cache
def see(name: str) -> Seen:
    """Walk over a module's syntax tree, once for all tests of a run."""
    nodes: dict[type[ast.AST], list[Any]] = {}
    for node in ast.walk(ast.parse(read_module(name))):
        nodes.setdefault(type(node), []).append(node)
    modules = {alias.name for node in nodes.get(ast.Import, ()) for alias in node.names}
    asked = [node for node in nodes.get(ast.Attribute, ()) if node.attr in {"environ", "getenv"}]
    handlers = [node.type or node for node in nodes.get(ast.ExceptHandler, ())]
    return Seen(
        imported=frozenset(modules | {node.module or "" for node in nodes.get(ast.ImportFrom, ())}),
        called=frozenset(_name(node.func) for node in nodes.get(ast.Call, ())),
        caught=frozenset(_name(one) for node in handlers for one in ast.walk(node) if isinstance(one, ast.expr)),
        lengths=tuple(node.end_lineno - node.lineno + 1 for node in nodes.get(ast.FunctionDef, ())),
        asserts=tuple(node.lineno for node in nodes.get(ast.Assert, ())),
        reads_environment=tuple(node.lineno for node in asked if _name(node.value) == "os"),
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def test_a_room_holds_few_modules() -> None:
    rooms = {path.parent for path in ROOT.rglob("*.py") if "fakes" not in path.parts}
    counts = {str(room.relative_to(ROOT)): len(list(room.glob("*.py"))) for room in rooms}
    assert {room: count for room, count in counts.items() if count > MAX_MODULES} == {}


def test_no_file_of_tests_lies_where_pytest_does_not_look(pytestconfig: pytest.Config) -> None:
    tests = ROOT.parent / "tests"
    files = [path.relative_to(tests) for path in tests.rglob("test_*.py") if "node_modules" not in path.parts]
    passed_over = pytestconfig.getini("norecursedirs")
    assert [
        name for name in files if any(fnmatch(one, pattern) for one in name.parts[:-1] for pattern in passed_over)
    ] == []


def test_imports_are_never_relative() -> None:
    relative = re.compile(r"^\s*from\s*\.", re.MULTILINE)
    assert [name for name in list_modules() if relative.search(read_module(name))] == []


def test_a_pure_module_does_nothing() -> None:
    done = {name: see(name).imported & OUTSIDE_WORLD | see(name).called & ACTS for name in PURE}
    assert {name: found for name, found in done.items() if found} == {}


def test_a_library_module_never_prints() -> None:
    assert callers({"print", "input"}, below(SPEAKS)) == {}


def test_a_library_module_never_exits() -> None:
    assert callers({"exit", "_exit", "abort"}, below(ENDS_A_PROCESS)) == {}


def test_a_module_asserts_nothing() -> None:
    assert [f"{name}:{line}" for name in find_modules(["assert"]) for line in see(name).asserts] == []


def test_a_module_reads_no_environment_by_itself() -> None:
    others = find_modules(["environ", "getenv"], below(KNOWS_THE_ENVIRONMENT))
    assert [f"{name}:{line}" for name in others for line in see(name).reads_environment] == []


def callers(functions: set[str], names: list[str]) -> dict[str, frozenset[str]]:
    """Return which of some functions are called by which of some modules."""
    return {name: found for name in find_modules(functions, names) if (found := see(name).called & functions)}


def test_the_benchmarks_of_style_hold() -> None:
    lengths = sorted(length for name in list_modules() for length in see(name).lengths)
    assert len(lengths) > 1000
    median, high, longest = lengths[len(lengths) // 2], lengths[len(lengths) * 9 // 10], lengths[-1]
    assert (median <= 9, high <= 30, longest <= 50) == (True, True, True), (median, high, longest)


def test_versions_of_others_are_read_in_one_place() -> None:
    others = below(READS_VERSIONS)
    assert callers({"Version", "SpecifierSet"}, others) == {}
    half = {name: see(name).caught & HALF_CAUGHT for name in find_modules(HALF_CAUGHT, others)}
    assert {name: found for name, found in half.items() if found} == {}


def test_tar_archives_are_unpacked_by_a_module_that_has_filters_on_every_python() -> None:
    one_member = "observe.versions.inside"  # it runs where Fatwheel is not installed, and unpacks nothing
    others = find_modules(["tarfile"], below(("formats.tar", BACKEND, one_member)))
    assert [name for name in others if "tarfile" in see(name).imported] == []
    texts = {path: path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("*.py")}
    assert [path for path, text in texts.items() if "\nimport tarfile" in text and "filter=" in text] == []


def test_the_name_of_a_class_is_that_of_one() -> None:
    imitated = {name for name in list_modules() if ".fakes" in name}
    named = [node.name for name in list_modules().keys() - imitated for node in classes_of(name)]
    assert [name for name, count in Counter(named).items() if count > 1] == []


def classes_of(name: str) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(read_module(name))) if isinstance(node, ast.ClassDef)]
