"""A rule about entry points: each must name an object in the wheel or in a package it requires."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import suppress

from packaging.utils import canonicalize_name

from ci_tools.errors import Rejected
from ci_tools.formats.wheel import Wheel
from ci_tools.model.files import Level
from ci_tools.source.syntax import parse_module
from ci_tools.verify.audit.subject import DATA, Flaw, Member, Subject

ENTRY_POINT = re.compile(
    r"(?P<module>[\w.]+)\s*(?::\s*(?P<object>[\w.]+))?\s*(?:\[[^\]]*[^\]\s][^\]]*\])?"
)  # PyPA's specification
SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
MODULE = re.compile(r"(?P<path>.+?)(?:/__init__)?(?P<kind>\.py|\.[\w.-]*so|\.[\w.-]*pyd)")
COMMAND = re.compile(r"[\w.-]+")  # PyPA, entry points: other characters are not recommended
GROUP = re.compile(r"\w+(?:[.-]\w+)*")
DEEPEST = 200  # folders within folders
MAX_CODE = 1 << 20  # bytes; a larger module is not parsed for its names
MAKES_MODULES = re.compile(rb"\bsys\.(?:modules|meta_path)\b|\b__path__\b")
MAKES_NAMES = frozenset({"globals", "vars", "exec", "setattr", "__getattr__", "modules"})


def entry_points(subject: Subject) -> Iterator[Flaw]:
    """Every entry point names a module of the wheel, and an object that this module defines.

    An error for a command, which could not start; a warning for entry points that other programs look up, which may
    never happen. A module of another top-level package is a warning if the wheel requires a project that may contain
    it. A module that makes its names at run time is not judged.
    """
    try:
        points = _parse(subject.wheel)
    except ConfigError as error:
        yield Flaw("entry_points.txt cannot be read", " ".join(str(error).split()), "sections of name = module:object")
        return
    yield from _odd_commands(points, subject)
    modules = _modules(subject)
    for section, rows in points.items():
        for name, value in rows.items():
            found = ENTRY_POINT.fullmatch(value)
            if not found or "\n" in value or (section in SCRIPTS and not found["object"]):
                yield Flaw(f"entry point {name} names no object", value, "module:object")
            elif flaw := _broken(found["module"], found["object"] or "", modules, subject):
                level = flaw.level if section in SCRIPTS else Level.WARNING
                yield flaw._replace(message=f"entry point {name}: {flaw.message}", level=level)


def read_entry_points(wheel: Wheel) -> Mapping[str, Mapping[str, str]]:
    """Return a wheel's entry points by their sections; none if they cannot be read, which the rule for them says."""
    with suppress(ConfigError, Rejected):
        return _parse(wheel)
    return {}


def _parse(wheel: Wheel) -> Mapping[str, Mapping[str, str]]:
    parser = ConfigParser(delimiters=("=",), strict=True, interpolation=None)  # a % has no meaning there
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of commands are case-sensitive
    parser.read_string(wheel.dist_info_text("entry_points.txt"))
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _odd_commands(points: Mapping[str, Mapping[str, str]], subject: Subject) -> Iterator[Flaw]:
    """Check the names of commands, which become files, and the names of groups."""
    spellings: dict[str, set[str]] = {}
    for section in SCRIPTS & points.keys():
        for name in points[section]:
            spellings.setdefault(name.casefold(), set()).add(f"{section}: {name}")
            if not COMMAND.fullmatch(name):
                expected = "letters, digits, ., _ and - (PyPA, entry points)"
                level = Level.ERROR if "/" in name or "\\" in name or not name else Level.WARNING
                yield Flaw(f"the command {name!r} cannot be the name of a file", name, expected, level)
    for same in spellings.values():
        if len(same) > 1:
            yield Flaw(f"{' and '.join(sorted(same))} are one command", f"{len(same)} of them", "1", Level.WARNING)
    for section in points:
        if not GROUP.fullmatch(section):
            yield Flaw(f"the group {section!r} has no valid name", section, "words with dots between", Level.WARNING)
    yield from _unknown_extras(points, subject)


def _unknown_extras(points: Mapping[str, Mapping[str, str]], subject: Subject) -> Iterator[Flaw]:
    extras = {canonicalize_name(one) for one in subject.wheel.metadata.get_all("Provides-Extra", [])}
    for rows in points.values():
        for name, value in rows.items():
            asked = re.split(r"\s*,\s*", value.partition("[")[2].partition("]")[0].strip()) if "[" in value else []
            for extra in sorted({canonicalize_name(one) for one in asked if one} - extras):
                yield Flaw(
                    f"entry point {name} is for an extra that METADATA lacks", extra, "a Provides-Extra", Level.WARNING
                )


def _broken(module: str, name: str, modules: Mapping[str, Member | None], subject: Subject) -> Flaw | None:
    """Return the flaw of an entry point whose module or object is missing, or None."""
    if module not in modules:
        if _may_be_made(module, modules):
            return None
        is_ours = module.partition(".")[0] in modules or not subject.wheel.metadata.get_all("Requires-Dist")
        level = Level.ERROR if is_ours else Level.WARNING
        return Flaw("the wheel does not have its module", module, "a module of the wheel", level)
    member, first = modules[module], name.partition(".")[0]
    names = _names(member) if member else None
    if first and names is not None and first not in names and f"{module}.{first}" not in modules:
        return Flaw(f"{module} does not define its object", first, "a name of that module")
    return None


def own_imports(subject: Subject) -> Iterator[Flaw]:
    """Modules of the wheel that are always imported with one of its top-level packages are there.

    Only statements that stand by themselves count: one in a `try`, an `if` or a function may never run.
    """
    modules = _modules(subject)
    left = [(name, name) for name in modules if "." not in name]
    known = {name for name, _ in left}
    while left:
        name, first = left.pop()
        member = modules[name]
        if member is None or _is_opaque(member):
            continue
        package = name if member.base == "__init__.py" else name.rpartition(".")[0]
        for asked in sorted(_find_imports(member, package) - known):
            known.add(asked)
            of, _, part = asked.partition(":")
            whole = f"{of}.{part}" if part else of
            if whole in modules:
                left.append((whole, first))
            elif of.partition(".")[0] == first and not (part and _defines(modules.get(of), part, member)):
                asked = whole  # noqa: PLW2901 - the module that is asked for
                if _may_be_made(asked, modules):
                    continue
                effect = f"`import {first}` fails: No module named {asked!r}"
                message = f"{member.name} imports {asked}, which the wheel does not have"
                yield Flaw(message, "no such module", f"{asked.replace('.', '/')}.py", effect=effect)


def _is_opaque(member: Member) -> bool:
    return not member.base.endswith(".py") or bool(member.damage) or member.info.file_size > MAX_CODE


def _may_be_made(name: str, modules: Mapping[str, Member | None]) -> bool:
    """Whether a module without a file may come from the one above it: pybind11's `def_submodule`, or `six.moves`."""
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    above = modules.get(name)
    return above is not None and (_is_opaque(above) or bool(MAKES_MODULES.search(above.read())))


def _defines(member: Member | None, name: str, asking: Member) -> bool:
    """Whether a module has an object, or may have it; what it imports from itself does not count."""
    names = _names(member, but=ast.ImportFrom if member is asking else ()) if member else None
    return names is None or name in names


def _find_imports(member: Member, package: str) -> frozenset[str]:
    """Return the modules that a file imports wherever it is imported itself, each by its whole name."""
    found: set[str] = set()
    module = parse_module(member.read())
    for node in module.body if module else ():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - node.level + 1] if node.level else []
            of = ".".join([*base, *([node.module] if node.module else [])])
            found |= {of, *(f"{of}:{one.name}" for one in node.names if one.name != "*")}
    return frozenset(found)


def _modules(subject: Subject) -> Mapping[str, Member | None]:
    """Return the wheel's modules by name, each with its file; None for a folder without one."""
    found: dict[str, Member | None] = {}
    for member in subject.members:
        name = DATA.sub("", member.name)
        match = MODULE.fullmatch(name)
        parts = (match["path"] if match else name).split("/")[:DEEPEST]
        for count in range(1, len(parts)):  # any folder is a package (PEP 420)
            found.setdefault(".".join(parts[:count]), None)
        if match:
            found[".".join(parts)] = member
    return found


def _names(member: Member, but: type[ast.AST] | tuple[()] = ()) -> frozenset[str] | None:
    """Return the names that a module defines in any branch, or None if only running it would show them."""
    module = None if _is_opaque(member) else parse_module(member.read())
    if module is None:
        return None
    nodes = [*ast.walk(module)]
    names = frozenset(name for node in nodes for name in _find_bindings(node))
    own = frozenset(name for node in nodes if not isinstance(node, but) for name in _find_bindings(node))
    return None if names & (MAKES_NAMES | {"*"}) else own


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
