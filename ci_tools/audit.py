"""Static checks on a finished wheel: one small generator per rule, each finding with what was found and expected."""

from __future__ import annotations

import json
import re
import stat
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_tools.errors import Rejected
from ci_tools.fatbinary import images, undefined_symbols
from ci_tools.model import AcceleratorKind, CudaArch, Finding, Level
from ci_tools.process import run, tail
from ci_tools.wheelfile import CONTROL, opened, record_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_tools.model import Job, Minor
    from ci_tools.process import Ended
    from ci_tools.wheelfile import Wheel

__all__ = ["RULES", "audit"]

EVERY_PYTHON = re.compile(r"py\d+-none-")
PYTHON_SYMBOL = re.compile(r"_?Py[A-Z_]")
RECORD_HASHES = ("sha256", "sha384", "sha512")  # PEP 427: sha256 or better
DRIVE = re.compile(r"^[A-Za-z]:")
Read = TypeVar("Read")
SHOWN = 5  # how many of many a message names
PATCHES = (*range(30), 999)  # the patch releases a minor version may have, and any that is to come


class Flaw(NamedTuple):
    """What one rule found wrong."""

    message: str
    found: str
    expected: str
    level: Level = Level.ERROR


@dataclass(frozen=True)
class Subject:
    """A wheel under audit, the job it should be the result of if that is known, and the sizes its targets take."""

    wheel: Wheel
    job: Job | None
    limits: Mapping[str, int]
    to_pypi: bool
    work: Path  # a folder for what a rule's tool writes

    @cached_property
    def tags(self) -> frozenset[str]:
        """The tags of the file name, as text."""
        return frozenset(map(str, self.wheel.named[2])) if self.wheel.named else frozenset()

    @property
    def is_pure(self) -> bool:
        """Whether every tag says `any`."""
        return bool(self.tags) and all(tag.endswith("-none-any") for tag in self.tags)


def audit(
    path: Path, *, job: Job | None, limits: Mapping[str, int], work: Path, to_pypi: bool | None = None
) -> tuple[Finding, ...]:
    """Return everything wrong with the wheel at `path`, in the order of `RULES`; nothing means it is good.

    `job` is the plan's; without one, only what a wheel must always hold is checked. `to_pypi` says whether the wheel
    goes there (None: it does unless its version is a local one). A file that is no wheel has one finding.
    """
    try:
        wheel = opened(path)
    except Rejected as error:
        return (Finding(path.name, "archive", Level.ERROR, error.message, "another file", "a zip file (PEP 427)"),)
    with wheel.archive:
        could = wheel.named is not None and not wheel.named[1].local
        subject = Subject(wheel, job, limits, could if to_pypi is None else to_pypi, work)
        return tuple(
            Finding(path.name, name, flaw.level, flaw.message, flaw.found, flaw.expected)
            for name, rule in RULES.items()
            for flaw in _flaws(rule, subject)
        )


def _flaws(rule: Callable[[Subject], Iterator[Flaw]], subject: Subject) -> Iterator[Flaw]:
    """Yield a rule's flaws; a member that cannot be read is one."""
    try:
        yield from rule(subject)
    except Rejected as error:
        yield Flaw(error.message, "unreadable", "a whole file")


# ---------------------------------------------------------------- the archive


def paths(subject: Subject) -> Iterator[Flaw]:
    """No member leaves the folder a wheel is unpacked into, is a link, or takes another's place."""
    for info in subject.wheel.archive.infolist():
        name = info.filename
        if name.startswith("/") or "\\" in name or DRIVE.match(name) or ".." in name.split("/"):
            yield Flaw(f"{name} leaves the folder it is unpacked into", name, "a relative path with forward slashes")
        if stat.S_ISLNK(info.external_attr >> 16):
            yield Flaw(f"{name} is a symbolic link", "a link", "a file")
        if CONTROL.search(name):
            yield Flaw(f"{name!r} holds a control character", repr(name), "a name that can be shown")
    names = Counter(info.filename for info in subject.wheel.infos)
    for name, count in names.items():
        if count > 1:
            yield Flaw(f"{name} is in the archive {count} times", str(count), "1")
    if not all("linux" in tag for tag in subject.tags):
        yield from _clashes(names)


def _clashes(names: Iterable[str]) -> Iterator[Flaw]:
    """Windows and macOS hold two names that differ in case alone to be one."""
    spellings: dict[str, list[str]] = {}
    for name in sorted(names):
        spellings.setdefault(name.casefold(), []).append(name)
    for same in spellings.values():
        if len(same) > 1:
            yield Flaw(f"{same[0]} and {same[1]} are one file on Windows and macOS", _listed(same), "one of them")


def record(subject: Subject) -> Iterator[Flaw]:
    """RECORD lists every member once, with the hash and size of its content."""
    wheel = subject.wheel
    own = f"{wheel.dist_info}/RECORD"
    listed = [row for row in wheel.record() if row]
    rows = {row[0]: row[1:] for row in listed}
    if not rows:
        yield Flaw("the wheel has no RECORD", "nothing", own)
        return
    for name, count in Counter(row[0] for row in listed).items():
        if count > 1:
            yield Flaw(f"RECORD lists {name} {count} times", str(count), "1")
    for info in wheel.infos:
        row = rows.pop(info.filename, None)
        if row is None:
            yield Flaw(f"{info.filename} is not in RECORD", "no row", "its hash and size")
        elif info.filename not in {own, f"{own}.jws", f"{own}.p7s"}:
            yield from _record_row(info.filename, wheel.read(info), row)
    for name in rows:
        yield Flaw(f"RECORD lists {name}, which is not in the wheel", "no such member", name)


def _record_row(name: str, data: bytes, row: Sequence[str]) -> Iterator[Flaw]:
    said = [*row, "", ""][:2]
    algorithm = said[0].partition("=")[0]
    actual = [record_hash(data, algorithm if algorithm in RECORD_HASHES else "sha256"), str(len(data))]
    if said != actual:
        yield Flaw(f"{name} is not what RECORD says", ",".join(actual), ",".join(said))


# ---------------------------------------------------------------- the labels


def names(subject: Subject) -> Iterator[Flaw]:
    """File name, dist-info folder and METADATA agree on project and version."""
    wheel = subject.wheel
    if wheel.named is None:
        yield Flaw("the file name is not a wheel's", wheel.path.name, "name-version-python-abi-platform.whl (PEP 427)")
        return
    if not wheel.dist_info:
        yield Flaw("the wheel does not have one dist-info folder", "none or several", "one")
        return
    name, version, _ = wheel.named
    folder_name, _, folder_version = wheel.dist_info.removesuffix(".dist-info").partition("-")
    said = {
        "the dist-info folder": (folder_name, folder_version),
        "METADATA": (wheel.metadata.get("Name", ""), wheel.metadata.get("Version", "")),
    }
    for where, (said_name, said_version) in said.items():
        if canonicalize_name(said_name) != name:
            yield Flaw(f"{where} and the file name differ in the project", said_name or "nothing", name)
        if _version(said_version) != version:
            yield Flaw(f"{where} and the file name differ in the version", said_version or "nothing", str(version))


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def tags(subject: Subject) -> Iterator[Flaw]:
    """WHEEL says the tags of the file name, Root-Is-Purelib fits them, and they are the planned ones."""
    if subject.wheel.named is None:
        return
    said = {tag for line in subject.wheel.wheel_metadata.get_all("Tag", []) for tag in _expanded(line)}
    if said != subject.tags:
        yield Flaw("WHEEL and the file name differ in their tags", _listed(said), _listed(subject.tags))
    purelib = subject.wheel.wheel_metadata.get("Root-Is-Purelib", "").lower()
    if purelib != str(subject.is_pure).lower():
        yield Flaw("Root-Is-Purelib does not fit the tags", purelib or "nothing", str(subject.is_pure).lower())
    if subject.job and subject.wheel.path.name != subject.job.wheel:
        yield Flaw("the file name is not the planned one", subject.wheel.path.name, subject.job.wheel)


def _expanded(tag: str) -> frozenset[str]:
    """Return the tags a line of WHEEL stands for; one that is none stands for itself."""
    try:
        return frozenset(map(str, parse_tag(tag)))
    except ValueError:
        return frozenset({tag})


def requires_python(subject: Subject) -> Iterator[Flaw]:
    """Requires-Python admits every Python the wheel is to serve."""
    said = subject.wheel.metadata.get("Requires-Python", "")
    try:
        specifier = SpecifierSet(said)
    except InvalidSpecifier:
        yield Flaw("Requires-Python is no specifier", said, "one such as >=3.10 (PEP 440)")
        return
    served = {cell.python.version for cell in subject.job.covers} if subject.job else set()
    refused = [str(python) for python in sorted(served) if not _admits(specifier, python)]
    if refused:
        yield Flaw("Requires-Python refuses a Python the wheel is for", said, f"Python {', '.join(refused)} admitted")


def requires_torch(subject: Subject) -> Iterator[Flaw]:
    """Torch is required within what the wheel was built for, and every torch it is to serve is admitted."""
    job = subject.job
    if job is None:
        return
    try:
        said = [Requirement(" ".join(text.split())) for text in subject.wheel.metadata.get_all("Requires-Dist", [])]
    except InvalidRequirement as error:
        yield Flaw("a Requires-Dist is no requirement", str(error).partition("\n")[0], "one (PEP 508)")
        return
    torches = [requirement for requirement in said if canonicalize_name(requirement.name) == "torch"]
    always = [requirement for requirement in torches if requirement.marker is None]
    found = "; ".join(map(str, torches)) or "nothing"
    within = set(SpecifierSet(job.requires_torch))
    if within and (not always or not all(within <= set(requirement.specifier) for requirement in torches)):
        yield Flaw("another torch may be installed than the wheel is for", found, f"torch{job.requires_torch}")
    served = sorted({cell.torch for cell in job.covers if cell.torch})
    refused = [str(torch) for torch in served if not all(_admits(one.specifier, torch) for one in always)]
    if refused:
        yield Flaw("METADATA refuses a torch the wheel is for", found, f"torch {', '.join(refused)} admitted")


def _admits(specifier: SpecifierSet, minor: Minor) -> bool:
    """Whether any release of a minor version is in the specifier."""
    return any(specifier.contains(f"{minor}.{patch}", prereleases=True) for patch in PATCHES)


# ---------------------------------------------------------------- the content


def pure(subject: Subject) -> Iterator[Flaw]:
    """Any-platform wheels hold no compiled file, by magic number; one for a platform holds some."""
    compiled = {info.filename: subject.wheel.binary_format(info) for info in subject.wheel.infos}
    found = {name: kind for name, kind in compiled.items() if kind}
    if subject.is_pure:
        for name, kind in found.items():
            yield Flaw(f"{name} is compiled, in a wheel for any platform", kind, "no compiled file")
    elif subject.tags and not found:
        yield Flaw("nothing is compiled, in a wheel for one platform", "no compiled file", "a library")


def python_symbols(subject: Subject) -> Iterator[Flaw]:
    """Libraries of a wheel tagged for every Python ask for no Python symbol."""
    if subject.is_pure or not any(EVERY_PYTHON.match(tag) for tag in subject.tags):
        return
    for name, wanted in _read_libraries(subject.wheel, undefined_symbols):
        symbols = sorted(filter(PYTHON_SYMBOL.match, wanted))
        if symbols:
            yield Flaw(f"{name} asks for Python symbols", _listed(symbols), "none, as tagged py3-none")


def _read_libraries(wheel: Wheel, read: Callable[[bytes], frozenset[Read]]) -> Iterator[tuple[str, frozenset[Read]]]:
    """Yield each library's name and what `read` reads in it; raise Rejected, with the name, where it is malformed."""
    for info in wheel.libraries:
        data = wheel.read(info)
        try:
            yield info.filename, read(data)
        except Rejected as error:
            msg = f"{info.filename} cannot be read: {error.message}"
            raise Rejected(msg) from None


def abi3(subject: Subject) -> Iterator[Flaw]:
    """abi3audit agrees that a wheel tagged abi3 keeps to the limited API of its version."""
    if not any("-abi3-" in tag for tag in subject.tags):
        return
    for spec in _abi3audited(subject.wheel.path, subject.work):
        for library in spec["wheel"]:
            yield from _beyond_abi3(library["name"], library["result"])


def _abi3audited(wheel: Path, work: Path) -> Sequence[Mapping[str, Any]]:
    """Return what abi3audit reports; its status says that something is wrong, the report says what."""
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as folder:  # another run may audit the same wheel at once
        report = Path(folder) / "report.json"
        command = (sys.executable, "-m", "abi3audit", "--strict", "--report", "--output", report, wheel)
        return _specs(report, run(command, log=Path(folder) / "log"), wheel.name)


def _specs(report: Path, ended: Ended, wheel: str) -> Sequence[Mapping[str, Any]]:
    """Read a report; raise Rejected where abi3audit could not read the wheel."""
    try:
        return tuple(json.loads(report.read_text(encoding="utf-8"))["specs"].values())
    except (OSError, ValueError):
        msg = f"abi3audit cannot read {wheel}:\n{tail(ended.log, 8, ended.start)}"
        raise Rejected(msg) from None


def _beyond_abi3(library: str, result: Mapping[str, Any]) -> Iterator[Flaw]:
    if result["is_abi3"] and result["is_abi3_baseline_compatible"]:
        return
    symbols = [*result["non_abi3_symbols"], *result["future_abi3_objects"]]
    expected = f"the limited API of Python {result['baseline']}"
    yield Flaw(f"{library} leaves the limited API of its tag", _listed(symbols), expected)


def fatbinary(subject: Subject) -> Iterator[Flaw]:
    """Device code is for the planned architectures, no more and no fewer, in every library that has any."""
    job = subject.job
    if job is None or job.accelerator is None or job.accelerator.kind is not AcceleratorKind.CUDA:
        return
    expected = set(_expected_images(job))
    by_library = _read_libraries(subject.wheel, images)
    with_device_code = {name: set(map(str, found)) for name, found in by_library if found}
    if not with_device_code:
        yield Flaw("no library holds device code", "none", _listed(expected))
    for name, found in with_device_code.items():
        if found != expected:
            yield Flaw(f"{name} is not for the planned architectures", _listed(found), _listed(expected))


def _expected_images(job: Job) -> Iterator[str]:
    for arch in map(CudaArch.parse, job.archs):
        yield arch.sm
        if arch.ptx:
            yield arch.compute


def size(subject: Subject) -> Iterator[Flaw]:
    """Files are no larger than where they go takes: PyPI or GitHub."""
    place = "pypi" if subject.to_pypi else "github"
    found, most = subject.wheel.path.stat().st_size, subject.limits[place]
    if found > most:
        yield Flaw(f"the wheel is too large for {place}", f"{found:,} bytes", f"at most {most:,} bytes")


def _listed(items: Iterable[str]) -> str:
    """Return a few of many, sorted."""
    listed = sorted(items)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more or "none"


RULES: Mapping[str, Callable[[Subject], Iterator[Flaw]]] = {
    "paths": paths,
    "record": record,
    "names": names,
    "tags": tags,
    "requires-python": requires_python,
    "requires-torch": requires_torch,
    "pure": pure,
    "python-symbols": python_symbols,
    "abi3": abi3,
    "fatbinary": fatbinary,
    "size": size,
}
