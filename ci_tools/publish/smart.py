"""The smart sdist of a release: made last, from the finished wheels and the addresses where they will be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools import catalog as catalogs
from ci_tools.errors import InputError
from ci_tools.install.fatwheel_backend import is_secure
from ci_tools.install.lock import LockedWheel, write_lock
from ci_tools.install.smart_sdist import is_smart, make_smart
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.model.names import FileName, Sha256
from ci_tools.model.request import Route
from ci_tools.publish.units import Item
from ci_tools.publish.wheel_facts import Built, add_facts, lowest_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.publish.targets import Target
    from ci_tools.publish.units import Unit

__all__ = ["SMART", "make_sdists_smart", "refuse_unreachable"]

SMART = ".smart"  # the folder of smart sdists, in a folder of finished files


def refuse_unreachable(core: Unit, targets: Sequence[Target]) -> None:
    """Raise InputError if no target of a smart release gives its wheels an address; for one that is not built yet."""
    if core.route is Route.SMART:
        _addresses(core, Item(Path(f"{core.project}-{core.version}.tar.gz"), "", 0, None), targets)


def make_sdists_smart(units: Sequence[Unit], targets: Sequence[Target], folder: Path) -> tuple[Unit, ...]:
    """Return the units with smart sdists, written to `folder`, in place of their sdists.

    A smart sdist lists the wheels of all these units, with their addresses at the targets. Raises InputError if no
    target gives a wheel an address that users can reach, Rejected if an sdist cannot be made smart.
    """
    wheels = [(unit, item) for unit in units for item in unit.items if item.made]
    locked = tuple(_lock(unit, item, targets, catalogs.load(unit.catalog)) for unit, item in wheels)
    return tuple(
        replace(unit, items=tuple(_make_smart(item, unit, locked, folder) for item in unit.items)) for unit in units
    )


def _make_smart(item: Item, unit: Unit, locked: Sequence[LockedWheel], folder: Path) -> Item:
    if item.made or is_smart(item.path):
        return item
    path = folder / item.name
    with write_atomically(path) as sink:
        make_smart(
            item.path,
            sink,
            lambda system: write_lock(unit.project, unit.version, FileName(item.name), system, locked),
        )
    return item._replace(path=path, sha256=sha256_of(path), size=path.stat().st_size)


def _lock(unit: Unit, item: Item, targets: Sequence[Target], catalog: Catalog) -> LockedWheel:
    if item.made is None:
        raise ValueError(item)
    made = item.made
    wheel = LockedWheel(
        file=FileName(item.name),
        urls=_addresses(unit, item, targets),
        sha256=Sha256(item.sha256),
        size=item.size,
        archs=made.archs,
        env=dict(made.env),
    )
    built = Built(made.accelerator, made.platform, (item.folder, *item.also), lowest_torch(made.covers))
    return add_facts(wheel, built, catalog)


def _addresses(unit: Unit, item: Item, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the addresses of a file at the targets, none of this machine if it is published to another."""
    found = [one for target in targets if (one := target.locate(item, unit)) and is_secure(one)]
    public = [address for address in found if not address.startswith("file:")]
    if not found or (not public and any(target.stages is False for target in targets)):
        msg = f"no target gives {item.name} an https address that users of the smart sdist can reach"
        hint = (
            "name a place beside PyPI, under `publish: targets`, with --to, or as the workflow's input `to`: "
            "github:OWNER/REPO or s3://BUCKET/PREFIX?public=https://…"
        )
        raise InputError(msg, hint=hint, page="how-to/install-from-pypi.md#release-it")
    return tuple(public or found)
