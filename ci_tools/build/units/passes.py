"""Preprocesses a unit as its compiler would: nvcc once for the host and once for each architecture.

The object depends on the text of every pass. The lines that say where text comes from are left out, as the object of
another checkout or torch is the same without them, unless the object names files and lines.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ci_tools.build.units.calls import CompilerCall
from ci_tools.build.units.store import UnitCost
from ci_tools.machine.storage import sha256_of

MARK = re.compile(rb'\n# \d+ "[^\n]*"(?: [12])?( 3)?(?: 4)?(?=\n)')  # begins with letters, which `re` finds fastest
BLANK = re.compile(rb"\n\s*\n")
NAMED = re.compile(rb'^# \d+ "([^"\n]+)"', re.MULTILINE)
# What names a place in the source without debug information: functions, and clang, which names lambdas by theirs.
CLANG = b'# 1 "<built-in>" 3'
PLACES = (b"__builtin_LINE", b"__builtin_FILE", b"__builtin_COLUMN", b"__builtin_source_location", CLANG)
# These are read only after preprocessing: by the assembler, or by a compiler that embeds by itself.
READS = (b".incbin", b"\n#embed", b"\n# embed", b"\n#include", b"\n# include", b"\n#import")
JOINT = re.compile(rb'"\s*"')  # of two strings that are one for a compiler
# What raw strings hold: their blank lines, and lines that look like a mark, are part of the object.
RAW = re.compile(rb'R"(?=([^()\\\s]{0,16})(\(.*?\))\1")', re.DOTALL)
INCLUDE = re.compile(rb"\.include\b")  # the assembler's; torch's ATen/core/Tensor.h has a member `.included_`
# What nvcc's last step includes besides what it generated (CUDA 13.0, `nvcc --keep`).
LAST_STEP = '#include "crt/host_runtime.h"\n#include "fatbinary_section.h"\n'
GENERATED = ".cudafe1.cpp"
SAID, ERROR, TRACE = ".out", ".err", ".trace"
PASSING = ("/proc/", "/sys/")


class RanProgram(NamedTuple):
    """How a program ended that a launcher ran, and what it took."""

    status: int
    cost: UnitCost = UnitCost()

    @property
    def seconds(self) -> float:
        """The seconds of processor time."""
        return self.cost.cpu


class Lookups(NamedTuple):
    """The files that preprocessing read, and those that it looked for in vain: absolute paths."""

    read: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


# Runs a program's words where the launcher was called. Its output goes to files with the path's name and the suffixes
# above; the files that it looks for are recorded in another, if there is one.
Run: TypeAlias = "Callable[[Sequence[str], Path, Path | None], RanProgram]"


class UnitText(NamedTuple):
    """A digest of the text of one pass or of all; `plain` says why it is not all that the object depends on."""

    digest: str = ""
    lookups: Lookups = Lookups()
    seconds: float = 0.0
    plain: str = ""


class Preprocessor(NamedTuple):
    """Preprocesses the units of one build.

    `last_step` is a file with LAST_STEP, and `known` has the text of that step for the flags that were seen.
    """

    moved: Mapping[str, str]  # folders, and what they are called in objects
    last_step: Path
    known: dict[tuple[str, ...], UnitText]

    def read(
        self, call: CompilerCall, further: Sequence[str], run: Run, folder: Path, trace: Path | None = None
    ) -> UnitText:
        """Return the text of a unit; `further` are the words that its call gets beside its own.

        After nvcc has compiled it, with a trace of what it looked for, the texts are those that it kept.
        """
        shown, seconds, found = [(_preprocess(call, further), "")], 0.0, []
        if call.is_nvcc:
            seconds = run([str(call.program), *call.words, *further, "--dryrun"], folder / "dryrun", None).seconds
            shown = [*_list_passes(folder / f"dryrun{ERROR}", self.last_step)]
        if trace:
            found.append(UnitText(lookups=read_lookups(trace, call, folder.parent)))
        for number, (words, kept) in enumerate(sorted(shown)):
            text = Path(kept) if trace and str(self.last_step) not in words else None
            one = self.known.get(tuple(words)) or self._read_pass(call, words, run, folder / f"{number}.ii", text)
            if str(self.last_step) in words and not one.plain:
                self.known[tuple(words)] = one._replace(seconds=0.0)
            seconds += one.seconds
            found.append(one)
            if one.plain:
                return UnitText(seconds=seconds, plain=one.plain)
        whole = hashlib.sha256("\n".join(one.digest for one in found if one.digest).encode()).hexdigest()
        read = frozenset().union(*(one.lookups.read for one in found))
        absent = frozenset().union(*(one.lookups.absent for one in found))
        return UnitText(whole, Lookups(read, absent), seconds, "" if found else "nvcc shows no pass of it")

    def _read_pass(
        self, call: CompilerCall, words: Sequence[str], run: Run, place: Path, made: Path | None
    ) -> UnitText:
        trace = place.with_suffix(TRACE)
        trace.touch()
        ran = RanProgram(0) if made else run([*words, "-o", str(place)], place.with_suffix(""), trace)
        place = made or place
        if ran.status or not place.is_file():
            return UnitText(seconds=ran.seconds, plain="it cannot be preprocessed apart")
        content = place.read_bytes()
        place.unlink()
        joined = JOINT.sub(b"", content)
        if any(word in joined for word in READS) or INCLUDE.search(joined):
            return UnitText(seconds=ran.seconds, plain="it reads a file while it is compiled (.incbin, #embed)")
        has_lines = call.has_lines or any(word in content for word in PLACES)
        reduced = _name_moved(content, self.moved) if has_lines else _drop_lines(content)
        lookups = _read_trace(trace.read_bytes(), call.cwd, place.parent.parent)
        # Beside the name of each file, nvcc's table of lines has its size, and that of clang its MD5 (DWARF 5, 6.2.4).
        has_sums = call.has_lines and (call.is_nvcc or CLANG in content)
        sums = _sum_up(content, call.cwd) if has_sums else ()
        whole = b"\0".join((reduced, *(raw[2] for raw in RAW.finditer(content)), *sums))
        return UnitText(hashlib.sha256(whole).hexdigest(), lookups, ran.seconds)


def _preprocess(call: CompilerCall, further: Sequence[str]) -> list[str]:
    """Return the words that preprocess a unit of a host compiler."""
    words = [str(call.program), *call.folders, *call.macros, *call.flags, *further]
    return [*words, "-x", call.language, "-E", call.sources[0]]


def _list_passes(dryrun: Path, last_step: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the words of each command of nvcc's that preprocesses, and of its last step, and apart their output."""
    for line in dryrun.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        words = shlex.split(line.removeprefix("#$ ")) if line.startswith("#$ ") else []
        if "-o" not in words or not {"-E", "-c"} & {*words}:
            continue
        at, end = words.index("-o"), words.index(">") if ">" in words else len(words)  # with --threads, it redirects
        output, others = words[at + 1], (*words[:at], *words[at + 2 : end])
        words = [word for word in others if not word.startswith("-frandom-seed")]
        if "-c" in words:
            words[words.index("-c")] = "-E"
        yield [str(last_step) if word.endswith(GENERATED) else word for word in words], output


def _drop_lines(content: bytes) -> bytes:
    """Return a text without the lines that say where it is from, but for whether that is a header of the system."""
    _, *parts = MARK.split(b"\n" + content)
    kept, last = [], None
    for system, text in zip(parts[::2], parts[1::2], strict=True):
        if stripped := text.strip(b"\n"):
            kept += [b"#3" if system else b"#"] if system != last else []
            kept.append(stripped)
            last = system
    return BLANK.sub(b"\n", b"\n".join(kept))


def _name_moved(content: bytes, moved: Mapping[str, str]) -> bytes:
    """Return a text with the names of these folders in the lines that say where it is from."""
    for folder, name in moved.items():
        mark = re.compile(rb'^(# \d+ ")' + re.escape(os.fsencode(folder)), re.MULTILINE)
        content = mark.sub(rb"\1" + name.encode(), content)
    return content


def _sum_up(content: bytes, cwd: Path) -> Iterator[bytes]:
    """Yield the SHA-256 of each file that the lines of a text name, in their order."""
    named = dict.fromkeys(cwd / os.fsdecode(name) for name in NAMED.findall(content))
    return (sha256_of(path).encode() for path in named if path.is_file())


def read_lookups(trace: Path, call: CompilerCall, own: Path) -> Lookups:
    """Return what a call's trace has outside `own`, but for the files that the call made."""
    looked, made = _read_trace(trace.read_bytes(), call.cwd, own), {call.output, call.dependencies}
    return looked._replace(absent=looked.absent - {os.path.join(call.cwd, one) for one in made})  # noqa: PTH118 - as above


def _read_trace(trace: bytes, cwd: Path, own: Path) -> Lookups:
    """Return the files that trace.c recorded outside `own` and that stay; none if a record is not whole."""
    records = [os.fsdecode(record) for record in trace.split(b"\0")]
    if records.pop() or any(record[0] not in "ra" for record in records):
        return Lookups()
    paths = [(record[0], os.path.join(cwd, record[1:])) for record in records]  # noqa: PTH118 - ten thousand a unit
    others = [(kind, path) for kind, path in paths if not path.startswith((*PASSING, f"{own}/"))]
    read = frozenset(path for kind, path in others if kind == "r")
    absent = frozenset(path for kind, path in others if kind == "a") - read
    return Lookups(frozenset(filter(os.path.exists, read)), absent)
