"""The formats and machines of compiled files, recognised by their first bytes, never by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, BinaryIO

ELF_MAGIC = b"\x7fELF"
PE_OFFSET = 0x3C  # where a PE file has the offset of its header

BINARY_MAGIC = {
    ELF_MAGIC: "ELF",
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
# Java classes begin with the same bytes as Mach-O universal files. This is the lowest version number of a class, in the
# place where a universal file has its number of architectures, which is small.
JAVA_CLASS = 45
ELF = {
    3: "i686",
    21: "ppc64le",
    22: "s390x",
    40: "armv7l",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}
PE = {0x14C: "win32", 0x8664: "amd64", 0xAA64: "arm64"}
CPU = {0x7: "i386", 0x01000007: "x86_64", 0x0100000C: "arm64"}
SYSTEMS = {"ELF": "linux", "PE": "windows", "Mach-O": "macos", "Mach-O universal": "macos"}
FAT = {b"\xca\xfe\xba\xbe": 20, b"\xca\xfe\xba\xbf": 32}  # magic number to the size of one architecture's entry
MAX_PARTS = 16


LFS_POINTER = b"version https://git-lfs.github.com/spec/"  # how a pointer begins, by the specification of Git LFS
MAX_POINTER = 1024  # bytes, by the same


def is_lfs_pointer(content: bytes) -> bool:
    """Whether a file is a pointer of Git LFS, in place of content that was not fetched."""
    return len(content) < MAX_POINTER and content.startswith(LFS_POINTER)


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


def machines(file: BinaryIO) -> frozenset[str]:
    """Return the machines a compiled file is for, several for a Mach-O universal file; none if unknown here."""
    head = file.read(0x40)
    if head.startswith(ELF_MAGIC):
        found = ELF.get(int.from_bytes(head[18:20], "big" if head[5:6] == b"\2" else "little"))  # e_machine
        return frozenset({found} if found else ())
    if head.startswith(b"MZ"):
        file.seek(int.from_bytes(head[PE_OFFSET : PE_OFFSET + 4], "little") + 4)
        found = PE.get(int.from_bytes(file.read(2), "little"))
        return frozenset({found} if found else ())
    return frozenset(CPU[number] for number in _cpu_types(head, file) if number in CPU)


def name_systems(file: BinaryIO) -> tuple[str, ...]:
    """Return the systems and machines that a program or library is for, `linux x86_64`; none for any other file."""
    found = binary_format(file)
    file.seek(0)
    return tuple(sorted(f"{SYSTEMS[found]} {machine}" for machine in machines(file))) if found in SYSTEMS else ()


def _cpu_types(head: bytes, file: BinaryIO) -> Iterator[int]:
    """Yield the CPU types of a Mach-O file, which a universal one lists in big-endian order."""
    step = FAT.get(head[:4])
    if step is None:
        yield int.from_bytes(head[4:8], "big" if head[:1] == b"\xfe" else "little")
        return
    for number in range(min(int.from_bytes(head[4:8], "big"), MAX_PARTS)):
        file.seek(8 + number * step)
        yield int.from_bytes(file.read(4), "big")
