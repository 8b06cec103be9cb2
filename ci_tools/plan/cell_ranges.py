"""Describes cells in few words: cells with the same result are grouped as ranges of torch versions and Pythons."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.model.cell import Cell
    from ci_tools.model.plan import Plan
    from ci_tools.model.versions import Minor, Python

__all__ = ["SKIPPED", "Axes", "accelerator_of", "blocks", "group_cells"]

SKIPPED = "skipped"  # used in place of a job for a skipped cell


def group_cells(plan: Plan) -> Iterator[tuple[tuple[str, str], list[Cell]]]:
    """Yield the cells of each platform and accelerator that share a reason and a job, or are skipped."""
    groups: dict[tuple[str, str, str, str], list[Cell]] = {}
    covered = ((cell, job, reason) for cell, job, reason in plan.covered)
    skipped = ((cell, SKIPPED, reason) for cell, reason in plan.skipped)
    for cell, job, reason in chain(covered, skipped):
        groups.setdefault((cell.platform, accelerator_of(cell), job, reason), []).append(cell)
    for (_, _, job, reason), cells in groups.items():
        yield (job, reason), cells


def accelerator_of(cell: Cell) -> str:
    """Return the label of a cell's accelerator, or "" if it has none."""
    return cell.accelerator.label if cell.accelerator else ""


def blocks(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Split cells into blocks, each a full product of torch versions and Pythons, so that ranges describe it."""
    by_torch: dict[Minor | None, list[Cell]] = {}
    for cell in cells:
        by_torch.setdefault(cell.torch, []).append(cell)
    found: dict[tuple[Python, ...], list[Cell]] = {}
    for same_torch in by_torch.values():
        found.setdefault(tuple(cell.python for cell in same_torch), []).extend(same_torch)
    yield from found.values()


class Axes(NamedTuple):
    """Every torch version and Python of a plan, in order."""

    torches: list[Minor]
    pythons: list[Python]

    @classmethod
    def of(cls, plan: Plan) -> Axes:
        """Return the axes of all cells of a plan."""
        cells = [*(item.cell for item in plan.covered), *(item.cell for item in plan.skipped)]
        return cls(sorted({cell.torch for cell in cells if cell.torch}), sorted({cell.python for cell in cells}))

    def describe(self, cells: Sequence[Cell]) -> str:
        """Describe a block of cells of one platform and accelerator in a few words."""
        torches = [torch for torch in self.torches if any(cell.torch == torch for cell in cells)]
        pythons = [python for python in self.pythons if any(cell.python == python for cell in cells)]
        torch = f"torch {_span(torches, self.torches)}" if torches else ""
        axes = (cells[0].platform, accelerator_of(cells[0]), torch, f"Python {_span(pythons, self.pythons)}")
        return " / ".join(str(axis) for axis in axes if axis)


def _span(versions: Sequence[object], axis: Sequence[object]) -> str:
    """Return consecutive versions as `first to last`, others as a list."""
    first = axis.index(versions[0])
    if len(versions) > 2 and list(axis[first : first + len(versions)]) == list(versions):  # noqa: PLR2004 - two fit
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(map(str, versions))
