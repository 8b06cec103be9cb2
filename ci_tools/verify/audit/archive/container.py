"""A rule about the zip file itself: every reader of it must see the same members."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ci_tools.verify.audit.subject import Flaw

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator

    from ci_tools.verify.audit.subject import Subject

__all__ = ["container"]

LOCAL = struct.Struct("<4s5H3I2H")  # APPNOTE.TXT 4.3.7: signature, version, flags, method, …, lengths of name and extra
SIGNATURE = b"PK\x03\x04"
SIZES_FOLLOW = 0x8  # the flag of a member whose sizes follow its content
LONGEST_SIZES = 24  # bytes: a signature, a checksum, and two sizes of eight bytes


class Header(NamedTuple):
    """A member's local file header, and the offset of its content."""

    name: bytes
    method: int
    flags: int
    content: int


def container(subject: Subject) -> Iterator[Flaw]:
    """Nothing is in the archive but the members of its directory, and each header says what the directory says.

    Some installers read the directory, others the headers: where these disagree, one file is audited and another one
    installed.
    """
    infos = sorted(subject.wheel.archive.infolist(), key=lambda info: info.header_offset)
    with subject.wheel.path.open("rb") as file:
        end, loose = 0, 0
        for info in infos:
            gap = info.header_offset - end
            if gap < 0 or gap > loose:
                what = "overlaps another" if gap < 0 else "follows bytes that belong to no member"
                yield Flaw(f"{info.filename} {what}", f"{gap} bytes", "members one after the other")
            header = _header(file, info)
            if header is None or not _agrees(header, info):
                yield Flaw(f"{info.filename} is another member by its own header", _header_name(header), info.filename)
            content = header.content if header else info.header_offset
            end, loose = content + info.compress_size, LONGEST_SIZES if info.flag_bits & SIZES_FOLLOW else 0
        directory = subject.wheel.archive.start_dir
        if infos and not 0 <= directory - end <= loose:
            yield Flaw("there are bytes between the last member and the directory", f"{directory - end} bytes", "none")


def _header(file: BinaryIO, info: zipfile.ZipInfo) -> Header | None:
    if info.header_offset < 0:  # zipfile computes this for a damaged directory
        return None
    file.seek(info.header_offset)
    data = file.read(LOCAL.size)
    if len(data) < LOCAL.size:
        return None
    signature, _, flags, method, *_, name, extra = LOCAL.unpack(data)
    if signature != SIGNATURE:
        return None
    return Header(file.read(name), method, flags, info.header_offset + LOCAL.size + name + extra)


def _agrees(header: Header, info: zipfile.ZipInfo) -> bool:
    encoding = "utf-8" if header.flags & 0x800 else "cp437"
    name = header.name.decode(encoding, "replace").partition("\0")[0]
    return name == info.orig_filename.partition("\0")[0] and header.method == info.compress_type


def _header_name(header: Header | None) -> str:
    return header.name.decode("utf-8", "replace") if header else "no header"
