"""Chooses the build torch of a job among the wheels that the user's pip would find, and keeps it in the cache."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ci_tools.build.sdk.offers import Offers, WheelOffer, find_offers, open_parts
from ci_tools.build.sdk.torch_parts import CPU, SAID, TorchParts, label_of, make_torch, read_torch
from ci_tools.catalog import Catalog
from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import explain_unanswered
from ci_tools.machine.storage import fill_once
from ci_tools.model.versions import parse_version

PAGE = "how-to/choose-a-toolchain.md#which-torch-a-build-gets"
VERSION_FILE = "torch/version.py"
GENERATION = "2"  # another number for each other way of making a build torch: an older one is not used then


class Wanted(NamedTuple):
    """The torch that a build may have."""

    specifiers: SpecifierSet  # ==2.13.*, and what the project says
    label: str  # cpu, cu130; "": any
    python: str  # cp311, cp313t
    preferred: str = ""  # the label to take where any will do

    @property
    def title(self) -> str:
        """The torch in a few words, for messages."""
        return f"torch{self.specifiers or ''}{f' for {self.label}' if self.label else ''}"

    def admits(self, version: Version) -> bool:
        """Whether a build may have this torch; a nightly, or another pre-release, only if the specifiers name one."""
        return self.specifiers.contains(version, prereleases=bool(self.specifiers.prereleases))


def find_torch(wanted: Wanted, catalog: Catalog, outside: Outside, environ: Mapping[str, str]) -> TorchParts:
    """Return the build torch for a job, fetched unless the cache has it: then no server is asked.

    Of the versions that fit, the catalog's is taken before a newer one, so that the same source gives the same bytes.
    Raises InputError if upstream has none for this Python, MachineError if there is none for this accelerator.
    """
    root = outside.cache / "torch-parts" / GENERATION
    patches = [parse_version(one.patch) for one in catalog.torch.values() if one.headers]
    known = sorted(filter(wanted.admits, patches), reverse=True)
    kept = _kept(root, known, wanted, outside.host)
    if kept:
        with suppress(_StaleError):
            return read_torch(fill_once(kept, _give_up, outside.reporter.say))
    unanswered = explain_unanswered(f"the parts of {wanted.title} cannot be fetched")
    with unanswered, find_offers("torch", environ) as offers:
        try:
            fitting = _fitting(offers.wheels, wanted, known, outside.host)
            chosen = _by_label(fitting, offers, wanted, outside)
        except FatwheelError as error:
            raise offers.explain_none(error) from error
        return _fetch(chosen, fitting, offers, root, outside)


class _StaleError(Exception):
    """A folder of the cache has changed since it was filled."""


def _give_up(folder: Path) -> None:
    raise _StaleError(folder)


def _kept(root: Path, known: Sequence[Version], wanted: Wanted, host: str) -> Path | None:
    """Return the folder of a fitting torch in the cache, or None."""
    labels = [wanted.label] if wanted.label else _preferred(wanted)
    # A version that the catalog does not have, since the project names it, is read from the folders.
    others = () if known else sorted({parse_version(path.name.partition("-")[0]) for path in root.glob(f"*{host}")})
    for version in known or filter(wanted.admits, others):
        for label in labels:
            folder = root / _folder(version, label, host)
            if (folder / SAID).is_file() and {wanted.python, "py3"} & {*read_torch(folder).pythons}:
                return folder
    return None


def _preferred(wanted: Wanted) -> list[str]:
    return list(dict.fromkeys(filter(None, (wanted.preferred, CPU))))


def _folder(version: Version, label: str, host: str) -> str:
    return f"{version.public}-{label}-{host}"


def _fitting(
    wheels: Iterable[WheelOffer], wanted: Wanted, known: Sequence[Version], host: str
) -> tuple[WheelOffer, ...]:
    """Return the wheels of the version to take, for a machine and every Python; raise InputError if none fits."""
    here = [offer for offer in wheels if offer.is_for(host)]
    versions = {parse_version(offer.version.public) for offer in here}
    fitting = sorted(filter(wanted.admits, versions), reverse=True)
    chosen = next((one for one in known if one in fitting), next(iter(fitting), None))
    if chosen is None:
        offered = ", ".join(str(one) for one in sorted(versions, reverse=True)[:8]) or "none at all"
        system = host.capitalize().replace("-", " on ")
        msg = f"where pip looks there is no torch{wanted.specifiers} for {system}; there is {offered}"
        raise InputError(msg, page=PAGE)
    of_version = tuple(offer for offer in here if parse_version(offer.version.public) == chosen)
    pythons = sorted({python for offer in of_version for python in offer.pythons}, key=_age)
    if not any(offer.is_for_python(wanted.python) for offer in of_version):
        raise InputError(f"torch {chosen} is not for Python {wanted.python}; it is for {', '.join(pythons)}", page=PAGE)
    return of_version


def _age(python: str) -> tuple[int, str]:
    digits = python.removeprefix("cp").removesuffix("t")
    return int(digits) if digits.isdigit() else 0, python


class _Chosen(NamedTuple):
    """A wheel, and the label of its torch."""

    offer: WheelOffer
    label: str


def _by_label(fitting: Sequence[WheelOffer], offers: Offers, wanted: Wanted, outside: Outside) -> _Chosen:
    """Return the wheel to read; wheels whose name has no accelerator are asked for theirs.

    Raises MachineError if none is for the accelerator.
    """
    labels = [wanted.label] if wanted.label else _preferred(wanted)
    by_local: dict[str, list[WheelOffer]] = {}
    for offer in fitting:
        by_local.setdefault(offer.version.local or "", []).append(offer)
    of_python = {
        local: found for local, found in by_local.items() if any(one.is_for_python(wanted.python) for one in found)
    }
    for label in labels:
        if label in of_python:
            return _Chosen(_first(of_python[label]), label)
    said = {}
    for local in ("", *sorted(of_python.keys() - {""})):
        if local in of_python and (not local or not wanted.label):
            offer = _first(of_python[local])
            said[local] = _Chosen(offer, _ask(offer, offers, outside))
            if said[local].label in labels or not wanted.label:
                return said[local]
    raise _other(fitting[0], [one.label for one in said.values()], sorted(of_python.keys() - {""}), wanted)


def _first(found: Iterable[WheelOffer]) -> WheelOffer:
    """Return the wheel of the oldest Python, and of its builds the newest: it is the same for every job."""
    return min(found, key=lambda offer: (min(map(_age, offer.pythons)), _newest_first(offer)))


def _newest_first(offer: WheelOffer) -> int:
    build = offer.file.split("-")[2]
    return -int(build) if build.isdigit() else 0


def _ask(offer: WheelOffer, offers: Offers, outside: Outside) -> str:
    with open_parts(offer, offers.session, outside.reporter.say) as parts:
        return label_of(parts.peek(VERSION_FILE))[1]


def _other(offer: WheelOffer, labels: Iterable[str], named: Iterable[str], wanted: Wanted) -> MachineError:
    found = " and ".join(dict.fromkeys([*labels, *named])) or "nothing"
    minor = ".".join(offer.version.public.split(".")[:2])
    msg = f"the build would get torch {offer.version.public} for {found}, expected {minor} for {wanted.label}"
    kind = {"": "CPU", "cu": "CUDA", "rocm": "ROCm"}.get(re.sub(r"cpu|[\d.]+$", "", wanted.label), wanted.label)
    hint = (
        f"let pip find upstream's: PIP_EXTRA_INDEX_URL names the index of its {kind} wheels, in the shell or in `env`"
    )
    return MachineError(msg, hint=hint, page=PAGE)


def _fetch(chosen: _Chosen, fitting: Sequence[WheelOffer], offers: Offers, root: Path, outside: Outside) -> TorchParts:
    local = chosen.offer.version.local
    same = [offer for offer in fitting if offer.version.local == local]
    pythons = {python for offer in same for python in offer.pythons}

    def fill(target: Path) -> None:
        with open_parts(chosen.offer, offers.session, outside.reporter.say) as parts:
            make_torch(parts, pythons, target, outside)

    folder = root / _folder(chosen.offer.version, chosen.label, outside.host)
    return read_torch(fill_once(folder, fill, outside.reporter.say))
