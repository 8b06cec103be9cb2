"""Looks at the places of a smart release as its users do: without credentials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ci_tools.errors import FatwheelError, InputError
from ci_tools.model.request import Route
from ci_tools.publish.targets import Target

if TYPE_CHECKING:
    from ci_tools.index.units import Unit

HINT = (
    "let everybody read it, or add a target where everybody can: github:OWNER/REPO, or s3://BUCKET/PREFIX"
    "?public=https://… with the web address that users see"
)


def refuse_private(unit: Unit, targets: Sequence[Target], say: Callable[[str], None]) -> None:
    """Raise InputError if users of a smart sdist could fetch its wheels nowhere, and report places where they cannot.

    A place where no file is published or staged yet, or that does not answer, is not known and not refused.
    """
    if unit.route is not Route.SMART:
        return
    first = (unit.items or unit.drafts)[:1]  # one is enough: a place has all or none
    urls = [(target, target.locate(item, unit)) for target in targets for item in first]
    places = [target for target, url in urls if url and not url.startswith("file:")]
    private = [why for target in places if (why := _explain_private(unit, target, say))]
    if private and len(private) == len(places):
        msg = f"users of the smart sdist cannot fetch its wheels: {'; '.join(private)}"
        raise InputError(msg, hint=HINT, page="how-to/install-from-pypi.md#release-it")
    for why in private:
        say(f"warning: users of the smart sdist cannot fetch its wheels from one of its places: {why}")


def _explain_private(unit: Unit, target: Target, say: Callable[[str], None]) -> str:
    try:
        return target.explain_private(unit)
    except FatwheelError as error:
        say(f"whether everybody can read {target.address} is not known: {error.message}")
        return ""
