"""Flawed zip files: names and places of members, and headers that say different things to different readers."""

from __future__ import annotations

import bz2
import lzma
import stat
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tests.proof.flawed.drafts import METADATA, PACKAGE, RECORD, Draft, Entry, Kind, deflate, draft, with_entry

INIT = "demo/__init__.py"
DATA = PACKAGE[INIT]
OTHER = b"raise SystemExit('another file')\n"
DATA_FOLDER = "demo-1.0.data"


def of(made: Draft) -> Kind:
    return Kind(made.write)


def added(files: Mapping[str, bytes]) -> Kind:
    """A good wheel with more members, RECORD with them."""
    return of(draft(files))


def headed(name: str = INIT, **fields: object) -> Kind:
    """A good wheel in which a member's headers have other fields: `local`, `central`, `both`, or its bytes."""
    return of(with_entry(name, lambda entry: entry._replace(**fields)))


def ended(**fields: object) -> Kind:
    """A good wheel whose end record has other fields."""
    return of(replace(draft(), end=fields))


def extra(number: int, data: bytes) -> bytes:
    return struct.pack("<HH", number, len(data)) + data


def zip64(*sizes: int) -> bytes:
    return extra(1, struct.pack(f"<{len(sizes)}Q", *sizes))


def unicode_path(name: str) -> bytes:
    return extra(0x7075, struct.pack("<BI", 1, zlib.crc32(INIT.encode())) + name.encode())


def streamed(crc: int | None = None, size: int | None = None, signature: bytes = b"PK\7\x08") -> Kind:
    """A wheel in which the sizes of a member follow its content."""
    content = deflate(DATA)
    sums = (zlib.crc32(DATA) if crc is None else crc, len(content), len(DATA) if size is None else size)
    after = signature + struct.pack("<III", *sums)
    local = {"flags": 0x808, "crc": 0, "packed": 0, "size": 0}
    return headed(local=local, central={"flags": 0x808}, packed=content, after=after)


def twice(name: str, data: bytes, *, at: int = 99) -> Kind:
    """A wheel with a member a second time."""
    base = draft()
    members = [*base.members]
    members.insert(at, (name, Entry(data)))
    return of(replace(base, members=tuple(members)))


def lzma_of(data: bytes) -> bytes:
    packer = lzma.LZMACompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "preset": 6}])
    return b"\x09\x04\x05\0\x5d\0\0\x80\0" + packer.compress(data) + packer.flush()


def bytes_of(change: Callable[[bytes], bytes]) -> Kind:
    """A good wheel whose bytes are changed at the end."""

    def make(folder: Path) -> Path:
        path = draft().write(folder)
        path.write_bytes(change(path.read_bytes()))
        return path

    return Kind(make)


def sharing(base: Draft) -> Draft:
    """Two members of the directory at one place of the file."""
    (name, entry), *others = base.members
    second = ("demo/other.py", entry._replace(central={"offset": 0}, local={"name": name.encode()}))
    return replace(base, members=((name, entry), second, *others))


PATHS: dict[str, Kind] = {
    "path-above": added({"../evil.py": b""}),
    "path-above-inside": added({"demo/../../evil.py": b""}),
    "path-above-but-stays": added({"demo/x/../a.py": b""}),
    "path-absolute": added({"/evil.py": b""}),
    "path-backslash": added({"demo\\a.py": b""}),
    "path-drive": added({"C:/evil.py": b""}),
    "path-dot": twice("demo/./__init__.py", OTHER),
    "path-dot-first": twice("./demo/__init__.py", OTHER),
    "path-double-slash": twice("demo//__init__.py", OTHER),
    "path-dot-listed": added({"demo/./a.py": b""}),
    "path-double-slash-listed": added({"demo//a.py": b""}),
    "path-empty": added({"": b""}),
    "path-newline": added({"demo/a\nb.txt": b""}),
    "path-nul": headed(both={"name": b"demo/__init__.py\0.txt"}),
    "path-not-utf8": of(
        with_entry("demo/a.txt", lambda e: e._replace(both={"name": b"demo/\xff\xfe.txt"}), {"demo/a.txt": b""})
    ),
    "path-cp437": of(
        with_entry("demo/ü.txt", lambda e: e._replace(both={"name": b"demo/\x81.txt", "flags": 0}), {"demo/ü.txt": b""})
    ),
    "path-utf8-unflagged": of(with_entry("demo/ü.txt", lambda e: e._replace(both={"flags": 0}), {"demo/ü.txt": b""})),
    "path-component-too-long": added({f"demo/{'a' * 256}.txt": b""}),
    "path-component-too-long-in-bytes": added({f"demo/{'ü' * 130}.txt": b""}),
    "path-too-long": added({"/".join(["demo", *["d" * 200] * 21, "a.txt"]): b""}),
    "path-too-long-for-windows": added({"/".join(["demo", *["d" * 50] * 6, "a.txt"]): b""}),
    "path-with-space": added({"demo/a b.txt": b""}),
    "path-not-ascii": added({"demo/größe.txt": b""}),
    "path-of-two-spellings": added({"demo/\u00fc.txt": b"", "demo/u\u0308.txt": b""}),
    "path-right-to-left": added({"demo/a\u202etxt.py": b""}),
    "file-and-folder": added({"demo/a": b"", "demo/a/b.py": b""}),
    "file-and-folder-entry": of(
        replace(draft({"demo/a": b""}), members=(*draft({"demo/a": b""}).members, ("demo/a/", Entry(b"", 0o40755))))
    ),
    "file-and-folder-in-data": added({f"{DATA_FOLDER}/purelib/demo/__init__.py/x.py": b""}),
    "file-twice-through-data": added({f"{DATA_FOLDER}/purelib/demo/__init__.py": OTHER}),
    "folder-with-content": of(replace(draft(), members=(*draft().members, ("demo/sub/", Entry(b"x", 0o40755))))),
    "folder-empty": of(replace(draft(), members=(*draft().members, ("demo/sub/", Entry(b"", 0o40755))))),
    "case-clash": added({"demo/A.txt": b"1", "demo/a.txt": b"2"}),
    "windows-reserved": added({"demo/con.txt": b""}),
    "windows-forbidden": added({"demo/a:b.txt": b""}),
    "data-unknown-scheme": added({f"{DATA_FOLDER}/library/a.py": b""}),
    "data-no-scheme": added({f"{DATA_FOLDER}/a.py": b""}),
    "data-of-another": added({"other-1.0.data/purelib/a.py": b""}),
    "data-above": added({f"{DATA_FOLDER}/purelib/../../a.py": b""}),
    "data-script-binary-name": added({f"{DATA_FOLDER}/scripts/sub/run": b"#!python\n"}),
    "data-headers": added({f"{DATA_FOLDER}/headers/demo.h": b""}),
    "dist-info-twice": added({"other-2.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: other\nVersion: 2.0\n"}),
    "dist-info-case": added({"Demo-1.0.DIST-INFO/x": b""}),
    "egg-info-left": added({"demo.egg-info/PKG-INFO": b"Metadata-Version: 1.0\nName: demo\nVersion: 1.0\n"}),
    "twice-other": twice(INIT, OTHER),
    "twice-other-first": twice(INIT, OTHER, at=0),
    "twice-same": twice(INIT, DATA),
    "twice-record": twice(RECORD, b""),
    "link": headed(mode=stat.S_IFLNK | 0o777),
    "link-out": of(with_entry("demo/l", lambda e: e._replace(mode=stat.S_IFLNK | 0o777), {"demo/l": b"/etc/passwd"})),
    "fifo": headed(mode=stat.S_IFIFO | 0o644),
    "setuid": headed(mode=0o104755),
    "unreadable-mode": headed(mode=0o100000),
    "mode-zero": headed(mode=0),
    "writable-by-all": headed(mode=0o100666),
}
HEADERS: dict[str, Kind] = {
    "local-name": headed(local={"name": b"demo/__onit__.py"}),
    "local-name-longer": headed(local={"name": b"demo/__init__.py.txt"}),
    "local-size": headed(local={"size": 3}),
    "local-packed": headed(local={"packed": 3}),
    "local-crc": headed(local={"crc": 3}),
    "local-zero-sizes": headed(local={"crc": 0, "packed": 0, "size": 0}),
    "local-method": headed(local={"method": 0}),
    "local-encrypted": headed(local={"flags": 0x801}),
    "local-utf8-flag": headed(local={"flags": 0}),
    "local-streamed-flag": headed(local={"flags": 0x808}),
    "local-signature": headed(local={"signature": b"PK\3\5"}),
    "local-extra-cut": headed(local={"extra": b"\1\0\xff\0"}),
    "local-zip64-other": headed(local={"extra": zip64(3, 3), "size": 0xFFFFFFFF, "packed": 0xFFFFFFFF}),
    "local-version": headed(local={"version": 45}),
    "encrypted": headed(both={"flags": 0x801}),
    "strong-encryption": headed(both={"flags": 0x841}),
    "masked-headers": headed(both={"flags": 0x2800}),
    "patched-data": headed(both={"flags": 0x820}),
    "central-crc": headed(central={"crc": 3}),
    "both-crc": headed(both={"crc": 3}),
    "both-size-short": headed(both={"size": 3}),
    "both-size-long": headed(both={"size": 300}),
    "both-packed-long": headed(both={"packed": 300}),
    "deflate-cut": headed(packed=deflate(DATA)[:-8]),
    "deflate-broken": headed(packed=b"\xff" * 20),
    "deflate-trailing": headed(packed=deflate(DATA) + b"more"),
    "version-needed-99": headed(both={"version": 99}),
    "unicode-path": headed(both={"extra": unicode_path("demo/other.py")}),
    "unicode-path-local": headed(local={"extra": unicode_path("demo/other.py")}),
    "unicode-path-same": headed(both={"extra": unicode_path(INIT)}),
    "central-zip64-other": headed(central={"extra": zip64(3), "size": 0xFFFFFFFF}),
    "central-zip64-unused": headed(central={"extra": zip64(len(DATA))}),
    "central-extra-cut": headed(central={"extra": b"\1\0\xff\0"}),
    "central-extra-twice": headed(central={"extra": zip64(len(DATA)) * 2, "size": 0xFFFFFFFF}),
    "member-comment": headed(central={"comment": b"hello"}),
    "member-on-disk-2": headed(central={"start": 2}),
    "streamed": streamed(),
    "streamed-without-signature": streamed(signature=b""),
    "streamed-other-crc": streamed(crc=5),
    "streamed-other-size": streamed(size=5),
    "stored": headed(both={"method": 0}, packed=DATA),
    "stored-streamed": headed(
        local={"flags": 0x808, "crc": 0, "packed": 0, "size": 0, "method": 0},
        central={"flags": 0x808, "method": 0},
        packed=DATA,
        after=struct.pack("<4sIII", b"PK\7\x08", zlib.crc32(DATA), len(DATA), len(DATA)),
    ),
    "bzip2": headed(both={"method": 12}, packed=bz2.compress(DATA)),
    "lzma": headed(both={"method": 14, "version": 63, "flags": 0x802}, packed=lzma_of(DATA)),
    "zstd": headed(both={"method": 93}, packed=b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"),
    "deflate64": headed(both={"method": 9}),
    "unknown-method": headed(both={"method": 77}),
    "gap": headed(METADATA, before=b"between"),
    "hidden-member": headed(
        METADATA, before=b"PK\3\4" + struct.pack("<5H3I2H", 20, 0, 0, 0, 0, 0, 0, 0, 6, 0) + b"x/y.py"
    ),
    "overlap": of(sharing(draft())),
    "prefix": of(replace(draft(), before=b"#!/bin/sh\nexit 0\n")),
    "prefix-shifted": bytes_of(lambda data: b"#!/bin/sh\nexit 0\n" + data),
    "after-end": of(replace(draft(), after=b"more")),
    "end-comment": ended(comment=b"a comment"),
    "end-comment-length": ended(length=50),
    "end-comment-short": ended(comment=b"a comment", length=3),
    "end-comment-of-zip": ended(comment=b"PK\5\6" + bytes(18)),
    "end-count-fewer": ended(count=3),
    "end-count-more": ended(count=9),
    "end-size": ended(size=10),
    "end-offset": ended(offset=10),
    "end-disk": ended(disk=3),
    "end-between": ended(between=b"between"),
    "end-zip64-lonely": ended(between=struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)),
    "end-zip64-other": ended(
        between=struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 60, 0)
        + struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)
    ),
    "cut": bytes_of(lambda data: data[:-30]),
    "two-zips": bytes_of(lambda data: data + data),
    "empty-file": bytes_of(lambda _: b""),
    "text-file": bytes_of(lambda _: b"<html>404</html>\n"),
    "gzip-file": bytes_of(lambda data: b"\x1f\x8b\x08" + data),
    "empty-zip": of(Draft()),
    "bomb": headed(both={"size": 1 << 31}, packed=deflate(bytes(1 << 20))),
}
KINDS = {**PATHS, **HEADERS}
