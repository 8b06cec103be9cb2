"""What `plan --prove` compares: the inputs of builds, and the parts of the wheels that they make."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zipfile import ZipInfo

from ci_tools.errors import Rejected, RejectedInput
from ci_tools.formats.binaries.elf import Elf, Extent, read_elf
from ci_tools.formats.binaries.fatbinary import images, read_undefined_symbols
from ci_tools.formats.json_file import structure_bytes, unstructure
from ci_tools.formats.wheel import SBOM, Wheel, open_wheel, record_hash
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.model.names import Name, Sha256
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.platforms import Accelerator, Cell
from ci_tools.model.versions import Minor, Python

GENERATOR = re.compile(r"^Generator:.*\n?", re.MULTILINE)
SYSTEM_VERSION = re.compile(r"GLIBC(XX)?_|CXXABI_|GCC_")
DEBUG = re.compile(r"\.z?debug_|\.gnu_debug|\.note\.gnu\.build-id|\.(sym|str)tab")  # `strip` leaves most of it out
TEXTS = re.compile(rb"[\x20-\x7e]{6,}")  # as `strings` prints them
BLOCK = 1 << 16
MAX_SHOWN = 6  # lines or symbols of one member


class ClaimVerdict(Name):
    """The result of checking a claim that one wheel serves a cell."""

    SAME_BYTES = "same bytes"
    SAME_MEMBERS = "same members"  # the wheels differ only in the tool named in their WHEEL file
    SERVES = "serves"  # other bytes, but equal in all that decides where the wheel works
    SAME_INPUT = "same input"
    DIFFERS = "differs"
    REJECTED = "build rejected"
    NOT_EXERCISED = "not exercised"
    BROKEN = "machine failed"

    @property
    def is_bad(self) -> bool:
        """Whether the claim was shown to be wrong."""
        return self in {ClaimVerdict.DIFFERS, ClaimVerdict.REJECTED}


class WheelClaim(Name):
    """What must be equal between a job's wheel and a wheel that was built for one of its cells."""

    MEMBERS = "members"
    INTERFACE = "members; of libraries the device images, and the symbols that are not the system's"
    LOADS = "names of members; of libraries the device images, and the symbols that are not the system's"


class Interface(NamedTuple):
    """The symbols that a library needs of torch, Python and the accelerator's libraries, and its device images."""

    symbols: tuple[str, ...]
    images: tuple[str, ...]
    system: tuple[str, ...] = ()  # the symbols it needs of the system, which the platform tag guarantees


class Fingerprint(NamedTuple):
    """The compared parts of a wheel, without RECORD, which repeats them, and the SBOM, which names a build's tools."""

    sha256: Sha256
    members: Mapping[str, str]  # a hash of the content by name; WHEEL without its Generator line
    metadata: tuple[str, ...]  # the lines of METADATA
    generator: str
    libraries: Mapping[str, Interface]
    import_error: str = ""  # of its packages without the libraries that they are said to do without
    loaded_with: str = ""  # the torch with which its other libraries were loaded, so that it has all of their symbols

    def without(self, spared: Collection[str]) -> Fingerprint:
        """Return the compared parts without some members."""
        members = {name: content for name, content in self.members.items() if name not in spared}
        return self._replace(
            members=members, libraries={name: one for name, one in self.libraries.items() if name in members}
        )


def fingerprint(path: Path) -> Fingerprint:
    """Return the compared parts of the wheel at `path`; raise Rejected if it or one of its libraries is damaged."""
    wheel = open_wheel(path)
    with wheel.archive:
        ignored = {f"{wheel.dist_info}/{file}" for file in ("RECORD", SBOM)}
        infos = [info for info in wheel.infos if info.filename not in ignored]
        return Fingerprint(
            sha256=sha256_of(path),
            members={info.filename: _member(wheel, info) for info in infos},
            metadata=tuple(wheel.dist_info_text("METADATA").splitlines()),
            generator=str(wheel.wheel_metadata["Generator"] or ""),
            libraries={info.filename: _interface(wheel.read(info)) for info in wheel.libraries},
        )


def _member(wheel: Wheel, info: ZipInfo) -> str:
    """Return a hash of a member's permissions and content."""
    data = wheel.read(info)
    if info.filename == f"{wheel.dist_info}/WHEEL":
        data = GENERATOR.sub("", data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return f"{info.external_attr >> 16:o} {record_hash(data)}"


def _interface(library: bytes) -> Interface:
    file = io.BytesIO(library)
    asked, system = read_undefined_symbols(file), _system_symbols(file)
    return Interface(tuple(sorted(asked - system)), tuple(sorted(map(str, images(file)))), tuple(sorted(system)))


def _system_symbols(library: BinaryIO) -> frozenset[str]:
    """Return the symbols with a version of libc, libstdc++ or libgcc; raise Rejected for a damaged file."""
    elf = read_elf(Extent.whole(library))
    numbers = {version.number for version in elf.needed_versions() if SYSTEM_VERSION.match(version.name)}
    return frozenset(symbol.name for symbol, number in elf.versioned_symbols() if number in numbers)


def are_libraries(path: Path, names: Collection[str]) -> bool:
    """Whether each of these is a compiled member of the wheel at `path`."""
    wheel = open_wheel(path)
    with wheel.archive:
        return {info.filename for info in wheel.libraries} >= {*names}


def describe_difference(own: Path, other: Path, name: str) -> str:
    """Return where a member of two wheels first differs: its line, or its section and the text there."""
    contents = []
    for wheel in map(open_wheel, (own, other)):
        with wheel.archive:
            contents.append(next((wheel.read(info) for info in wheel.infos if info.filename == name), None))
    one, two = contents
    if one is None or two is None:
        return f"only the wheel {'from the sdist' if one is None else 'of the source'} has {name}"
    at = find_first_difference(one, two)
    if b"\0" not in one:  # a text: grep judges it so, too
        number = one.count(b"\n", 0, at) + 1
        return f"{name} differs first in line {number}"
    sections = [{each.name: elf.content(each).read() for each in elf.sections} for elf in _elves(one, two)]
    changed = [each for each in sections[0] if sections[0][each] != sections[1].get(each)] if sections else []
    if not changed:
        return f"{name} differs first at byte {at:,}"
    texts = [{text for each in changed for text in TEXTS.findall(found.get(each, b""))} for found in sections]
    apart = [min(left).decode() for left in (texts[0] - texts[1], texts[1] - texts[0]) if left]
    shown = f", such as {' and '.join(apart)}" if apart else ""
    way = "; it is debug information only, which `-g0` or `strip` leaves out" if all(map(DEBUG.match, changed)) else ""
    return f"{name} differs in the sections {', '.join(changed[:MAX_SHOWN])}{shown}{way}"


def find_first_difference(one: bytes, two: bytes) -> int:
    """Return the offset of the first byte that differs; blocks are compared first, as a library may have gigabytes."""
    blocks = range(0, len(one), BLOCK)
    start = next((at for at in blocks if one[at : at + BLOCK] != two[at : at + BLOCK]), len(one))
    pairs = enumerate(zip(one[start : start + BLOCK], two[start : start + BLOCK], strict=False), start)
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(two)))


def _elves(*contents: bytes) -> list[Elf]:
    """Return libraries as ELF files; none if one is of another kind."""
    with suppress(Rejected):
        return [read_elf(Extent.whole(io.BytesIO(content))) for content in contents]
    return []


def compare(
    own: Fingerprint, other: Fingerprint, claim: WheelClaim, *, is_loaded: bool = False
) -> tuple[str, ClaimVerdict, str]:
    """Return the compared parts of a job's wheel and a cell's own wheel, the verdict, and its details.

    If `is_loaded`, the job's libraries were loaded with the cell's torch: their symbols need not be the same.
    """
    if own.sha256 == other.sha256:
        return "bytes", ClaimVerdict.SAME_BYTES, ""
    resolved = _take_symbols(own, other) if is_loaded else own
    different = list(_differences(resolved, other, claim))
    if different:
        return claim.value, ClaimVerdict.DIFFERS, "; ".join(different)
    changed = sorted(name for name in own.members if own.members[name] != other.members[name])
    if changed:
        both = [(name, own.libraries[name], other.libraries[name]) for name in changed if name in own.libraries]
        said = [f"the content differs of {', '.join(changed)}"]
        for name, mine, others in both:
            if mine.system != others.system:
                said.append(f"{name} asks the system for other symbols: {_apart(mine.system, others.system)}")
        for name, mine, others in both:  # only where they were loaded: else the claim excludes it
            if mine.symbols != others.symbols:
                apart = _apart(mine.symbols, others.symbols)
                said.append(f"{name} asks for other symbols, all of which are there: {apart}")
        return claim.value, ClaimVerdict.SERVES, "; ".join(said)
    return WheelClaim.MEMBERS.value, ClaimVerdict.SAME_MEMBERS, f"made by {own.generator} and {other.generator}"


def _differences(own: Fingerprint, other: Fingerprint, claim: WheelClaim) -> Iterator[str]:
    """Yield each member that differs in a way the claim excludes."""
    for name in sorted(own.members.keys() | other.members.keys()):
        mine, others = own.members.get(name), other.members.get(name)
        if mine is None or others is None:
            yield f"{name} (only in the {'cell' if mine is None else 'job'}'s wheel)"
        elif mine == others:
            continue
        elif name.endswith(".dist-info/METADATA"):
            yield f"METADATA ({_apart(own.metadata, other.metadata)})"
        elif claim is not WheelClaim.MEMBERS and name in own.libraries and name in other.libraries:
            yield from _library(name, own.libraries[name], other.libraries[name])
        elif claim is not WheelClaim.LOADS:
            yield name


def _library(name: str, own: Interface, other: Interface) -> Iterator[str]:
    for what, mine, others in (("symbols", own.symbols, other.symbols), ("images", own.images, other.images)):
        if mine != others:
            yield f"{name} ({what}: {_apart(mine, others)})"


def _take_symbols(own: Fingerprint, other: Fingerprint) -> Fingerprint:
    """Return a fingerprint whose libraries ask for the symbols that those of the other one ask for."""
    known = {name: one.symbols for name, one in other.libraries.items()}
    taken = {name: one._replace(symbols=known.get(name, one.symbols)) for name, one in own.libraries.items()}
    return own._replace(libraries=taken)


def _apart(own: Sequence[str], other: Sequence[str]) -> str:
    """Return the lines that only one of two texts has."""
    mine, others = {*own}, {*other}
    lines = [f"-{line}" for line in own if line not in others] + [f"+{line}" for line in other if line not in mine]
    more = len(lines) - MAX_SHOWN
    shown = ", ".join(lines[:MAX_SHOWN]) or "in the order or number of lines"
    return f"{shown} and {more} more" if more > 0 else shown


# ---------------------------------------------------------------- the record of a fingerprint


def write_record(path: Path, found: Fingerprint) -> None:
    """Write a fingerprint atomically, so that an interrupted run continues where it stopped."""
    with write_atomically(path) as file:
        file.write(json.dumps(unstructure(found)).encode())


def read_record(path: Path) -> Fingerprint | None:
    """Return the recorded fingerprint of a wheel, or None if there is none or it cannot be read."""
    try:
        return structure_bytes(path.read_bytes(), Fingerprint, str(path))
    except (OSError, RejectedInput):
        return None


class Proof(NamedTuple):
    """A comparison for some cells that one wheel is said to serve, and its verdict."""

    job: str
    cells: tuple[Cell, ...]
    compared: str  # empty: nothing was compared
    verdict: ClaimVerdict
    detail: str = ""


class Inputs(NamedTuple):
    """The properties of a cell that its build depends on."""

    host: str
    python: Python
    torch: Minor | None  # None: it does not depend on torch
    accelerator: Accelerator | None
    archs: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    build_requires: tuple[str, ...]

    def besides(self, own: Inputs) -> dict[str, str]:
        """Return in words how this differs from the job's own inputs, by axis."""
        settings = self.env, self.build_requires, self.archs
        label = self.accelerator.label if self.accelerator else "no accelerator"
        found = {
            "host": self.host if self.host != own.host else "",
            "Python": f"Python {self.python}" if self.python != own.python else "",
            "torch": f"torch {self.torch or 'unseen'}" if self.torch != own.torch else "",
            "accelerator": label if self.accelerator != own.accelerator else "",
            "settings": self.settings(own) if settings != (own.env, own.build_requires, own.archs) else "",
        }
        return {axis: words for axis, words in found.items() if words}

    def settings(self, own: Inputs) -> str:
        """Return the variables, requirements or architectures that differ."""
        variables = sorted({name for name, _ in {*self.env} ^ {*own.env}})
        return ", ".join([*variables, *sorted({*self.build_requires} ^ {*own.build_requires})]) or "other archs"


class Case(NamedTuple):
    """Cells that one job covers and whose own builds would all have the same inputs."""

    job: Job
    inputs: Inputs
    own: Inputs
    cells: tuple[Cell, ...]
    unseen: str  # why their builds do not depend on torch; empty: they do

    @property
    def differs_in(self) -> dict[str, str]:
        """The axes in which their builds differ from the job's own."""
        return self.inputs.besides(self.own)

    @property
    def claim(self) -> WheelClaim:
        """What must be equal between the job's wheel and theirs."""
        if self.job.kind is JobKind.PURE:
            return WheelClaim.MEMBERS
        return WheelClaim.LOADS if "accelerator" in self.differs_in else WheelClaim.INTERFACE

    @property
    def spared(self) -> tuple[str, ...]:
        """The libraries of the job's wheel that the package does without on the torch of the cells."""
        torch = self.inputs.torch
        return tuple(member for member, target in self.job.spared if torch and torch < target)

    def explain_spared(self) -> str:
        """Return which libraries the cells' own build leaves out, or ""."""
        names = ", ".join(self.spared)
        return f"their own build leaves {names} out, without which the package is imported" if names else ""

    @property
    def variant(self) -> Job:
        """The job rebuilt for these cells. The name is kept: it determines the build directory, hence the bytes."""
        seen = self.inputs
        return replace(
            self.job,
            platform=self.cells[0].platform,
            python=seen.python,
            python_stays=True,
            torch=seen.torch or self.job.torch,
            accelerator=seen.accelerator,
            archs=seen.archs,
            env=seen.env,
            build_requires=seen.build_requires,
        )

    @property
    def toolchain_job(self) -> Job:
        """The job that selects the toolchain: native for the cells' platform, even if nothing is compiled."""
        return replace(self.variant, kind=JobKind.NATIVE)

    @property
    def note(self) -> str:
        """Why cells of several torch versions share one build, or ""."""
        torches = {cell.torch for cell in self.cells}
        return f"its build sees no torch: {self.unseen}" if len(torches) > 1 and self.unseen else ""

    def make_proof(self, compared: str, verdict: ClaimVerdict, *details: str) -> Proof:
        """Return the proof of this case with its verdict."""
        return Proof(self.job.name, self.cells, compared, verdict, "; ".join(filter(None, details)))
