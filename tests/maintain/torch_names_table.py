"""Writes the table of torch's names: `python -m tests.maintain.torch_names_table 2.16.0`, for maintainers.

It reads torch's own Python files and stubs by range requests, a few megabytes of each wheel, and runs nothing. Named
releases are read again; without a name, every release of the catalog is. The wheel is the Linux one for x86-64 and the
oldest Python: but for `torch/version.py` and the ends of lines, all wheels of a release have the same files.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from ci_tools import catalog
from ci_tools.catalog import TORCH_NAMES
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.config.upstream.torch_names import read_torch_names
from ci_tools.machine.context import Reporter
from ci_tools.machine.package_index import Index, files_of, users_index
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.model.versions import Minor
from ci_tools.observe.inside.torch_names.table import Rows, TorchTable, read_table
from tests.maintain.torch_table import select_wheel


def read_rows(patch: str, index: Index, reporter: Reporter) -> Rows:
    """Return the rows of a release, such as `2.15.0`, from its wheel on the package index.

    Raises InputError if the index has no such wheel, MachineError if it does not answer.
    """
    with files_of("torch", index) as (session, addresses):
        name = select_wheel(addresses, patch, "x86_64")
        with reporter.step(name) as step, remote_wheel(session, addresses[name]) as wheel:
            rows = read_torch_names(wheel)
            count = sum(map(len, rows.values()))
            step.result(f"{count:,} names in {wheel.file.fetched:,} bytes, {wheel.file.requests} requests")
    return rows


def join_rows(known: TorchTable | None, read: Mapping[str, Rows]) -> TorchTable:
    """Return the table with releases added; `read` has their rows by patch release."""
    patches = {**(known.patches if known else {}), **{_minor(patch): patch for patch in read}}
    found = {_minor(patch): rows for patch, rows in read.items()}
    for release in known.releases if known else ():
        found.setdefault(release, _rows_of(known, release) if known else {})
    releases = tuple(sorted(patches, key=Minor.parse))
    modules = sorted({module for rows in found.values() for module in rows})
    names = {
        module: {
            name: _compress({one: found[one].get(module, {}).get(name, "") for one in releases})
            for name in sorted({name for rows in found.values() for name in rows.get(module, ())})
        }
        for module in modules
    }
    return TorchTable({release: patches[release] for release in releases}, names)


def _minor(patch: str) -> str:
    return patch.rpartition(".")[0]


def _rows_of(table: TorchTable, release: str) -> Rows:
    said = {
        module: {name: table.said(release, module, name) for name in names} for module, names in table.names.items()
    }
    return {module: {name: row for name, row in rows.items() if row} for module, rows in said.items()}


def _compress(rows: Mapping[str, str]) -> str | dict[str, str]:
    """Return one row for all releases, or each with the ranges of releases that have it."""
    releases = list(rows)
    found = {row: [one for one in releases if rows[one] == row] for row in rows.values() if row}
    if list(found.values()) == [releases]:
        return next(iter(found))
    return {",".join(_write_ranges(having, releases)): row for row, having in found.items()}


def _write_ranges(having: Sequence[str], releases: Sequence[str]) -> Iterable[str]:
    """Yield the releases as ranges of consecutive ones: `2.6-2.8`, `2.10`."""
    start = None
    for one, after in zip(releases, (*releases[1:], None), strict=True):
        if one in having:
            start = start or one
            if after not in having:
                yield one if start == one else f"{start}-{one}"
                start = None


def write_table(table: TorchTable) -> str:
    """Return the text of the table's file: one line for each name that is the same in all releases."""
    return json.dumps({"releases": table.patches, "names": table.names}, indent=0, ensure_ascii=False) + "\n"


def main(patches: Sequence[str]) -> None:
    """Read these releases into the table, or all of the catalog's."""
    reporter = TerminalReporter(lambda: Console(stderr=True))
    known = read_table(TORCH_NAMES.read_text(encoding="utf-8")) if TORCH_NAMES.exists() and patches else None
    wanted = patches or [release.patch for release in catalog.load().torch.values()]
    read = {patch: read_rows(patch, users_index(os.environ), reporter) for patch in wanted}
    TORCH_NAMES.write_text(write_table(join_rows(known, read)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
