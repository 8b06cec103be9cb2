"""The formats of compiled files, recognised by their first bytes, never by their names."""

from __future__ import annotations

from typing import IO

__all__ = ["binary_format"]

BINARY_MAGIC = {
    b"\x7fELF": "ELF",
    b"MZ": "PE",
    b"\xca\xfe\xba\xbe": "Mach-O universal",
    b"\xca\xfe\xba\xbf": "Mach-O universal",
    b"\xcf\xfa\xed\xfe": "Mach-O",
    b"\xce\xfa\xed\xfe": "Mach-O",
    b"\xfe\xed\xfa\xcf": "Mach-O",
    b"\xfe\xed\xfa\xce": "Mach-O",
    b"!<arch>\n": "static library",
    b"\x50\xed\x55\xba": "CUDA fatbinary",
    b"BC\xc0\xde": "LLVM bitcode",
    b"\x00asm": "WebAssembly",
}
PE_OFFSET = 0x3C  # the place in an MZ file of the four-byte offset of its PE header
# Java classes begin with the same bytes as Mach-O universal files. This is the lowest version number of a class, in the
# place where a universal file has its number of architectures, which is small.
JAVA_CLASS = 45


def binary_format(file: IO[bytes]) -> str:
    """Return the format of a compiled file by its first bytes; "" for any other file."""
    head = file.read(8)
    found = next((name for magic, name in BINARY_MAGIC.items() if head.startswith(magic)), "")
    if found == "PE":
        file.seek(PE_OFFSET)
        file.seek(int.from_bytes(file.read(4), "little"))
        return found if file.read(4) == b"PE\0\0" else ""
    is_java = found == "Mach-O universal" and int.from_bytes(head[4:], "big") >= JAVA_CLASS
    return "" if is_java else found
