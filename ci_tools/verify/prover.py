"""`plan --prove`: builds the jobs that the plan calls redundant, and compares each with the wheel that replaces it.

A build depends on few properties of its cell: the interpreter, the toolchain, the environment. Cells with the same
values of these share one build. The compared values are cached, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import io
import json
import re
import sys
import sysconfig
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.build.builder import Workshop, build_key
from ci_tools.build.toolchain import Toolchains
from ci_tools.errors import MachineError, Rejected
from ci_tools.evidence.project_file import ProjectFile
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.formats.fatbinary import images, read_undefined_symbols
from ci_tools.formats.wheel import open_wheel, record_hash
from ci_tools.machine.runner import host
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.machine.workplace import scratch
from ci_tools.model.evidence import Binding, Extensions
from ci_tools.model.names import Name
from ci_tools.model.plan import JobKind
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from zipfile import ZipInfo

    from ci_tools.errors import FatwheelError
    from ci_tools.formats.wheel import Wheel
    from ci_tools.machine.context import Outside
    from ci_tools.model.cell import Cell
    from ci_tools.model.evidence import CellEvidence
    from ci_tools.model.plan import Job
    from ci_tools.model.platforms import Accelerator
    from ci_tools.plan.make import Planned

__all__ = [
    "Claim",
    "Fingerprint",
    "Interface",
    "Proof",
    "Verdict",
    "compare",
    "fingerprint",
    "prove",
    "status",
    "to_json",
]

GENERATOR = re.compile(r"^Generator:.*\n?", re.MULTILINE)
TORCH_INCLUDE = "FATWHEEL_TORCH_INCLUDE"  # the variable that names the folder of a job's torch headers
SYSTEM_VERSION = re.compile(r"GLIBC(XX)?_|CXXABI_|GCC_")
MOST_SHOWN = 6  # lines or symbols of one member
UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError)  # raised by a damaged record


class Verdict(Name):
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
        return self in {Verdict.DIFFERS, Verdict.REJECTED}


class Claim(Name):
    """What must be equal between a job's wheel and a wheel that was built for one of its cells."""

    MEMBERS = "members"
    INTERFACE = "members; of libraries the device images, and the symbols that are not the system's"
    LOADS = "names of members; of libraries the device images, and the symbols that are not the system's"


class Proof(NamedTuple):
    """A comparison for some cells that one wheel is said to serve, and its verdict."""

    job: str
    cells: tuple[Cell, ...]
    compared: str  # empty: nothing was compared
    verdict: Verdict
    detail: str = ""


def to_json(proofs: Sequence[Proof]) -> list[dict[str, Any]]:
    """Return proofs as JSON values."""
    return [
        {
            "job": proof.job,
            "cells": [str(cell) for cell in proof.cells],
            "compared": proof.compared,
            "outcome": str(proof.verdict),
            "detail": proof.detail,
        }
        for proof in proofs
    ]


def status(proofs: Sequence[Proof]) -> int:
    """Return the exit status of proofs: that of Rejected for a wrong claim, else of MachineError for a failed build."""
    if any(proof.verdict.is_bad for proof in proofs):
        return Rejected.status
    return MachineError.status if any(proof.verdict is Verdict.BROKEN for proof in proofs) else 0


# ---------------------------------------------------------------- the compared parts of a wheel


class Interface(NamedTuple):
    """The symbols that a library needs of torch, Python and the accelerator's libraries, and its device images."""

    symbols: tuple[str, ...]
    images: tuple[str, ...]
    system: tuple[str, ...] = ()  # the symbols it needs of the system, which the platform tag guarantees


class Fingerprint(NamedTuple):
    """The compared parts of a wheel; RECORD is left out, since it repeats them."""

    sha256: str
    members: Mapping[str, str]  # a hash of the content by name; WHEEL without its Generator line
    metadata: tuple[str, ...]  # the lines of METADATA
    generator: str
    libraries: Mapping[str, Interface]


def fingerprint(path: Path) -> Fingerprint:
    """Return the compared parts of the wheel at `path`; raise Rejected if it or one of its libraries is damaged."""
    wheel = open_wheel(path)
    with wheel.archive:
        infos = [info for info in wheel.infos if info.filename != f"{wheel.dist_info}/RECORD"]
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


def compare(own: Fingerprint, other: Fingerprint, claim: Claim) -> tuple[str, Verdict, str]:
    """Return the compared parts of a job's wheel and a cell's own wheel, the verdict, and its details."""
    if own.sha256 == other.sha256:
        return "bytes", Verdict.SAME_BYTES, ""
    different = list(_differences(own, other, claim))
    if different:
        return claim.value, Verdict.DIFFERS, "; ".join(different)
    changed = sorted(name for name in own.members if own.members[name] != other.members[name])
    if changed:
        asks = (_system(name, own.libraries[name], other.libraries[name]) for name in changed if name in own.libraries)
        return (
            claim.value,
            Verdict.SERVES,
            "; ".join([f"the content differs of {', '.join(changed)}", *filter(None, asks)]),
        )
    return Claim.MEMBERS.value, Verdict.SAME_MEMBERS, f"made by {own.generator} and {other.generator}"


def _differences(own: Fingerprint, other: Fingerprint, claim: Claim) -> Iterator[str]:
    """Yield each member that differs in a way the claim excludes."""
    for name in sorted(own.members.keys() | other.members.keys()):
        mine, others = own.members.get(name), other.members.get(name)
        if mine is None or others is None:
            yield f"{name} ({_side(in_own=mine is not None)})"
        elif mine == others:
            continue
        elif name.endswith(".dist-info/METADATA"):
            yield f"METADATA ({_apart(own.metadata, other.metadata)})"
        elif claim is not Claim.MEMBERS and name in own.libraries and name in other.libraries:
            yield from _library(name, own.libraries[name], other.libraries[name])
        elif claim is not Claim.LOADS:
            yield name


def _library(name: str, own: Interface, other: Interface) -> Iterator[str]:
    for what, mine, others in (("symbols", own.symbols, other.symbols), ("images", own.images, other.images)):
        if mine != others:
            yield f"{name} ({what}: {_apart(mine, others)})"


def _system(name: str, own: Interface, other: Interface) -> str:
    """Return in words how two libraries differ in the system symbols they need, or ""."""
    return (
        f"{name} asks the system for other symbols: {_apart(own.system, other.system)}"
        if own.system != other.system
        else ""
    )


def _side(*, in_own: bool) -> str:
    return f"only in the {'job' if in_own else 'cell'}'s wheel"


def _apart(own: Sequence[str], other: Sequence[str]) -> str:
    """Return the lines that only one of two texts has."""
    mine, others = {*own}, {*other}
    lines = [f"-{line}" for line in own if line not in others] + [f"+{line}" for line in other if line not in mine]
    more = len(lines) - MOST_SHOWN
    shown = ", ".join(lines[:MOST_SHOWN]) or "in the order or number of lines"
    return f"{shown} and {more} more" if more > 0 else shown


# ---------------------------------------------------------------- the inputs of a build


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
        found = {
            "host": self.host if self.host != own.host else "",
            "Python": f"Python {self.python}" if self.python != own.python else "",
            "torch": f"torch {self.torch or 'unseen'}" if self.torch != own.torch else "",
            "accelerator": _label(self.accelerator) if self.accelerator != own.accelerator else "",
            "settings": self.settings(own) if settings != (own.env, own.build_requires, own.archs) else "",
        }
        return {axis: words for axis, words in found.items() if words}

    def settings(self, own: Inputs) -> str:
        """Return the variables, requirements or architectures that differ."""
        variables = sorted({name for name, _ in {*self.env} ^ {*own.env}})
        return ", ".join([*variables, *sorted({*self.build_requires} ^ {*own.build_requires})]) or "other archs"


def _label(accelerator: Accelerator | None) -> str:
    return accelerator.label if accelerator else "no accelerator"


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
    def claim(self) -> Claim:
        """What must be equal between the job's wheel and theirs."""
        if self.job.kind is JobKind.PURE:
            return Claim.MEMBERS
        return Claim.LOADS if "accelerator" in self.differs_in else Claim.INTERFACE

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

    def make_proof(self, compared: str, verdict: Verdict, *details: str) -> Proof:
        """Return the proof of this case with its verdict."""
        return Proof(self.job.name, self.cells, compared, verdict, "; ".join(filter(None, details)))


# ---------------------------------------------------------------- the proof


def prove(planned: Planned, outside: Outside) -> tuple[Proof, ...]:
    """Build the jobs that the plan calls redundant, where this machine can, and compare each with its job's wheel.

    Every covered cell is in exactly one proof; nothing that was not compared is called the same.
    """
    prover = _Prover(planned, outside)
    settled = [(case, prover.settle_without_build(case)) for job in planned.plan.jobs for case in prover.cases(job)]
    waiting = [case for case, proof in settled if proof is None]
    builds = len(waiting) + len({case.job.name for case in waiting})
    outside.reporter.say(f"{builds} builds to compare, less those that an earlier run has finished")
    return tuple(proof or prover.tried(case) for case, proof in settled)


class _Prover:
    """Proves the claims of one plan."""

    def __init__(self, planned: Planned, outside: Outside) -> None:
        self.planned = planned
        self.outside = outside
        self.tools = Toolchains(planned.catalog, outside)
        self.records = outside.cache / "proofs"
        self.owns: dict[str, Fingerprint | Rejected | MachineError] = {}
        self.platforms = {platform.platform: platform for platform in planned.plan.request.platforms}
        self.shown = {found.platform: found for found in planned.evidence.platforms}

    @cached_property
    def may_see_torch(self) -> bool:
        """Whether the project's build requires torch, or depends on the folder of torch's headers."""
        project = ProjectFile(self.planned.plan.request, self.planned.tree)
        required = project.list("build-system", "requires")
        names = {canonicalize_name(re.split(r"[^\w.-]", str(text).strip())[0]) for text in required}
        return "torch" in names or any(TORCH_INCLUDE in line for line in project.lines)

    # -- cases

    def cases(self, job: Job) -> Iterator[Case]:
        """Yield a job's covered cells, grouped by the inputs of their builds."""
        covered = [item.cell for item in self.planned.plan.covered if item.job == job.name]
        groups: dict[Inputs, list[Cell]] = {}
        for cell in covered:
            groups.setdefault(self.inputs(cell), []).append(cell)
        sees_torch = any(self.unseen(cell) == "" for cell in job.covers)
        own = self.own_inputs(job, job.torch if sees_torch else None)
        for inputs, cells in groups.items():
            yield Case(job, inputs, own, tuple(cells), self.unseen(cells[0]))

    def inputs(self, cell: Cell) -> Inputs:
        """Return the inputs of a build for one cell only."""
        platform, shown = self.platforms[cell.platform], self.evidence(cell)
        env = {**dict(self.planned.plan.request.build.env), **dict(platform.env), **dict(shown.switches)}
        return Inputs(
            host=self.planned.catalog.platforms[cell.platform].host,
            python=cell.python,
            torch=None if self.unseen(cell) else cell.torch,
            accelerator=cell.accelerator,
            archs=platform.archs if cell.accelerator else (),
            env=tuple(sorted(env.items())),
            build_requires=shown.build_requires,
        )

    def own_inputs(self, job: Job, torch: Minor | None) -> Inputs:
        """Return the inputs of the job's own build."""
        return Inputs(
            host=self.planned.catalog.platforms[job.platform].host if job.platform else host(),
            python=_builder(job),
            torch=torch,
            accelerator=job.accelerator,
            archs=job.archs if job.accelerator else (),
            env=tuple(sorted(dict(job.env).items())),
            build_requires=job.build_requires,
        )

    def evidence(self, cell: Cell) -> CellEvidence:
        return self.shown[cell.platform].of(cell)

    def unseen(self, cell: Cell) -> str:
        """Return why a cell's build certainly does not depend on torch, or "" if it may."""
        shown = self.evidence(cell)
        abi = shown.torch_abi
        asks = any("torch" in what.lower() for what, _ in shown.asked) or "torch" in shown.build_requires
        if asks or self.may_see_torch:
            return ""
        if shown.extensions is Extensions.NONE:  # if the build did compile, its wheel would have another name
            return f"nothing is compiled ({shown.extensions_where})"
        return "" if abi.uses_torch or abi.kind is not Binding.NONE else abi.where

    # -- verdicts

    def settle_without_build(self, case: Case) -> Proof | None:
        """Return the proof of a case that needs no build, or None."""
        if not case.differs_in:
            return case.make_proof("", Verdict.SAME_INPUT, "the job's own build sees nothing else", case.note)
        if why := self.tools.missing(case.job):
            return case.make_proof("", Verdict.NOT_EXERCISED, f"the job cannot be built here: {why}")
        if why := self.tools.missing(case.toolchain_job):
            return case.make_proof("", Verdict.NOT_EXERCISED, why)
        if len(case.differs_in) > 1 and not _is_quick(case):
            several = " and ".join(case.differs_in)
            return case.make_proof("", Verdict.NOT_EXERCISED, f"{several} are compared each by itself, not together")
        return None

    def tried(self, case: Case) -> Proof:
        """Return the proof of a case that needs a build."""
        own = self.own(case.job)
        if isinstance(own, Rejected):
            return case.make_proof("", Verdict.REJECTED, f"the job's own build: {_brief(own)}")
        if isinstance(own, MachineError):
            return case.make_proof("", Verdict.BROKEN, f"at the job's own build: {_brief(own)}")
        try:
            other = self.made(case.variant, case.toolchain_job, " and ".join(case.differs_in.values()))
        except Rejected as error:
            return case.make_proof("", _judge_failure(error, case.job), _brief(error))
        except MachineError as error:
            return case.make_proof("", Verdict.BROKEN, _brief(error))
        compared, verdict, detail = compare(own, other, case.claim)
        return case.make_proof(compared, verdict, detail, case.note)

    # -- wheels

    def own(self, job: Job) -> Fingerprint | Rejected | MachineError:
        """Return the fingerprint of a job's own wheel, or why there is none; the wheel is built once."""
        if job.name not in self.owns:
            try:
                self.owns[job.name] = self.made(job, job, "as planned")
            except (Rejected, MachineError) as error:
                self.owns[job.name] = error
        return self.owns[job.name]

    def made(self, job: Job, toolchain_job: Job, how: str) -> Fingerprint:
        """Return the fingerprint of a job's wheel, from an earlier run's record or from a new build."""
        toolchain = self.tools.prepare(toolchain_job)
        # This Python builds a wheel for every Python, whatever the oldest Python is that the wheel serves.
        key = build_key(self.planned.plan, replace(job, python=_builder(job)), toolchain)
        record = self.records / f"{key}.json"
        kept = _read(record)
        if kept:
            self.outside.reporter.say(f"keep {job.wheel} ({how}): nothing it depends on has changed")
            return kept
        workshop = Workshop(logs=self.records / "logs" / key[:12], outside=self.outside)
        title = f"build {job.wheel} ({how})"
        with self.outside.reporter.step(title), scratch() as folder:
            wheel = workshop.build_wheel(job, self.planned.plan, self.planned.tree, toolchain, folder).path
            found = fingerprint(wheel)
        with write_atomically(record) as file:
            file.write(json.dumps(found._asdict()).encode())
        return found


def _is_quick(case: Case) -> bool:
    """Whether the build is cheap (compiles nothing, installs no torch), so all differences are tested at once."""
    return case.job.kind is JobKind.PURE and bool(case.unseen)


def _judge_failure(error: Rejected, job: Job) -> Verdict:
    """Return the verdict of a failed build: not exercised if this machine's compiler is too new for the wheel's tag."""
    is_too_new = error.message.startswith(f"the wheel does not keep to {job.wheel_platform}")
    return Verdict.NOT_EXERCISED if is_too_new else Verdict.REJECTED


def _builder(job: Job) -> Python:
    """Return the Python that builds a job: its own, or this one if one wheel serves all Pythons."""
    here = Python(Minor(*sys.version_info[:2]), bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
    return job.python if job.python_stays or here.version < job.python.version else here


def _brief(error: FatwheelError) -> str:
    """Return an error's first line and its last one, which may be the end of a log."""
    lines = error.message.splitlines()
    return " ".join([lines[0], *lines[1:][-1:]])


def _read(record: Path) -> Fingerprint | None:
    """Return the recorded fingerprint of a wheel, or None if there is none or it cannot be read."""
    try:
        entry = json.loads(record.read_text(encoding="utf-8"))
        libraries = {name: Interface(*map(tuple, parts)) for name, parts in entry["libraries"].items()}
        return Fingerprint(**{**entry, "metadata": tuple(entry["metadata"]), "libraries": libraries})
    except UNREADABLE:
        return None
