"""A rule about machine code for the CPU: it must run on every CPU that the platform tag promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ci_tools.formats.binaries.elf import Elf, Extent, Section, read_elf
from ci_tools.machine.storage import CHUNK
from ci_tools.model.files import Level
from ci_tools.verify.audit.subject import Flaw, Subject, abbreviate, read_each

X86_64 = 62  # e_machine
NOTES = ".note.gnu.property"
NOTE_HEADER = 12  # bytes before a note's name: the sizes of name and content, and the kind; then comes "GNU\0"
ISA_NEEDED = 0xC0008002  # x86-64 psABI: GNU_PROPERTY_X86_ISA_1_NEEDED, four bytes of bits
LEVELS = {2: "x86-64-v2", 4: "x86-64-v3", 8: "x86-64-v4"}
VZEROUPPER = b"\xc5\xf8\x77"  # compilers put it at the end of each function that uses AVX registers
CPUID = b"\x0f\xa2"
LONGEST = 3  # bytes of the longest of these instructions
FEW = 2  # so many matches may be data rather than instructions
PER_BYTES = 1 << 22  # and one more per so many bytes: chance gives one in four times as many


class CpuCode(NamedTuple):
    """The CPU features that a library's code uses."""

    level: str = ""  # the level that the loader requires; empty: none
    avx: bool = False  # whether it has AVX instructions
    asks: bool = False  # whether it may query the CPU's features, itself or by another library


def instructions(subject: Subject) -> Iterator[Flaw]:
    """Libraries for x86-64 run on each such CPU, or choose their code by the CPU that they meet.

    An error if the loader must refuse older CPUs: the tag `x86_64` promises them (PEP 600), and installers do not
    read that note. A warning if a library has AVX instructions, as of `-march=x86-64-v3` or `-march=native`, and no
    library of the wheel queries the CPU: on a CPU without AVX, it ends with "illegal instruction". It is not certain,
    since a caller in another package may have checked.
    """
    if subject.is_pure:
        return
    codes = dict(read_each(subject.libraries, _code))
    for name, code in codes.items():
        if code.level:
            yield Flaw(f"{name} is refused by older CPUs", code.level, "the x86-64 of every CPU")
    using = [name for name, code in codes.items() if code.avx and not code.level]
    if using and not any(code.asks for code in codes.values()):
        message = f"{abbreviate(using)} use AVX, and no library asks whether the CPU has it"
        yield Flaw(message, "AVX", "x86-64, or a choice when it runs", Level.WARNING)


def _code(library: BinaryIO) -> CpuCode:
    elf = read_elf(Extent.whole(library))
    if elf.machine != X86_64:
        return CpuCode()
    found = {VZEROUPPER: 0, CPUID: 0}
    size = 0
    for section in elf.sections:
        if section.name.startswith(".text"):  # data may look like anything
            size += section.size
            _count(elf, section, found)
    # libgcc, glibc and torch's cpuinfo query the CPU's features by such functions.
    asks = found[CPUID] > 0 or any(
        ("cpu" in symbol.name.lower() or symbol.name == "getauxval") for symbol in elf.symbols(".dynsym")
    )
    return CpuCode(_level(elf), found[VZEROUPPER] > FEW + size // PER_BYTES, asks)


def _count(elf: Elf, section: Section, found: dict[bytes, int]) -> None:
    """Count instructions in a section by their bytes, in pieces that overlap, so that no instruction is cut."""
    content = elf.content(section)
    for start in range(0, content.size, CHUNK):
        piece = content.read(start, min(CHUNK + LONGEST - 1, content.size - start))
        for instruction in found:
            found[instruction] += piece.count(instruction)


def _level(elf: Elf) -> str:
    """Return the highest level that the library's notes require of the loader."""
    bits = 0
    for section in elf.named(NOTES):
        notes = elf.content(section).read()
        for position in range(NOTE_HEADER + 4, len(notes) - 11, 4):
            if int.from_bytes(notes[position : position + 4], "little") == ISA_NEEDED:
                bits |= int.from_bytes(notes[position + 8 : position + 12], "little")
    return max((name for bit, name in LEVELS.items() if bits & bit), default="")
