"""Release units for tests, and the four steps of publishing one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.index.objects.store import FolderStore
from ci_tools.index.units import CORE, Item, JobEntry, Published, Unit
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from ci_tools.machine.storage import sha256_of
from ci_tools.model.files import Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import SDIST
from ci_tools.model.request import Edition

if TYPE_CHECKING:
    from ci_tools.publish.targets import Target  # the tests of a room by itself have no targets

SOURCE = "5" * 64  # the sha256 of the source that every receipt names
TRIED = (Validated("linux-x86_64, Python 3.12", "", (Trial("import demo", Outcome.PASSED),)),)


class Words(Silent):
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)


def item(path: Path, folder: str = "", also: tuple[str, ...] = ()) -> Item:
    """Return a file as a unit has it."""
    native = bool(folder)
    made = JobEntry(
        job=f"linux-cuda-{folder}" if native else "pure",
        kind="native" if native else "pure",
        platform="linux-cuda" if native else "",
        python="3.10",
        torch="2.10" if native else "",
        accelerator=folder,
        archs=("9.0", "10.0+PTX") if native else (),
        toolchain="pypi",
        owner=None,
        covers=(),
    )
    return Item(path, sha256_of(path), path.stat().st_size, made if path.suffix == ".whl" else None, folder, also)


def receipt(path: Path, job: str = SDIST) -> Receipt:
    """Return the receipt of a file that was audited and, a wheel, imported; of an sdist where no job made it."""
    return Receipt(
        file=path.name,
        sha256=sha256_of(path),
        size=path.stat().st_size,
        project="demo",
        version="1.0",
        job=job,
        source=SOURCE,
        key="",
        seconds=0.0,
        audited=True,
        validated=() if job == SDIST else TRIED,
    )


def unit(project: str, *items: Item, edition: Edition | None = None, version: str = "1.0") -> Unit:
    """Return a unit of some files."""
    whole = Unit(name=CORE, project=project, version=version, items=items)
    return Unit(name=CORE, project=project, version=version, items=items, edition=edition) if edition else whole


def folder_index(root: Path, *, replace: bool = False) -> WheelIndex:
    """Return the index in a folder."""
    return WheelIndex(FolderStore(root, Silent()), order=0, replace=replace)


def publish(target: Target, release: Unit) -> Sequence[Published]:
    """Take a unit through all four steps."""
    target.check(release)
    target.stage(release)
    target.verify(release)
    return target.switch(release)
