"""A tape: a target that nobody has. Its files are staged under hidden names, and renamed to publish them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.catalog.targets import TargetKind
from ci_tools.errors import Rejected
from ci_tools.index.units import Change, Published

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.index.units import Item, Unit
    from ci_tools.machine.context import Outside

TAPE = TargetKind(prefix="tape", form="tape:PATH", pattern="tape:.+", opens=f"{__name__}:Tape")


class Tape:
    """One tape, a folder."""

    order = 2
    stages = True

    def __init__(self, path: str, outside: Outside) -> None:
        self.folder, self.outside = Path(path), outside
        self.address = f"tape:{path}"

    def _places(self, unit: Unit) -> Iterator[tuple[Item, Path, Path]]:
        for item in unit.items:
            yield item, self.folder / f".{item.name}", self.folder / item.name

    def locate(self, item: Item, unit: Unit) -> str | None:
        return (self.folder / item.name).as_uri()

    def check(self, unit: Unit) -> Sequence[Change]:
        found = self._places(unit)
        return [Change("keep" if public.exists() else "add", public.as_uri()) for _, _, public in found]

    def holds(self, unit: Unit) -> frozenset[str]:
        return frozenset(item.name for item, _, public in self._places(unit) if public.exists())

    def foresee(self, unit: Unit) -> None:
        """Refuse nothing."""

    def explain_private(self, unit: Unit) -> str:
        return ""

    def stage(self, unit: Unit) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for item, hidden, public in self._places(unit):
            if not public.exists():
                shutil.copyfile(item.path, hidden)

    def verify(self, unit: Unit) -> None:
        for item, hidden, public in self._places(unit):
            found = hidden if hidden.exists() else public
            if hashlib.sha256(found.read_bytes()).hexdigest() != item.sha256:
                raise Rejected(f"{item.name} has other bytes on the tape")

    def switch(self, unit: Unit) -> Sequence[Published]:
        waiting = [(hidden, public) for _, hidden, public in self._places(unit) if hidden.exists()]
        for hidden, public in waiting:
            hidden.rename(public)
        new = {public for _, public in waiting}
        return [Published(item.name, public.as_uri(), public in new) for item, _, public in self._places(unit)]
