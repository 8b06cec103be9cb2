"""Describes cells in few words: cells with the same result are grouped as ranges of torch versions and Pythons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Cell
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    Place = tuple[str, str]  # a platform, and the label of its accelerator or ""

SKIPPED = "skipped"  # used in place of a job for a skipped cell
MAX_NAMED = 3  # platforms that are named although they are all of the plan's


def group_cells(plan: Plan) -> Iterator[tuple[tuple[str, str], list[Cell]]]:
    """Yield the cells that share a job and a reason, or are skipped for the same reason."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell, job, reason in chain(plan.covered, ((cell, SKIPPED, reason) for cell, reason in plan.skipped)):
        groups.setdefault((job, reason), []).append(cell)
    yield from groups.items()


def accelerator_of(cell: Cell) -> str:
    """Return the label of a cell's accelerator, or "" if it has none."""
    return cell.accelerator.label if cell.accelerator else ""


def blocks(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Split cells into blocks, each a full product of places, torch versions and Pythons, so that ranges describe it.

    A place is a platform with an accelerator or none.
    """
    pythons: dict[tuple[Minor | None, Place], list[Python]] = {}
    for cell in cells:
        pythons.setdefault((cell.torch, _place_of(cell)), []).append(cell.python)
    places: dict[tuple[Minor | None, tuple[Python, ...]], list[Place]] = {}
    for (torch, place), served in pythons.items():
        places.setdefault((torch, tuple(served)), []).append(place)
    # With this, torches whose places and Pythons are the same are one block.
    torches: dict[tuple[tuple[Place, ...], tuple[Python, ...]], list[Minor | None]] = {}
    for (torch, served_alike), alike in places.items():
        torches.setdefault((tuple(alike), served_alike), []).append(torch)
    for (block_places, block_pythons), block_torches in torches.items():
        yield [
            cell
            for cell in cells
            if _place_of(cell) in block_places and cell.torch in block_torches and cell.python in block_pythons
        ]


def _place_of(cell: Cell) -> Place:
    return cell.platform, accelerator_of(cell)


class Ranges(NamedTuple):
    """A block of cells in words: its platforms with their accelerators, its torch versions, and its Pythons."""

    platforms: str
    torch: str  # "" without torch
    pythons: str

    def __str__(self) -> str:
        torch = f"torch {self.torch}" if self.torch else ""
        return " / ".join(part for part in (self.platforms, torch, f"Python {self.pythons}") if part)


class PlanAxes(NamedTuple):
    """Every place, torch version and Python of a plan, in order."""

    places: list[Place]
    torches: list[Minor]
    pythons: list[Python]

    @classmethod
    def of(cls, plan: Plan) -> PlanAxes:
        """Return the axes of all cells of a plan."""
        cells = plan.list_cells()
        places = dict.fromkeys(map(_place_of, cells))
        torches, pythons = {cell.torch for cell in cells if cell.torch}, {cell.python for cell in cells}
        return cls(list(places), sorted(torches), sorted(pythons))

    def describe(self, cells: Sequence[Cell]) -> Ranges:
        """Describe a block of cells in a few words."""
        torches = [torch for torch in self.torches if any(cell.torch == torch for cell in cells)]
        pythons = [python for python in self.pythons if any(cell.python == python for cell in cells)]
        torch = _span(torches, self.torches) if torches else ""
        return Ranges(self._name_places(dict.fromkeys(map(_place_of, cells))), torch, _span(pythons, self.pythons))

    def _name_places(self, places: Collection[Place]) -> str:
        """Name places: all of them, or each platform with its accelerators where its name does not say them."""
        if len(places) == len(self.places) > MAX_NAMED:  # few are named even then: names say more than "all"
            return "all platforms"
        labels: dict[str, list[str]] = {}
        for platform, label in places:
            labels.setdefault(platform, []).extend([label] if label and not platform.endswith(f"-{label}") else [])
        named = (f"{platform} ({', '.join(shown)})" if shown else platform for platform, shown in labels.items())
        return ", ".join(named)


def _span(versions: Sequence[object], axis: Sequence[object]) -> str:
    """Return consecutive versions as `first to last`, others as a list."""
    first = axis.index(versions[0])
    if len(versions) > 2 and list(axis[first : first + len(versions)]) == list(versions):  # noqa: PLR2004 - two fit
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(map(str, versions))
