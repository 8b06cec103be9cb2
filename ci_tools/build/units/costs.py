"""What each compile unit took when it was last compiled, kept in the store by the unit's name (`Seeds.name`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ci_tools.build.units.store import UnitStore

COSTS = "costs"  # the folder of the store


class UnitCost(NamedTuple):
    """The time and the memory of one call of a compiler."""

    wall: float = 0.0  # seconds
    cpu: float = 0.0  # seconds of processor time
    peak: int = 0  # bytes of its largest process: the programs of a compiler run one after another (getrusage(2))


def read_cost(unit: str, store: UnitStore) -> UnitCost | None:
    """Return what a unit took when it was last compiled; None if it never was."""
    content = store.read(f"{COSTS}/{unit}")
    return UnitCost(**json.loads(content)) if content is not None else None


def keep_cost(unit: str, cost: UnitCost, store: UnitStore) -> None:
    """Write what a unit took."""
    store.write(f"{COSTS}/{unit}", json.dumps(cost._asdict()).encode())
