"""Reads the sections and symbols of ELF files, and the sections of PE files, from a seekable stream.

Only the requested parts are loaded, so a library may have any size.
"""

from __future__ import annotations

import io
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ci_tools.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Elf", "Extent", "Section", "Symbol", "pe_sections", "read_elf"]

MAGIC = b"\x7fELF"
BITS = {1: 32, 2: 64}
BYTE_ORDER = {1: "<", 2: ">"}
HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}  # the fields after the sixteen bytes of e_ident
SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}
NAME_ELSEWHERE = 0xFFFF  # SHN_XINDEX: the index of the section of names is in the first section's link
TABLES = {".symtab": 2, ".dynsym": 11}  # SHT_SYMTAB and SHT_DYNSYM
NO_CONTENT = 8  # SHT_NOBITS: a section with an address and a size, but no bytes (.bss)
PE_OFFSET = 0x3C
PE_HEADER = struct.Struct("<4sHH12xHH")  # PE\0\0, machine, number of sections, size of the optional header, flags
PE_SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address, size in the file, offset


class Extent(NamedTuple):
    """A range of bytes of a seekable stream."""

    stream: BinaryIO
    start: int
    size: int

    @classmethod
    def whole(cls, stream: BinaryIO) -> Extent:
        """Return the whole stream."""
        return cls(stream, 0, stream.seek(0, io.SEEK_END))

    def part(self, position: int, size: int) -> Extent:
        """Return the range of `size` bytes from `position` on; raise EOFError if there are fewer."""
        if position + size > self.size:
            msg = f"it ends at byte {self.size}, expected {position + size} or more"
            raise EOFError(msg)
        return Extent(self.stream, self.start + position, size)

    def read(self, position: int = 0, size: int | None = None) -> bytes:
        """Return the bytes from `position` on, all or `size` of them; raise EOFError if there are fewer."""
        part = self.part(position, self.size - position if size is None else size)
        self.stream.seek(part.start)
        content = self.stream.read(part.size)
        if len(content) != part.size:
            msg = f"it ends at byte {position + len(content)}, expected {position + part.size} or more"
            raise EOFError(msg)
        return content

    def peek(self, size: int) -> bytes:
        """Return the first `size` bytes, or all if there are fewer."""
        return self.read(0, min(size, self.size))


class Section(NamedTuple):
    """One section of an ELF file: its type, its place in the file, and the index of the section it is linked to."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


class Symbol(NamedTuple):
    """One entry of a symbol table; `section` is 0 if another file defines the symbol."""

    name: str
    binding: int
    kind: int
    other: int
    section: int

    @property
    def is_weak(self) -> bool:
        """Whether the symbol may stay undefined."""
        return self.binding == 2  # noqa: PLR2004 - STB_WEAK

    @property
    def is_visible(self) -> bool:
        """Whether other libraries see the symbol: it is neither local nor hidden."""
        return self.binding != 0 and self.other & 3 in {0, 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """An ELF file's header and sections; the bytes stay in the stream."""

    extent: Extent
    bits: int
    byte_order: str
    machine: int
    flags: int
    headers: tuple[tuple[int, ...], ...]  # the section headers, in the file's order
    names: bytes  # the content of the section of section names

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections in the file's order."""
        return tuple(map(self._section, self.headers))

    def _section(self, header: tuple[int, ...]) -> Section:
        name, kind, _, _, offset, size, link, *_ = header
        with _whole():
            text = self.names[name : self.names.index(b"\0", name)].decode(errors="backslashreplace")
        return Section(text, kind, offset, size, link)

    def content(self, section: Section) -> Extent:
        """Return the range of a section's bytes; raise Rejected if the file ends before it."""
        with _whole():
            return self.extent.part(section.offset, 0 if section.kind == NO_CONTENT else section.size)

    def named(self, *names: str) -> tuple[Section, ...]:
        """Return the sections with these names; each name may occur more than once."""
        return tuple(section for section in self.sections if section.name in names)

    def symbols(self, table: str, *, kind: int | None = None) -> Iterator[Symbol]:
        """Yield the entries of a symbol table, `.dynsym` or `.symtab`, without the empty first one, if it exists.

        `kind` selects one type of symbols. In GPU machine code, with its thousands of sections, that skips most.
        """
        for header in self.headers:
            if header[1] == TABLES[table]:
                yield from self._symbols(self._section(header), kind)

    def _symbols(self, section: Section, wanted: int | None) -> Iterator[Symbol]:
        layout = struct.Struct(self.byte_order + SYMBOL[self.bits])
        with _whole():
            names = self.content(self._section(self.headers[section.link])).read()
            entries = self.content(section).read()
            for fields in layout.iter_unpack(entries[layout.size :]):
                if self.bits == 64:  # noqa: PLR2004 - as its name says
                    name, info, other, index = fields[:4]
                else:
                    name, info, other, index = fields[0], *fields[3:]
                if wanted is None or info & 15 == wanted:
                    text = names[name : names.index(b"\0", name)].decode(errors="backslashreplace")
                    yield Symbol(text, info >> 4, info & 15, other, index)


def read_elf(extent: Extent) -> Elf:
    """Return the ELF file in `extent`; raise Rejected if it is not an ELF file or is incomplete."""
    with _whole():
        identification = extent.read(0, 16)
        if identification[:4] != MAGIC:
            msg = f"it starts with {identification[:4]!r}"
            raise ValueError(msg)
        bits, byte_order = BITS[identification[4]], BYTE_ORDER[identification[5]]
        layout = struct.Struct(byte_order + HEADER[bits])
        fields = layout.unpack(extent.read(16, layout.size))
        _, machine, _, _, _, table, flags, _, _, _, entry_size, count, names = fields
        headers = _headers(extent, struct.Struct(byte_order + SECTION[bits]), table, entry_size, count)
        return Elf(
            extent=extent,
            bits=bits,
            byte_order=byte_order,
            machine=machine,
            flags=flags,
            headers=headers,
            names=_names(extent, headers, names),
        )


def _headers(
    extent: Extent, layout: struct.Struct, table: int, entry_size: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the section headers; if their number does not fit into the file header, the first one holds it."""
    if not table:
        return ()
    if entry_size != layout.size:
        msg = f"a section header has {entry_size} bytes, expected {layout.size}"
        raise ValueError(msg)
    count = count or layout.unpack(extent.read(table, layout.size))[5]
    return tuple(layout.iter_unpack(extent.read(table, count * layout.size)))


def _names(extent: Extent, headers: tuple[tuple[int, ...], ...], index: int) -> bytes:
    """Return the content of the section of names; the first section holds its index if the header cannot."""
    if not headers:
        return b""
    named = headers[headers[0][6] if index == NAME_ELSEWHERE else index]
    return extent.read(named[4], named[5])


@contextmanager
def _whole() -> Iterator[None]:
    """Convert parse errors into Rejected."""
    try:
        yield
    except (EOFError, IndexError, KeyError, ValueError, OverflowError, MemoryError, struct.error) as error:
        msg = f"this is not a whole ELF file: {error or type(error).__name__}"
        raise Rejected(msg) from None


def pe_sections(extent: Extent) -> Iterator[tuple[str, Extent]]:
    """Yield the name and the bytes of each section of a Windows library; raise Rejected if it is incomplete."""
    try:
        header = int.from_bytes(extent.read(PE_OFFSET, 4), "little")
        _, _, count, before, _ = PE_HEADER.unpack(extent.read(header, PE_HEADER.size))
        table = header + PE_HEADER.size + before
        for number in range(count):
            fields = PE_SECTION.unpack(extent.read(table + number * PE_SECTION.size, PE_SECTION.size))
            name, in_memory, _, in_file, offset = fields
            text = name.rstrip(b"\0").decode(errors="backslashreplace")
            yield text, extent.part(offset, min(in_memory, in_file))
    except EOFError as error:
        msg = f"this is not a whole Windows library: {error}"
        raise Rejected(msg) from None
