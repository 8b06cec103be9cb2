"""A rule about the SBOMs in a wheel (PEP 770): each is JSON and names this wheel, and ours is there."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from ci_tools.formats.wheel import SBOM
from ci_tools.model.files import Level
from ci_tools.model.pep440 import read_version
from ci_tools.verify.audit.subject import Flaw, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version


CYCLONEDX = "CycloneDX"
FOLDER = PurePosixPath(SBOM).parent


def sbom(subject: Subject) -> Iterator[Flaw]:
    """Each SBOM in dist-info is JSON that names this wheel; a wheel that Fatwheel builds has one.

    A warning in wheels from elsewhere. An SBOM of another tool may lack the local version, which is put on the finished
    wheel; one that is not in CycloneDX's JSON, such as SPDX, is not compared.
    """
    level = Level.ERROR if subject.job else Level.WARNING
    dist_info = PurePosixPath(subject.wheel.dist_info)
    found = [member.name for member in subject.members if PurePosixPath(member.name).parent == dist_info / FOLDER]
    if subject.job and str(dist_info / SBOM) not in found:
        yield Flaw("the wheel has no SBOM of its build", "no such member", str(dist_info / SBOM))
    for name in found:
        if name.endswith(".json"):
            file = str(PurePosixPath(name).relative_to(dist_info))
            yield from (flaw._replace(level=level) for flaw in _check(file, subject))


def _check(file: str, subject: Subject) -> Iterator[Flaw]:
    try:
        content = json.loads(subject.wheel.dist_info_data(file))
    except (ValueError, RecursionError) as error:
        yield Flaw(f"{file} is not JSON: {str(error).splitlines()[0]}", "unreadable", "a CycloneDX or SPDX document")
        return
    is_ours = file == SBOM
    if not isinstance(content, dict) or (is_ours and content.get("bomFormat") != CYCLONEDX):
        yield Flaw(f"{file} is not an SBOM", type(content).__name__, f'an object with "bomFormat": "{CYCLONEDX}"')
    elif content.get("bomFormat") == CYCLONEDX and subject.wheel.named:
        yield from _compare(file, content, subject.wheel.named[0], subject.wheel.named[1])


def _compare(file: str, content: dict[str, Any], name: str, version: Version) -> Iterator[Flaw]:
    """Compare the component that an SBOM describes with the project and version of the file name."""
    described: Any = content.get("metadata")
    described = described.get("component") if isinstance(described, dict) else None
    if not isinstance(described, dict):
        if file == SBOM:
            yield Flaw(f"{file} does not say what it describes", "no metadata.component", f"{name} {version}")
        return
    said_name, said_version = str(described.get("name", "")), str(described.get("version", ""))
    if canonicalize_name(said_name) != name:
        yield Flaw(f"{file} and the file name differ in the project", said_name or "nothing", name)
    allowed = {version} if file == SBOM else {version, read_version(version.public)}
    if read_version(said_version) not in allowed:
        yield Flaw(f"{file} and the file name differ in the version", said_version or "nothing", str(version))
