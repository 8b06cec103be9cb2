"""Makes the view of a cell's build: the machine, the torch and the variables that its job gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.evidence.observe.run import View
from ci_tools.evidence.observe.torch_questions import describe_names
from ci_tools.model.platforms import AcceleratorKind, name_archs_for_torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.catalog import Catalog
    from ci_tools.model.cell import Cell
    from ci_tools.model.request import PlatformRequest, Request
    from ci_tools.model.versions import Minor

__all__ = ["list_versions", "make_view"]


def make_view(request: Request, platform: PlatformRequest, cell: Cell, catalog: Catalog) -> View:
    """Return the facts and variables that the build would get from the cell's job."""
    facts = catalog.platforms[cell.platform]
    env = {**name_archs_for_torch(cell.accelerator, platform.archs), **dict(request.build.env), **dict(platform.env)}
    release = catalog.torch[cell.torch or catalog.newest_torch]
    return View(
        facts.os,
        facts.machine,
        cell.python,
        _describe_torch(cell, catalog),
        cell.accelerator,
        env=tuple(env.items()),
        nccl=release.find_nccl(cell.accelerator) if facts.os == "linux" else "",
        # Of a torch whose oneAPI is not known, the newest: such a torch has no wheel, or is a nightly.
        oneapi=str(release.oneapi or max(catalog.oneapi)) if facts.accelerator is AcceleratorKind.XPU else "",
        torch_names=describe_names(release),
    )


def _describe_torch(cell: Cell, catalog: Catalog) -> str:
    """Return the version string of torch on the cell's builder, such as `2.10.0+cu130`."""
    release = catalog.torch[cell.torch or catalog.newest_torch]
    label = cell.accelerator.label if cell.accelerator else "cpu"
    return release.patch if catalog.platforms[cell.platform].os == "macos" else f"{release.patch}+{label}"


def list_versions(cell: Cell, catalog: Catalog) -> Iterator[Cell]:
    """Yield the cell, or one for each version of an accelerator whose version the config does not name.

    Only a platform without native code may go without; torch on its builder has a version all the same.
    """
    named = cell.accelerator
    shipped: list[Minor] = []
    if named and not named.version:
        host = catalog.platforms[cell.platform].host
        release = catalog.torch[cell.torch or catalog.newest_torch]
        shipped = sorted(filter(None, release.accelerators.get((host, named.kind), ())))
    for accelerator in (named._replace(version=version) for version in shipped) if named and shipped else [named]:
        yield cell._replace(accelerator=accelerator)
