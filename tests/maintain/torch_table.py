"""Adds a torch release to the symbol tables: `python -m tests.maintain.torch_table 2.16.0`, for maintainers.

The libraries are read from the Linux wheels on the package index, those for the oldest Python. From the x86-64 wheel
come the libraries of every build and those of CUDA builds only. From the Arm wheel come the libraries of every build
again, since a few names differ there. Each library is downloaded as a whole, because patchelf, which torch's wheels go
through, moves the names to the end of the file. Beside them only the RECORD of each wheel is downloaded, and that of
the wheel that `torch.toml` names for its headers: by its sha256 the parts of these wheels are known.
"""

from __future__ import annotations

import functools
import hashlib
import io
import lzma
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from packaging.utils import parse_wheel_filename
from rich.console import Console

from ci_tools import catalog
from ci_tools.catalog import Headers
from ci_tools.catalog.symbols import (
    C_TABLE,
    CPP_TABLE,
    FOLDER,
    RELEASES,
    STANDARD_TABLE,
    Source,
    Tables,
    is_torch_symbol,
    tables,
)
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.machine.context import Reporter
from ci_tools.machine.package_index import Index, files_of, users_index
from ci_tools.machine.process import output
from ci_tools.machine.remote_wheel import RemoteWheel, remote_wheel
from ci_tools.model.names import Sha256
from ci_tools.model.versions import Minor

EVERY_BUILD = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")
CUDA_BUILDS = ("libc10_cuda.so", "libtorch_cuda.so")
CPU_LIBRARY = "libtorch_cpu.so"
LIBRARIES = {"x86_64": EVERY_BUILD + CUDA_BUILDS, "aarch64": EVERY_BUILD}


def add(patch: str, folder: Path, *, index: Index, reporter: Reporter) -> None:
    """Add a release of torch, such as `2.15.0`, to the tables in `folder`; it replaces one of the same minor version.

    Raises InputError if the index has no such wheels, MachineError if it does not answer.
    """
    version = Minor.parse(patch.rpartition(".")[0])
    every: set[str] = set()
    cuda: set[str] = set()
    standard: list[frozenset[str]] = []
    names = []
    records = {}
    with files_of("torch", index) as (session, addresses):
        for machine, libraries in LIBRARIES.items():
            name = select_wheel(addresses, patch, machine)
            names.append(name)
            with reporter.step(name) as step, remote_wheel(session, addresses[name]) as wheel:
                records[name] = _read_record(wheel, name)
                for library in libraries:
                    found = _read_exports(wheel, f"torch/lib/{library}")
                    (cuda if library in CUDA_BUILDS else every).update(filter(is_torch_symbol, found))
                    if library == CPU_LIBRARY:
                        standard.append(found & _standard_library())
                    step.progress(wheel.file.fetched, wheel.file.size)
                step.result(f"{len(every):,} and {len(cuda):,} symbols in {wheel.file.fetched:,} bytes")
        for name in {headers.file for headers in _headers_of(version, patch)} & addresses.keys():
            with remote_wheel(session, addresses[name]) as wheel:
                records[name] = _read_record(wheel, name)
    known = tables(folder) if (folder / RELEASES).exists() else Tables((), {}, {})
    source = Source(version, patch, tuple(names), tuple(records.items()))
    write_tables(_add_release(known, source, every, cuda - every, {*frozenset.intersection(*standard)}), folder)


def _headers_of(version: Minor, patch: str) -> Iterator[Headers]:
    """Yield the wheel that the catalog names for a release's headers, if it is of this patch release."""
    release = catalog.load().torch.get(version)
    if release and release.headers and release.patch == patch:
        yield release.headers


@functools.cache
def _standard_library() -> frozenset[str]:
    """Return the symbols of this machine's libstdc++."""
    path = Path(output(["c++", "-print-file-name=libstdc++.so.6"]) or "")
    if not path.is_file():
        raise MachineError("there is no libstdc++ beside the C++ compiler (c++ -print-file-name=libstdc++.so.6)")
    with path.open("rb") as file:
        return _exports(file)


def _read_record(wheel: RemoteWheel, name: str) -> Sha256:
    with io.BytesIO() as sink:
        wheel.copy("{}-{}.dist-info/RECORD".format(*name.split("-")), sink)
        return Sha256(hashlib.sha256(sink.getvalue()).hexdigest())


def select_wheel(names: Iterable[str], patch: str, machine: str) -> str:
    """Return the wheel for the oldest Python, with the highest build number."""
    found = [name for name in names if name.startswith(f"torch-{patch}-") and name.endswith(f"_{machine}.whl")]
    if not found:
        versions = {name.split("-")[1] for name in names if name.endswith(".whl")}
        raise InputError(f'the package index has no torch "{patch}" for Linux on {machine}, {nearest(patch, versions)}')
    return min(found, key=_age)


def _age(name: str) -> tuple[int, bool, int]:
    _, _, build, tags = parse_wheel_filename(name)
    tag = next(iter(tags))
    return int(tag.interpreter.removeprefix("cp")), tag.abi.endswith("t"), -build[0] if build else 0


def _read_exports(wheel: RemoteWheel, member: str) -> frozenset[str]:
    """Return the symbols that a library of a wheel exports; none if the wheel has no such library."""
    if member not in wheel.names:
        return frozenset()
    with tempfile.TemporaryFile() as file:
        wheel.copy(member, file)
        return _exports(file)


def _exports(library: BinaryIO) -> frozenset[str]:
    found = read_elf(Extent.whole(library)).symbols(".dynsym")
    return frozenset(symbol.name for symbol in found if symbol.section and symbol.is_visible)


def _add_release(known: Tables, source: Source, every: set[str], cuda: set[str], standard: set[str]) -> Tables:
    """Return the tables with a release added, which replaces one of the same minor version."""
    others = [one for one in known.sources if one.version != source.version]
    combined = Tables(tuple(sorted([*others, source])), {}, {}, {})
    for old, new, found in (
        (known.every_build, combined.every_build, every),
        (known.cuda_builds, combined.cuda_builds, cuda),
        (known.standard, combined.standard, standard),
    ):
        for name in old.keys() | found:
            releases = old.get(name, frozenset()) - {source.version}
            new[name] = releases | {source.version} if name in found else releases  # type: ignore[index]
    return Tables(combined.sources, *map(_some, combined[1:]))


def _some(symbols: Mapping[str, frozenset[Minor]]) -> dict[str, frozenset[Minor]]:
    return {name: releases for name, releases in symbols.items() if releases}


# ---------------------------------------------------------------- the files


def write_tables(table: Tables, folder: Path) -> None:
    """Write the tables to `folder`, sorted, so that the same symbols always give the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = sorted(_lines(table))
    (folder / RELEASES).write_text("\n".join(map(_format_source, table.sources)), encoding="utf-8")
    c_lines = [line for line in lines if not line.startswith("_Z")]
    (folder / C_TABLE).write_text("".join(c_lines), encoding="utf-8")
    standard = [line for line in lines if "\tstandard\t" in line]
    (folder / STANDARD_TABLE).write_text("".join(standard), encoding="utf-8")
    cpp_text = "".join(line for line in lines if line.startswith("_Z") and "\tstandard\t" not in line)
    (folder / CPP_TABLE).write_bytes(lzma.compress(cpp_text.encode(), preset=9))


def _format_source(source: Source) -> str:
    wheels = "".join(f'  "{wheel}",\n' for wheel in source.wheels)
    lines = "".join(f'"{file}" = "{sha256}"\n' for file, sha256 in source.records)
    listed = f"[release.records]\n{lines}" if lines else ""
    return f'[[release]]\nversion = "{source.version}"\npatch = "{source.patch}"\nwheels = [\n{wheels}]\n{listed}'


def _lines(table: Tables) -> Iterator[str]:
    ranges = functools.cache(lambda found: ",".join(_ranges(found, table.releases)))
    kinds = {"every": table.every_build, "cuda": table.cuda_builds, "standard": table.standard}
    for builds, symbols in kinds.items():
        for name, found in symbols.items():
            yield f"{name}\t{builds}\t{ranges(found)}\n"


def _ranges(found: frozenset[Minor], releases: Sequence[Minor]) -> Iterator[str]:
    """Yield the releases as ranges of consecutive ones: `2.6-2.8`, `2.10`."""
    run: list[Minor] = []
    for release in (*releases, None):
        if release in found:
            run.append(release)
        elif run:
            yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
            run = []


def main(patches: Sequence[str]) -> None:
    """Add each of these releases to the tables."""
    for patch in patches:
        tables.cache_clear()
        add(patch, FOLDER, index=users_index(os.environ), reporter=TerminalReporter(lambda: Console(stderr=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
