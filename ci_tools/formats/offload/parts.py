"""Cuts, unpacks and lists the parts of files with device code; a damaged part raises Rejected."""

from __future__ import annotations

import struct
import sys
import zlib
from typing import TYPE_CHECKING

import lz4.block  # type: ignore[import-untyped]  # it has no types

from ci_tools.errors import Rejected

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.formats.elf import Extent

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
