"""Where a wheel and its remake first differ, and what differs between the environments of their builds."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import Rejected
from ci_tools.formats.elf import NO_CONTENT, Extent, read_elf
from ci_tools.formats.wheel import SBOM, open_wheel
from ci_tools.verify.fingerprint import find_first_difference

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_tools.formats.elf import Elf
    from ci_tools.formats.wheel import Wheel
    from ci_tools.model.files import BuiltWith
    from ci_tools.verify.remake.stated import StatedBuild

BUILD_ID = ".note.gnu.build-id"  # a hash of the others
LOCAL_HEADER, PIECE = 30, 64  # bytes


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
        name, extra = struct.unpack("<HH", file.read(LOCAL_HEADER)[-4:])
        file.seek(name + extra, io.SEEK_CUR)
        packed = file.read(info.compress_size)
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    content, inflate = b"", zlib.decompressobj(-zlib.MAX_WBITS)
    with suppress(zlib.error):
        for at in range(0, len(packed), PIECE):
            content += inflate.decompress(packed[at : at + PIECE])
            if len(content) > info.file_size:
                break
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
    names = dict.fromkeys((*mine, *others))
    pairs = ((name, mine.get(name) or "none", others.get(name) or "none") for name in names)
    return tuple(ToolDifference(*pair) for pair in pairs if pair[1] != pair[2])


def _list_tools(stated: StatedBuild) -> Iterator[tuple[str, str]]:
    by: BuiltWith = stated.built_with
    yield "the source's files", stated.said.get("source:sha256", "")
    yield "the config", stated.said.get("config:sha256", "")
    yield "Fatwheel", stated.fatwheel
    yield "the C++ compiler", _with_content(by.compiler, by.compiler_sha256)
    yield "the toolkit", _with_content(by.toolkit, by.toolkit_sha256)
    yield "torch", by.torch
    yield "Python", by.python
    yield "the options of Python's build", by.flags
    yield "the C library", by.libc
    yield "the image", by.image
    for name, version, sha256 in by.requires:
        yield f"the requirement {name}", _with_content(version, sha256)


def _with_content(version: str, sha256: str) -> str:
    return f"{version} (sha256 {sha256[:12]})" if sha256 else version
