"""Which files are compiled ones: told by their first bytes, never by their names."""

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
PE_OFFSET = 0x3C  # where an MZ file says, in four bytes, where its PE header is
JAVA_CLASS = 45  # the lowest version of a Java class, where a Mach-O universal file counts its few architectures


def binary_format(file: IO[bytes]) -> str:
    """Return the format of a compiled file by its first bytes, or nothing for any other."""
    head = file.read(8)
    found = next((name for magic, name in BINARY_MAGIC.items() if head.startswith(magic)), "")
    if found == "PE":
        file.seek(PE_OFFSET)
        file.seek(int.from_bytes(file.read(4), "little"))
        return found if file.read(4) == b"PE\0\0" else ""
    is_java = found == "Mach-O universal" and int.from_bytes(head[4:], "big") >= JAVA_CLASS
    return "" if is_java else found
