"""Finds an sdist on the package index: the newest final one of a project, or that of one version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name, parse_sdist_filename
from packaging.version import Version

from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.model.names import Sha256
from ci_tools.model.request import SdistSource
from ci_tools.model.versions import read_version

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage


NAMED = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==(?P<version>[^\s=]+))?")
ARCHIVE = ".tar.gz"  # PEP 625
MAX_SHOWN = 5  # versions in a hint


def choose_sdist(named: str, outside: Outside) -> SdistSource:
    """Return the sdist of NAME==VERSION, or the newest final one of NAME; raise InputError if the index has none."""
    found = NAMED.fullmatch(named)
    version = read_version(found["version"]) if found and found["version"] else None
    if found is None or (found["version"] and version is None):
        raise InputError(f'"{named}" names no sdist, expected NAME or NAME==VERSION')
    name = found["name"]
    known = _list_hashed(name, outside)
    if version is None:
        finals = [one for one, (file, _) in known.items() if not one.is_prerelease and not file.is_yanked]
        if not finals:
            raise InputError(f"the package index has no sdist of {name}", hint="name the address of its git repository")
        version = max(finals)
    if version not in known:
        msg = f"the package index has no sdist of {name} {version}"
        newest = ", ".join(map(str, sorted(known, reverse=True)[:MAX_SHOWN]))
        raise InputError(msg, hint=f"the newest it has: {newest}" if known else "")
    file, digest = known[version]
    stem, text = file.filename.removesuffix(ARCHIVE).rsplit("-", 1)  # the version has no dash (PEP 625)
    return SdistSource(name=name if name.replace("-", "_") == stem else stem, version=text, sha256=Sha256(digest))


def list_sdists(name: str, outside: Outside) -> list[DistributionPackage]:
    """Return the sdists of a project on the package index whose file names say its name and a version.

    Old ones may not: natten-0.14.2-4.tar.gz is read as version 4 of "natten-0.14.2" (PEP 625 came in 2022).
    """
    sdists = (file for file in list_files(name, outside) if file.package_type == "sdist")
    return [file for file in sdists if _is_sdist_of(canonicalize_name(name), file.filename)]


def list_files(name: str, outside: Outside) -> tuple[DistributionPackage, ...]:
    """Return the files of a project on the user's package index."""
    from ci_tools.machine import package_index  # noqa: PLC0415 - its HTTP client loads longer than a plan is made

    with package_index.listing_of(name, package_index.users_index(outside.environ)) as listing:
        return listing.files


def _is_sdist_of(name: str, file: str) -> bool:
    try:
        return parse_sdist_filename(file)[0] == name
    except ValueError:  # also a number with more digits than Python converts
        return False


def _list_hashed(name: str, outside: Outside) -> dict[Version, tuple[DistributionPackage, str]]:
    """Return a project's sdists whose sha256 the index says, by version."""
    found = {}
    for file in list_sdists(name, outside):
        if file.filename.endswith(ARCHIVE) and (digest := (file.digests or {}).get("sha256")):
            found[parse_sdist_filename(file.filename)[1]] = (file, digest)
    return found
