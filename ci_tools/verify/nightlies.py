"""Lets a wheel that is bound to a nightly of torch be tried with that nightly, from the indexes that have it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ci_tools import catalog as catalogs
from ci_tools.formats.wheel import open_wheel
from ci_tools.model.pep440 import parse_requirement
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.facts import CatalogRow
    from ci_tools.verify.validator import Validator


def lend_nightly(validator: Validator, wheel: Path, rows: tuple[CatalogRow, ...]) -> Validator:
    """Return a validator with the nightly that a wheel requires, if it requires one that the project's rows name.

    The trial's own torch is another one, so the nightly takes its place, with the same accelerator if that is named.
    """
    torch = _find_nightly(wheel)
    known = catalogs.load(rows).torch if torch else {}
    if torch is None or torch not in known:
        return validator
    local = (validator.validation.torch or "").partition("+")[2]
    named = f"{torch}+{local}" if local else None  # without a name, pip takes the one that the wheel requires
    validation = validator.validation._replace(torch=named, torch_index=None)
    return replace(validator, validation=validation, indexes=known[torch].indexes)


def _find_nightly(wheel: Path) -> Minor | None:
    """Return the nightly of torch that a wheel's METADATA requires; None if it requires none."""
    opened = open_wheel(wheel)
    with opened.archive:
        said = opened.metadata.get_all("Requires-Dist", [])
    for text in said:
        with suppress(ValueError):  # an invalid requirement, which the audit reports, or a torch such as 2.13.0
            required = parse_requirement(text)
            exact = [one.version for one in required.specifier if required.name == "torch" and one.operator == "=="]
            if exact and (torch := Minor.parse_torch(exact[0])).nightly:
                return torch
    return None
