"""Reads PE files, Windows' libraries and programs, from a seekable stream: sections, and the libraries they import.

The layout is that of Microsoft's "PE Format". Only the requested parts are loaded, so a library may have any size, and
a damaged table costs no more than the limits below: what it names more of is not a library that a linker made.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ci_tools.formats.binaries.elf import Extent, reading_whole
from ci_tools.formats.binaries.magic import PE_OFFSET

HEADER = struct.Struct("<4sHHIIIHH")  # PE\0\0, machine, sections, date, symbol table, its entries, size of what follows
SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address, size in the file, offset
PE32, PE32_PLUS = 0x10B, 0x20B  # the first field of the optional header: of 32-bit files, and of 64-bit ones
BASE = {PE32: (28, 4), PE32_PLUS: (24, 8)}  # where the preferred address of the file is, and its size
DIRECTORIES = {PE32: 92, PE32_PLUS: 108}  # where the number of data directories is; they follow
DIRECTORY = struct.Struct("<II")  # address, size
EXPORTS, IMPORTS, DELAYED = 0, 1, 13  # the numbers of data directories
MAX_DIRECTORIES = 16
IMPORT = struct.Struct("<IIIII")  # names of the symbols, date, forwarder, name of the library, addresses of the symbols
DELAYED_IMPORT = struct.Struct("<IIIIIIII")  # attributes, library, handle, addresses, names of the symbols, …
BY_ADDRESS = 1  # an attribute of a delayed import: its fields are relative to the file's address, as all others are
EXPORT = struct.Struct("<24xIIII")  # number of names, addresses of functions, of names, of ordinals
SYMBOL_SIZE = 18  # bytes of one entry of the symbol table; a table of long names follows the last one
HINT = 2  # bytes before the name of an imported symbol
LONGEST_NAME = 1 << 13  # bytes; names of C++ have 4,096 characters at most (Microsoft C/C++, "Decorated names")
NAME_CHUNK = 256  # bytes that are read at a time in search of a name's end
MAX_LIBRARIES, MAX_SYMBOLS = 1 << 12, 1 << 18  # that a file imports, or exports
MAX_SECTIONS = 96  # the loader takes no more (PE Format, "COFF File Header")
# The errors of reading a damaged file.


class PeSection(NamedTuple):
    """One section of a PE file: its place in the file, and its address in memory, relative to the file's."""

    name: str
    address: int
    offset: int
    size: int  # bytes in the file


class Import(NamedTuple):
    """A library that a PE file imports, and the symbols it takes from it; `#7` is one that it names by number."""

    library: str  # as the file spells it; Windows ignores case
    symbols: tuple[str, ...]
    is_delayed: bool = False  # whether it is loaded when the first of its symbols is called


@dataclass(frozen=True, slots=True, kw_only=True)
class Pe:
    """A PE file's header and sections; the bytes stay in the stream."""

    extent: Extent
    machine: int
    base: int  # the address that the file prefers
    pointer_size: int  # bytes
    directories: tuple[tuple[int, int], ...]  # address and size of each data directory
    sections: tuple[PeSection, ...]

    def content(self, section: PeSection) -> Extent:
        """Return the range of a section's bytes; raise Rejected if the file ends before it."""
        with reading_whole("Windows library"):
            return self.extent.part(section.offset, section.size)

    def imports(self) -> tuple[Import, ...]:
        """Return the libraries that the file imports, those that are loaded with it first."""
        with reading_whole("Windows library"):
            left = _Limit(MAX_SYMBOLS)
            return (*self._imports(left), *self._delayed_imports(left))

    def exports(self) -> tuple[str, ...]:
        """Return the names of the symbols that the file exports."""
        with reading_whole("Windows library"):
            if not (address := self._directory(EXPORTS)):
                return ()
            count, _, names, _ = EXPORT.unpack(self._read(address, EXPORT.size))
            _Limit(MAX_SYMBOLS).take(count)
            places = struct.iter_unpack("<I", self._read(names, count * 4)) if count else ()
            return tuple(self._name(place) for (place,) in places)

    def _imports(self, left: _Limit) -> Iterator[Import]:
        for names, _, _, library, addresses in self._rows(IMPORTS, IMPORT):
            if not library:
                return
            yield Import(self._name(library), tuple(self._symbols(names or addresses, left)))

    def _delayed_imports(self, left: _Limit) -> Iterator[Import]:
        for attributes, library, _, _, names, *_ in self._rows(DELAYED, DELAYED_IMPORT):
            if not library:
                return
            shift = 0 if attributes & BY_ADDRESS else self.base
            symbols = self._symbols(names - shift, left, shift) if names else ()
            yield Import(self._name(library - shift), tuple(symbols), is_delayed=True)

    def _rows(self, directory: int, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Yield the rows of a table; an empty row ends it, whatever size its directory gives."""
        address = self._directory(directory)
        for number in range(MAX_LIBRARIES if address else 0):
            yield layout.unpack(self._read(address + number * layout.size, layout.size))
        if address:
            raise ValueError(f"it imports more than {MAX_LIBRARIES:,} libraries")

    def _symbols(self, address: int, left: _Limit, shift: int = 0) -> Iterator[str]:
        by_number = 1 << (self.pointer_size * 8 - 1)
        for value in self._pointers(self._place(address)):
            if not value:
                return
            left.take(1)
            yield f"#{value & 0xFFFF}" if value & by_number else self._name(value - shift + HINT)
        raise ValueError("its list of symbols has no end")

    def _pointers(self, table: Extent) -> Iterator[int]:
        layout = struct.Struct("<Q" if self.pointer_size == BASE[PE32_PLUS][1] else "<I")
        size = table.size - table.size % layout.size
        for start in range(0, size, NAME_CHUNK):
            yield from (value for (value,) in layout.iter_unpack(table.read(start, min(NAME_CHUNK, size - start))))

    def _directory(self, number: int) -> int:
        """Return the address of a data directory; 0 if the file has none."""
        return self.directories[number][0] if number < len(self.directories) else 0

    def _read(self, address: int, size: int) -> bytes:
        found = self._place(address)
        if size > found.size:
            raise EOFError(f"a table goes beyond its section, by {size - found.size} bytes")
        return found.read(0, size)

    def _name(self, address: int) -> str:
        """Return the text at an address, which ends with a zero."""
        found = self._place(address)
        text = b""
        while len(text) < min(found.size, LONGEST_NAME):
            text += found.read(len(text), min(NAME_CHUNK, found.size - len(text)))
            if b"\0" in text:
                return text.partition(b"\0")[0].decode("ascii", "backslashreplace")
        raise ValueError(f"a name has no end within {len(text)} bytes")

    def _place(self, address: int) -> Extent:
        """Return the bytes from an address in memory on, to the end of its section."""
        for section in self.sections:
            start = address - section.address
            if 0 <= start < section.size:
                return self.extent.part(section.offset + start, section.size - start)
        msg = f"nothing is at the address {address:#x}"
        raise ValueError(msg)


class _Limit:
    """How many more items a file may name."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def take(self, count: int) -> None:
        """Count items; raise ValueError if they are too many."""
        self.left -= count
        if self.left < 0:
            raise ValueError(f"it names more than {self.most:,} symbols")


def read_pe(extent: Extent) -> Pe:
    """Return the PE file in `extent`; raise Rejected if it is not a PE file or is incomplete."""
    with reading_whole("Windows library"):
        place = int.from_bytes(extent.read(PE_OFFSET, 4), "little")
        magic, machine, count, _, symbols, entries, size, _ = HEADER.unpack(extent.read(place, HEADER.size))
        if magic != b"PE\0\0":
            raise ValueError(f"its header starts with {magic!r}")
        if count > MAX_SECTIONS:
            raise ValueError(f"it has {count:,} sections, expected {MAX_SECTIONS} at most")
        start = place + HEADER.size
        base, pointer_size, directories = _optional_header(extent.part(start, size))
        texts = _Texts(extent, symbols + entries * SYMBOL_SIZE if symbols else 0)
        rows = SECTION.iter_unpack(extent.read(start + size, count * SECTION.size))
        sections = tuple(_section(row, texts) for row in rows)
        return Pe(
            extent=extent,
            machine=machine,
            base=base,
            pointer_size=pointer_size,
            directories=directories,
            sections=sections,
        )


def _optional_header(header: Extent) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return the address that a file prefers, the size of a pointer, and its data directories."""
    if not header.size:  # of an object file
        return 0, 8, ()
    kind = int.from_bytes(header.read(0, 2), "little")
    if kind not in BASE:
        msg = f"its optional header is of kind {kind:#x}, expected {PE32:#x} or {PE32_PLUS:#x}"
        raise ValueError(msg)
    place, pointer_size = BASE[kind]
    count = int.from_bytes(header.read(DIRECTORIES[kind], 4), "little")
    rows = header.read(DIRECTORIES[kind] + 4, min(count, MAX_DIRECTORIES) * DIRECTORY.size)
    found = tuple((address, size) for address, size in DIRECTORY.iter_unpack(rows))
    return int.from_bytes(header.read(place, pointer_size), "little"), pointer_size, found


class _Texts(NamedTuple):
    """The table of section names that are longer than eight bytes; linkers of GNU write one into libraries too."""

    extent: Extent
    start: int  # 0: there is none

    def get(self, field: bytes) -> str:
        """Return a section's name: that of its header, or the one at the place that `/123` in it names."""
        name = field.rstrip(b"\0")
        if self.start and name[:1] == b"/" and name[1:].isdigit():
            place = self.start + int(name[1:])
            text = self.extent.read(place, max(0, min(NAME_CHUNK, self.extent.size - place)))
            name = text.partition(b"\0")[0]
        return name.decode("utf-8", "backslashreplace")


def _section(row: tuple[bytes, int, int, int, int], texts: _Texts) -> PeSection:
    name, in_memory, address, in_file, offset = row
    return PeSection(texts.get(name), address, offset, min(in_memory, in_file) if in_memory else in_file)
