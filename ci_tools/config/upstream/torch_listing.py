"""Reads the names of torch's wheels on an index: which builds upstream ships of each release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import parse_wheel_filename

from ci_tools.machine.http.ranges import RemoteFile
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.version import Version
    from pypi_simple import DistributionPackage

    from ci_tools.machine.package_index import Listing

Facts = dict[str, Any]  # the keys of a torch release in the catalog

HOSTS = {  # the platform of a wheel's tag to the machine in the catalog
    "linux-x86_64": re.compile(r"(many)?linux\w*_x86_64"),
    "linux-aarch64": re.compile(r"(many)?linux\w*_aarch64"),
    "macos-arm64": re.compile(r"macosx_\d+_\d+_arm64"),
    "windows-amd64": re.compile(r"win_amd64"),
}
NAMES = "names"  # the key of a release in the catalog with the names of its modules
INTERPRETER = re.compile(r"cp3(\d{1,2})")
NIGHTLY = re.compile(r"\d+\.\d+\.0\.dev20\d{6}")
LABEL = re.compile(r"(?:cu(?P<cuda>\d+)(?P<minor>\d)|rocm(?P<rocm>\d+\.\d+)(?:\.\d+)?|(?P<xpu>xpu))")


class TorchBuild(NamedTuple):
    """One wheel of torch, by its name."""

    file: str
    version: Version  # without its local part
    python: Python
    host: str  # linux-x86_64
    cuda: Minor | None = None
    rocm: Minor | None = None
    xpu: bool = False

    @property
    def minor(self) -> Minor:
        """The minor version of torch, or the nightly."""
        return Minor(self.version.major, self.version.minor, str(self.version.dev or ""))


def read_build(file: str) -> TorchBuild | None:
    """Return the build in a wheel of a final release of torch; None for any other file."""
    build = _read(file)
    return None if build is None or build.version.is_prerelease else build


def read_nightly(file: str) -> TorchBuild | None:
    """Return the build in a wheel of a nightly of torch, such as 2.16.0.dev20261125; None for any other file."""
    build = _read(file)
    return build if build and NIGHTLY.fullmatch(str(build.version)) else None


def _read(file: str) -> TorchBuild | None:
    try:
        name, version, _, tags = parse_wheel_filename(file)
    except ValueError:
        return None
    tag = min(tags, key=str)  # of manylinux1_x86_64.manylinux_2_5_x86_64, always the same
    interpreter = INTERPRETER.fullmatch(tag.interpreter)
    host = next((host for host, pattern in HOSTS.items() if pattern.fullmatch(tag.platform)), None)
    if name != "torch" or interpreter is None or host is None:
        return None
    python = Python(Minor(3, int(interpreter[1])), tag.abi.endswith("t"))  # cp313-cp313t
    public = type(version)(version.public)
    label = LABEL.fullmatch(version.local or "")
    if label is None:
        return TorchBuild(file, public, python, host)
    cuda = Minor(int(label["cuda"]), int(label["minor"])) if label["cuda"] else None
    rocm = Minor.parse(label["rocm"]) if label["rocm"] else None
    return TorchBuild(file, public, python, host, cuda, rocm, bool(label["xpu"]))


def gather_facts(builds: Iterable[TorchBuild]) -> Facts:
    """Return what builds of one release say in the words of the catalog, each list sorted."""
    found: dict[str, dict[str, set[Any]]] = {"pythons": {}, "cuda": {}, "rocm": {}}
    xpu: set[str] = set()
    for build in builds:
        found["pythons"].setdefault(build.host, set()).add(build.python)
        for key, version in (("cuda", build.cuda), ("rocm", build.rocm)):
            if version:
                found[key].setdefault(build.host, set()).add(version)
        xpu |= {build.host} if build.xpu else set()
    facts: Facts = {
        key: {host: list(map(str, sorted(values))) for host, values in sorted(hosts.items())}
        for key, hosts in found.items()
        if hosts
    }
    return {**facts, **({"xpu": {"machines": sorted(xpu)}} if xpu else {})}


def choose_headers(
    builds: Iterable[TorchBuild], files: Mapping[str, DistributionPackage], listing: Listing
) -> Facts | None:
    """Return the smallest wheel for macOS on arm64 that has a sha256, as the catalog names it; None without one."""
    found = [files[build.file] for build in builds if build.host == "macos-arm64"]
    hashed = [file for file in found if file.digests and "sha256" in file.digests]
    if not hashed:
        return None
    sized = [(file.size, file) for file in hashed if file.size]  # PEP 700; not every index says it
    size, file = min(sized, key=lambda pair: pair[0]) if sized else (None, hashed[0])
    if size is None:
        with RemoteFile(listing.client.s, file.url) as remote:
            size = remote.size
    return {"file": file.filename, "sha256": (file.digests or {})["sha256"], "size": size}


def find_news(known: Mapping[str, Any], facts: Mapping[str, Any]) -> Facts:
    """Return the part of some facts that is not known: other keys, and whole lists where they have something new."""
    news: Facts = {}
    for key, value in facts.items():
        ours = known.get(key)
        if isinstance(value, dict):
            if inner := find_news(ours or {}, value):
                news[key] = inner
        elif isinstance(value, list):
            if more := [one for one in value if one not in (ours or ())]:
                news[key] = [*(ours or ()), *more]
        elif ours is None:
            news[key] = value
    return news


def describe_news(known: Mapping[str, Any], news: Mapping[str, Any]) -> str:
    """Return in one line what is new in a release."""
    words = []
    for key, value in news.items():
        if key == "patch":
            words.append(str(value))
        elif key == NAMES:
            words.append(f"{len(value) - 1} names that differ from those of {value['base']}")
        elif key not in {"headers", "indexes"}:
            lists = ((where, one) for where, found in value.items() for one in found)
            ours = known.get(key, {})
            more = dict.fromkeys(one for where, one in lists if one not in ours.get(where, ()))
            words.append(f"{TITLES[key]} {' '.join(more)}")
    return ", ".join(words)


TITLES = {"pythons": "Python", "cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU on"}
