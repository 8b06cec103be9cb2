"""Rules about what the loader must find for a library: other libraries, their symbols and their versions."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ci_tools.catalog.symbols import is_in_every_process, is_torch_symbol, missing_in
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor
from ci_tools.verify.audit.libraries.extensions import find_extensions
from ci_tools.verify.audit.subject import DATA, Flaw, Subject, abbreviate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.formats.binaries.elf import Linking

OF_ONE_PYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3\d+(?P<flags>[a-z]*)-")
PYTHON = re.compile(r"_?Py[A-Z_]")
# Libraries whose symbols all have versions, and the loader: what has none comes from elsewhere.
VERSIONED = re.compile(
    r"(?:libc|libm|libdl|libpthread|librt|libutil|libresolv|libgcc_s|libstdc\+\+)\.so\.\d+|ld(?:64)?-[\w.-]+"
)
# Python itself is linked with these, so that an extension takes their symbols without naming them.
OF_EVERY_PYTHON = re.compile(r"(?:libc|libm|libdl|libpthread|librt|libutil)\.so\.\d+|ld(?:64)?-[\w.-]+")
ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})")


def python_versions(subject: Subject) -> Iterator[Flaw]:
    """Libraries for one Python take no symbol that it lacks: newer, removed, or of the other build of it.

    The tables are of Linux; a symbol that they know of no Python is judged by the rule for undefined symbols.
    """
    for tag in sorted(subject.tags):
        match = OF_ONE_PYTHON.match(tag)
        if match is None:
            continue
        python, is_free = Minor(3, int(match["minor"])), "t" in match["flags"]
        asked = {name: frozenset(found.required) for name, found in subject.symbols.items()}
        asked |= {
            name: frozenset().union(*(each.symbols for each in found))
            for name, found in subject.readable_imports.items()
        }
        asked |= {
            name: frozenset().union(*(each.required for each in found))
            for name, found in subject.readable_machos.items()
        }
        for name, symbols in asked.items():
            lacking = missing_in(python, filter(PYTHON.match, symbols - subject.defined), is_free=is_free)
            if lacking:
                build = f"{python}t" if is_free else str(python)
                effect = f"the import fails on Python {build}: undefined symbol"
                yield Flaw(
                    f"{name} asks for symbols that Python {build} lacks",
                    abbreviate(lacking),
                    "its own API",
                    effect=effect,
                )
        return


def undefined(subject: Subject) -> Iterator[Flaw]:
    """Every symbol that a library takes from others is defined by one of them, and each version's library is needed.

    Judged where all libraries that it needs are known: those of the wheel, and those of glibc and gcc, whose symbols
    have versions. An error for an extension module, whose symbols Python looks up at once; a warning for other
    libraries, and if another package may define the symbol.
    """
    if subject.is_pure:
        return
    names = subject.own_names
    modules = {one.member.name for one in find_extensions(subject) if one.is_module}
    for name, found in subject.symbols.items():
        linked = subject.readable_linkings[name]
        owners = {owner for owner in found.required.values() if owner and not OF_EVERY_PYTHON.fullmatch(owner)}
        lost = owners - _closure(subject, linked, names)
        if lost:
            effect = "the loader ends the process, or refuses the library"
            yield Flaw(
                f"{name} asks for versions of libraries that it does not need",
                abbreviate(lost),
                "DT_NEEDED",
                effect=effect,
            )
        if all(VERSIONED.fullmatch(one) or one in names for one in linked.needed):
            unowned = {one for one, owner in found.required.items() if not owner}
            unknown = unowned - subject.defined
            lacking = {one for one in unknown if not (is_in_every_process(one) or is_torch_symbol(one))}
            if lacking:
                level = Level.ERROR if name in modules and not subject.may_rely_on_others else Level.WARNING
                effect = "the import fails: undefined symbol"
                yield Flaw(
                    f"{name} takes symbols that nothing defines",
                    abbreviate(lacking),
                    "a library that it needs",
                    level,
                    effect,
                )


def _closure(subject: Subject, linked: Linking, names: frozenset[str]) -> frozenset[str]:
    """Return the libraries that are loaded with one: those it needs, and those that the wheel's own among them need."""
    by_name = {one.name or name.rpartition("/")[2]: one for name, one in subject.readable_linkings.items()}
    found, left = set(), [*linked.needed]
    while left:
        library = left.pop()
        if library not in found:
            found.add(library)
            left += by_name[library].needed if library in names and library in by_name else ()
    return frozenset(found)


def needed(subject: Subject) -> Iterator[Flaw]:
    """Run paths lead to each library of the wheel that an extension module needs.

    A warning if the package loads libraries itself, which may be the needed ones. A path in place of a library's name
    is an error: it is one of the build machine.
    """
    for name, one in subject.readable_linkings.items():
        paths = [library for library in one.needed if "/" in library]
        if paths:
            effect = "the import fails wherever that file is not"
            yield Flaw(f"{name} needs a library by its path", abbreviate(paths), "a name: ld -soname", effect=effect)
    installed = {DATA.sub("", name): found for name, found in subject.readable_linkings.items()}
    for module in () if subject.is_pure else find_extensions(subject):
        if module.is_module and module.member.name in subject.readable_linkings:
            lost = _unreached(DATA.sub("", module.member.name), installed)
            if lost:
                level = Level.WARNING if subject.loads_by_path else Level.ERROR
                effect = f"`import {module.module.replace('/', '.')}` fails: cannot open shared object file"
                message = f"{module.member.name} does not reach a library of the wheel that it needs"
                yield Flaw(message, abbreviate(lost), "a run path such as $ORIGIN", level, effect)


def _unreached(root: str, linkings: Mapping[str, Linking]) -> frozenset[str]:
    """Return the libraries of the wheel that the loader does not find for one, in its order: breadth first."""
    by_base: dict[str, set[str]] = {}
    for name, one in linkings.items():
        for each in {name.rpartition("/")[2], one.name or ""} - {""}:
            by_base.setdefault(each, set()).add(name)
    lost: set[str] = set()
    known = {linkings[root].name or ""}  # a library that is loaded is found again by its soname
    queue: list[tuple[str, tuple[str, ...]]] = [(root, ())]
    while queue:
        file, inherited = queue.pop(0)
        one = linkings[file]
        inherited = (*_folders(file, one.inherited_paths), *inherited)
        for library in one.needed:
            if library in known or library not in by_base:
                continue
            known.add(library)
            places = (posixpath.normpath(f"{each}/{library}") for each in (*_folders(file, one.run_paths), *inherited))
            found = next((place for place in places if place in linkings), None)
            if found is None:
                lost.add(library)
            else:
                known.add(linkings[found].name or "")
                queue.append((found, inherited))
    return frozenset(lost)


def _folders(file: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of a library's run paths."""
    origin = posixpath.dirname(file) or "."
    return tuple(ORIGIN.sub(origin, part) for text in paths for part in text.split(":"))
