"""Component archives and their list, of the shape of NVIDIA's redistributables."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class Component(NamedTuple):
    """One archive: its component, version and platform, and its bytes."""

    name: str
    version: str
    platform: str
    content: bytes

    @property
    def path(self) -> str:
        """Its path below the address, as NVIDIA names it."""
        file = f"{self.name}-{self.platform}-{self.version}-archive.tar.xz"
        return f"{self.name}/{self.platform}/{file}"


def pack(name: str, version: str, platform: str, members: Iterable[tuple[tarfile.TarInfo, bytes | None]]) -> Component:
    """Return an archive with members below the folder of its own name."""
    sink, top = io.BytesIO(), f"{name}-{platform}-{version}-archive"
    with tarfile.open(fileobj=sink, mode="w:xz", preset=0) as archive:
        for member, content in members:
            member.name = f"{top}/{member.name}"
            archive.addfile(member, io.BytesIO(content) if content is not None else None)
    return Component(name, version, platform, sink.getvalue())


def pack_files(name: str, version: str, platform: str, files: Mapping[str, bytes]) -> Component:
    """Return an archive of files; the content of a symbolic link is `-> TARGET`."""
    return pack(name, version, platform, (_member(path, content) for path, content in files.items()))


def _member(path: str, content: bytes) -> tuple[tarfile.TarInfo, bytes | None]:
    member = tarfile.TarInfo(path)
    if content.startswith(b"-> "):
        member.type, member.linkname = tarfile.SYMTYPE, content[3:].decode()
        return member, None
    member.size, member.mode = len(content), 0o755 if path.startswith("bin/") else 0o644
    return member, content


def pack_folder(name: str, version: str, platform: str, home: Path, patterns: Iterable[str]) -> Component:
    """Return an archive of what is in a folder and matches one of the patterns."""
    found = sorted({path for pattern in patterns for path in home.glob(pattern) if path.is_file()})
    members = []
    for path in found:
        content = path.read_bytes()
        member = tarfile.TarInfo(path.relative_to(home).as_posix())
        member.size, member.mode = len(content), path.stat().st_mode & 0o777
        members.append((member, content))
    return pack(name, version, platform, members)


def list_of(release: str, components: Iterable[Component]) -> bytes:
    """Return the list of a release, as NVIDIA writes it."""
    table: dict[str, object] = {"release_date": "2025-08-04", "release_label": release, "release_product": "cuda"}
    for one in components:
        said = {
            "relative_path": one.path,
            "sha256": hashlib.sha256(one.content).hexdigest(),
            "md5": hashlib.md5(one.content).hexdigest(),  # noqa: S324 - NVIDIA's lists have it
            "size": str(len(one.content)),
        }
        entry = table.setdefault(one.name, {"name": one.name, "license": "CUDA Toolkit", "version": one.version})
        entry[one.platform] = said  # type: ignore[index]  # it is a mapping
    return json.dumps(table).encode()
