"""Reads ELF files from a seekable stream: sections, segments, symbols and their versions.

Only the requested parts are loaded, so a library may have any size.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.magic import ELF_MAGIC

BITS = {1: 32, 2: 64}
BYTE_ORDER = {1: "<", 2: ">"}
HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}  # the fields after the sixteen bytes of e_ident
SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
SEGMENT = {32: "IIIIIIII", 64: "IIQQQQQQ"}
DYNAMIC = {32: "iI", 64: "qQ"}  # tag and value
SYMBOL = {32: "IIIBBH", 64: "IBBHQQ"}
NAME_ELSEWHERE = 0xFFFF  # SHN_XINDEX: the index of the section of names is in the first section's link
TABLES = {".symtab": 2, ".dynsym": 11}  # SHT_SYMTAB and SHT_DYNSYM
SEGMENTS_ELSEWHERE = 0xFFFF  # PN_XNUM: the number of segments is in the first section's info
LOADED, DYNAMIC_SEGMENT = 1, 2  # PT_LOAD and PT_DYNAMIC
END_OF_DYNAMIC, STRING_TABLE = 0, 5  # DT_NULL and DT_STRTAB
NEEDED_VERSIONS, VERSIONS = 0x6FFFFFFE, 0x6FFFFFFF  # SHT_GNU_verneed and SHT_GNU_versym
NEEDED_FILE = "HHIII"  # version, number of its versions, name of the library, offsets of its versions and of the next
NEEDED_VERSION = "IHHII"  # hash, flags, number, name, offset of the next
SHORTEST_NEED = 16  # bytes
NO_CONTENT = 8  # SHT_NOBITS: a section with an address and a size, but no bytes (.bss)
# The errors of reading a damaged file.
DAMAGE = (EOFError, IndexError, KeyError, ValueError, OverflowError, MemoryError, StopIteration, struct.error)


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
            raise EOFError(f"it ends at byte {self.size}, expected {position + size} or more")
        return Extent(self.stream, self.start + position, size)

    def read(self, position: int = 0, size: int | None = None) -> bytes:
        """Return the bytes from `position` on, all or `size` of them; raise EOFError if there are fewer."""
        part = self.part(position, self.size - position if size is None else size)
        self.stream.seek(part.start)
        content = self.stream.read(part.size)
        if len(content) != part.size:
            raise EOFError(f"it ends at byte {position + len(content)}, expected {position + part.size} or more")
        return content

    def peek(self, size: int) -> bytes:
        """Return the first `size` bytes, or all if there are fewer."""
        return self.read(0, min(size, self.size))


class Section(NamedTuple):
    """One section of an ELF file: its type, its place in the file, the section it is linked to, its address."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    address: int = 0  # in memory; 0: it is not loaded


class Segment(NamedTuple):
    """One segment of an ELF file: its type, its flags, its place in the file, and its address in memory."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int  # bytes in the file


class NeededVersion(NamedTuple):
    """A version of symbols that a library must define: libc.so.6, GLIBC_2.17, and its number in this file."""

    library: str
    name: str
    number: int


class Symbol(NamedTuple):
    """One entry of a symbol table; `section` is 0 if another file defines the symbol."""

    name: str
    binding: int
    kind: int
    other: int
    section: int
    address: int = 0
    size: int = 0

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
    kind: int  # e_type: 1 an object, 2 a program, 3 a library, 4 a core
    machine: int
    flags: int
    headers: tuple[tuple[int, ...], ...]  # the section headers, in the file's order
    segment_table: tuple[int, int, int]  # the offset of the segment headers, the size of one, and their number
    names: bytes  # the content of the section of section names

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections in the file's order."""
        return tuple(map(self._section, self.headers))

    def _section(self, header: tuple[int, ...]) -> Section:
        name, kind, _, address, offset, size, link, *_ = header
        with reading_whole():
            return Section(_text(self.names, name), kind, offset, size, link, address)

    def content(self, section: Section) -> Extent:
        """Return the range of a section's bytes; raise Rejected if the file ends before it."""
        with reading_whole():
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
        layout = self._layout(SYMBOL)
        with reading_whole():
            names = self.content(self._section(self.headers[section.link])).read()
            entries = self.content(section).read()
            for fields in layout.iter_unpack(entries[layout.size :]):
                if self.bits == 64:  # noqa: PLR2004 - as its name says
                    name, info, other, index, address, size = fields
                else:
                    name, address, size, info, other, index = fields
                if wanted is None or info & 15 == wanted:
                    yield Symbol(_text(names, name), info >> 4, info & 15, other, index, address, size)

    def name_symbol(self, address: int) -> str:
        """Return the name of the smallest symbol that holds an address; "" if none does."""
        known = (symbol for table in TABLES for symbol in self.symbols(table) if symbol.section and symbol.name)
        holding = (one for one in known if one.address <= address < one.address + one.size)
        return min(((one.size, one.name) for one in holding), default=(0, ""))[1]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments in the file's order; raise Rejected if the file ends before their headers."""
        start, size, count = self.segment_table
        layout = self._layout(SEGMENT)
        with reading_whole():
            if count and size != layout.size:
                raise ValueError(f"a segment header has {size} bytes, expected {layout.size}")
            rows = layout.iter_unpack(self.extent.read(start, count * size))
            return tuple(map(self._segment, rows))

    def _segment(self, row: tuple[int, ...]) -> Segment:
        if self.bits == 64:  # noqa: PLR2004 - as its name says
            kind, flags, offset, address, _, size, *_ = row
        else:
            kind, offset, address, _, size, _, flags, _ = row
        return Segment(kind, flags, offset, address, size)

    def dynamic(self) -> tuple[tuple[int, int], ...]:
        """Return the tags and values of the dynamic segment, without the end; () if the file has no such segment."""
        with reading_whole():
            layout = self._layout(DYNAMIC)
            for segment in self.segments:
                if segment.kind == DYNAMIC_SEGMENT:
                    content = self.extent.read(segment.offset, segment.size - segment.size % layout.size)
                    tags = [(tag, value) for tag, value in layout.iter_unpack(content)]
                    end = next((index for index, (tag, _) in enumerate(tags) if tag == END_OF_DYNAMIC), len(tags))
                    return tuple(tags[:end])
        return ()

    def dynamic_texts(self, *wanted: int) -> tuple[str, ...]:
        """Return the texts of the dynamic entries with these tags, in their order."""
        tags = self.dynamic()
        with reading_whole():
            positions = [value for tag, value in tags if tag in wanted]
            if not positions:
                return ()
            address = next(value for tag, value in tags if tag == STRING_TABLE)
            loaded = next(one for one in self.segments if one.kind == LOADED and _holds(one, address))
            start = address - loaded.address
            texts = self.extent.read(loaded.offset + start, loaded.size - start)
            return tuple(_text(texts, position) for position in positions)

    def needed_versions(self) -> tuple[NeededVersion, ...]:
        """Return the versions of other libraries' symbols that the file needs."""
        return tuple(found for header in self.headers if header[1] == NEEDED_VERSIONS for found in self._needed(header))

    def _needed(self, header: tuple[int, ...]) -> Iterator[NeededVersion]:
        section = self._section(header)
        file, version = (struct.Struct(self.byte_order + entry) for entry in (NEEDED_FILE, NEEDED_VERSION))
        with reading_whole():
            content = self.content(section).read()
            names = self.content(self._section(self.headers[section.link])).read()
            left = len(content) // SHORTEST_NEED  # a damaged chain may lead in a circle or to the same entries again
            position, step = 0, 1
            while step and content:
                _, count, library, start, step = file.unpack_from(content, position)
                place = position + start
                for _ in range(count):
                    _, _, number, name, further = version.unpack_from(content, place)
                    left -= 1
                    if left < 0:
                        raise ValueError("its table of needed versions names an entry twice")
                    yield NeededVersion(_text(names, library), _text(names, name), number)
                    place += further
                position += step

    def versioned_symbols(self) -> tuple[tuple[Symbol, int], ...]:
        """Return the dynamic symbols, each with the number of its version; () if the file has no versions."""
        with reading_whole():
            for header in self.headers:
                if header[1] == VERSIONS:
                    content = self.content(self._section(header)).read()
                    numbers = [number for (number,) in struct.iter_unpack(f"{self.byte_order}H", content)]
                    return tuple(zip(self.symbols(".dynsym"), numbers[1:], strict=True))
        return ()

    def _layout(self, formats: Mapping[int, str]) -> struct.Struct:
        return struct.Struct(self.byte_order + formats[self.bits])


def _text(texts: bytes, position: int) -> str:
    """Return the text that begins at a position of a string table; raise ValueError if it has no end."""
    return texts[position : texts.index(b"\0", position)].decode(errors="backslashreplace")


def _holds(segment: Segment, address: int) -> bool:
    return segment.address <= address < segment.address + segment.size


def read_elf(extent: Extent) -> Elf:
    """Return the ELF file in `extent`; raise Rejected if it is not an ELF file or is incomplete."""
    with reading_whole():
        identification = extent.read(0, 16)
        if identification[:4] != ELF_MAGIC:
            raise ValueError(f"it starts with {identification[:4]!r}")
        bits, byte_order = BITS[identification[4]], BYTE_ORDER[identification[5]]
        layout = struct.Struct(byte_order + HEADER[bits])
        fields = layout.unpack(extent.read(16, layout.size))
        kind, machine, _, _, segments, table, flags, _, segment_size, segment_count, entry_size, count, names = fields
        headers = _headers(extent, struct.Struct(byte_order + SECTION[bits]), table, entry_size, count)
        return Elf(
            extent=extent,
            bits=bits,
            byte_order=byte_order,
            kind=kind,
            machine=machine,
            flags=flags,
            headers=headers,
            segment_table=(
                segments,
                segment_size,
                headers[0][7] if segment_count == SEGMENTS_ELSEWHERE and headers else segment_count,
            ),
            names=_names(extent, headers, names),
        )


def _headers(
    extent: Extent, layout: struct.Struct, table: int, entry_size: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the section headers; if their number does not fit into the file header, the first one holds it."""
    if not table:
        return ()
    if entry_size != layout.size:
        raise ValueError(f"a section header has {entry_size} bytes, expected {layout.size}")
    count = count or layout.unpack(extent.read(table, layout.size))[5]
    return tuple(layout.iter_unpack(extent.read(table, count * layout.size)))


def _names(extent: Extent, headers: tuple[tuple[int, ...], ...], index: int) -> bytes:
    """Return the content of the section of names; the first section holds its index if the header cannot."""
    if not headers:
        return b""
    named = headers[headers[0][6] if index == NAME_ELSEWHERE else index]
    return extent.read(named[4], named[5])


@contextmanager
def reading_whole(kind: str = "ELF file") -> Iterator[None]:
    """Convert the errors of reading a damaged file of a kind into Rejected."""
    try:
        yield
    except DAMAGE as error:
        raise Rejected(f"this is not a whole {kind}: {error or type(error).__name__}") from error


# ---------------------------------------------------------------- what the loader reads

NEEDED, NAME, RPATH, RUNPATH, TEXTREL, FLAGS = 1, 14, 15, 29, 22, 30  # DT_NEEDED, DT_SONAME, …
FLAGS_1, NO_OPEN = 0x6FFFFFFB, 0x40  # DT_FLAGS_1, DF_1_NOOPEN
TEXTREL_FLAG = 4  # DF_TEXTREL
STACK = 0x6474E551  # PT_GNU_STACK
EXECUTABLE = 1  # PF_X
HIDDEN_VERSION = 0x8000  # a flag of a version's number
LIBRARY = 3  # ET_DYN
KINDS = {1: "an object file, which is not linked", 2: "a program", 4: "a core dump"}
CURRENT, SYSTEMS = 1, (0, 3)  # EV_CURRENT; ELFOSABI_NONE and ELFOSABI_GNU
DEBUG = (".debug_", ".zdebug_", ".gnu.debuglto_")


class Linking(NamedTuple):
    """The libraries an ELF file needs at run time, and the folders it searches."""

    name: str | None  # DT_SONAME, the name by which other files need it
    needed: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]  # a library and a version of its symbols, libc.so.6 and GLIBC_2.17
    run_paths: tuple[str, ...]  # RPATH and RUNPATH, unchanged
    inherited_paths: tuple[str, ...]  # those of them that its needed libraries are searched by as well: RPATH
    executable_stack: bool
    text_relocations: bool = False  # whether the loader has to modify its code: DT_TEXTREL, or its flag in DT_FLAGS
    debug_bytes: int = 0  # the size of all debug sections
    refusal: str = ""  # why the loader takes no such file; empty: it does


class Bindings(NamedTuple):
    """The symbols that an ELF file defines for others, and those it takes from others."""

    defined: frozenset[str]
    required: Mapping[str, str]  # with the library that must define it, by its version; "" if it has none
    weak: frozenset[str]  # taken from others, and may stay undefined


def symbols(library: BinaryIO) -> Bindings:
    """Return the dynamic symbols of an ELF file; raise Rejected if the file is malformed."""
    elf = read_elf(Extent.whole(library))
    owners = {one.number: one.library for one in elf.needed_versions()}
    versioned = elf.versioned_symbols() or tuple((symbol, 0) for symbol in elf.symbols(".dynsym"))
    taken = [(one, number) for one, number in versioned if not one.section and one.name]
    return Bindings(
        frozenset(one.name for one, _ in versioned if one.section and one.is_visible),
        {one.name: owners.get(number & ~HIDDEN_VERSION, "") for one, number in taken if not one.is_weak},
        frozenset(one.name for one, _ in taken if one.is_weak),
    )


def linking(library: BinaryIO) -> Linking:
    """Return the facts in the dynamic segment of an ELF file; raise Rejected if the file is malformed."""
    elf = read_elf(Extent.whole(library))
    return Linking(
        name=next(iter(elf.dynamic_texts(NAME)), None),
        needed=elf.dynamic_texts(NEEDED),
        versions=tuple((one.library, one.name) for one in elf.needed_versions()),
        run_paths=elf.dynamic_texts(RPATH, RUNPATH),
        inherited_paths=() if elf.dynamic_texts(RUNPATH) else elf.dynamic_texts(RPATH),  # ld.so(8): RUNPATH replaces it
        executable_stack=any(part.kind == STACK and part.flags & EXECUTABLE for part in elf.segments),
        text_relocations=any(tag == TEXTREL or (tag == FLAGS and value & TEXTREL_FLAG) for tag, value in elf.dynamic()),
        debug_bytes=sum(part.size for part in elf.sections if part.name.startswith(DEBUG)),
        refusal=_refusal(elf),
    )


def _refusal(elf: Elf) -> str:
    """Return why dlopen takes no such file; by glibc's `open_verify` and `_dl_map_object`."""
    version, system = elf.extent.read(6, 1)[0], elf.extent.read(7, 1)[0]
    if elf.kind != LIBRARY:
        return KINDS.get(elf.kind, f"a file of type {elf.kind}")
    if version != CURRENT:
        return f"ELF version {version}"
    if system not in SYSTEMS:
        return f"OS ABI {system}"
    if any(tag == FLAGS_1 and value & NO_OPEN for tag, value in elf.dynamic()):
        return "a library that may not be loaded with dlopen"
    return "" if any(part.kind == DYNAMIC_SEGMENT for part in elf.segments) else "no dynamic segment"
