"""Assembles a release from the files and trials of several machines; runs no code of the project."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import Rejected, RejectedInput
from ci_tools.formats import receipts
from ci_tools.index.units import Item, Unit, Withheld, units_of
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import write_atomically
from ci_tools.model.names import Sha256
from ci_tools.model.plan import Plan
from ci_tools.model.request import UNTAGGED, Route
from ci_tools.plan import matrix, plan_file, plan_reader
from ci_tools.plan.plan_file import PLAN
from ci_tools.publish import release_plan
from ci_tools.publish.gathering import gather
from ci_tools.publish.smart import SMART, make_sdists_smart
from ci_tools.publish.targets.addresses import targets_of
from ci_tools.verify.files import audit_files, tell_findings


class Assembled(NamedTuple):
    """A release folder assembled from several machines' files."""

    plan: Plan
    units: tuple[Unit, ...]  # the complete ones
    withheld: tuple[Withheld, ...]  # optional platforms that are incomplete

    @property
    def items(self) -> tuple[Item, ...]:
        """The files of all complete units."""
        return tuple(item for unit in self.units for item in unit.files)

    @property
    def for_pypi(self) -> tuple[Item, ...]:
        """The files that go to PyPI, by the plan's route and edition."""
        names = plan_file.pypi_files(self.plan)
        return tuple(item for item in self.items if item.name in names)


def assemble(folders: Sequence[Path], plan: Path, out: Path, only: str, outside: Outside) -> Assembled:
    """Gather the files that several machines built from the plan in a file, and audit them here; runs no project code.

    Raises Rejected if the core is incomplete, or the one unit that `only` names.
    """
    whole = plan_reader.read(plan)
    with write_atomically(out / PLAN) as file:
        file.write(plan.read_bytes())
    paths = gather(folders, whole, out, outside)
    tell_findings(audit_files(paths, whole, outside), outside)  # the findings are in each file's receipt
    found = {path.name: (path, receipts.load(path)) for path in paths}
    planned = release_plan.release_of(whole, str(plan))
    try:
        units, withheld = units_of(planned, found, only)
    except RejectedInput as error:
        raise Rejected(error.message) from error
    if planned.route is Route.SMART and whole.edition == UNTAGGED and not planned.targets:
        outside.reporter.say("the sdist of this untagged commit is not made smart: no target is named for its wheels")
    elif planned.route is Route.SMART:
        targets = targets_of(plan_file.targets(whole), outside)
        units = make_sdists_smart(units, targets, out / SMART, outside.reporter.say)
        units = tuple(replace(unit, items=tuple(_move(item, out) for item in unit.items)) for unit in units)
    return Assembled(whole, units, withheld)


def _move(item: Item, out: Path) -> Item:
    """Put a smart sdist in the place of the sdist that it was made of, with a receipt of its own bytes."""
    path = out / item.name
    receipt = receipts.load(path)
    if item.path == path or receipt is None:
        return item
    with write_atomically(path) as sink:
        sink.write(item.path.read_bytes())
    receipts.save(path, replace(receipt, sha256=Sha256(item.sha256), size=item.size))
    return item._replace(path=path)


def copy_for_pypi(found: Assembled, folder: Path) -> None:
    """Copy the files that go to PyPI into their own folder."""
    for item in found.for_pypi:
        with write_atomically(folder / item.name) as sink, item.path.open("rb") as source:
            shutil.copyfileobj(source, sink)


def copy_receipts(out: Path, folder: Path) -> None:
    """Copy the plan and the receipts of a release folder, without the files."""
    for path in (out / PLAN, *sorted(out.glob("receipts/*.json"))):
        with write_atomically(folder / path.relative_to(out)) as sink:
            sink.write(path.read_bytes())


def outputs(found: Assembled) -> dict[str, str]:
    """Return the outputs of an assembled release for a workflow, each on one line."""
    files = [{"name": item.name, "size": item.size, "sha256": item.sha256} for item in found.items]
    return {
        "package": found.plan.project.name,
        "version": found.plan.project.version,
        "channel": matrix.channel_of(found.plan),
        "files": json.dumps(files, separators=(",", ":")),
        "units": json.dumps([unit.name for unit in found.units], separators=(",", ":")),
        "withheld": json.dumps([one.name for one in found.withheld], separators=(",", ":")),
        "pypi": json.dumps(bool(found.for_pypi)),
    }
