"""Hands over what a shard compiled: a folder with its units, and `shard.json`, which names them.

The folder is a store of compile units (`units.store`), so that each unit is there as soon as it is compiled, whenever
the shard is killed, and one that was cut or changed is not taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.units.report import COMPILED, FAILED, PLAIN, SHOWN, UnitReport
from ci_tools.build.units.store import COSTS, UnitStore
from ci_tools.errors import FatwheelError
from ci_tools.formats import json_file
from ci_tools.machine.storage import write_atomically

SHARDS, HEAD = "shards", "shard.json"


class Handover(NamedTuple):
    """The head of a shard's folder: which of how many shards it is of a job, and what it compiled."""

    job: str
    number: int
    total: int
    inputs: Mapping[str, str]  # words for all that decides the bytes of the job's wheel
    assigned: tuple[str, ...]  # the units that it compiles, by their sources
    units: Mapping[str, str] = {}  # of each that is done: the name of its object in the folder
    whole: str = ""  # why the job is built whole, so that no shard compiles anything

    def save(self, folder: Path) -> None:
        """Write it."""
        with write_atomically(folder / HEAD) as file:
            file.write(json.dumps(self._asdict(), indent=1).encode())


class Handed(NamedTuple):
    """Stores of a job's shards to take units from, their heads, and sentences about what is not taken."""

    stores: tuple[UnitStore, ...] = ()
    heads: tuple[Handover, ...] = ()
    sayings: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """Why the job is built whole; "" if it is not."""
        return next((head.whole for head in self.heads if head.whole), "")

    def describe(self) -> Iterator[str]:
        """Yield lines for a person about what is taken, and what is not."""
        units, shards = sum(len(head.units) for head in self.heads), len(self.heads)
        taken = f"{units} compile units handed over by {shards} shards" if shards else "no shard handed over any unit"
        yield from (f"built whole: {self.whole}",) if self.whole else (taken, *self.sayings)

    def list_missing(self, report: UnitReport) -> Iterator[str]:
        """Yield a line about the units that a link compiled, if there are any that a shard should have compiled."""
        names = [unit.source for unit in report.units if unit.how in {COMPILED, FAILED, PLAIN}]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        if names and not self.whole:
            yield f"compiled at the link, as no shard handed them over: {', '.join(names[:SHOWN])}{more}"


@dataclass(slots=True, kw_only=True)
class LayeredStore(UnitStore):
    """A store that also takes from the stores behind it, and keeps what it took."""

    behind: tuple[UnitStore, ...] = ()

    def read(self, name: str) -> bytes | None:
        """Return a content as `UnitStore.read` does; what belongs to one machine (`programs`) is not taken."""
        content = UnitStore.read(self, name)
        for store in self.behind if content is None and "/" in name else ():
            was_there = store.has(name)
            content = store.read(name)
            if content is not None:
                self.write(name, content)
                break
            if was_there:
                self.troubles.add(f"{store.folder / name} is damaged, and not taken")
        return content

    def has(self, name: str) -> bool:
        """Whether there is something of a name."""
        return UnitStore.has(self, name) or any(store.has(name) for store in self.behind)

    def take_costs(self) -> None:
        """Keep what each unit took in the stores behind, over what is known: nothing here compiles it again."""
        for store in self.behind:
            for name in store.list_names(COSTS):
                if (content := store.read(name)) is not None:
                    self.write(name, content)

    def list_names(self, folder: str) -> Iterator[str]:
        """Yield the names in a folder of the stores."""
        stores = [UnitStore.list_names(self, folder), *(store.list_names(folder) for store in self.behind)]
        yield from dict.fromkeys(name for names in stores for name in names)


def read_handovers(folder: Path, job: str, inputs: Mapping[str, str]) -> Handed:
    """Return what a job's shards left below a folder; one of other inputs is not taken, and reported."""
    taken, sayings = dict[Path, Handover](), list[str]()
    for path in sorted(folder.rglob(HEAD)):  # artifacts may be unpacked at any depth
        try:
            found = json_file.structure_bytes(path.read_bytes(), Handover, str(path))
        except (OSError, FatwheelError) as error:
            sayings.append(f"{path} is not taken: {error}")
            continue
        differing = [what for what, value in inputs.items() if found.inputs.get(what) != value]
        if found.job == job and differing:
            sayings.append(f"shard {found.number}/{found.total} is not taken: it is of another {differing[0]}")
        elif found.job == job:
            taken[path.parent] = found
    counts, there = {head.total for head in taken.values()}, {(head.number, head.total) for head in taken.values()}
    numbers = [(number, count) for count in sorted(counts) for number in range(1, count + 1)]
    sayings += [f"shard {number}/{count} is missing" for number, count in numbers if (number, count) not in there]
    return Handed(tuple(UnitStore(folder=path) for path in taken), tuple(taken.values()), tuple(sayings))
