"""Reads the contents of a plan's finished wheels, and of any wheel that is open: members, and symbols of libraries."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, BinaryIO

from ci_tools.errors import InputError
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.formats.magic import ELF_MAGIC
from ci_tools.formats.wheel import open_wheel
from ci_tools.model.published import Inside, Symbols

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from zipfile import ZipInfo

    from ci_tools.formats.wheel import Wheel
    from ci_tools.model.plan import Plan

__all__ = ["read_finished", "read_members", "read_symbols"]


def read_finished(folder: Path, plan: Plan) -> tuple[Mapping[str, Inside], tuple[str, ...]]:
    """Return the contents of a plan's wheels in a folder, by job, and notes about the others.

    Raises InputError if none is there, Rejected if one is damaged.
    """
    if not folder.is_dir():
        msg = f"--dist: there is no folder {folder}, expected one with wheels of this plan"
        raise InputError(msg)
    there = {path.name: path for path in folder.iterdir() if path.suffix == ".whl"}
    names = {job.name: [name for name in (job.wheel, job.public) if name in there] for job in plan.jobs}
    found = {name: there[files[0]] for name, files in names.items() if files}
    if not found:
        expected = f"one such as {plan.jobs[0].wheel}" if plan.jobs else "a plan with jobs"
        msg = f"--dist: {folder} has no wheel of this plan, expected {expected}"
        raise InputError(msg, hint="`fatwheel build` writes them, with the same config and source")
    strange = sorted(there.keys() - {name for job in plan.jobs for name in (job.wheel, job.public) if name})
    missing = [job.name for job in plan.jobs if job.name not in found]
    notes = [f"{folder / name} is not a wheel of this plan" for name in strange]
    if missing:
        notes.append(f"{folder} has no wheel of {', '.join(missing)}: compared as planned")
    return {name: _read_inside(path) for name, path in found.items()}, tuple(notes)


def _read_inside(path: Path) -> Inside:
    wheel = open_wheel(path)
    with wheel.archive:
        return Inside(read_members(wheel), read_symbols(wheel, wheel.libraries))


def read_members(wheel: Wheel) -> Mapping[str, int]:
    """Return the members of a wheel without dist-info, each with its bytes in the archive."""
    own = f"{wheel.dist_info}/"
    return {info.filename: info.compress_size for info in wheel.infos if not info.filename.startswith(own)}


def read_symbols(wheel: Wheel, infos: Iterable[ZipInfo]) -> Mapping[str, Symbols]:
    """Return the dynamic symbols of those members that are ELF files; raise Rejected if one is damaged."""
    found = {}
    for info in infos:
        with tempfile.TemporaryFile() as file:
            for chunk in wheel.chunks(info):
                file.write(chunk)
            file.seek(0)
            if file.read(len(ELF_MAGIC)) == ELF_MAGIC:
                found[info.filename] = _read_dynamic_symbols(file)
    return found


def _read_dynamic_symbols(library: BinaryIO) -> Symbols:
    symbols = tuple(read_elf(Extent.whole(library)).symbols(".dynsym"))
    return Symbols(
        frozenset(symbol.name for symbol in symbols if symbol.section and symbol.is_visible),
        frozenset(symbol.name for symbol in symbols if not symbol.section and symbol.name),
    )
