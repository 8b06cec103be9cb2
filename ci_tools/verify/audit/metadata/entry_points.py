"""A rule about entry points: each must name an object in the wheel or in a package it requires."""

from __future__ import annotations

import ast
import re
import warnings
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import suppress
from typing import TYPE_CHECKING

from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import Flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.verify.audit.subject import Member, Subject

__all__ = ["entry_points"]

ENTRY_POINT = re.compile(r"(?P<module>[\w.]+)\s*(?::\s*(?P<object>[\w.]+))?\s*(?:\[[^\]]*\])?")  # PyPA's specification
SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
DATA = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")
MODULE = re.compile(r"(?P<path>.+?)(?:/__init__)?(?P<kind>\.py|\.[\w.-]*so|\.[\w.-]*pyd)")
DEEPEST = 200  # folders within folders
MOST_CODE = 1 << 20  # bytes; a larger module is not parsed for its names
MAKES_NAMES = frozenset({"globals", "vars", "exec", "setattr", "__getattr__", "modules"})


def entry_points(subject: Subject) -> Iterator[Flaw]:
    """Every entry point names a module of the wheel, and an object that this module defines.

    An error for a command, which could not start; a warning for entry points that other programs look up, which may
    never happen. A module of another top-level package is a warning if the wheel requires a project that may contain
    it. A module that makes its names at run time is not judged.
    """
    parser = ConfigParser(delimiters=("=",), strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of commands are case-sensitive
    try:
        parser.read_string(subject.wheel.dist_info_text("entry_points.txt"))
    except ConfigError as error:
        yield Flaw("entry_points.txt cannot be read", " ".join(str(error).split()), "sections of name = module:object")
        return
    modules = _modules(subject)
    for section in parser.sections():
        for name, value in parser.items(section):
            found = ENTRY_POINT.fullmatch(value)
            if not found or (section in SCRIPTS and not found["object"]):
                yield Flaw(f"entry point {name} names no object", value, "module:object")
            elif flaw := _broken(found["module"], found["object"] or "", modules, subject):
                level = flaw.level if section in SCRIPTS else Level.WARNING
                yield flaw._replace(message=f"entry point {name}: {flaw.message}", level=level)


def _broken(module: str, name: str, modules: Mapping[str, Member | None], subject: Subject) -> Flaw | None:
    """Return the flaw of an entry point whose module or object is missing, or None."""
    if module not in modules:
        is_ours = module.partition(".")[0] in modules or not subject.wheel.metadata.get_all("Requires-Dist")
        level = Level.ERROR if is_ours else Level.WARNING
        return Flaw("the wheel does not have its module", module, "a module of the wheel", level)
    member, first = modules[module], name.partition(".")[0]
    names = _names(member) if member else None
    if first and names is not None and first not in names and f"{module}.{first}" not in modules:
        return Flaw(f"{module} does not define its object", first, "a name of that module")
    return None


def _modules(subject: Subject) -> Mapping[str, Member | None]:
    """Return the wheel's modules by name, each with its Python file; None for one without a file to read."""
    found: dict[str, Member | None] = {}
    for member in subject.members:
        name = DATA.sub("", member.name)
        match = MODULE.fullmatch(name)
        parts = (match["path"] if match else name).split("/")[:DEEPEST]
        for count in range(1, len(parts)):  # any folder is a package (PEP 420)
            found.setdefault(".".join(parts[:count]), None)
        if match:
            found[".".join(parts)] = member if match["kind"] == ".py" else None
    return found


def _names(member: Member) -> frozenset[str] | None:
    """Return the names that a module defines in any branch, or None if only running it would show them."""
    if member.info.file_size > MOST_CODE or member.damage:
        return None
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = frozenset(name for node in ast.walk(ast.parse(member.read())) for name in _find_bindings(node))
        return None if names & (MAKES_NAMES | {"*"}) else names
    return None


def _find_bindings(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds, in functions too, and the calls that may bind others."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store) or node.id in MAKES_NAMES:
            yield node.id
    elif isinstance(node, ast.Attribute) and node.attr in MAKES_NAMES:
        yield node.attr
