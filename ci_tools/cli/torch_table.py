"""Adds a torch release to the symbol tables: `python -m ci_tools.cli.torch_table 2.16.0`, for maintainers.

The libraries are read from the Linux wheels on the package index, those for the oldest Python. From the x86-64 wheel
come the libraries of every build and those of CUDA builds only. From the Arm wheel come the libraries of every build
again, since a few names differ there. Each library is downloaded as a whole, because patchelf, which torch's wheels go
through, moves the names to the end of the file. Nothing else of a wheel is downloaded.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from rich.console import Console

from ci_tools.catalog.symbols import (
    FOLDER,
    RELEASES,
    Source,
    Tables,
    is_torch_symbol,
    tables,
    write_tables,
)
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.errors import InputError, nearest
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.machine.package_index import files_of, users_index
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.machine.context import Reporter
    from ci_tools.machine.package_index import Index
    from ci_tools.machine.remote_wheel import RemoteWheel

EVERY_BUILD = ("libc10.so", "libtorch.so", "libtorch_cpu.so", "libtorch_python.so")
CUDA_BUILDS = ("libc10_cuda.so", "libtorch_cuda.so")
LIBRARIES = {"x86_64": EVERY_BUILD + CUDA_BUILDS, "aarch64": EVERY_BUILD}


def add(patch: str, folder: Path, *, index: Index, reporter: Reporter) -> None:
    """Add a release of torch, such as `2.15.0`, to the tables in `folder`; it replaces one of the same minor version.

    Raises InputError if the index has no such wheels, MachineError if it does not answer.
    """
    version = Minor.parse(patch.rpartition(".")[0])
    every: set[str] = set()
    cuda: set[str] = set()
    names = []
    with files_of("torch", index) as (session, addresses):
        for machine, libraries in LIBRARIES.items():
            name = _select_wheel(addresses, patch, machine)
            names.append(name)
            with reporter.step(name) as step, remote_wheel(session, addresses[name]) as wheel:
                for library in libraries:
                    (cuda if library in CUDA_BUILDS else every).update(_read_exports(wheel, f"torch/lib/{library}"))
                    step.progress(wheel.file.fetched, wheel.file.size)
                step.result(f"{len(every):,} and {len(cuda):,} symbols in {wheel.file.fetched:,} bytes")
    known = tables(folder) if (folder / RELEASES).exists() else Tables((), {}, {})
    write_tables(_add_release(known, Source(version, patch, tuple(names)), every, cuda - every), folder)


def _select_wheel(names: Iterable[str], patch: str, machine: str) -> str:
    """Return the wheel for the oldest Python, with the highest build number."""
    found = [name for name in names if name.startswith(f"torch-{patch}-") and name.endswith(f"_{machine}.whl")]
    if not found:
        versions = {name.split("-")[1] for name in names if name.endswith(".whl")}
        msg = f'the package index has no torch "{patch}" for Linux on {machine}, {nearest(patch, versions)}'
        raise InputError(msg)
    return min(found, key=_age)


def _age(name: str) -> tuple[int, bool, int]:
    _, _, build, tags = parse_wheel_filename(name)
    tag = next(iter(tags))
    return int(tag.interpreter.removeprefix("cp")), tag.abi.endswith("t"), -build[0] if build else 0


def _read_exports(wheel: RemoteWheel, member: str) -> Iterator[str]:
    """Yield torch's own symbols that a library of a wheel exports; none if the wheel has no such library."""
    if member not in wheel.names:
        return
    with tempfile.TemporaryFile() as file:
        wheel.copy(member, file)
        for symbol in read_elf(Extent.whole(file)).symbols(".dynsym"):
            if symbol.section and symbol.is_visible and is_torch_symbol(symbol.name):
                yield symbol.name


def _add_release(known: Tables, source: Source, every: set[str], cuda: set[str]) -> Tables:
    """Return the tables with a release added, which replaces one of the same minor version."""
    others = [one for one in known.sources if one.version != source.version]
    combined = Tables(tuple(sorted([*others, source])), {}, {})
    for old, new, found in (
        (known.every_build, combined.every_build, every),
        (known.cuda_builds, combined.cuda_builds, cuda),
    ):
        for name in old.keys() | found:
            releases = old.get(name, frozenset()) - {source.version}
            new[name] = releases | {source.version} if name in found else releases  # type: ignore[index]
    return Tables(combined.sources, _some(combined.every_build), _some(combined.cuda_builds))


def _some(symbols: Mapping[str, frozenset[Minor]]) -> dict[str, frozenset[Minor]]:
    return {name: releases for name, releases in symbols.items() if releases}


def main(patches: Sequence[str]) -> None:
    """Add each of these releases to the tables."""
    for patch in patches:
        tables.cache_clear()
        add(patch, FOLDER, index=users_index(os.environ), reporter=TerminalReporter(lambda: Console(stderr=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
