"""Lets a wheel that is linked with a torch for CUDA, ROCm or XPU be tried with one where installers prefer another.

A wheel that is bound to a nightly of torch is tried with that nightly, from the indexes that have it.

The other may be a CPU build in a folder: no library of the wheel could be loaded with it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from ci_tools import catalog as catalogs
from ci_tools.build.sdk.offers import Offers, WheelOffer, find_offers, open_parts
from ci_tools.build.sdk.torch_parts import label_of
from ci_tools.errors import FatwheelError
from ci_tools.formats import receipts
from ci_tools.formats.binaries.elf import linking
from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.http.policy import UNANSWERED
from ci_tools.machine.python import identity
from ci_tools.model.platforms import Accelerator
from ci_tools.model.request import CatalogRow
from ci_tools.model.versions import Minor, parse_requirement, parse_specifiers

if TYPE_CHECKING:
    from ci_tools.verify.validator import Validator


# What only such a torch brings; of CUDA's own libraries, that of every program, whose name has the major version.
LIBRARY = re.compile(r"lib(?:c10|torch)_(?P<kind>cuda|hip|xpu)\w*\.so|libcudart\.so\.(?P<major>\d+)")
LABELS = {"cuda": "cu", "hip": "rocm", "xpu": "xpu"}  # torch's own library for ROCm is called hip
LABEL = re.compile(r"cpu|cu\d\d|rocm|xpu")


def lend_accelerated_torch(validator: Validator, wheel: Path) -> Validator:
    """Return a validator with the build of torch that a wheel is linked with, if the installer would take another one.

    The config's index or local version decides where it names one, and the installer where nothing fits. A wheel that
    was not built with a toolkit has to do without: for CPUs, or by whomever.
    """
    receipt = receipts.load(wheel)
    if receipt is None or not receipt.built_with.toolkit:  # a stranger's wheel, or one for CPUs
        return validator
    validator = replace(validator, is_accelerated=True)
    label = _find_label(wheel) if validator.validation.torch else ""
    found = _find_build(validator, label)
    if found is None:
        return validator
    why = f"the wheel is linked with it, and the installer would take {found.usual}"
    validator.outside.reporter.say(f"{wheel.name} is tried with the torch {found.version} for {found.label}: {why}")
    return replace(validator, torch_build=str(found.version))


def foresee_torch(validator: Validator, accelerator: Accelerator | None) -> Validator:
    """Return a validator with the build of torch that a wheel for an accelerator will be linked with.

    A wheel of such a job may be linked with none of torch's own libraries; only the finished one shows it.
    """
    label = LABEL.match(accelerator.label) if accelerator else None
    found = _find_build(validator, label[0]) if label else None
    return replace(validator, torch_build=str(found.version)) if found else validator


class _Build(NamedTuple):
    """A build of torch that installers do not prefer."""

    version: Version
    label: str
    usual: Version  # the one that they prefer


def _find_build(validator: Validator, label: str) -> _Build | None:
    """Return the newest build of a trial's torch whose label starts so, unless the installer takes it by itself."""
    torch = validator.validation.torch
    if not torch or not label or "+" in torch or validator.validation.torch_index:  # a person has chosen
        return None
    unanswered = suppress(FatwheelError, *UNANSWERED)  # the installer will say so, too
    with unanswered, find_offers("torch", validator.outside.environ) as offers:
        return _choose(torch, label, offers, validator)
    return None


def _find_label(wheel: Path) -> str:
    """Return how the label of the torch starts that a wheel's libraries need, such as cu13; "" if any torch will do."""
    found = open_wheel(wheel)
    with found.archive:
        needed = {name for info in found.libraries for name in linking(io.BytesIO(found.read(info))).needed}
    matched = [match for match in map(LIBRARY.fullmatch, needed) if match]
    kind = next((match["kind"] for match in matched if match["kind"]), "cuda" if matched else "")
    major = next((match["major"] for match in matched if match["major"]), "")
    return f"{LABELS[kind]}{major}" if kind else ""


def _choose(torch: str, label: str, offers: Offers, validator: Validator) -> _Build | None:
    """Return the newest build with this label; None if there is none, or the installer takes it by itself."""
    python, asked = identity(validator.interpreter), parse_specifiers(f"=={torch}")
    fitting = [one for one in offers.wheels if one.is_for(validator.outside.host) and one.is_for_python(python)]
    builds = {one.version: one for one in fitting if asked.contains(one.version, prereleases=True)}
    order = sorted(builds, reverse=True)  # as installers prefer them
    for version, found in _labels(order, builds, offers, validator):
        if found.startswith(label):  # cu13 is any CUDA 13
            return None if version == order[0] else _Build(version, found, order[0])
    return None


def _labels(
    order: list[Version], builds: dict[Version, WheelOffer], offers: Offers, validator: Validator
) -> Iterator[tuple[Version, str]]:
    """Yield each build with its label; one whose name has none is asked for it."""
    for version in order:
        if version.local and LABEL.match(version.local):  # other indexes leave it out
            yield version, version.local
        else:
            with open_parts(builds[version], offers.session, validator.outside.reporter.say) as parts:
                yield version, label_of(parts.peek("torch/version.py"))[1]  # a few kilobytes of the wheel


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
    validation = validator.validation._replace(torch=named, torch_index=None)  # the nightly's index has it
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
