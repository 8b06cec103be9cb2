"""A rule about the zip file itself: every reader of it must see the same members (APPNOTE.TXT 6.3.10)."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO, NamedTuple

from ci_tools.verify.audit.subject import Flaw, Subject

LOCAL = struct.Struct("<4s5H3I2H")  # 4.3.7: signature, version, flags, method, time, date, checksum, sizes, lengths
END = struct.Struct(
    "<4s4H2IH"
)  # 4.3.16: signature, disks, members here, members, size and place of the directory, length
SIGNATURE, END_SIGNATURE, SIZES_SIGNATURE = b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"
ENCRYPTED, SIZES_FOLLOW, PATCHED, STRONGLY, UTF8, MASKED = 0x1, 0x8, 0x20, 0x40, 0x800, 0x2000  # flags, 4.4.4
LONGEST_SIZES = 24  # bytes: a signature, a checksum, and two sizes of eight bytes
IN_EXTRA = 0xFFFFFFFF  # a size that is in the extra field
ZIP64, UNICODE_PATH = 0x1, 0x7075  # kinds of extra fields
ZIP64_END, ZIP64_PLACE = 56, 20  # bytes of the two records between the directory and its end
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Header(NamedTuple):
    """A member's local file header, and the offset of its content."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    extra: bytes
    content: int


def container(subject: Subject) -> Iterator[Flaw]:
    """Nothing is in the archive but the members of its directory, and each header says what the directory says.

    Some installers read the directory, others the headers: where these disagree, one file is audited and another one
    installed. uv refuses such archives, and every method of compression but the two that PyPI takes.
    """
    # the directory may list them in any order
    infos = sorted(subject.wheel.archive.infolist(), key=lambda info: info.header_offset)
    with subject.wheel.path.open("rb") as file:  # zipfile shows only what the directory says
        end, loose = 0, 0
        for info in infos:
            gap = info.header_offset - end
            if gap < 0 or gap > loose:
                what = "overlaps another" if gap < 0 else "follows bytes that belong to no member"
                yield Flaw(f"{info.filename} {what}", f"{gap} bytes", "members one after the other")
            header = _header(file, info)
            yield from _odd_member(info)
            yield from _disagreements(header, info, file)
            content = header.content if header else info.header_offset
            end, loose = content + info.compress_size, LONGEST_SIZES if info.flag_bits & SIZES_FOLLOW else 0
        directory = subject.wheel.archive.start_dir
        if infos and not 0 <= directory - end <= loose:
            yield Flaw("there are bytes between the last member and the directory", f"{directory - end} bytes", "none")
        yield from _odd_end(file, directory, len(infos))


def _header(file: BinaryIO, info: zipfile.ZipInfo) -> Header | None:
    if info.header_offset < 0:  # zipfile computes this for a damaged directory
        return None
    file.seek(info.header_offset)
    data = file.read(LOCAL.size)
    if len(data) < LOCAL.size:
        return None
    signature, _, flags, method, _, _, crc, packed, size, name, extra = LOCAL.unpack(data)
    if signature != SIGNATURE:
        return None
    content = info.header_offset + LOCAL.size + name + extra
    return Header(file.read(name), flags, method, crc, packed, size, file.read(extra), content)  # reads on


def _odd_member(info: zipfile.ZipInfo) -> Iterator[Flaw]:
    """Check what a member's entry in the directory asks of a reader."""
    name = info.filename
    is_small = max(info.file_size, info.compress_size, info.header_offset) < IN_EXTRA
    if is_small and ZIP64 in (_read_extra(info.extra) or {}):
        yield Flaw(f"{name} has long sizes that its short ones do not ask for", "ZIP64", "none")
    if info.compress_type not in METHODS:
        found = zipfile.compressor_names.get(info.compress_type, str(info.compress_type))  # type: ignore[attr-defined]
        yield Flaw(f"{name} is compressed in a way that installers do not read", found, "deflate")
    if info.flag_bits & (ENCRYPTED | STRONGLY | MASKED | PATCHED):
        yield Flaw(f"{name} is encrypted or a patch", f"flags {info.flag_bits:#x}", "a plain member")
    if info.volume:
        yield Flaw(f"{name} is said to be in another file", f"disk {info.volume}", "disk 0")
    if not (info.flag_bits & UTF8 or info.orig_filename.isascii()):
        yield Flaw(f"{name} has a name in no known encoding", f"flags {info.flag_bits:#x}", "UTF-8 (flag 0x800)")


def _disagreements(header: Header | None, info: zipfile.ZipInfo, file: BinaryIO) -> Iterator[Flaw]:
    """Compare a member's own header with the directory."""
    # Appendix D: code page 437 without the flag
    name = header and header.name.decode("utf-8" if header.flags & UTF8 else "cp437", "replace")
    if header is None or name != info.orig_filename:
        found = header.name.decode("utf-8", "replace") if header else "no header"
        yield Flaw(f"{info.filename} is another member by its own header", found, info.filename)
        return
    own, listed = _read_extra(header.extra), _read_extra(info.extra)
    if own is None or listed is None or UNICODE_PATH in {*own, *listed}:  # 4.6.9: some readers take this name
        yield Flaw(f"{info.filename} has a second name, or a field that is cut", "an extra field", "none")
        return
    follow = bool(header.flags & SIZES_FOLLOW)
    given = own.get(ZIP64, b"")
    in_extra = (value for (value,) in struct.iter_unpack("<Q", given[: len(given) // 8 * 8]))
    facts = {
        "method": (header.method, info.compress_type),
        "encryption": (header.flags & (ENCRYPTED | STRONGLY), info.flag_bits & (ENCRYPTED | STRONGLY)),
        "encoding of its name": (header.flags & UTF8, info.flag_bits & UTF8),
        "sizes that follow": (follow, bool(info.flag_bits & SIZES_FOLLOW)),
        "checksum": (header.crc, info.CRC),
        # 4.5.3: the extra field has the size before the packed size, each only if it has no room in the header.
        "size": (next(in_extra, -1) if header.size == IN_EXTRA else header.size, info.file_size),
        "packed size": (next(in_extra, -1) if header.packed == IN_EXTRA else header.packed, info.compress_size),
    }
    may_be_zero = {"checksum", "size", "packed size"} if follow else set()  # 4.4.4: the sizes come after the content
    for what, (said, expected) in facts.items():
        if said != expected and not (what in may_be_zero and not said):
            yield Flaw(f"{info.filename}: its header and the directory differ in the {what}", str(said), str(expected))
    if follow and not _sizes_agree(file, header.content + info.compress_size, info):
        yield Flaw(f"{info.filename}: the sizes after its content are others", "other sizes", "those of the directory")


def _read_extra(extra: bytes) -> Mapping[int, bytes] | None:
    """Return the fields of an extra field by their kinds; None if one is cut, or a kind is there twice."""
    found: dict[int, bytes] = {}
    while extra:
        kind, size = int.from_bytes(extra[:2], "little"), int.from_bytes(extra[2:4], "little")
        if len(extra) < size + 4 or kind in found:
            return None
        found[kind], extra = extra[4 : 4 + size], extra[4 + size :]
    return found


def _sizes_agree(file: BinaryIO, place: int, info: zipfile.ZipInfo) -> bool:
    """Whether the record after a member's content, with or without a signature, says what the directory says."""
    file.seek(place)
    data = file.read(LONGEST_SIZES).removeprefix(SIZES_SIGNATURE)
    sums = info.CRC, info.compress_size, info.file_size
    # 4.3.9: ZIP64 has eight bytes for each size; some write it of small files, too
    forms = ("<IQQ", "<III") if max(sums[1:]) < IN_EXTRA else ("<IQQ",)
    return any(data.startswith(struct.pack(form, *sums)) for form in forms)


def _odd_end(file: BinaryIO, directory: int, count: int) -> Iterator[Flaw]:
    """Check the record at the end of the archive, after which nothing may follow."""
    length = file.seek(0, 2)
    start = max(0, length - END.size - 0xFFFF)  # a comment has 65,535 bytes at most (4.3.16)
    file.seek(start)
    tail = file.read()
    place = tail.rfind(END_SIGNATURE)  # as readers find it: the last one
    record = tail[place : place + END.size]
    if place < 0 or len(record) < END.size:
        yield Flaw("the archive has no whole end", f"{len(record)} bytes", f"{END.size} bytes")
        return
    _, disk, _, here, total, size, _, comment = END.unpack(record)
    position = start + place
    after = length - position - END.size
    if after or comment:  # it could hold another archive's end
        yield Flaw("bytes follow the end of the archive", f"{after} bytes, {comment} announced", "none")
    between = position - directory - size if size != IN_EXTRA else 0  # ZIP64's record has the true one
    if disk or len({here, total, count}) > 1 or between not in {0, ZIP64_END + ZIP64_PLACE}:
        found = f"disk {disk}, {here} and {total} members, {between} bytes before it"
        yield Flaw("the end of the archive does not fit its directory", found, f"disk 0, {count} members, no bytes")
