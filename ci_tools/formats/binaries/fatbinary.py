"""Reads the device code of a compiled file, and its undefined symbols, from a seekable stream.

Device code is in a library's sections, in the members of a static library, or in a separate file. It consists of
units, one for each compiled source file; each unit holds one image per architecture.

NVIDIA does not document the layout of `.nv_fatbin`; this reader agrees with cuobjdump on every file that the tests
create. The layout of `.hip_fatbin` is LLVM's (Clang Offload Bundler). `offload` reads what SYCL compilers embed.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import Elf, Extent, read_elf
from ci_tools.formats.binaries.magic import ELF_MAGIC
from ci_tools.formats.binaries.offload import (
    ARCHIVE_MAGIC,
    LZ4,
    ZSTD,
    DeviceImage,
    cut,
    pack,
    read_device_images,
    read_members,
    unpack,
)
from ci_tools.formats.binaries.pe import read_pe
from ci_tools.machine.storage import CHUNK

FATBINARY_MAGIC = b"\x50\xed\x55\xba"
FATBINARY = struct.Struct("<4sHHQ")  # magic, version, header size, size of all entries
# kind, header size, payload size, compressed size, PTX or cubin version, arch, flags, uncompressed size
ENTRY = struct.Struct("<HxxIQI8xI8xQ8xQ")
SHORTEST_ENTRY = 48  # the header of an entry may end after its flags
SASS, PTX, LTO, HIP, SYCL = "sm", "compute", "lto", "hip", "sycl"
KINDS = {1: PTX, 2: SASS, 8: LTO}  # LTO: input of the link-time optimiser
ARCH_SPECIFIC, FAMILY_SPECIFIC = 0x100000, 0x200000
ALIGNMENT = 8

BUNDLE_MAGIC, PACKED_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
BUNDLE_ENTRY = struct.Struct("<QQQ")  # offset in the bundle, size, length of the name that follows
# By version: the size with the header (not in version 1) and the uncompressed size.
PACKED_BUNDLE = {1: struct.Struct("<I"), 2: struct.Struct("<II"), 3: struct.Struct("<QQ")}
PACKED_BUNDLE_START = struct.Struct("<4sHH")  # magic, version, method
BUNDLE_HASH = 8  # bytes, after the sizes
TARGET = re.compile(r"hip(?:v4)?-[\w.]+-amd-amdhsa-\w*-(?P<arch>[\w.:+-]{1,80})")
KERNEL_DESCRIPTOR = ".kd"  # the suffix of the name of a kernel descriptor

# Microsoft's linker cuts the names of sections to eight bytes (PE Format, "Section Table").
NVIDIA_SECTIONS = (".nv_fatbin", "__nv_relfatbin", ".nv_fatb", "__nv_rel")
HIP_SECTIONS = (".hip_fatbin", ".hip_fat")
CUDA_MACHINE = 190  # e_machine
NOTE = ".note.nv.tkinfo"  # holds the command line of ptxas
KERNEL = 0x10  # in the last byte of a cubin's symbol: a function that the host may launch
FUNCTION, OBJECT = 2, 1  # STT_FUNC and STT_OBJECT
PTX_KERNEL = re.compile(rb"^[ \t]*(?:\.(?:visible|weak|extern)[ \t]+)*\.entry[ \t\n]+([\w$%]+)", re.MULTILINE)
PTX_TARGET = re.compile(rb"^\s*\.version\s+\d+\.\d+\s+\.target\s+sm_(\d+[af]?)\b", re.MULTILINE)
LATER_FLAGS = 6  # the highest byte of a cubin's flags since CUDA 13; then the second lowest byte is the architecture
CALLED_FOR = re.compile(rb"-arch[ =]sm_(\d+[af]?)\b")
PTX_HEAD = 1 << 16  # bytes in which PTX must name its target
MAX_UNPACKED_IN_ALL = 1 << 36  # bytes of all bundles of a section together


class Image(NamedTuple):
    """One device image: `sm` for machine code, `compute` for PTX, `lto`, `hip` or `sycl`, and its architecture."""

    kind: str
    arch: str

    def __str__(self) -> str:
        """Return `sm_100a`; `gfx942` for an AMD image; `spir64` or `spir64_gen:bmg` for one of a SYCL compiler."""
        return self.arch if self.kind in {HIP, SYCL} else f"{self.kind}_{self.arch}"


class Code(NamedTuple):
    """An image and the names of its kernels; None if its format does not name them."""

    image: Image
    kernels: frozenset[str] | None


class CompiledUnit(NamedTuple):
    """The device code of one compiled source file."""

    where: str  # the section or member, and the unit's number in it
    codes: tuple[Code, ...]


class _Payload(NamedTuple):
    """A stored image, possibly compressed."""

    image: Image
    extent: Extent
    flags: int = 0
    unpacked: int = 0  # bytes


def images(file: BinaryIO) -> frozenset[Image]:
    """Return the device images in a compiled file; raise Rejected if it is malformed or of an unknown format."""
    whole = Extent.whole(file)
    found = {payload.image for _, unit in _find_units(whole) for payload in unit}
    return frozenset(found | {Image(SYCL, name) for one in read_device_images(whole) for name in one.names})


def digest_images(file: BinaryIO) -> Mapping[str, str]:
    """Return a hash of the code for each image name, in which equal code has equal hashes if one compiler made it."""
    hashes: dict[str, Any] = {}
    for _, unit in _find_units(Extent.whole(file)):
        for payload in unit:
            hashes.setdefault(str(payload.image), hashlib.sha256()).update(payload.extent.read())
    return {name: digest.hexdigest() for name, digest in hashes.items()}


class ImageSize(NamedTuple):
    """The bytes of the images of one name in a wheel: as they are, and as `--compress-mode=size` makes them."""

    now: int
    smallest: int


def measure_images(file: BinaryIO) -> Mapping[str, ImageSize]:
    """Return the sizes of a compiled file's images by name.

    nvcc compresses by zstd at level 19 in that mode: of CUDA 13.0, the sizes are the same to the byte.
    """
    sizes: dict[str, ImageSize] = {}
    for _, unit in _find_units(Extent.whole(file)):
        for payload in unit:
            stored = payload.extent.read()
            method = payload.flags & (LZ4 | ZSTD)
            plain = unpack(stored, method, payload.unpacked) if method else stored
            now, smallest = len(zlib.compress(stored)), len(pack(plain))
            known = sizes.get(str(payload.image), ImageSize(0, 0))
            sizes[str(payload.image)] = ImageSize(known.now + now, known.smallest + min(smallest, now))
    return sizes


def units(file: BinaryIO) -> Iterator[CompiledUnit]:
    """Yield the units of a file with their kernels; raise Rejected if it is malformed or of an unknown format."""
    whole = Extent.whole(file)
    for where, unit in _find_units(whole):
        yield CompiledUnit(where, tuple(Code(payload.image, _kernels(payload)) for payload in unit))
    if named := _kernels_by_name(read_device_images(whole)):
        yield CompiledUnit("SYCL", tuple(Code(Image(SYCL, name), kernels) for name, kernels in named.items()))


def _kernels_by_name(found: Iterable[DeviceImage]) -> dict[str, frozenset[str]]:
    """Return the kernels that all images of a name hold together: a compiler splits the code into several."""
    kernels: dict[str, frozenset[str]] = {}
    for one in found:
        kernels.update({name: kernels.get(name, frozenset()) | one.kernels for name in one.names})
    return kernels


def read_undefined_symbols(library: BinaryIO) -> frozenset[str]:
    """Return the undefined symbols of an ELF library; raise Rejected if it is malformed."""
    elf = read_elf(Extent.whole(library))
    return frozenset(symbol.name for symbol in elf.symbols(".dynsym") if symbol.section == 0 and symbol.name)


# ---------------------------------------------------------------- finding device code


def _find_units(file: Extent) -> Iterator[tuple[str, list[_Payload]]]:
    """Yield each unit of a file with its place, whatever the file's format."""
    head = file.peek(max(len(BUNDLE_MAGIC), PTX_HEAD))
    if head.startswith(ARCHIVE_MAGIC):
        yield from _units_in_archive(file)
    elif head.startswith((FATBINARY_MAGIC, BUNDLE_MAGIC, PACKED_BUNDLE_MAGIC)):
        yield from _number_units("file", _units(file))
    elif head.startswith(b"MZ"):
        library = read_pe(file)
        yield from _units_in_sections((section.name, library.content(section)) for section in library.sections)
    elif target := PTX_TARGET.search(head):
        yield "file", [_Payload(Image(PTX, target[1].decode()), file)]
    else:
        yield from _units_in_elf(file)


def _units_in_elf(file: Extent) -> Iterator[tuple[str, list[_Payload]]]:
    elf = read_elf(file)
    if elf.machine == CUDA_MACHINE:
        yield "file", [_Payload(Image(SASS, _cubin_arch(elf)), file)]
    else:
        wanted = elf.named(*NVIDIA_SECTIONS, *HIP_SECTIONS)
        yield from _units_in_sections((section.name, elf.content(section)) for section in wanted)


def _units_in_sections(sections: Iterable[tuple[str, Extent]]) -> Iterator[tuple[str, list[_Payload]]]:
    for name, content in sections:
        if name in NVIDIA_SECTIONS or name in HIP_SECTIONS:
            yield from _number_units(name, _units(content))


def _number_units(where: str, found: Iterable[list[_Payload]]) -> Iterator[tuple[str, list[_Payload]]]:
    for number, unit in enumerate(found, 1):
        yield f"{where}, unit {number}", unit


def _units_in_archive(archive: Extent) -> Iterator[tuple[str, list[_Payload]]]:
    """Yield the units of a static library's members; members other than ELF files are skipped."""
    number = 0
    for _, member in read_members(archive):
        if member.peek(len(ELF_MAGIC)) == ELF_MAGIC:
            number += 1
            yield from ((f"object {number}, {where}", unit) for where, unit in _units_in_elf(member))


def _cubin_arch(elf: Elf) -> str:
    """Return the architecture for which ptxas was called; if the cubin has no such note, the number in its header."""
    for section in elf.named(NOTE):
        said = CALLED_FOR.search(elf.content(section).read())
        if said:
            return said[1].decode()
    return str(elf.flags >> 8 & 0xFF if elf.flags >> 24 == LATER_FLAGS else elf.flags & 0xFF)


# ---------------------------------------------------------------- units


def _units(content: Extent) -> Iterator[list[_Payload]]:
    """Yield the units of a section; the space between them is padded with zeros."""
    position, left = 0, MAX_UNPACKED_IN_ALL
    while (position := _after_padding(content, position)) < content.size:
        rest = content.part(position, content.size - position)
        head = rest.peek(len(BUNDLE_MAGIC))
        if head == BUNDLE_MAGIC:
            unit, size = _bundle(rest)
        elif head.startswith(PACKED_BUNDLE_MAGIC):
            unit, size, unpacked = _unpack_bundle(rest)
            left -= unpacked
            if left < 0:
                raise Rejected(f"the offload bundles claim to unpack to over {MAX_UNPACKED_IN_ALL:,} bytes")
        else:
            unit, size = _fatbinary(content, position)
        yield unit
        position += size


def _after_padding(content: Extent, position: int) -> int:
    """Return the aligned position of the first eight bytes that are not all zero."""
    position += -position % ALIGNMENT
    while position < content.size:
        chunk = content.read(position, min(CHUNK, content.size - position))
        zeros = len(chunk) - len(chunk.lstrip(b"\0"))
        if zeros < len(chunk):
            return position + zeros - zeros % ALIGNMENT
        position += len(chunk)
    return position


def _fatbinary(content: Extent, position: int) -> tuple[list[_Payload], int]:
    """Return one unit in NVIDIA's format, and its size in bytes."""
    magic, _, header, size = FATBINARY.unpack(cut(content, position, FATBINARY.size).read())
    if magic != FATBINARY_MAGIC or header < FATBINARY.size:
        found, expected = (hex(int.from_bytes(number, "little")) for number in (magic, FATBINARY_MAGIC))
        raise Rejected(f"the fatbinary has the magic number {found} at byte {position}, expected {expected}")
    return list(_entries(cut(content, position + header, size))), header + size


def _entries(unit: Extent) -> Iterator[_Payload]:
    position = 0
    while position < unit.size:
        head = cut(unit, position, SHORTEST_ENTRY).read()
        head += unit.read(position, min(ENTRY.size, unit.size - position))[SHORTEST_ENTRY:]
        kind, header, size, packed, arch, flags, unpacked = ENTRY.unpack(head.ljust(ENTRY.size, b"\0"))
        if header < SHORTEST_ENTRY:
            raise Rejected(f"a fatbinary entry has a header of {header} bytes, expected {SHORTEST_ENTRY} or more")
        payload = cut(unit, position + header, size)
        variant = "a" if flags & ARCH_SPECIFIC else "f" if flags & FAMILY_SPECIFIC else ""
        image = Image(KINDS.get(kind, f"kind{kind}"), f"{arch}{variant}")
        yield _Payload(image, cut(payload, 0, packed) if flags & (LZ4 | ZSTD) else payload, flags, unpacked)
        position += header + size


def _bundle(content: Extent) -> tuple[list[_Payload], int]:
    """Return one unit in Clang's format, without its host code, and its size in bytes."""
    position = len(BUNDLE_MAGIC) + 8
    count = int.from_bytes(cut(content, len(BUNDLE_MAGIC), 8, "offload bundle").read(), "little")
    unit, end = [], position
    for _ in range(count):
        offset, size, length = BUNDLE_ENTRY.unpack(cut(content, position, BUNDLE_ENTRY.size, "offload bundle").read())
        position += BUNDLE_ENTRY.size
        name = cut(content, position, length, "offload bundle").read().decode(errors="backslashreplace")
        position += length
        payload = cut(content, offset, size, "offload bundle")
        if size and offset < end:
            raise Rejected(f"the offload bundle has {name[:100]} at byte {offset}, expected it after byte {end}")
        end = max(end, position, offset + size)
        if name.startswith("hip"):
            unit.append(_Payload(Image(HIP, _target(name)), payload))
    return unit, end


def _target(name: str) -> str:
    """Return the architecture of a bundle entry, in the notation of `--offload-arch`."""
    match = TARGET.fullmatch(name)
    if match is None:
        msg = f"the offload bundle has an entry {name[:100]!r}, expected such as hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"
        raise Rejected(msg)
    return match["arch"]


def _unpack_bundle(content: Extent) -> tuple[list[_Payload], int, int]:
    """Return one compressed unit in Clang's format, its size in bytes, and its uncompressed size."""
    _, version, method = PACKED_BUNDLE_START.unpack(cut(content, 0, PACKED_BUNDLE_START.size, "offload bundle").read())
    if version not in PACKED_BUNDLE:
        msg = f"a compressed offload bundle has version {version}, expected {', '.join(map(str, PACKED_BUNDLE))}"
        raise Rejected(msg)
    layout = PACKED_BUNDLE[version]
    sizes = layout.unpack(cut(content, PACKED_BUNDLE_START.size, layout.size, "offload bundle").read())
    total = sizes[0] if len(sizes) > 1 else content.size
    start = PACKED_BUNDLE_START.size + layout.size + BUNDLE_HASH
    packed = cut(content, start, max(0, total - start), "offload bundle").read()
    unpacked = unpack(packed, ZSTD if method else 0, sizes[-1])
    return _bundle(Extent.whole(io.BytesIO(unpacked)))[0], total, len(unpacked)


# ---------------------------------------------------------------- kernels


def _kernels(payload: _Payload) -> frozenset[str] | None:
    """Return the names of the kernels in an image; None if its format does not name them."""
    kind = payload.image.kind
    if kind not in {SASS, PTX, HIP}:
        return None
    content = _unpack_payload(payload)
    if kind == PTX:
        return frozenset(name.decode() for name in PTX_KERNEL.findall(content.read()))
    if content.peek(len(ELF_MAGIC)) != ELF_MAGIC:  # not machine code: compiled when it is loaded
        return None
    elf = read_elf(content)
    return frozenset(_amd_kernels(elf) if kind == HIP else _nvidia_kernels(elf))


def _nvidia_kernels(elf: Elf) -> Iterator[str]:
    for symbol in elf.symbols(".symtab", kind=FUNCTION):
        if symbol.other & KERNEL and symbol.section:
            yield symbol.name


def _amd_kernels(elf: Elf) -> Iterator[str]:
    for symbol in elf.symbols(".dynsym", kind=OBJECT):
        if symbol.section and symbol.name.endswith(KERNEL_DESCRIPTOR):
            yield symbol.name.removesuffix(KERNEL_DESCRIPTOR)


def _unpack_payload(payload: _Payload) -> Extent:
    method = payload.flags & (LZ4 | ZSTD)
    if not method:
        return payload.extent
    return Extent.whole(io.BytesIO(unpack(payload.extent.read(), method, payload.unpacked)))
