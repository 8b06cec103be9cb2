"""Rules about compiled code for the CPU: the Python symbols it uses and the limited API."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools.errors import Rejected
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.machine.process import run, tail
from ci_tools.model.versions import Minor
from ci_tools.verify.audit.subject import Flaw, abbreviate, read_each
from ci_tools.verify.audit.windows import PYTHON_LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from ci_tools.formats.pe import Import
    from ci_tools.machine.process import Ended
    from ci_tools.verify.audit.subject import Member, Subject

__all__ = ["abi3", "python_symbols"]

EVERY_PYTHON = re.compile(r"py\d+-none-")
ABI3 = re.compile(r"cp3(\d+)-abi3-")
EXTENSIONS = (".so", ".pyd")  # the files that abi3audit can read
PYTHON_SYMBOL = re.compile(r"_?Py[A-Z_]")


def python_symbols(subject: Subject) -> Iterator[Flaw]:
    """Libraries of a wheel tagged for every Python ask for no Python symbol."""
    if subject.is_pure or not any(EVERY_PYTHON.match(tag) for tag in subject.tags):
        return
    imported = ((name, _python_symbols(found)) for name, found in subject.readable_imports.items())
    for name, wanted in (*read_each(subject.libraries, _read_undefined_symbols), *imported):
        symbols = sorted(filter(PYTHON_SYMBOL.match, wanted))
        if symbols:
            yield Flaw(f"{name} asks for Python symbols", abbreviate(symbols), "none, as tagged py3-none")


def _python_symbols(imports: Iterable[Import]) -> frozenset[str]:
    """Return the names that a Windows library takes from a DLL of Python."""
    found = (each.symbols for each in imports if PYTHON_LIBRARY.fullmatch(each.library))
    return frozenset(symbol for symbols in found for symbol in symbols)


def _read_undefined_symbols(library: BinaryIO) -> frozenset[str]:
    """Return the names that an ELF library expects other libraries to define."""
    symbols = read_elf(Extent.whole(library)).symbols(".dynsym")
    return frozenset(symbol.name for symbol in symbols if not symbol.section and symbol.name)


def abi3(subject: Subject) -> Iterator[Flaw]:
    """abi3audit agrees that a wheel tagged abi3 keeps to the limited API of its version."""
    lowest = min((Minor.parse(f"3.{match[1]}") for tag in subject.tags if (match := ABI3.match(tag))), default=None)
    libraries = [member for member in subject.members if member.base.endswith(EXTENSIONS)]
    if lowest and libraries:
        named = _write_libraries(libraries, subject.work / "abi3")
        for path, spec in _run_abi3audit(subject, lowest, tuple(named)).items():
            yield from _check_abi3(named[Path(path)], spec["object"]["result"])


def _write_libraries(libraries: Iterable[Member], folder: Path) -> Mapping[Path, str]:
    """Write libraries under the file names that abi3audit expects, each in its own folder."""
    named = {}
    for number, member in enumerate(libraries):
        path = folder / str(number) / member.base
        path.parent.mkdir(parents=True)
        if isinstance(member.content, bytes):
            path.write_bytes(member.content)
        else:
            path.hardlink_to(member.content)
        named[path] = member.name
    return named


def _run_abi3audit(subject: Subject, lowest: Minor, libraries: tuple[Path, ...]) -> Mapping[str, Mapping[str, Any]]:
    """Return abi3audit's report; its exit status only says that something is wrong, the report says what."""
    report = subject.work / "report.json"
    command = (sys.executable, "-m", "abi3audit", "--strict", "--assume-minimum-abi3", str(lowest), "--report")
    ended = run([*command, "--output", report, *libraries], log=subject.work / "log")
    return _specs(report, ended, subject.wheel.path.name)


def _specs(report: Path, ended: Ended, wheel: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the specs of a report; raise Rejected if abi3audit could not read the wheel."""
    try:
        specs: Mapping[str, Mapping[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["specs"]
    except (OSError, ValueError) as error:
        msg = f"abi3audit cannot read {wheel}:\n{tail(ended.log, 8, ended.start)}"
        raise Rejected(msg) from error
    return specs


def _check_abi3(library: str, result: Mapping[str, Any]) -> Iterator[Flaw]:
    if result["is_abi3"] and result["is_abi3_baseline_compatible"]:
        return
    symbols = [*result["non_abi3_symbols"], *result["future_abi3_objects"]]
    expected = f"the limited API of Python {result['baseline']}"
    yield Flaw(f"{library} leaves the limited API of its tag", abbreviate(symbols), expected)
