"""Makes an sdist smart: puts the lock and the backend into it, and names that backend in its pyproject.toml."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

from ci_tools.build.sdist import write_with_date
from ci_tools.errors import InputError, Rejected
from ci_tools.formats.tar import UNREADABLE, tarfile
from ci_tools.formats.toml import parse_toml
from ci_tools.install import fatwheel_backend
from ci_tools.install.lock import BuildSystem
from ci_tools.model.files import EPOCH
from ci_tools.source.syntax import parse_module

FOLDER = "_fatwheel"  # of the backend in an sdist: a module at its root could hide one that the project imports
BACKEND = f"{FOLDER}/{fatwheel_backend.__name__.rpartition('.')[2]}.py"
LEGACY = BuildSystem(("setuptools>=40.8.0",), fatwheel_backend.LEGACY)  # what PEP 517 prescribes without a table
HEADER = re.compile(r"^[ \t]*\[[ \t]*build-system[ \t]*\][ \t]*(?:#.*)?\r?\n?", re.MULTILINE)
NEXT = re.compile(r"^[ \t]*\[", re.MULTILINE)
OURS = f"""[build-system]
# Installs a prebuilt wheel of this release if {fatwheel_backend.LOCK} has one that fits, and else builds with the
# project's own backend, which that file names as well.
requires = []
build-backend = "{Path(BACKEND).stem}"
backend-path = ["{FOLDER}"]
"""

SERVES = f"""\
# `python setup.py bdist_wheel` takes the wheel of this release that fits, as pip does.
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "{FOLDER}"))
import {Path(BACKEND).stem}
del sys.path[0]
{Path(BACKEND).stem}.serve_setup(sys.argv)

""".encode()


def is_smart(sdist: Path) -> bool:
    """Whether an sdist has a lock and the backend; raise Rejected if it cannot be read."""
    top = sdist.name.removesuffix(".tar.gz")
    with _opened(sdist) as archive:
        return {f"{top}/{fatwheel_backend.LOCK}", f"{top}/{BACKEND}"} <= {*archive.getnames()}


def list_files(sdist: Path) -> tuple[str, ...]:
    """Return the files in an sdist, relative to its folder; raise Rejected if it cannot be read."""
    with _opened(sdist) as archive:
        return tuple(member.name.partition("/")[2] for member in archive if member.isfile())


def make_smart(sdist: Path, sink: BinaryIO, lock: Callable[[BuildSystem], str]) -> None:
    """Write an sdist to `sink` with the lock that `lock` returns for its build system, and with the backend.

    The same sdist and lock always give the same bytes. Raises Rejected if the sdist is smart already, or has no
    pyproject.toml that can be changed without changing anything else.
    """
    top = sdist.name.removesuffix(".tar.gz")
    with _opened(sdist) as archive:
        names = {*archive.getnames()}
        for own in (f"{top}/{fatwheel_backend.LOCK}", f"{top}/{FOLDER}"):
            if own in names or any(name.startswith(f"{own}/") for name in names):
                raise Rejected(f"{sdist.name} has {own} already, which is where its lock or backend would lie")
        config = f"{top}/pyproject.toml"
        file = archive.extractfile(config) if config in names else None
        text = file.read().decode("utf-8") if file else ""
        script = archive.extractfile(f"{top}/setup.py") if f"{top}/setup.py" in names else None
        setup = script.read() if script else b""
    system = read_build_system(text, f"{sdist.name}: pyproject.toml")
    backend = Path(fatwheel_backend.__file__).read_bytes()
    changed = {
        config: _name_backend(text, sdist.name).encode(),
        f"{top}/{fatwheel_backend.LOCK}": lock(system).encode(),
        f"{top}/{BACKEND}": backend,
        **({f"{top}/setup.py": _serve_setup(setup)} if setup else {}),
    }
    write_with_date(sdist, sink, EPOCH, changed)


def _serve_setup(script: bytes) -> bytes:
    """Return a setup.py that lets the backend serve `bdist_wheel`, unchanged if it cannot be parsed."""
    module = parse_module(script)
    if module is None:
        return script
    body = module.body
    is_first = [_comes_first(node) for node in body]
    number = is_first.index(False) if False in is_first else len(body)
    if number == len(body):  # it calls nothing
        return script
    line = body[number].lineno - len(getattr(body[number], "decorator_list", []))
    lines = script.splitlines(keepends=True)
    served = b"".join([*lines[: line - 1], SERVES, *lines[line - 1 :]])
    return served if _has_added(script, served) else script


def _has_added(before: bytes, after: bytes) -> bool:
    """Whether a script is as before but for what serves: a line may begin within a text of several lines."""
    old, new, added = (module.body if (module := parse_module(text)) else [] for text in (before, after, SERVES))
    if not old or not new:
        return False
    first = next(number for number, node in enumerate(old) if not _comes_first(node))
    wanted = [*old[:first], *added, *old[first:]]
    return list(map(ast.dump, new)) == list(map(ast.dump, wanted))


def _comes_first(node: ast.stmt) -> bool:
    """Whether a statement has to stay at the start of a module: its docstring, and imports from __future__."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _opened(sdist: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(sdist)
    except UNREADABLE as error:
        raise Rejected(f"{sdist.name} cannot be read: {error}") from error


def read_build_system(text: str, where: str) -> BuildSystem:
    """Return the build system that the text of a pyproject.toml names; without one, the one that PEP 517 prescribes."""
    table = parse_toml(text, where).get("build-system")
    if not isinstance(table, dict):
        return LEGACY
    requires, path = table.get("requires", []), table.get("backend-path", [])
    named = table.get("build-backend", fatwheel_backend.LEGACY)
    if not (_are_texts(requires) and _are_texts(path) and isinstance(named, str)):
        raise Rejected(f"{where}: [build-system] is not as PEP 518 and PEP 517 describe it")
    return BuildSystem(tuple(requires), named, tuple(path))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _name_backend(text: str, sdist: str) -> str:
    """Return the text of a pyproject.toml with our build system in place of its own."""
    header = HEADER.search(text)
    if header is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        edited = f"{text}{gap}{OURS}"
        return edited if _is_same_but_ours(text, edited) else _refuse(sdist)
    ends = [*(header.end() + found.start() for found in NEXT.finditer(text[header.end() :])), len(text)]
    # A line of an array may begin with a bracket too: the first end that changes nothing else is the right one.
    candidates = (f"{text[: header.start()]}{OURS}\n{text[end:]}" for end in ends)
    return next((one for one in candidates if _is_same_but_ours(text, one)), "") or _refuse(sdist)


def _is_same_but_ours(before: str, after: str) -> bool:
    """Whether an edited pyproject.toml has our build system, and everything else as before."""
    try:
        old, new = (parse_toml(text, "pyproject.toml") for text in (before, after))
    except InputError:
        return False
    old.pop("build-system", None)
    return new.pop("build-system", None) == parse_toml(OURS, "ours")["build-system"] and old == new


def _refuse(sdist: str) -> NoReturn:
    msg = f"{sdist}: the table [build-system] of its pyproject.toml cannot be replaced"
    raise Rejected(msg, hint="write it as a table of its own: a line [build-system], and its keys below")
