"""The cells of a request: every point of platforms x accelerators x torch x Python; and how many are observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import PlatformRequest, Request
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from ci_tools.catalog import Catalog

    Stack: TypeAlias = tuple[Platform, Accelerator | None]


MAX_OBSERVED = 40  # runs of a project's code for one plan; the next plan counts those that it remembers as well
TOO_MANY = f"needs more than {MAX_OBSERVED} observed runs"


class Spent:
    """Counts the different runs that a plan has looked at, whether it made them or an earlier plan did."""

    def __init__(self) -> None:
        self.runs = 0

    def spend(self) -> bool:
        """Count a run; False if the plan has made all it may."""
        self.runs += 1
        return self.runs <= MAX_OBSERVED


def torches_of(request: Request, catalog: Catalog) -> tuple[Minor | None, ...]:
    """Return the requested torch versions, or `(None,)` if the request names no torch."""
    if request.torch is None:
        return (None,)
    lowest = request.torch.lowest
    asked = (torch for torch in sorted(catalog.torch) if request.torch.nightly or not torch.nightly)
    return request.torch.versions or tuple(torch for torch in asked if lowest and torch >= lowest)


def cells_of(request: Request, platform: PlatformRequest, torches: tuple[Minor | None, ...]) -> Iterator[Cell]:
    """Yield the cells of one platform."""
    for accelerator, torch, python in product(platform.accelerators or (None,), torches, request.pythons):
        yield Cell(platform.platform, accelerator, torch, python)


def list_released(stacks: Iterable[Stack], pythons: Sequence[Python], catalog: Catalog) -> tuple[Minor, ...]:
    """Return every torch that upstream has released for at least one of these stacks and Pythons, oldest first."""
    points = tuple(product(stacks, pythons))
    return tuple(
        torch
        for torch in sorted(catalog.torch)
        if not torch.nightly
        if any(not catalog.explain_missing_torch(torch, *stack, python) for stack, python in points)
    )


def is_offered(cell: Cell, catalog: Catalog) -> bool:
    """Whether upstream ships a torch for a cell, as far as the catalog knows, or will: no other gets a wheel."""
    if cell.torch is None or not catalog.torch[cell.torch].is_published:
        return True
    return not catalog.explain_missing_torch(cell.torch, cell.platform, cell.accelerator, cell.python)
