"""Prints what LIEF and macholib read of each Mach-O file of a wheel; it runs in an environment that has them."""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

import lief  # type: ignore[import-not-found]
from macholib.MachO import MachO, MachOHeader  # type: ignore[import-not-found]

MAGIC = {bytes.fromhex(text) for text in ("cafebabe", "cafebabf", "cffaedfe", "cefaedfe", "feedfacf", "feedface")}
MACHINES = {"ARM64": "arm64", "X86_64": "x86_64"}
NEEDS = ("LC_LOAD_DYLIB", "LC_LOAD_WEAK_DYLIB", "LC_REEXPORT_DYLIB", "LC_LAZY_LOAD_DYLIB")
LOADED = ("DYLIB", "BUNDLE")
STAB, TYPE, EXTERNAL = 0xE0, 0xE, 0x1  # of n_type


def by_lief(part: lief.MachO.Binary) -> dict[str, Any]:
    """Return what LIEF reads of one part, and the names in the tree by which the loader finds symbols."""
    kinds = lief.MachO.LoadCommand.TYPE
    minimum = None
    if part.has_build_version or part.has_version_min:
        minimum = part.build_version.minos if part.has_build_version else part.version_min.version
    found = {
        "machine": MACHINES.get(part.header.cpu_type.name, ""),
        "minimum": minimum and list(minimum[:2]),
        "name": "".join(str(one.name) for one in part.commands if one.command == kinds.ID_DYLIB),
        "needed": [
            [str(one.name), one.command == kinds.LOAD_WEAK_DYLIB]
            for one in part.libraries
            if one.command != kinds.ID_DYLIB
        ],
        "run_paths": [str(one.path) for one in part.rpaths],
        "required": names(one for one in part.symbols if one.raw_type & (STAB | TYPE) == 0 and one.raw_type & EXTERNAL),
    }
    if part.header.file_type.name in LOADED:
        tree = part.dyld_exports_trie if part.has_dyld_exports_trie else part.dyld_info
        found["defined"] = names(one.symbol for one in tree.exports)
    return found


def names(symbols: Iterator[Any]) -> list[str]:
    """Return the names in order, without the underscore that C puts before each."""
    return sorted({str(one.name).removeprefix("_") for one in symbols})


def by_macholib(header: MachOHeader) -> dict[str, Any]:
    """Return what macholib reads of one part."""
    found: dict[str, Any] = {"minimum": None, "name": "", "needed": [], "run_paths": []}
    for load, command, data in header.commands:
        kind = load.get_cmd_name()
        text = data.partition(b"\0")[0].decode("utf-8", "replace") if isinstance(data, bytes) else ""
        if kind in NEEDS:
            found["needed"].append([text, kind == "LC_LOAD_WEAK_DYLIB"])
        elif kind == "LC_RPATH":
            found["run_paths"].append(text)
        elif kind == "LC_ID_DYLIB":
            found["name"] = text
        elif kind in ("LC_BUILD_VERSION", "LC_VERSION_MIN_MACOSX"):
            number = int(command.minos if kind == "LC_BUILD_VERSION" else command.version)
            found["minimum"] = [number >> 16, number >> 8 & 0xFF]
    return found


def read(content: bytes) -> list[list[dict[str, Any]]]:
    """Return the two readings of each part."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        headers = MachO(file.name).headers
    whole = lief.MachO.parse(list(content))  # its parts end with it
    return [[by_lief(part), by_macholib(header)] for part, header in zip(whole, headers, strict=True)]


def main(wheel: str) -> None:
    """Print the readings by the files' names."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    json.dump({name: read(content) for name, content in files.items() if content[:4] in MAGIC}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
