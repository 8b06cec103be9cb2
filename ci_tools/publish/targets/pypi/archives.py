"""The parts of a wheel or an sdist that PyPI's rules check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED

from ci_tools.errors import Rejected
from ci_tools.formats.pypi_rules import Archive
from ci_tools.formats.tar import tarfile
from ci_tools.formats.wheel import open_wheel

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_PKG_INFO = 16 << 20  # bytes


def archive_of(path: Path) -> Archive:
    """Return the parts of a file that the rules check; raise Rejected if it cannot be read."""
    return _wheel(path) if path.name.endswith(".whl") else _sdist(path)


def _wheel(path: Path) -> Archive:
    wheel = open_wheel(path)
    with wheel.archive as archive, path.open("rb") as file:
        infos = archive.infolist()
        members = tuple(info.filename for info in infos)
        unpacked = sum(info.file_size for info in infos)
        file.seek(-min(path.stat().st_size, 22 + len(archive.comment)), os.SEEK_END)  # end of central directory
        is_end = file.read(4) == b"PK\x05\x06"  # its signature (APPNOTE 4.3.16)
        flaws = (*_flaws(infos), *([] if is_end else ["it has bytes after the end of its zip file"]))
        return Archive(path.name, path.stat().st_size, wheel.dist_info_data("METADATA"), members, unpacked, flaws)


def _flaws(infos: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    if infos and min(info.header_offset for info in infos):
        yield "it begins with bytes before its zip file"
    for info in infos:
        if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
            yield f"{info.filename!r} is neither stored nor deflated"
        if info.flag_bits & 8:
            yield f"{info.filename!r} gives its size only after its content (a data descriptor)"
        if info.comment:
            yield f"{info.filename!r} has a comment"


def _sdist(path: Path) -> Archive:
    top = path.name.removesuffix(".tar.gz")
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = tuple(archive.getnames())
            found = f"{top}/PKG-INFO" in members and archive.getmember(f"{top}/PKG-INFO")
            file = archive.extractfile(found) if found and found.size <= MAX_PKG_INFO else None
            return Archive(path.name, path.stat().st_size, file.read() if file else b"", members)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise Rejected(f"{path.name} is not an sdist: {error}") from error
