"""The machine that a compiled file is for, and the system libraries that an ELF file needs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from ci_tools.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

__all__ = ["Linking", "linking", "machines"]

ELF_MACHINE = 18  # the offset of e_machine, two bytes, in an ELF header
PE_OFFSET = 0x3C
ELF = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
PE = {0x14C: "win32", 0x8664: "amd64", 0xAA64: "arm64"}
CPU = {0x7: "i386", 0x01000007: "x86_64", 0x0100000C: "arm64"}
FAT = {b"\xca\xfe\xba\xbe": 20, b"\xca\xfe\xba\xbf": 32}  # magic number to the size of one architecture's entry
MOST_PARTS = 16
TEXTREL_FLAG = 4  # DF_TEXTREL
DEBUG = (".debug_", ".zdebug_", ".gnu.debuglto_")


class Linking(NamedTuple):
    """The libraries an ELF file needs at run time, and the folders it searches."""

    name: str  # DT_SONAME, the name by which other files need it; "" if it has none
    needed: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]  # a library and a version of its symbols, libc.so.6 and GLIBC_2.17
    run_paths: tuple[str, ...]  # RPATH and RUNPATH, unchanged
    executable_stack: bool
    text_relocations: bool = False  # whether the loader has to modify its code
    debug_bytes: int = 0  # the size of all debug sections


def linking(library: BinaryIO) -> Linking:
    """Return the facts in the dynamic segment of an ELF file; raise Rejected if the file is malformed."""
    with _reading():
        elf = ELFFile(library)
        segments = list(elf.iter_segments())
        tags: list[Any] = [tag for part in segments if isinstance(part, DynamicSegment) for tag in part.iter_tags()]
        return Linking(
            name=next((tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"), ""),
            needed=tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"),
            versions=tuple(_versions(elf)),
            run_paths=tuple(_run_paths(tags)),
            executable_stack=any(part["p_type"] == "PT_GNU_STACK" and part["p_flags"] & 1 for part in segments),
            text_relocations=any(map(_relocates_text, tags)),
            debug_bytes=sum(part["sh_size"] for part in elf.iter_sections() if part.name.startswith(DEBUG)),
        )


def _relocates_text(tag: Any) -> bool:  # noqa: ANN401 - pyelftools has no types
    """Whether an entry of the dynamic segment announces text relocations: DT_TEXTREL, or its flag in DT_FLAGS."""
    return tag.entry.d_tag == "DT_TEXTREL" or (tag.entry.d_tag == "DT_FLAGS" and bool(tag.entry.d_val & TEXTREL_FLAG))


def _run_paths(tags: list[Any]) -> Iterator[str]:
    for tag in tags:
        found = getattr(tag, "rpath", None)
        yield from (text for text in (found, getattr(tag, "runpath", None)) if text is not None)


def _versions(elf: ELFFile) -> Iterator[tuple[str, str]]:
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                yield from ((str(library.name), str(version.name)) for version in versions)


@contextmanager
def _reading() -> Iterator[None]:
    """Convert any error of the parser into Rejected."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - pyelftools and construct raise many kinds on a damaged file
        msg = f"this is not a whole ELF file: {error or type(error).__name__}"
        raise Rejected(msg) from None


def machines(file: BinaryIO) -> frozenset[str]:
    """Return the machines a compiled file is for, several for a Mach-O universal file; none if unknown here."""
    head = file.read(0x40)
    if head.startswith(b"\x7fELF"):
        number = head[ELF_MACHINE : ELF_MACHINE + 2]
        found = ELF.get(int.from_bytes(number, "big" if head[5:6] == b"\2" else "little"))
        return frozenset({found} if found else ())
    if head.startswith(b"MZ"):
        file.seek(int.from_bytes(head[PE_OFFSET : PE_OFFSET + 4], "little") + 4)
        found = PE.get(int.from_bytes(file.read(2), "little"))
        return frozenset({found} if found else ())
    return frozenset(CPU[number] for number in _cpu_types(head, file) if number in CPU)


def _cpu_types(head: bytes, file: BinaryIO) -> Iterator[int]:
    """Yield the CPU types of a Mach-O file, which a universal one lists in big-endian order."""
    step = FAT.get(head[:4])
    if step is None:
        yield int.from_bytes(head[4:8], "big" if head[:1] == b"\xfe" else "little")
        return
    for number in range(min(int.from_bytes(head[4:8], "big"), MOST_PARTS)):
        file.seek(8 + number * step)
        yield int.from_bytes(file.read(4), "big")
