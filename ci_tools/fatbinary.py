"""What a compiled library holds for GPUs, and which symbols it asks for, read from its bytes.

The layout of `.nv_fatbin` is not documented by NVIDIA; ours agrees with cuobjdump on every file the tests make.
"""

from __future__ import annotations

import io
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ci_tools.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Image", "images", "undefined_symbols"]

MAGIC = 0xBA55ED50
HEADER = struct.Struct("<IHHQ")  # magic, version, header size, size of all entries
ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, -, header size, payload size, arch, flags
KINDS = {1: "compute", 2: "sm", 8: "lto"}  # PTX, machine code (SASS), code for the link-time optimiser
ARCH_SPECIFIC, FAMILY_SPECIFIC = 0x100000, 0x200000
SECTIONS = (".nv_fatbin", "__nv_relfatbin")
ALIGNMENT = 8


class Image(NamedTuple):
    """One device image: `sm` for machine code, `compute` for PTX or `lto`, and its architecture such as `100a`."""

    kind: str
    arch: str

    def __str__(self) -> str:
        """Return `sm_100a`."""
        return f"{self.kind}_{self.arch}"


def images(library: bytes) -> frozenset[Image]:
    """Return the device images in an ELF library; raise Rejected where it or its fatbinary is malformed."""
    with _reading(library) as elf:
        sections = [elf.get_section_by_name(name) for name in SECTIONS]
        contents = [section.data() for section in sections if section is not None]
    return frozenset(image for content in contents for image in _images(memoryview(content)))


def _images(data: memoryview) -> Iterator[Image]:
    position = 0
    while position < len(data):
        if not any(data[position : position + ALIGNMENT]):  # padding between two compilation units
            position += ALIGNMENT
            continue
        magic, _, header, size = _unpacked(HEADER, data, position)
        if magic != MAGIC or header < HEADER.size:
            msg = f"the fatbinary has the magic number {magic:#x} at byte {position}, expected {MAGIC:#x}"
            raise Rejected(msg)
        yield from _entries(_cut(data, position + header, size))
        position += header + size
        position += -position % ALIGNMENT


def _entries(data: memoryview) -> Iterator[Image]:
    position = 0
    while position < len(data):
        kind, _, header, size, arch, flags = _unpacked(ENTRY, data, position)
        if header < ENTRY.size:
            msg = f"a fatbinary entry has a header of {header} bytes, expected {ENTRY.size} or more"
            raise Rejected(msg)
        _cut(data, position + header, size)
        variant = "a" if flags & ARCH_SPECIFIC else "f" if flags & FAMILY_SPECIFIC else ""
        yield Image(KINDS.get(kind, f"kind{kind}"), f"{arch}{variant}")
        position += header + size


def _unpacked(layout: struct.Struct, data: memoryview, position: int) -> tuple[int, ...]:
    return layout.unpack(_cut(data, position, layout.size))


def _cut(data: memoryview, position: int, size: int) -> memoryview:
    """Return `size` bytes from `position` on; raise Rejected where there are fewer."""
    if position + size > len(data):
        msg = f"the fatbinary ends at byte {len(data)}, in the middle of an entry that goes to {position + size}"
        raise Rejected(msg)
    return data[position : position + size]


def undefined_symbols(library: bytes) -> frozenset[str]:
    """Return the names an ELF library expects others to define; raise Rejected where it is malformed."""
    with _reading(library) as elf:
        table = elf.get_section_by_name(".dynsym")
        if not isinstance(table, SymbolTableSection):
            return frozenset()
        return frozenset(
            symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name
        )


@contextmanager
def _reading(library: bytes) -> Iterator[ELFFile]:
    """Yield the library's parser; whatever it raises on a malformed file becomes Rejected."""
    try:
        yield ELFFile(io.BytesIO(library))
    except Exception as error:  # noqa: BLE001 - pyelftools and construct raise many kinds on a damaged file
        msg = f"this is not a whole ELF file: {error or type(error).__name__}"
        raise Rejected(msg) from None
