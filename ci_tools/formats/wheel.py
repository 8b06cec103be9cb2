"""Wheel files (PEP 427), read as untrusted input."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from lzma import LZMAError
from pathlib import Path
from typing import IO, TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.magic import binary_format
from ci_tools.machine.storage import CHUNK

if TYPE_CHECKING:
    from email.message import Message

    from packaging.tags import Tag
    from packaging.version import Version

SBOM = "sboms/fatwheel.cdx.json"  # of our builds, in dist-info (PEP 770)
MAX_MEMBER_BYTES = 4 << 30
MAX_DIST_INFO_BYTES = 64 << 20  # of METADATA, RECORD and similar files, which are read whole
# No field of METADATA's needs more; one that is a text, such as a licence, may be long.
LONGEST_HEADER = {"description": 16 << 20, "license": 1 << 20, "description-content-type": 1000}
LONGEST_OTHER = 1 << 16  # characters
MAX_NAMES, MAX_LINES = 200, 100_000
END_OF_HEADERS = re.compile(r"\r?\n\r?\n")
MAX_RATIO = 100  # the highest ratio of uncompressed to compressed size; deflate reaches 1,032
FREE_BYTES = 1 << 30  # the uncompressed size that any wheel may have
# The errors of reading a damaged or encrypted member, or one with an unsupported compression.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)
# The folders of other projects' libraries, from auditwheel, delvewheel and delocate.
GRAFTED = re.compile(r"(?:^|/)(?:[^/]+\.libs|\.dylibs)/")
# Characters that move a terminal's cursor, end a line, or change the direction of text (UAX 9; CVE-2021-42574).
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Wheel:
    """An open wheel file."""

    path: Path
    archive: zipfile.ZipFile

    @cached_property
    def infos(self) -> tuple[zipfile.ZipInfo, ...]:
        """The archive's entries without folders."""
        return tuple(info for info in self.archive.infolist() if not is_folder(info))

    def chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """Yield a member's content piece by piece; raise Rejected if it is damaged, even if only at its very end."""
        if info.file_size > MAX_MEMBER_BYTES:
            size = f"{info.file_size:,} bytes, expected at most {MAX_MEMBER_BYTES:,}"
            raise Rejected(f"{self.path.name}: {info.filename} claims {size}")
        found = 0
        for chunk in self._inflate_chunks(info):
            found += len(chunk)
            yield chunk
        if found != info.file_size:
            raise Rejected(f"{self.path.name}: {info.filename} holds {found:,} bytes, it claims {info.file_size:,}")

    def _inflate_chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            file = self.archive.open(info)
        except DAMAGE as error:
            raise self._rejection(info, error) from error
        with file:
            while True:
                try:  # around the read only: the caller's use of a chunk may fail for other reasons
                    chunk = file.read(CHUNK)
                except DAMAGE as error:
                    raise self._rejection(info, error) from error
                if not chunk:
                    return
                yield chunk

    def _rejection(self, info: zipfile.ZipInfo, error: Exception) -> Rejected:
        return Rejected(f"{self.path.name}: {info.filename} cannot be read: {error}")

    def read(self, info: zipfile.ZipInfo) -> bytes:
        """Return a member's whole content; raise Rejected if it is damaged."""
        return b"".join(self.chunks(info))

    @cached_property
    def dist_info(self) -> str:
        """The name of the dist-info folder; "" if the wheel has none or several."""
        tops = {info.filename.partition("/")[0] for info in self.infos if "/" in info.filename}
        folders = [top for top in tops if top.endswith(".dist-info")]
        return folders[0] if len(folders) == 1 else ""

    def dist_info_data(self, file: str) -> bytes:
        """Return the content of a file in dist-info; b"" if it does not exist; raise Rejected if it is too large."""
        name = f"{self.dist_info}/{file}"
        found = next((info for info in self.infos if info.filename == name), None)
        if found and found.file_size > MAX_DIST_INFO_BYTES:
            msg = f"{self.path.name}: {name} has {found.file_size:,} bytes, expected at most {MAX_DIST_INFO_BYTES:,}"
            raise Rejected(msg)
        return self.read(found) if found else b""

    def dist_info_text(self, file: str) -> str:
        """Return the text of a file in dist-info; "" if it does not exist; raise Rejected if it is not UTF-8."""
        try:
            return self.dist_info_data(file).decode()
        except UnicodeDecodeError as error:
            raise Rejected(f"{self.path.name}: {file} is not UTF-8: {error.reason} at byte {error.start}") from error

    @cached_property
    def metadata(self) -> Message:
        """The headers of METADATA."""
        return read_headers(self.dist_info_text("METADATA"), f"{self.path.name}: METADATA")

    @cached_property
    def wheel_metadata(self) -> Message:
        """The headers of WHEEL."""
        return read_headers(self.dist_info_text("WHEEL"), f"{self.path.name}: WHEEL")

    @cached_property
    def named(self) -> tuple[str, Version, frozenset[Tag]] | None:
        """The project, version and tags of the file name; None if it is not the name of a wheel."""
        try:
            name, version, _, tags = parse_wheel_filename(self.path.name)
        except ValueError:  # InvalidWheelFilename, InvalidVersion, or more digits than Python converts
            return None
        return name, version, tags

    @cached_property
    def libraries(self) -> tuple[zipfile.ZipInfo, ...]:
        """The members that are ELF files, judged by their first bytes."""
        return tuple(info for info in self.infos if self.binary_format(info) == "ELF")

    def binary_format(self, info: zipfile.ZipInfo) -> str:
        """Return the format of a compiled member by its first bytes; "" for any other member."""
        try:
            with self.archive.open(info) as file:
                return binary_format(file)
        except DAMAGE:
            return ""

    def record(self) -> Iterator[Sequence[str]]:
        """Yield the rows of RECORD; raise Rejected if it is not CSV."""
        try:
            yield from csv.reader(io.StringIO(self.dist_info_text("RECORD"), newline=""))
        except csv.Error as error:
            raise Rejected(f"{self.path.name}: RECORD cannot be read: {error}") from error


def read_headers(content: str, where: str) -> Message:
    """Return the headers of METADATA, WHEEL or PKG-INFO; raise Rejected if there are more than any project has."""
    flaw = explain_headers(content)
    if flaw:
        raise Rejected(f"{where}: {flaw}")
    headers, _, body = (
        content.partition(separator[0]) if (separator := END_OF_HEADERS.search(content)) else (content, "", "")
    )
    message = HeaderParser().parsestr(headers)
    message.set_payload(body)
    return message


def explain_headers(content: str) -> str:
    """Return why headers are not given to a parser, or "": parsers take the square of their number or length."""
    lines = END_OF_HEADERS.split(content, maxsplit=1)[0].splitlines()
    if len(lines) > MAX_LINES:
        return f"it has {len(lines):,} lines of fields, expected at most {MAX_LINES:,}"
    sizes: Counter[str] = Counter()
    name = ""
    for line in lines:
        name = name if line[:1] in {" ", "\t"} else line.partition(":")[0].lower()
        sizes[name] = len(line) + (sizes[name] if line[:1] in {" ", "\t"} else 0)
        if sizes[name] > LONGEST_HEADER.get(name, LONGEST_OTHER):
            most = LONGEST_HEADER.get(name, LONGEST_OTHER)
            return f"the field {name[:40]} has over {most:,} characters"
    if len(sizes) > MAX_NAMES:
        return f"it has {len(sizes):,} fields, expected at most {MAX_NAMES}"
    return ""


def is_folder(info: zipfile.ZipInfo) -> bool:
    """Whether an entry is a folder; `ZipInfo.is_dir` raises IndexError for an entry without a name."""
    return info.filename.endswith("/")


def open_wheel(path: Path) -> Wheel:
    """Open the wheel at `path`; raise Rejected if it is not a zip file, or if it is a zip bomb."""
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise Rejected(f"{path.name} is not a wheel: {error}") from error
    packed, unpacked = path.stat().st_size, sum(info.file_size for info in archive.infolist())
    if unpacked > max(FREE_BYTES, MAX_RATIO * packed):
        archive.close()
        msg = f"{path.name} claims to unpack from {packed:,} to {unpacked:,} bytes, over {MAX_RATIO} times its size"
        raise Rejected(msg)
    return Wheel(path, archive)


def record_hash(data: bytes) -> str:
    """Return the hash of a member in the notation of RECORD."""
    return Hashing().of(io.BytesIO(data))


class Hashing:
    """Computes the hash and size of content that arrives in pieces."""

    def __init__(self, algorithm: str = "sha256") -> None:
        self._algorithm = algorithm
        self._hash = hashlib.new(algorithm)
        self.size = 0

    def update(self, chunk: bytes) -> None:
        """Add the next piece."""
        self._hash.update(chunk)
        self.size += len(chunk)

    def of(self, content: IO[bytes]) -> str:
        """Add a whole stream; return the hash in the notation of RECORD."""
        while chunk := content.read(CHUNK):
            self.update(chunk)
        return self.record_value

    @property
    def record_value(self) -> str:
        """The hash in the notation of RECORD."""
        return f"{self._algorithm}=" + base64.urlsafe_b64encode(self._hash.digest()).rstrip(b"=").decode()


def differing(one: Path, other: Path) -> tuple[str, ...]:
    """Return the members that only one of two wheels has, or whose content differs.

    RECORD is not compared, nor the SBOM of our builds: it names the tools of a build, such as its image.
    """
    first, second = open_wheel(one), open_wheel(other)
    with first.archive, second.archive:
        contents = [{info.filename: _hash(wheel, info) for info in wheel.infos} for wheel in (first, second)]
    ignored = {f"{wheel.dist_info}/{file}" for wheel in (first, second) for file in ("RECORD", SBOM)}
    names = (contents[0].keys() | contents[1].keys()) - ignored
    return tuple(sorted(name for name in names if contents[0].get(name) != contents[1].get(name)))


def _hash(wheel: Wheel, info: zipfile.ZipInfo) -> str:
    hashing = Hashing()
    for chunk in wheel.chunks(info):
        hashing.update(chunk)
    return hashing.record_value
