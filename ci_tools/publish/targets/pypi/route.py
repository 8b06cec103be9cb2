"""The files of a release unit that go to PyPI, by the route in the config, in upload order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from ci_tools.errors import InputError
from ci_tools.index.units import CORE
from ci_tools.model.request import Route

if TYPE_CHECKING:
    from ci_tools.index.units import Item, Unit


def select_items(unit: Unit, address: str) -> list[Item]:
    """Return the unit's files for an index by its route, in upload order; raise InputError if the config has none."""
    taken = select_known(unit, address)
    if unit.name == CORE and not taken:
        msg = f"{unit.project} {unit.version} has nothing that goes to {address} by `pypi: {unit.route}`"
        raise InputError(msg)
    return taken


def select_known(unit: Unit, address: str) -> list[Item]:
    """Return those files of a unit that is not complete yet; raise InputError if its config selects none for PyPI."""
    if unit.route is Route.NONE:
        msg = f"nothing of {unit.project} goes to {address}: the config does not select files for PyPI"
        raise InputError(msg, hint="set `pypi: wheels` below `publish:`")
    taken = [item for item in unit.files if _goes(item, unit.route)]
    return sorted(taken, key=lambda item: (_rank(item), item.name))


def _goes(item: Item, route: Route) -> bool:
    if item.made is None:
        return True
    return route is Route.WHEELS and (item.made.kind == "pure" or not _has_local_version(item.name))


def _rank(item: Item) -> int:
    if item.made is None:
        return 2
    return 1 if item.made.kind == "pure" else 0


def _has_local_version(wheel: str) -> bool:
    try:
        return parse_wheel_filename(wheel)[1].local is not None
    except ValueError:  # InvalidWheelFilename, InvalidVersion, or more digits than Python converts
        return False  # the rules report what is wrong with its name
