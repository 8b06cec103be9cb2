"""What a compiled library holds for GPUs, and which symbols it asks for, read from its bytes.

The layout of `.nv_fatbin` is not documented by NVIDIA; ours agrees with cuobjdump on every file the tests make.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ci_tools.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Image", "images", "undefined_symbols"]

MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")  # magic, version, header size, size of all entries
ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, -, header size, payload size, arch, flags
KINDS = {1: "compute", 2: "sm"}  # PTX, machine code (SASS)
ARCH_SPECIFIC, FAMILY_SPECIFIC = 0x100000, 0x200000
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
ALIGNMENT = 8


class Image(NamedTuple):
    """One device image: `sm` for machine code or `compute` for PTX, and its architecture such as `100a`."""

    kind: str
    arch: str

    def __str__(self) -> str:
        """Return `sm_100a`."""
        return f"{self.kind}_{self.arch}"


def images(library: bytes) -> frozenset[Image]:
    """Return the device images in an ELF library; raise Rejected where its fatbinary is malformed."""
    elf = _elf(library)
    found: set[Image] = set()
    for name in SECTIONS:
        section = elf.get_section_by_name(name)
        if section is not None:
            try:
                found.update(_images(section.data()))
            except struct.error:
                msg = f"the section {name} ends in the middle of an entry"
                raise Rejected(msg) from None
    return frozenset(found)


def _images(data: bytes) -> Iterator[Image]:
    position = 0
    while position + HEADER.size <= len(data):
        magic, _, header, size = HEADER.unpack_from(data, position)
        if magic == 0:  # padding between two compilation units
            position += ALIGNMENT
            continue
        if magic != MAGIC or header < HEADER.size:
            msg = f"the fatbinary has the magic number {magic:#x} at byte {position}, expected {MAGIC:#x}"
            raise Rejected(msg)
        yield from _entries(data, position + header, position + header + size)
        position += header + size
        position += -position % ALIGNMENT


def _entries(data: bytes, position: int, end: int) -> Iterator[Image]:
    while position < end:
        kind, _, header, size, arch, flags = ENTRY.unpack_from(data, position)
        if header < ENTRY.size:
            msg = f"a fatbinary entry has a header of {header} bytes, expected {ENTRY.size} or more"
            raise Rejected(msg)
        variant = "a" if flags & ARCH_SPECIFIC else "f" if flags & FAMILY_SPECIFIC else ""
        yield Image(KINDS.get(kind, f"kind{kind}"), f"{arch}{variant}")
        position += header + size


def undefined_symbols(library: bytes) -> frozenset[str]:
    """Return the names an ELF library expects others to define."""
    table = _elf(library).get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return frozenset()
    return frozenset(
        symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
    )


def _elf(library: bytes) -> ELFFile:
    try:
        return ELFFile(io.BytesIO(library))
    except ELFError as error:
        msg = f"this is not an ELF file: {error}"
        raise Rejected(msg) from None
