"""macOS libraries made byte by byte, by Apple's mach-o/loader.h: what they need, where, and for which system."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ARM64, X86_64 = 0x0100000C, 0x01000007
LOAD, LOAD_WEAK, RPATH, BUILD_VERSION, SYMTAB = 0xC, 0x80000018, 0x8000001C, 0x32, 0x2
DEFINED, UNDEFINED = 0x0F, 0x01  # n_type of an external symbol of a section, and of one of another library
HEADER = 32


def dylib(  # noqa: PLR0913 - each is a part of the file
    needed: Sequence[str] = (),
    *,
    weak: Sequence[str] = (),
    paths: Sequence[str] = (),
    minimum: tuple[int, int] = (11, 0),
    exports: Sequence[str] = ("PyInit__c",),
    asked: Sequence[str] = (),
    machine: int = ARM64,
) -> bytes:
    """Return a library that needs others, searches them in run paths, and is for a macOS from `minimum` on."""
    commands = [_text(LOAD, name, 24) for name in needed] + [_text(LOAD_WEAK, name, 24) for name in weak]
    commands += [_text(RPATH, path, 12) for path in paths]
    commands.append(struct.pack("<6I", BUILD_VERSION, 24, 1, minimum[0] << 16 | minimum[1] << 8, 0, 0))
    place = HEADER + sum(map(len, commands)) + 24
    texts, table = b"\0", b""
    for name, kind in (*((name, DEFINED) for name in exports), *((name, UNDEFINED) for name in asked)):
        table += struct.pack("<IBBHQ", len(texts), kind, 1 if kind == DEFINED else 0, 0, 0)
        texts += f"_{name}\0".encode()
    commands.append(struct.pack("<6I", SYMTAB, 24, place, len(exports) + len(asked), place + len(table), len(texts)))
    content = b"".join(commands)
    return struct.pack("<8I", 0xFEEDFACF, machine, 0, 6, len(commands), len(content), 0, 0) + content + table + texts


def universal(*parts: bytes) -> bytes:
    """Return a universal file of these libraries."""
    place = 8 + 20 * len(parts)
    head = struct.pack(">4sI", b"\xca\xfe\xba\xbe", len(parts))
    for part in parts:
        head += struct.pack(">5I", struct.unpack_from("<I", part, 4)[0], 0, place, len(part), 0)
        place += len(part)
    return head + b"".join(parts)


def _text(kind: int, text: str, start: int) -> bytes:
    data = text.encode() + b"\0"
    size = start + len(data) + -len(data) % 8 + (-start % 8)
    return struct.pack("<III", kind, size, start).ljust(start, b"\0") + data.ljust(size - start, b"\0")
