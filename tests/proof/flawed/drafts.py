"""Wheels on their way to the disk, in which each field of the zip file can be wrong (APPNOTE.TXT, 4.3)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.builders.wheels import MACHINE, PURE, digest

INFO = "demo-1.0.dist-info"
RECORD, METADATA, WHEEL, ENTRY_POINTS = (
    f"{INFO}/{name}" for name in ("RECORD", "METADATA", "WHEEL", "entry_points.txt")
)
PACKAGE = {"demo/__init__.py": b'"""A package."""\n\n\ndef main():\n    """Start."""\n'}
FIELDS = """\
Metadata-Version: 2.4
Name: demo
Version: 1.0
Summary: A package.
License-Expression: MIT
Description-Content-Type: text/plain

What it is.
"""
GLIBC = f"demo-1.0-cp311-cp311-manylinux_2_17_{MACHINE}.manylinux2014_{MACHINE}.whl"
DEFLATED = 8
LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
HEADER = {"version": 20, "flags": 0x800, "method": DEFLATED, "time": 0, "date": 0x5862}  # 2024-03-02


class Kind(NamedTuple):
    """A kind of flawed wheel: how it is made, and what a user of it imports under which Pythons."""

    make: Callable[[Path], Path]
    imports: str = "demo"
    pythons: tuple[str, ...] = ()  # empty: those of its tag


class Entry(NamedTuple):
    """A member: its content and mode, and the fields of its two headers that differ from the usual."""

    data: bytes
    mode: int = 0o100644
    both: Mapping[str, Any] = {}
    local: Mapping[str, Any] = {}
    central: Mapping[str, Any] = {}
    before: bytes = b""
    packed: bytes | None = None  # None: its data, deflated
    after: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A wheel: its file name, its members, and the fields of its end record that differ from the usual."""

    name: str = PURE
    members: tuple[tuple[str, Entry], ...] = ()
    end: Mapping[str, Any] = field(default_factory=dict)
    before: bytes = b""
    after: bytes = b""

    def write(self, folder: Path) -> Path:
        """Write it, and return its path."""
        content, directory = self.before, b""
        for name, entry in self.members:
            content += entry.before
            fields = _fields(name, entry, len(content))
            content += _local(fields | entry.both | entry.local) + fields["content"] + entry.after
            directory += _central(fields | entry.both | entry.central)
        size = {"count": len(self.members), "size": len(directory), "offset": len(content), "comment": b"", "disk": 0}
        end = size | {"length": len(self.end.get("comment", b""))} | self.end
        numbers = (end["disk"], 0, end["count"], end["count"], end["size"], end["offset"], end["length"])
        between = end.get("between", b"")
        path = folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content + directory + between + END.pack(b"PK\5\6", *numbers) + end["comment"] + self.after)
        return path


def deflate(data: bytes) -> bytes:
    """Return data as members of zip files have it: without the header of zlib. zlib.compress has `wbits` since 3.11."""
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


def _fields(name: str, entry: Entry, offset: int) -> dict[str, Any]:
    content = deflate(entry.data) if entry.packed is None else entry.packed
    return HEADER | {
        "name": name.encode(),
        "content": content,
        "crc": zlib.crc32(entry.data),
        "packed": len(content),
        "size": len(entry.data),
        "extra": b"",
        "attributes": entry.mode << 16,
        "offset": offset,
    }


def _local(fields: Mapping[str, Any]) -> bytes:
    numbers = (fields[key] for key in ("version", "flags", "method", "time", "date", "crc", "packed", "size"))
    lengths = len(fields["name"]), len(fields["extra"])
    return LOCAL.pack(fields.get("signature", b"PK\3\4"), *numbers, *lengths) + fields["name"] + fields["extra"]


def _central(fields: Mapping[str, Any]) -> bytes:
    numbers = (fields[key] for key in ("version", "flags", "method", "time", "date", "crc", "packed", "size"))
    comment = fields.get("comment", b"")
    rest = (len(fields["name"]), len(fields["extra"]), len(comment), fields.get("start", 0), 0, fields["attributes"])
    head = CENTRAL.pack(b"PK\1\2", 0x314, *numbers, *rest, fields["offset"])
    return head + fields["name"] + fields["extra"] + comment


# ---------------------------------------------------------------- drafts


def wheel_text(name: str) -> str:
    """Return the WHEEL of a file name."""
    python, abi, platform = name.removesuffix(".whl").split("-")[-3:]
    tags = (f"Tag: {p}-{a}-{m}\n" for p in python.split(".") for a in abi.split(".") for m in platform.split("."))
    return f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {str(platform == 'any').lower()}\n{''.join(tags)}"


def members_of(name: str = PURE, files: Mapping[str, bytes | None] | None = None) -> dict[str, bytes]:
    """Return the members of a good wheel without a RECORD, some added, replaced or (None) left out."""
    base = {**PACKAGE, METADATA: FIELDS.encode(), WHEEL: wheel_text(name).encode(), **(files or {})}
    return {member: data for member, data in base.items() if data is not None}


def draft(files: Mapping[str, bytes | None] | None = None, name: str = PURE, *, record: bool = True) -> Draft:
    """Return the draft of a good wheel but for some files; `record`: with a RECORD that fits them."""
    members = members_of(name, files)
    rows = [f"{member},{digest(data)},{len(data)}\n" for member, data in members.items() if member != RECORD]
    found = {**members, RECORD: "".join([*rows, f"{RECORD},,\n"]).encode()} if record else members
    return Draft(name=name, members=tuple((member, Entry(data)) for member, data in found.items()))


def with_entry(name: str, changed: Callable[[Entry], Entry], files: Mapping[str, bytes | None] | None = None) -> Draft:
    """Return a good draft with one member changed on its way to the zip file."""
    base = draft(files)
    return replace(base, members=tuple((one, changed(e) if one == name else e) for one, e in base.members))
