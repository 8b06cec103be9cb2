"""Windows libraries made byte by byte, by Microsoft's "PE Format": imports, delayed imports, exports and sections."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

AMD64, WIN32 = 0x8664, 0x14C
FIRST = 0x1000  # the address of the first section
BASE = 0x180000000  # the address that Microsoft's linker gives a 64-bit DLL
DLL = 0x2022  # a DLL, an executable image, of large addresses
ALIGNMENT = 0x200


def dll(
    imports: Mapping[str, Sequence[str | int]] | None = None,
    *,
    delayed: Mapping[str, Sequence[str | int]] | None = None,
    exports: Sequence[str] = (),
    sections: Mapping[str, bytes] | None = None,
    machine: int = AMD64,
) -> bytes:
    """Return a DLL of these imports, each symbol a name or a number, and with further sections."""
    tables = _Tables(FIRST, 8 if machine == AMD64 else 4)
    directories = [(0, 0)] * 16
    directories[0] = tables.write_exports(exports) if exports else (0, 0)
    directories[1] = tables.write_imports(imports or {})
    directories[13] = tables.write_delayed(delayed) if delayed else (0, 0)
    return link({".rdata": bytes(tables.content), **(sections or {})}, directories, machine)


def link(sections: Mapping[str, bytes], directories: Iterable[tuple[int, int]], machine: int = AMD64) -> bytes:
    """Return a DLL of these sections, the first at the address FIRST, and the rows of its data directories."""
    is_64 = machine == AMD64
    rows = b"".join(struct.pack("<II", *row) for row in directories)
    head = struct.pack("<H22x", 0x20B if is_64 else 0x10B)
    head += struct.pack("<Q", BASE) if is_64 else struct.pack("<4xI", BASE & 0xFFFFFFFF)
    optional = head.ljust(108 if is_64 else 92, b"\0") + struct.pack("<I", len(rows) // 8) + rows
    header = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0"
    header += struct.pack("<HHIIIHH", machine, len(sections), 0, 0, 0, len(optional), DLL) + optional
    place = _aligned(len(header) + 40 * len(sections))
    address, table, content = FIRST, b"", b""
    for name, data in sections.items():
        table += name.encode()[:8].ljust(8, b"\0") + struct.pack("<IIII16x", len(data), address, len(data), place)
        content += data.ljust(_aligned(len(data)), b"\0")
        address, place = address + max(_aligned(len(data), FIRST), FIRST), place + _aligned(len(data))
    return (header + table).ljust(_aligned(len(header) + len(table)), b"\0") + content


def _aligned(size: int, step: int = ALIGNMENT) -> int:
    return size + -size % step


class _Tables:
    """The content of the section that holds a library's tables."""

    def __init__(self, address: int, pointer_size: int) -> None:
        self.address = address
        self.pointer_size = pointer_size
        self.content = bytearray()

    def add(self, data: bytes) -> int:
        """Append bytes; return their address."""
        self.content += bytes(-len(self.content) % 8)
        place = self.address + len(self.content)
        self.content += data
        return place

    def text(self, name: str, before: bytes = b"") -> int:
        """Append a text that ends with a zero; return the address of what is before it."""
        return self.add(before + name.encode() + b"\0")

    def symbols(self, names: Sequence[str | int]) -> int:
        """Append the list of the symbols that one library is asked for."""
        by_number = 1 << (self.pointer_size * 8 - 1)
        values = [by_number | name if isinstance(name, int) else self.text(name, b"\0\0") for name in names]
        return self.add(b"".join(value.to_bytes(self.pointer_size, "little") for value in (*values, 0)))

    def write_imports(self, imports: Mapping[str, Sequence[str | int]]) -> tuple[int, int]:
        """Append the import table; return its address and its size."""
        rows = [(self.symbols(names), self.text(library)) for library, names in imports.items()]
        table = b"".join(struct.pack("<IIIII", names, 0, 0, library, names) for names, library in rows) + bytes(20)
        return self.add(table), len(table)

    def write_delayed(self, imports: Mapping[str, Sequence[str | int]]) -> tuple[int, int]:
        """Append the table of delayed imports, whose fields are relative to the file's address (attribute 1)."""
        rows = [(self.symbols(names), self.text(library)) for library, names in imports.items()]
        table = b"".join(struct.pack("<IIIIIIII", 1, library, 0, names, names, 0, 0, 0) for names, library in rows)
        return self.add(table + bytes(32)), len(table) + 32

    def write_exports(self, names: Sequence[str]) -> tuple[int, int]:
        """Append the export table; return its address and its size."""
        places = self.add(b"".join(struct.pack("<I", place) for place in [self.text(name) for name in names]))
        numbers = self.add(b"".join(struct.pack("<H", number) for number in range(len(names))))
        return self.add(struct.pack("<20xIIIII", len(names), len(names), places, places, numbers)), 40
