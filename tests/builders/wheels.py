"""Real wheels and libraries for tests: a good one in a line, and one like it that is wrong in a single way."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import platform
import struct
import zipfile
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from tests.builders.compiled import compiled

PURE = "demo-1.0-py3-none-any.whl"
MACHINE = platform.machine()  # what gcc compiles for
LINUX = f"demo-1.0-py3-none-linux_{MACHINE}.whl"
ABI3 = f"demo-1.0-cp310-abi3-linux_{MACHINE}.whl"
PACKAGE = {"demo/__init__.py": b'"""A package."""\n', "demo/run.sh": b"#!/bin/sh\n"}
PTX, SASS, LTO = 1, 2, 8
YESTERDAY = (2024, 2, 29, 12, 0, 0)


def make(folder: Path, name: str = PURE, files: Mapping[str, bytes] | None = None, fields: str = "") -> Path:
    """Write a good wheel of that name; `fields` are more lines of METADATA."""
    stem, python, abi, platform = name.removesuffix(".whl").rsplit("-", 3)
    project, version, *build = stem.split("-")
    kind = (
        ""
        if "Description-Content-Type" in fields or fields.startswith("\n")
        else "Description-Content-Type: text/plain\n"
    )
    said = f"Name: {project}\nVersion: {version}\nLicense: MIT\n{kind}{fields}"
    metadata = f"Metadata-Version: 2.1\n{said}\nWhat it is.\n"
    purelib = str(platform == "any").lower()
    tags = "".join(
        f"Tag: {p}-{a}-{m}\n" for p in python.split(".") for a in abi.split(".") for m in platform.split(".")
    )
    number = "".join(f"Build: {text}\n" for text in build)
    members = dict(PACKAGE if files is None else files)
    members[f"{project}-{version}.dist-info/METADATA"] = metadata.encode()
    members[f"{project}-{version}.dist-info/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {purelib}\n{number}{tags}".encode()
    )
    described = {"name": project, "version": version, "purl": f"pkg:pypi/{project}@{version.replace('+', '%2B')}"}
    sbom = {"bomFormat": "CycloneDX", "specVersion": "1.6", "metadata": {"component": described}}
    members[f"{project}-{version}.dist-info/sboms/fatwheel.cdx.json"] = json.dumps(sbom).encode()
    return pack(folder / name, recorded(members))


def edited(wheel: Path, changes: Mapping[str, bytes | None], *, record: bool = True, name: str = "") -> Path:
    """Write the wheel again with some members changed, added, or (None) left out; `record` mends RECORD too."""
    members: dict[str, bytes] = {
        **members_of(wheel),
        **{name: data for name, data in changes.items() if data is not None},
    }
    members = {member: data for member, data in members.items() if changes.get(member, data) is not None}
    return pack(wheel.with_name(name or wheel.name), recorded(members) if record else members)


def members_of(wheel: Path) -> dict[str, bytes]:
    """Return the content of every member."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def recorded(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the members with a RECORD that fits them."""
    own = next(name for name in members if name.endswith(".dist-info/WHEEL")).replace("WHEEL", "RECORD")
    rows = [f"{name},{digest(data)},{len(data)}\n" for name, data in members.items() if name != own]
    return {**members, own: "".join([*rows, f"{own},,\n"]).encode()}


def digest(data: bytes) -> str:
    """Return a hash as RECORD spells it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def pack(path: Path, members: Mapping[str, bytes], time: tuple[int, int, int, int, int, int] = YESTERDAY) -> Path:
    """Write a zip file; what is named `.sh` may be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, time)
            info.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def library(source: str, language: str = "c") -> bytes:
    """Return a shared library compiled by gcc, from C or `assembler`."""
    return compiled(source, ("-nostdlib", "-x", language, "-"))


def linked(source: str, *flags: str, needs: str = "") -> bytes:
    """Return a shared library that gcc linked with the C library, and with another one of the name `needs`."""
    other = ("-x", "none", "-Wl,--no-as-needed", "./other.so") if needs else ()
    beside = linked("int other;", f"-Wl,-soname,{needs}") if needs else b""
    return compiled(source, ("-x", "c", "-", *flags, *other), beside)


@functools.cache
def with_section(name: str, content: bytes) -> bytes:
    """Return a shared library with a section of that name and content."""
    numbers = ",".join(map(str, content))
    return library(f'.section {name},"a"\n' + (f".byte {numbers}\n" if content else ""), "assembler")


def entry(kind: int, arch: int, flags: int = 0, *, header: int = 64, size: int = 24) -> bytes:
    """Return one device image of a fatbinary, its content no code at all."""
    head = struct.pack("<HHIQ12xI8xQ", kind, 0x101, header, size, arch, flags)
    return head.ljust(header, b"\1") + b"\2" * size


def unit(*entries: bytes, magic: int = 0xBA55ED50, header: int = 16, more: int = 0) -> bytes:
    """Return the fatbinary of one compilation unit; it claims `more` bytes than it has."""
    content = b"".join(entries)
    return struct.pack("<IHHQ", magic, 1, header, len(content) + more).ljust(header, b"\1") + content


class Links(HTMLParser):
    """Collects what the links of a page name, and the hash each gives."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.page = page
        self.found: list[tuple[Path, str]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a link."""
        address, _, fragment = (dict(attrs).get("href") or "").partition("#")
        if tag == "a":
            self.found.append((self.page.parent / unquote(address), fragment.removeprefix("sha256=")))


def listed(root: Path, folder: str, project: str = "demo") -> list[str]:
    """Return the files that a project's page names in one accelerator's index."""
    return [file.name for file, _ in Links(root / folder / project / "index.html").found]


def broken(root: Path) -> list[str]:
    """Return every link of a folder index that does not name a whole file, or a page that is there."""
    links = [link for page in root.rglob("index.html") for link in Links(page).found]
    bad = {str(file) for file, sha256 in links if sha256 and (not file.is_file() or hexdigest(file) != sha256)}
    pages = [page for page, sha256 in links if not sha256]
    return sorted(bad | {str(page) for page in pages if not (page / "index.html").is_file()})


def hexdigest(file: Path) -> str:
    """Return a file's sha256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
