"""Reads the parts of files with device code, and the device images that DPC++ (icpx) embeds in a shared library.

A damaged part raises Rejected. A library registers its images when it is loaded. For each there is a descriptor with
pointers to the target's name, to the image and to the names of its kernels; the linker writes these pointers as
relocations. The section `.tgtimg` lists the address and the unpacked size of every image. With the compiler's older
driver the images lie in sections `__CLANG_OFFLOAD_BUNDLE__sycl-<target>` as well, with its newer one they do not, so
the descriptors are read. The layout is that of intel/llvm (clang-offload-wrapper, and `pi_device_binary_struct` in its
runtime), and agrees with the libraries of dpctl 0.22.1, bitsandbytes 0.50.2, torchcodec-xpu 0.17.0 and
vllm-xpu-kernels 0.1.16.2, which compilers of 2025 and 2026 made.

An image for `spir64` is SPIR-V, which the driver compiles for any Intel GPU when it is loaded. One for `spir64_gen` is
machine code: for one GPU an ELF file, for several an archive with a member for each, named for its IP version or its
family (`64.12.60.7`, `64.bmg`).
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import lz4.block  # type: ignore[import-untyped]  # it has no types

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import Elf, Extent, read_elf
from ci_tools.formats.binaries.magic import ELF_MAGIC

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


ARCHIVE_MAGIC = b"!<arch>\n"
ARCHIVE_MEMBER = struct.Struct("<16s32x10s2s")  # name, size in decimal, then a backtick and a line feed
LZ4, ZSTD = 0x2000, 0x8000  # as NVIDIA's fatbinary names the methods; 0 is zlib
MAX_UNPACKED = 1 << 30  # bytes of one image; the largest seen, in vLLM, has 59 million


def cut(extent: Extent, position: int, size: int, what: str = "fatbinary") -> Extent:
    """Return `size` bytes from `position` on; raise Rejected if there are fewer."""
    if position + size > extent.size:
        msg = f"the {what} ends at byte {extent.size}, in the middle of an entry that goes to {position + size}"
        raise Rejected(msg)
    return extent.part(position, size)


def read_members(archive: Extent, what: str = "static library") -> Iterator[tuple[str, Extent]]:
    """Yield the name and the bytes of each member of an `ar` archive."""
    position = len(ARCHIVE_MAGIC)
    while position < archive.size:
        name, size, end = ARCHIVE_MEMBER.unpack(cut(archive, position, ARCHIVE_MEMBER.size, what).read())
        position += ARCHIVE_MEMBER.size
        if end != b"`\n" or not size.strip().isdigit():
            raise Rejected(f"the {what} has no member header at byte {position - ARCHIVE_MEMBER.size}")
        member = cut(archive, position, int(size), what)
        yield name.decode(errors="backslashreplace").rstrip(" ").removesuffix("/"), member
        position += member.size + member.size % 2


def pack(content: bytes) -> bytes:
    """Compress bytes as nvcc does for the smallest size."""
    return zstd.compress(content, level=19)


def unpack(packed: bytes, method: int, size: int) -> bytes:
    """Decompress bytes with zstd, lz4 or zlib (method 0); raise Rejected unless the result has `size` bytes."""
    if size > MAX_UNPACKED:
        raise Rejected(f"an image claims to unpack to {size:,} bytes, expected at most {MAX_UNPACKED:,}")
    try:
        content = _inflate(packed, method, size)
    except (zlib.error, zstd.ZstdError, lz4.block.LZ4BlockError, ValueError, EOFError, MemoryError) as error:
        raise Rejected(f"an image cannot be unpacked: {error}") from error
    if len(content) != size:
        raise Rejected(f"an image unpacks to {len(content):,} bytes or more, it claims {size:,}")
    return content


def _inflate(packed: bytes, method: int, size: int) -> bytes:
    if method == LZ4:
        return bytes(lz4.block.decompress(packed, uncompressed_size=size))
    if method == ZSTD:
        return bytes(zstd.ZstdDecompressor().decompress(packed, max_length=size + 1))
    return zlib.decompressobj().decompress(packed, size + 1)


# ---------------------------------------------------------------- SYCL

SPIRV, NATIVE = "spir64", "spir64_gen"  # targets: for any Intel GPU, and for the GPUs that the build names
LIST = ".tgtimg"
RELATIONS, RELATIVE = 4, {62: 8, 183: 1027}  # SHT_RELA; R_X86_64_RELATIVE and R_AARCH64_RELATIVE, by machine
LISTED = struct.Struct("<QQ")  # address of an image, its unpacked size
RELATION = struct.Struct("<QQq")  # address, type and symbol, addend
DESCRIPTOR = struct.Struct("<HBB")  # version, kind of offloading, format of the image
SYCL_KIND, PACKED = 4, 4  # the kind of SYCL, and the format of an image that zstd packed
BEFORE_IMAGE = {1: 48, 2: 48, 3: 32}  # bytes of a descriptor before the image's address, by version
POINTER, ENTRY = 8, 32  # bytes of a pointer, and of the entry of one kernel, whose second pointer is its name
LONGEST = 1 << 16  # bytes of a name; SYCL names a kernel by its type, with all template arguments
MAX_IMAGES, MAX_KERNELS = 1 << 16, 1 << 20
MEMBER = re.compile(r"(?:64|32)\.(.+)")  # `generic_ir` is SPIR-V again, and `pad_0` is padding
GRAPHICS = 205  # e_machine: Intel Graphics Technology
OWNER, CONFIG = b"IntelGT\0", 6  # the note of a machine code file that names the GPU, NT_INTELGT_PRODUCT_CONFIG
NOTE = struct.Struct("<III")


class DeviceImage(NamedTuple):
    """An image: `spir64`, or a name for each GPU that it has machine code for; and its kernels, by mangled type."""

    names: tuple[str, ...]
    kernels: frozenset[str]


def read_device_images(file: Extent) -> Iterator[DeviceImage]:
    """Yield the device images of a library, nothing if it has none; raise Rejected if one is malformed."""
    if file.peek(len(ELF_MAGIC)) != ELF_MAGIC:
        return
    elf = read_elf(file)
    if elf.named(LIST):
        yield from _Library(elf).images()


@dataclass(frozen=True)
class _Library:
    """A library with device images, its bytes by their address in memory."""

    elf: Elf

    @cached_property
    def pointers(self) -> dict[int, int]:
        """The pointers that the loader relocates: where each is, and what it points to."""
        relative = RELATIVE.get(self.elf.machine)
        tables = (self.elf.content(one).read() for one in self.elf.sections if one.kind == RELATIONS)
        whole = (table[: len(table) - len(table) % RELATION.size] for table in tables)
        rows = (row for table in whole for row in RELATION.iter_unpack(table))
        return {place: target for place, kind, target in rows if kind & 0xFFFFFFFF == relative}

    @cached_property
    def loaded(self) -> list[tuple[int, int, int]]:
        """The address, the offset in the file and the size of each part that is loaded."""
        return [(one.address, one.offset, one.size) for one in self.elf.segments if one.kind == 1]

    def images(self) -> Iterator[DeviceImage]:
        """Yield the images in the order of the list."""
        places: dict[int, list[int]] = {}
        for place, target in self.pointers.items():
            places.setdefault(target, []).append(place)
        with _readable():
            for address, size in self.listed():
                yield self.image(address, size, places.get(address, ()))

    def listed(self) -> Iterator[tuple[int, int]]:
        """Yield the address and the unpacked size of every image in the list."""
        for section, header in zip(self.elf.sections, self.elf.headers, strict=True):
            if section.name != LIST:
                continue
            if section.size % LISTED.size or section.size > MAX_IMAGES * LISTED.size:
                raise ValueError(f"a list of {section.size:,} bytes, expected {LISTED.size} for each image")
            for place in range(header[3], header[3] + section.size, LISTED.size):
                written, size = LISTED.unpack(self.read(place, LISTED.size))
                yield self.pointers.get(place, written), size

    def image(self, address: int, size: int, places: list[int] | tuple[int, ...]) -> DeviceImage:
        """Return the image whose descriptor has a pointer to its address at one of those places."""
        for place in places:
            for version, before in BEFORE_IMAGE.items():
                said = self.read(place - before, DESCRIPTOR.size, whole=False)
                if len(said) == DESCRIPTOR.size and DESCRIPTOR.unpack(said)[:2] == (version, SYCL_KIND):
                    return self.described(place, place - before, DESCRIPTOR.unpack(said)[2], size)
        msg = f"no descriptor names the image at address {address:#x}"
        raise ValueError(msg)

    def described(self, place: int, descriptor: int, form: int, size: int) -> DeviceImage:
        """Return the image of a descriptor, whose pointer to the image is at `place`."""
        target = self.text(self.pointers[descriptor + POINTER])
        start, end = self.pointers[place], self.pointers[place + POINTER]
        first, last = (self.pointers.get(place + POINTER * number, 0) for number in (2, 3))
        if last - first > MAX_KERNELS * ENTRY:
            raise ValueError(f"an image with over {MAX_KERNELS:,} kernels")
        kernels = frozenset(self.text(self.pointers[one + POINTER]) for one in range(first, last, ENTRY))
        if target != NATIVE:
            return DeviceImage((target,), kernels)
        content = self.read(start, end - start)
        return DeviceImage(tuple(_name_gpus(unpack(content, ZSTD, size) if form == PACKED else content)), kernels)

    def read(self, address: int, size: int, *, whole: bool = True) -> bytes:
        """Return the bytes at an address; b"" if there are none and `whole` is false; raise ValueError otherwise."""
        for start, offset, length in self.loaded:
            if start <= address and address + size <= start + length and size >= 0:
                return self.elf.extent.read(offset + address - start, size)
        if not whole:
            return b""
        msg = f"{size:,} bytes at address {address:#x}, which it does not have"
        raise ValueError(msg)

    def text(self, address: int) -> str:
        """Return the text at an address, up to its null byte."""
        for start, offset, length in self.loaded:
            if start <= address < start + length:
                found = self.elf.extent.read(offset + address - start, min(LONGEST, start + length - address))
                return found[: found.index(b"\0")].decode(errors="backslashreplace")
        msg = f"a text at address {address:#x}, which it does not have"
        raise ValueError(msg)


def _name_gpus(content: bytes) -> Iterator[str]:
    """Yield a name for each GPU that the machine code is for: its IP version, or its family."""
    if content.startswith(ARCHIVE_MAGIC):
        members = (name for name, _ in read_members(Extent.whole(io.BytesIO(content)), "archive of machine code"))
        yield from dict.fromkeys(f"{NATIVE}:{found[1]}" for found in map(MEMBER.fullmatch, members) if found)
    else:
        yield f"{NATIVE}:{_read_ip_version(content)}"


def _read_ip_version(content: bytes) -> str:
    """Return the IP version that a file of machine code names in its note, `12.60.7`."""
    elf = read_elf(Extent.whole(io.BytesIO(content)))
    for section in elf.sections if elf.machine == GRAPHICS else ():
        note = elf.content(section).read() if section.name.startswith(".note") else b""
        position = note.find(OWNER)
        while position >= NOTE.size:
            _, size, kind = NOTE.unpack_from(note, position - NOTE.size)
            if (kind, size) == (CONFIG, 4):
                (number,) = struct.unpack_from("<I", note, position + len(OWNER))
                return f"{number >> 22}.{number >> 14 & 0xFF}.{number & 0x3F}"
            position = note.find(OWNER, position + 1)
    raise ValueError("machine code that names no GPU")


@contextmanager
def _readable() -> Iterator[None]:
    """Convert the errors of malformed descriptors into Rejected."""
    try:
        yield
    except (EOFError, KeyError, ValueError, OverflowError, MemoryError, struct.error) as error:
        raise Rejected(f"its device images for SYCL cannot be read: {error}") from error
