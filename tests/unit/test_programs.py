"""Every program starts in one place, and as a stranger: nothing that stands in a project's folder is read by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.language.modules import list_modules, parse_nodes

PLACES = ("machine.process", "sandbox.groups")
# What runs alone in another interpreter, where nothing of the toolkit can be imported.
ALONE = {
    "build.containers._prepare": "a Python of a container's image runs it, which has no Fatwheel yet",
    "build.units.launcher": "stands for a compiler in a build, without Fatwheel around it",
    "observe.inside.programs": "runs in the cage, and watches what the project starts",
    "observe.versions.inside": "runs in the cage: a project's own backend, and Meson",
    "install.fatwheel_backend": "lies alone in a user's sdist",
    "machine._lifeline": "is the program by which `process.run` starts every other",
    "sandbox._confined": "becomes the confined program, once it has shut itself in",
    "sandbox._fork_server": "forks itself in the cage",
}
STARTERS = frozenset({"subprocess", "pty", "multiprocessing", "venv", "ensurepip", "webbrowser"})
OF_OS = ("exec", "fork", "popen", "posix_spawn", "spawn", "startfile", "system")
# Who names the folder that a program starts in, and why nothing there can be a project's, or why it has to be.
FOLDERS = {
    "build.bench.shell": "the build itself, in a copy of the source: what a project's own build reads there is its own",
    "observe.versions.ask": "the installer, in the empty folder that it fills",
    "publish.targets.pypi.uploader": "twine or uv, in an empty folder",
    "verify.modules": "a wheel's own modules, in the folder where it is unpacked",
    "verify.validator": "a wheel's own modules and the config's commands, in a new environment",
}
# Python without `-I`: what it runs is a wheel's or the project's own, in an environment and with variables of its own.
UNISOLATED = {
    "observe.setup_py.prepared": "the observer, with -s and -S: a project's code tells from sys.flags how it is run",
    "verify.modules": "imports the wheel from the folder that PYTHONPATH names",
    "verify.validator": "imports the wheel as its users do",
}
PYTHON = re.compile(r"(executable|interpreter|python)$", re.IGNORECASE)
OPTION = re.compile(r"'-(?!I)[A-Za-z]+'")


def starts(name: str) -> Iterator[str]:
    """Yield what a module imports or calls that can start a program."""
    for node in parse_nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in STARTERS)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in STARTERS:
            yield str(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module in {"os", "posix", "asyncio"}:
            yield from (alias.name for alias in node.names if alias.name.startswith((*OF_OS, "create_subprocess")))
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"os", "posix", "asyncio"}:
            yield from (node.attr for start in (*OF_OS, "create_subprocess") if node.attr.startswith(start))


def calls(name: str) -> Iterator[ast.Call]:
    """Yield a module's calls of what `machine.process` starts programs with."""
    nodes = parse_nodes(name)
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "ci_tools.machine.process"]
    known = {alias.asname or alias.name for node in found for alias in node.names} & {"run", "output"}
    yield from (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in known)


def names_folder(call: ast.Call) -> bool:
    """Whether a call names a folder, or might: some keywords come from elsewhere."""
    return any(word.arg in {"cwd", None} for word in call.keywords)


def commands(name: str) -> Iterator[str]:
    """Yield the lists and tuples that begin like the command of a Python that is not isolated."""
    for node in parse_nodes(name):
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
            program, option = map(ast.unparse, node.elts[:2])
            if PYTHON.search(program) and OPTION.fullmatch(option):
                yield ast.unparse(node)


def test_a_program_is_started_in_one_place() -> None:
    elsewhere = {name: found for name in list_modules() if name not in {*PLACES, *ALONE} and (found := [*starts(name)])}
    assert elsewhere == {}


def test_a_program_starts_outside_the_project() -> None:
    assert [name for name in list_modules() if name not in FOLDERS and any(map(names_folder, calls(name)))] == []


def test_a_python_is_isolated() -> None:
    others = (name for name in list_modules() if name not in {*UNISOLATED, *ALONE})
    assert {name: found for name in others if (found := [*commands(name)])} == {}


@pytest.mark.parametrize("table", [ALONE, FOLDERS, UNISOLATED], ids=["alone", "folders", "unisolated"])
def test_an_exception_is_one(table: dict[str, str]) -> None:
    found = {
        id(ALONE): lambda name: any(starts(name)),
        id(FOLDERS): lambda name: any(map(names_folder, calls(name))),
        id(UNISOLATED): lambda name: any(commands(name)),
    }[id(table)]
    assert [name for name in table if not found(name)] == []
