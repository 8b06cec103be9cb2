"""Where a wheel and its remake first differ, and what differs between the environments of their builds."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import NO_CONTENT, Elf, Extent, read_elf
from ci_tools.formats.wheel import SBOM, Wheel, open_wheel
from ci_tools.model.files import Level
from ci_tools.verify.audit import audit
from ci_tools.verify.fingerprint import find_first_difference
from ci_tools.verify.remake.stated import REQUIRED, StatedBuild

BUILD_ID = ".note.gnu.build-id"  # a hash of the others
LOCAL_HEADER, PIECE = 30, 64  # bytes
SAID = {
    "source:sha256": "the source's files",
    "config:sha256": "the config",
    "python:flags": "the options of Python's build",
    "libc": "the C library",
    "fatwheel": "Fatwheel",
}


class MemberDifference(NamedTuple):
    """A member that differs, and the first place where it does; of a library its section, and the symbol there."""

    member: str
    place: str
    section: str = ""
    symbol: str = ""


class ToolDifference(NamedTuple):
    """What two builds did not have in common."""

    what: str
    wheel: str
    here: str


def list_changes(wheel: Path, work: Path) -> tuple[str, ...]:
    """Return where a wheel is not what its own RECORD says, in sentences: Fatwheel's builds write a true one."""
    findings = audit(wheel, job=None, limits={}, work=work, only=("record",))
    said = (one.message.removeprefix(f"{wheel.name}: ") for one in findings if one.level is Level.ERROR)
    return tuple(what.replace("what RECORD says", "what its RECORD says") for what in said)


def list_different_members(wheel: Path, remake: Path) -> tuple[MemberDifference, ...]:
    """Return the members that differ, what the project made before what is written of it: the SBOM, then RECORD."""
    one, two = open_wheel(wheel), open_wheel(remake)
    with one.archive, two.archive:
        infos = [{info.filename: info for info in each.infos} for each in (one, two)]
        names = list(dict.fromkeys((*infos[0], *infos[1])))
        late = (f"{one.dist_info}/{SBOM}", f"{one.dist_info}/RECORD")
        found = []
        for name in sorted(names, key=lambda name: late.index(name) if name in late else -1):
            mine, others = infos[0].get(name), infos[1].get(name)
            if mine is None or others is None:
                found.append(MemberDifference(name, f"only the {'wheel' if mine else 'remake'} has it"))
            elif (contents := (_read(one, mine), _read(two, others)))[0] != contents[1]:
                found.append(_locate(name, *contents))
            elif mine.external_attr != others.external_attr:
                found.append(MemberDifference(name, "only its permissions differ"))
    return tuple(found) or (MemberDifference("", "every member is the same: the archive itself is written otherwise"),)


def _read(wheel: Wheel, info: zipfile.ZipInfo) -> bytes:
    """Return a member's content; of one that is damaged, as much as can be unpacked, whatever its checksum says."""
    with suppress(Rejected):
        return wheel.read(info)
    with wheel.path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = struct.unpack("<HH", file.read(LOCAL_HEADER)[-4:])  # the lengths of the name and the extra field
        file.seek(name + extra, io.SEEK_CUR)
        packed = file.read(info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    content, inflate = b"", zlib.decompressobj(-zlib.MAX_WBITS)  # a zip member has no header of zlib's
    with suppress(zlib.error):
        for at in range(0, len(packed), PIECE):
            content += inflate.decompress(packed[at : at + PIECE])  # up to the damage
            if len(content) > info.file_size:
                break  # a bomb unpacks to more than it says
    return content


def _locate(name: str, one: bytes, two: bytes) -> MemberDifference:
    at = find_first_difference(one, two)
    if b"\0" not in one:
        return MemberDifference(name, f"line {one.count(bytes([10]), 0, at) + 1}")
    with suppress(Rejected):
        elves = [read_elf(Extent.whole(io.BytesIO(content))) for content in (one, two)]
        places = list(_list_places(*elves))
        if places:
            symbol, section, start = next((place for place in places if place[0]), places[0])
            return MemberDifference(name, f"byte {start:,} of it", section, symbol)
    for content in (two, one):  # one of them is damaged: the place is that in the other
        with suppress(Rejected):
            elf = read_elf(Extent.whole(io.BytesIO(content)))
            held = (each for each in elf.sections if each.kind != NO_CONTENT)  # .bss takes no bytes in the file
            for each in (each for each in held if each.offset <= at < each.offset + each.size):
                symbol = elf.name_symbol(each.address + at - each.offset) if each.address else ""
                return MemberDifference(name, f"byte {at - each.offset:,} of it", each.name, symbol)
    return MemberDifference(name, f"byte {at:,}")


def _list_places(one: Elf, two: Elf) -> Iterator[tuple[str, str, int]]:
    """Yield each section that differs: the symbol at its first difference, its name, and the place in it."""
    others = {each.name: two.content(each).read() for each in two.sections}
    for each in sorted(one.sections, key=lambda section: section.name == BUILD_ID):
        content, other = one.content(each).read(), others.get(each.name, b"")
        if content != other and each.kind != NO_CONTENT:
            start = find_first_difference(content, other)
            yield one.name_symbol(each.address + start) if each.address else "", each.name, start


# ---------------------------------------------------------------- the environments


def list_different_tools(wheel: StatedBuild, remake: StatedBuild) -> tuple[ToolDifference, ...]:
    """Return what the two builds did not have in common."""
    mine, others = dict(_list_tools(wheel)), dict(_list_tools(remake))
    pairs = ((name, mine.get(name, "none"), others.get(name, "none")) for name in dict.fromkeys((*mine, *others)))
    return tuple(ToolDifference(*pair) for pair in pairs if pair[1] != pair[2])


def _list_tools(stated: StatedBuild) -> Iterator[tuple[str, str]]:
    yield from ((what, stated.said[name]) for name, what in SAID.items() if name in stated.said)
    for name, shown in stated.tools.items():
        yield f"the requirement {name.removeprefix(REQUIRED)}" if name.startswith(REQUIRED) else name, shown
