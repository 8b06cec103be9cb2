"""Rules about compiled code for the CPU: the Python it is for, the limited API, and the DLLs it imports on Windows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from ci_tools.catalog.providers import windows_libraries
from ci_tools.errors import Rejected
from ci_tools.formats.binaries.pe import Import
from ci_tools.machine.process import Ended, run, start_module, tail
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor, admits, parse_specifiers
from ci_tools.verify.audit.metadata.labels import requirements
from ci_tools.verify.audit.subject import Flaw, Member, Subject, abbreviate

MAX_PYTHONS = 20  # newer than that of a tag
EVERY_PYTHON = re.compile(r"py\d+-none-")
ABI3 = re.compile(r"cp3(\d+)-abi3-")
EXTENSIONS = (".so", ".pyd")  # the files that abi3audit can read
PYTHON_SYMBOL = re.compile(r"_?Py[A-Z_]")
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


def python_symbols(subject: Subject) -> Iterator[Flaw]:
    """Libraries of a wheel tagged for every Python ask for no Python symbol."""
    if subject.is_pure or not any(EVERY_PYTHON.match(tag) for tag in subject.tags):
        return
    imported = (
        (name, {symbol for one in found if PYTHON_LIBRARY.fullmatch(one.library) for symbol in one.symbols})
        for name, found in subject.readable_imports.items()
    )
    asked = ((name, {*found.required, *found.weak}) for name, found in subject.symbols.items())
    for name, wanted in (*asked, *imported):
        symbols = sorted(filter(PYTHON_SYMBOL.match, wanted))
        if symbols:
            yield Flaw(f"{name} asks for Python symbols", abbreviate(symbols), "none, as tagged py3-none")


def abi3(subject: Subject) -> Iterator[Flaw]:
    """abi3audit agrees that a wheel tagged abi3 keeps to the limited API of its version.

    What only Pythons lack that Requires-Python excludes is a warning: they do not install the wheel, despite its tag.
    """
    lowest = min((Minor.parse(f"3.{match[1]}") for tag in subject.tags if (match := ABI3.match(tag))), default=None)
    libraries = [member for member in subject.members if member.base.endswith(EXTENSIONS)]
    if lowest and libraries:
        named = _write_libraries(libraries, subject.work / "abi3")
        flaws = list(_find_abi3_flaws(subject, lowest, named))
        served = _find_oldest_admitted(subject, lowest) if flaws else lowest
        errors = {flaw.message for flaw in _find_abi3_flaws(subject, served, named)} if served > lowest else set()
        for flaw in flaws:
            is_harmless = served > lowest and flaw.message not in errors
            expected = f"a tag of cp{served.digits}, the oldest that Requires-Python admits"
            yield flaw._replace(level=Level.WARNING, expected=expected) if is_harmless else flaw


def _find_oldest_admitted(subject: Subject, lowest: Minor) -> Minor:
    """Return the oldest Python of an abi3 tag that Requires-Python admits."""
    try:
        specifier = parse_specifiers(subject.wheel.metadata.get("Requires-Python", ""))
    except ValueError:  # said by the rule for Requires-Python
        return lowest
    newer = (Minor(3, minor) for minor in range(lowest.minor, lowest.minor + MAX_PYTHONS))
    return next((python for python in newer if admits(specifier, python)), lowest)


def _find_abi3_flaws(subject: Subject, lowest: Minor, named: Mapping[Path, str]) -> Iterator[Flaw]:
    for path, spec in _run_abi3audit(subject, lowest, tuple(named)).items():
        yield from _check_abi3(named[Path(path)], spec["object"]["result"])


def _write_libraries(libraries: Iterable[Member], folder: Path) -> Mapping[Path, str]:
    """Write libraries under the file names that abi3audit expects, each in its own folder."""
    named = {}
    for number, member in enumerate(libraries):
        path = folder / str(number) / member.base  # two folders may have a library of one name
        path.parent.mkdir(parents=True)
        if isinstance(member.content, bytes):
            path.write_bytes(member.content)
        else:
            path.hardlink_to(member.content)  # a large library is not copied
        named[path] = member.name
    return named


def _run_abi3audit(subject: Subject, lowest: Minor, libraries: tuple[Path, ...]) -> Mapping[str, Mapping[str, Any]]:
    """Return abi3audit's report; its exit status only says that something is wrong, the report says what."""
    report = subject.work / "report.json"
    command = (*start_module("abi3audit"), "--strict", "--assume-minimum-abi3", str(lowest), "--report")
    ended = run([*command, "--output", report, *libraries], log=subject.work / "log")
    return _specs(report, ended, subject.wheel.path.name)


def _specs(report: Path, ended: Ended, wheel: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the specs of a report; raise Rejected if abi3audit could not read the wheel."""
    try:
        specs: Mapping[str, Mapping[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["specs"]
    except (OSError, ValueError) as error:
        raise Rejected(f"abi3audit cannot read {wheel}:\n{tail(ended.log, 8, ended.start)}") from error
    return specs


def _check_abi3(library: str, result: Mapping[str, Any]) -> Iterator[Flaw]:
    if result["is_abi3"] and result["is_abi3_baseline_compatible"]:
        return
    symbols = [*result["non_abi3_symbols"], *result["future_abi3_objects"]]
    expected = f"the limited API of Python {result['baseline']}"
    yield Flaw(f"{library} leaves the limited API of its tag", abbreviate(symbols), expected)


# ---------------------------------------------------------------- Windows


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
