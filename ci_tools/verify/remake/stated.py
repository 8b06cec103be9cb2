"""Reads what a wheel states of its build, in its SBOM and in the receipt beside it: all that it takes to make it again.

Anybody can write it, so each value that reaches git, an installer or a path has one strict form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError, Rejected
from ci_tools.formats import receipts
from ci_tools.formats.wheel import SBOM, open_wheel
from ci_tools.machine.storage import sha256_of
from ci_tools.model.edition import is_date
from ci_tools.model.files import Resolved
from ci_tools.model.names import GIT_COMMIT
from ci_tools.model.request import STABLE, UNTAGGED, Channel, Edition

PREFIX = "fatwheel:"
SHA256 = r"[0-9a-f]{64}"
FORMS: Mapping[str, re.Pattern[str]] = {
    "job": re.compile(r"[\w.+-]+", re.ASCII),
    "source": re.compile(r"fetched"),
    "source:commit": GIT_COMMIT,
    "source:sha256": re.compile(SHA256),
    "config": re.compile(r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[\w./ +@=-]+"),
    "fatwheel": re.compile(r"[\w.+]+", re.ASCII),
    "config:commit": GIT_COMMIT,
    "config:sha256": re.compile(SHA256),
    "edition": re.compile(r"stable|nightly \d{8}"),
    "tag": re.compile(r"[\w][\w./+-]*"),
    "run:torch": re.compile(r"[\w.+ -]+"),
    "run:level": re.compile(r"[\w-]+=\w+(?: [\w-]+=\w+)*"),
}
REQUIREMENT = re.compile(rf"[a-z0-9][a-z0-9.-]*==[\w.!+]+=({SHA256})?", re.ASCII)
ADDRESS = re.compile(r"(?:https|http|ssh|git)://[^\s-]\S*|[\w.-]+@[\w.-]+:(?![/-])\S+")
IMAGE = re.compile(r"([\w./:-]+@sha256:[0-9a-f]{64}) \(")  # of `BuiltWith.image`, without the system
REQUIRED = "build:"  # the start of the bom-ref of a build requirement


class StatedBuild(NamedTuple):
    """The statement of a wheel about its build; `said` is `plan_file.list_origin`, and the version of Fatwheel."""

    wheel: str
    sha256: str
    project: str
    job: str
    said: Mapping[str, str]
    address: str  # of the source; "": it states none
    requires: tuple[Resolved, ...]
    tools: Mapping[str, str]  # the version and content of each component, by its bom-ref

    @property
    def edition(self) -> Edition:
        """The edition that it is of."""
        channel, _, rest = self.said.get("edition", "").partition(" ")
        if channel == Channel.NIGHTLY and is_date(rest):
            return Edition(Channel.NIGHTLY, date=rest)
        return STABLE if channel == Channel.STABLE else UNTAGGED

    @property
    def image(self) -> str:
        """The image of its build by digest; "" if it was built in none, or in one that only its tag names."""
        found = IMAGE.match(self.tools.get("image", ""))
        return found[1] if found else ""


def read_stated(path: Path) -> StatedBuild:
    """Return what the wheel at `path`, and the receipt beside it, state; raise InputError if that is no build."""
    try:
        wheel = open_wheel(path)
        with wheel.archive:
            data = wheel.dist_info_data(SBOM)
    except Rejected as error:
        raise InputError(f"{path}: {error.message}", hint="it was cut or changed on its way: fetch it again") from error
    if not data:
        raise InputError(f"{path.name} was not made by Fatwheel: it has no {SBOM} that says how it was built")
    try:
        found = _read_sbom(path, json.loads(data))
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        msg = f"the SBOM of {path.name} is not one that Fatwheel writes: {type(error).__name__}: {error}"
        raise InputError(msg) from error
    receipt = receipts.read(receipts.path_of(path))
    if receipt and not found.address and receipt.sha256 == found.sha256:
        own = dict(receipt.made_from).get("source:address", "")
        return found._replace(address=own if ADDRESS.fullmatch(own) else "")
    return found


def _read_sbom(path: Path, sbom: Any) -> StatedBuild:  # noqa: ANN401 - JSON
    described, components = sbom["metadata"]["component"], sbom.get("components", ())
    properties = {str(one["name"]): str(one["value"]) for one in described.get("properties", ())}
    said = {name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX)}
    said["fatwheel"] = str(sbom["metadata"]["tools"]["components"][0]["version"])
    links = [str(one["url"]) for one in described.get("externalReferences", ()) if one["type"] == "vcs"]
    for name, value in said.items():
        if name in FORMS and not FORMS[name].fullmatch(value):
            raise ValueError(f"{name} is {value!r}")
    return StatedBuild(
        wheel=path.name,
        sha256=sha256_of(path),
        project=canonicalize_name(str(described["name"])),
        job=said["job"],
        said=said,
        address=next((url for url in links if ADDRESS.fullmatch(url)), ""),
        requires=tuple(_read_required(one) for one in components if str(one["bom-ref"]).startswith(REQUIRED)),
        tools={str(one["bom-ref"]): _describe(one) for one in components},
    )


def _read_required(component: Any) -> Resolved:  # noqa: ANN401 - JSON
    found = Resolved(str(component["name"]), str(component["version"]), _hash_of(component))
    if not REQUIREMENT.fullmatch(f"{found.name}=={found.version}={found.sha256}"):
        raise ValueError(f"{found.name!r} {found.version!r} is not a requirement")
    return found


def _describe(component: Any) -> str:  # noqa: ANN401 - JSON
    sha256 = _hash_of(component)
    return f"{component['version']}{f' (sha256 {sha256[:12]})' if sha256 else ''}"


def _hash_of(component: Any) -> str:  # noqa: ANN401 - JSON
    return next((str(one["content"]) for one in component.get("hashes", ()) if one["alg"] == "SHA-256"), "")
