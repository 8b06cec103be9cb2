"""Wheel files (PEP 427): read without trusting them, and written so that the same members give the same bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ci_tools.errors import Rejected
from ci_tools.storage import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from email.message import Message
    from pathlib import Path

    from packaging.tags import Tag

__all__ = ["Member", "Wheel", "opened", "record_hash", "relabel"]

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip file can hold
MOST_MEMBER_BYTES = 4 << 30
# What reading a damaged, encrypted or strangely compressed member raises.
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)
BINARY_MAGIC = {
    b"\x7fELF": "ELF",
    b"MZ": "PE",
    b"\xca\xfe\xba\xbe": "Mach-O universal",
    b"\xcf\xfa\xed\xfe": "Mach-O",
    b"\xce\xfa\xed\xfe": "Mach-O",
    b"\xfe\xed\xfa\xcf": "Mach-O",
    b"\xfe\xed\xfa\xce": "Mach-O",
    b"!<arch>\n": "static library",
    b"\x50\xed\x55\xba": "CUDA fatbinary",
    b"BC\xc0\xde": "LLVM bitcode",
    b"\x00asm": "WebAssembly",
}


class Member(NamedTuple):
    """One file of a wheel: its path, its content, and whether it may be executed."""

    name: str
    data: bytes
    executable: bool = False


@dataclass(frozen=True)
class Wheel:
    """An open wheel file."""

    path: Path
    archive: zipfile.ZipFile

    @cached_property
    def infos(self) -> tuple[zipfile.ZipInfo, ...]:
        """The archive's entries, folders left out."""
        return tuple(info for info in self.archive.infolist() if not info.is_dir())

    def read(self, info: zipfile.ZipInfo) -> bytes:
        """Return a member's content; raise Rejected where it is damaged."""
        if info.file_size > MOST_MEMBER_BYTES:
            msg = f"{self.path.name}: {info.filename} claims {info.file_size:,} bytes"
            raise Rejected(msg)
        try:
            return self.archive.read(info)
        except DAMAGE as error:
            msg = f"{self.path.name}: {info.filename} cannot be read: {error}"
            raise Rejected(msg) from None

    @cached_property
    def dist_info(self) -> str:
        """The dist-info folder's name, or nothing where the wheel has none or several."""
        folders = {info.filename.split("/")[0] for info in self.infos if ".dist-info/" in info.filename}
        return folders.pop() if len(folders) == 1 else ""

    def dist_info_text(self, file: str) -> str:
        """Return the text of a file in dist-info, or nothing where there is none."""
        name = f"{self.dist_info}/{file}"
        found = next((info for info in self.infos if info.filename == name), None)
        return self.read(found).decode("utf-8", "replace") if found else ""

    @cached_property
    def metadata(self) -> Message:
        """The headers of METADATA."""
        return HeaderParser().parsestr(self.dist_info_text("METADATA"))

    @cached_property
    def wheel_metadata(self) -> Message:
        """The headers of WHEEL."""
        return HeaderParser().parsestr(self.dist_info_text("WHEEL"))

    @cached_property
    def named(self) -> tuple[str, Version, frozenset[Tag]] | None:
        """The project, version and tags of the file name; None where it is no wheel's name."""
        try:
            name, version, _, tags = parse_wheel_filename(self.path.name)
        except (InvalidWheelFilename, InvalidVersion):
            return None
        return name, version, tags

    @cached_property
    def libraries(self) -> tuple[zipfile.ZipInfo, ...]:
        """The members that are ELF files, by their first bytes."""
        return tuple(info for info in self.infos if self.binary_format(info) == "ELF")

    def binary_format(self, info: zipfile.ZipInfo) -> str:
        """Return the format of a compiled member, by its first bytes, or nothing for any other."""
        try:
            with self.archive.open(info) as file:
                head = file.read(8)
        except DAMAGE:
            return ""
        return next((name for magic, name in BINARY_MAGIC.items() if head.startswith(magic)), "")

    def record(self) -> Iterator[Sequence[str]]:
        """Yield the rows of RECORD."""
        yield from csv.reader(io.StringIO(self.dist_info_text("RECORD"), newline=""))


def opened(path: Path) -> Wheel:
    """Open the wheel at `path`; raise Rejected where it is no zip file."""
    try:
        return Wheel(path, zipfile.ZipFile(path))
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        msg = f"{path.name} is not a wheel: {error}"
        raise Rejected(msg) from None


def record_hash(data: bytes) -> str:
    """Return the hash of a member as RECORD spells it."""
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def relabel(source: Path, destination: Path, *, local: str = "", requires_torch: str = "") -> None:
    """Write the wheel at `source` to `destination` with a local version, its members in a fixed order and dress.

    The local version goes into METADATA, the dist-info and data folders and RECORD; the file's name is
    `destination`'s. `requires_torch` replaces the specifier of what the wheel requires of torch. The same
    members always give the same bytes.
    """
    wheel = opened(source)
    with wheel.archive:
        old = wheel.dist_info.removesuffix(".dist-info")
        new = f"{old}+{local}" if local else old
        members = [
            Member(_moved(info.filename, old, new), wheel.read(info), _executable(info))
            for info in wheel.infos
            if info.filename not in {f"{wheel.dist_info}/RECORD", f"{wheel.dist_info}/RECORD.jws"}
        ]
    metadata = f"{new}.dist-info/METADATA"
    members = [
        member._replace(data=_labelled(member.data, local, requires_torch)) if member.name == metadata else member
        for member in members
    ]
    _write(members, f"{new}.dist-info", destination)


def _executable(info: zipfile.ZipInfo) -> bool:
    return bool((info.external_attr >> 16) & stat.S_IXUSR)


def _moved(name: str, old: str, new: str) -> str:
    """Rename the dist-info and data folders."""
    for suffix in (".dist-info/", ".data/"):
        if name.startswith(old + suffix):
            return new + name.removeprefix(old)
    return name


def _labelled(metadata: bytes, local: str, requires_torch: str) -> bytes:
    """Put a local version and a torch specifier into METADATA, leaving every other byte."""
    head, separator, body = metadata.partition(b"\n\n")
    lines = head.decode().split("\n")
    if local:
        lines = [f"{line}+{local}" if line.startswith("Version: ") else line for line in lines]
    if requires_torch:
        lines = [_narrowed(line, requires_torch) for line in lines]
    return "\n".join(lines).encode() + separator + body


def _narrowed(line: str, specifier: str) -> str:
    """Replace torch's specifier in a Requires-Dist line."""
    field, _, value = line.partition(": ")
    if field != "Requires-Dist" or canonicalize_name(Requirement(value).name) != "torch":
        return line
    marker = f" ; {Requirement(value).marker}" if Requirement(value).marker else ""
    return f"Requires-Dist: torch{specifier}{marker}"


def _write(members: Iterable[Member], dist_info: str, destination: Path) -> None:
    """Write members sorted, dist-info last, RECORD at the very end, all with one time and plain permissions."""
    ordered = sorted(members, key=lambda member: (member.name.startswith(dist_info), member.name))
    rows = [(member.name, record_hash(member.data), str(len(member.data))) for member in ordered]
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{dist_info}/RECORD", "", "")])
    ordered.append(Member(f"{dist_info}/RECORD", record.getvalue().encode()))
    with write_atomically(destination) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in ordered:
            info = zipfile.ZipInfo(member.name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, whose permission bits these are
            info.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
            archive.writestr(info, member.data)
