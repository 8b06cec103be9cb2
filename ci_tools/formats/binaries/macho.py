"""Reads what the loader of macOS reads of a library: its minimum system, what it needs and where, its symbols.

Only the requested parts are loaded. A universal file has a part for each architecture.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ci_tools.formats.binaries.elf import Extent, reading_whole
from ci_tools.formats.binaries.magic import CPU

FAT = {b"\xca\xfe\xba\xbe": ">IIIII", b"\xca\xfe\xba\xbf": ">IIQQII"}  # cpu, its kind, offset, size, alignment
THIN = {
    b"\xcf\xfa\xed\xfe": ("<", 32),
    b"\xce\xfa\xed\xfe": ("<", 28),
    b"\xfe\xed\xfa\xcf": (">", 32),
    b"\xfe\xed\xfa\xce": (">", 28),
}
MAX_PARTS, MAX_COMMANDS = 16, 1 << 12
SYMTAB, ID_DYLIB, RPATH = 0x2, 0xD, 0x8000001C
# A library that is needed, weak, re-exported, lazy.
LOADS = {0xC: False, 0x80000018: True, 0x8000001F: False, 0x20: False}
VERSION_MIN, BUILD_VERSION, MACOS = 0x24, 0x32, 1
EXTERNAL, PRIVATE, TYPE, WEAK = 0x1, 0x10, 0xE, 0x40  # of n_type, and N_WEAK_REF of n_desc


class Needed(NamedTuple):
    """A library that the loader finds by its install name; a weak one may be missing."""

    name: str
    is_weak: bool


class MachO(NamedTuple):
    """The part of a Mach-O file for one architecture."""

    machine: str  # arm64, x86_64; empty if unknown here
    minimum: tuple[int, int] | None  # the oldest macOS that it is for; None if it does not say one
    name: str  # its own install name, LC_ID_DYLIB
    needed: tuple[Needed, ...]
    run_paths: tuple[str, ...]
    defined: frozenset[str]  # names without the underscore that C puts before each
    required: frozenset[str]
    weak: frozenset[str]


def read_macho(file: BinaryIO) -> tuple[MachO, ...]:
    """Return the parts of a Mach-O file; raise Rejected if it is another file or is incomplete."""
    with reading_whole("Mach-O file"):
        whole = Extent.whole(file)
        form = FAT.get(whole.read(0, 4))
        if form is None:
            return (_part(whole),)
        layout, count = struct.Struct(form), int.from_bytes(whole.read(4, 4), "big")
        if count > MAX_PARTS:
            raise ValueError(f"it has {count:,} parts, expected {MAX_PARTS} at most")
        rows = layout.iter_unpack(whole.read(8, count * layout.size))
        return tuple(_part(whole.part(offset, size)) for _, _, offset, size, *_ in rows)


def _part(extent: Extent) -> MachO:
    order, size = THIN[extent.read(0, 4)]
    cpu, _, _, count, commands = struct.unpack(f"{order}5I", extent.read(4, 20))
    if count > MAX_COMMANDS:
        raise ValueError(f"it has {count:,} load commands, expected {MAX_COMMANDS:,} at most")
    minimum, name, needed, paths = None, "", [], []
    symbols: list[tuple[str, int, int]] = []
    for kind, command in _commands(extent.read(size, commands), order, count):
        if kind in LOADS:
            needed.append(Needed(_text(command, order), LOADS[kind]))
        elif kind == ID_DYLIB:
            name = _text(command, order)
        elif kind == RPATH:
            paths.append(_text(command, order))
        elif kind == VERSION_MIN:
            minimum = _version(command, order, 8)
        elif kind == BUILD_VERSION and struct.unpack_from(f"{order}I", command, 8)[0] == MACOS:
            minimum = _version(command, order, 12)
        elif kind == SYMTAB:
            symbols = [*_symbols(extent, command, order, is_64=size == 32)]  # noqa: PLR2004 - the size of its header
    external = [(text, flags, kind) for text, flags, kind in symbols if flags & EXTERNAL]
    return MachO(
        CPU.get(cpu, ""),
        minimum,
        name,
        tuple(needed),
        tuple(paths),
        frozenset(text for text, flags, _ in external if flags & TYPE and not flags & PRIVATE),
        frozenset(text for text, flags, kind in external if not flags & TYPE and not kind & WEAK),
        frozenset(text for text, flags, kind in external if not flags & TYPE and kind & WEAK),
    )


def _commands(content: bytes, order: str, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the bytes of each load command."""
    place = 0
    for _ in range(count):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        if size < 8 or place + size > len(content):  # noqa: PLR2004 - its kind and its size
            raise ValueError(f"a load command has {size} bytes")
        yield kind, content[place : place + size]
        place += size


def _text(command: bytes, order: str) -> str:
    """Return the text of a load command, whose place comes after its kind and its size."""
    start = struct.unpack_from(f"{order}I", command, 8)[0]
    return command[start:].partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _version(command: bytes, order: str, place: int) -> tuple[int, int]:
    number = struct.unpack_from(f"{order}I", command, place)[0]
    return number >> 16, number >> 8 & 0xFF


def _symbols(extent: Extent, command: bytes, order: str, *, is_64: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the name, `n_type` and `n_desc` of each symbol."""
    place, count, texts_place, texts_size = struct.unpack_from(f"{order}4I", command, 8)
    layout = struct.Struct(f"{order}IBBH{'Q' if is_64 else 'I'}")
    texts = extent.read(texts_place, texts_size)
    for start, kind, _, description, _ in layout.iter_unpack(extent.read(place, count * layout.size)):
        text = texts[start : texts.find(b"\0", start)].decode("utf-8", "backslashreplace")
        yield text.removeprefix("_"), kind, description
