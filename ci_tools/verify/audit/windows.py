"""Rules about Windows libraries: the DLLs that they import, and which Python's is among them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from ci_tools.catalog.windows import windows_libraries
from ci_tools.errors import Rejected
from ci_tools.model.files import Level
from ci_tools.verify.audit.labels import requirements
from ci_tools.verify.audit.subject import Flaw, abbreviate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.formats.pe import Import
    from ci_tools.verify.audit.subject import Subject

__all__ = ["PYTHON_LIBRARY", "imports", "python_library"]

PYTHON_LIBRARY = re.compile(r"python\d+t?\.dll", re.IGNORECASE)
OF_CPYTHON = re.compile(r"cp3\d+-(?P<abi>[a-z0-9]+)-win")
BRINGS_ACCELERATORS = re.compile(r"torch|nvidia-.+|cuda-.+|cupy-.+|rocm.*|intel-.+|dpcpp-.+|onemkl-.+|mkl")
# What there is to do about a library of each owner if the wheel does not say who brings it.
EXPECTED = {
    "": "one of Windows, of a package it requires or of the wheel itself",
    "debug": "the library of a release build: nobody else has this one",
    "redistributable": "a wheel that requires torch, which needs it too, or that brings it as delvewheel adds it",
    "accelerators": "Requires-Dist of what brings it: torch, or a package of NVIDIA's",
}


def imports(subject: Subject) -> Iterator[Flaw]:
    """Windows libraries import DLLs of Windows, Python, torch, a package the wheel requires, or the wheel itself.

    A wheel that requires other packages may rely on one of them, so of wheels that others made that is a warning. So
    is a library that is only loaded once it is called (a delayed import), and the Visual C++ redistributable, which
    most machines have. Python brings vcruntime140.dll, and not msvcp140.dll.
    """
    gaps: dict[tuple[str, Level, tuple[str, ...]], list[str]] = {}
    bringing = _find_packages(subject)
    own = {member.base.lower() for member in subject.members if member.format == "PE"}
    for name, found in subject.imports.items():
        if isinstance(found, Rejected):
            yield Flaw(f"{name} cannot be read: {found.message}", "unreadable", "a whole file")
            continue
        missing: dict[tuple[str, Level], set[str]] = {}
        for each in found:
            if each.library.lower() not in own and (gap := _find_gap(each, bringing, in_plan=subject.job is not None)):
                missing.setdefault(gap, set()).add(each.library)
        for gap, libraries in missing.items():
            gaps.setdefault((*gap, tuple(sorted(libraries))), []).append(name)
    for (owner, level, imported), names in sorted(gaps.items()):
        whose = f"{abbreviate(names)} {'imports' if len(names) == 1 else 'import'} a DLL that users may not have"
        yield Flaw(whose, abbreviate(imported), EXPECTED[owner], level)


def _find_packages(subject: Subject) -> frozenset[str]:
    """Return the names of the wheel's own project and of those it requires."""
    own = {canonicalize_name(subject.wheel.named[0])} if subject.wheel.named else set()
    return frozenset(own | {canonicalize_name(one.name) for one in requirements(subject.wheel)})


def _find_gap(each: Import, bringing: frozenset[str], *, in_plan: bool) -> tuple[str, Level] | None:
    """Return whose a DLL is that no package brings, and how bad that is; None if one does, or Windows has it."""
    owner = "python" if PYTHON_LIBRARY.fullmatch(each.library) else windows_libraries().owner_of(each.library)
    if owner not in EXPECTED:
        return None
    if owner == "debug":
        return owner, Level.ERROR
    if owner == "redistributable":
        return None if "torch" in bringing else (owner, Level.WARNING)
    if owner == "accelerators" and any(map(BRINGS_ACCELERATORS.fullmatch, bringing)):
        return None
    may_be_required = not in_plan and len(bringing) > 1
    return owner, Level.WARNING if may_be_required or each.is_delayed else Level.ERROR


def python_library(subject: Subject) -> Iterator[Flaw]:
    """Windows extensions import the DLL of their tag's Python: python312.dll for cp312, python3.dll for abi3.

    The linker takes whichever import library it finds, so an extension built without Py_LIMITED_API says abi3 in its
    name and asks for one Python all the same. Of an extension for one Python, python3.dll is the same one's as well.
    """
    for tag in sorted(subject.tags):
        match = OF_CPYTHON.match(tag)
        if match is None:
            continue
        fitting = _fitting(tag.partition("-")[0], match["abi"])
        for name, found in subject.readable_imports.items():
            asked = {each.library for each in found if PYTHON_LIBRARY.fullmatch(each.library)}
            if other := {library for library in asked if library.lower() not in fitting}:
                yield Flaw(f"{name} imports the DLL of another Python than {tag}", abbreviate(other), fitting[0])


def _fitting(interpreter: str, abi: str) -> tuple[str, ...]:
    """Return the DLLs of Python that an extension may import, the usual one first."""
    if abi in {"abi3", "abi3t"}:
        return (f"python3{abi.removeprefix('abi3')}.dll",)
    threading = "t" if abi.endswith("t") else ""
    return f"python{interpreter.removeprefix('cp')}{threading}.dll", f"python3{threading}.dll"
