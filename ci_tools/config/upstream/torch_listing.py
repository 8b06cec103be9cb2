"""Reads the names of torch's wheels on an index: which builds upstream ships of each release."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from ci_tools.catalog import Catalog
from ci_tools.config.torch_axis import NEWEST
from ci_tools.config.upstream.torch_names import NAMES, read_new_names
from ci_tools.errors import InputError
from ci_tools.machine.http.ranges import RemoteFile
from ci_tools.machine.package_index import Index, Listing, listing_of
from ci_tools.model.platforms import Accelerator
from ci_tools.model.request import Request
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage


Facts = dict[str, Any]  # the keys of a torch release in the catalog

HOSTS = {  # the platform of a wheel's tag to the machine in the catalog
    "linux-x86_64": re.compile(r"(many)?linux\w*_x86_64"),
    "linux-aarch64": re.compile(r"(many)?linux\w*_aarch64"),
    "macos-arm64": re.compile(r"macosx_\d+_\d+_arm64"),
    "windows-amd64": re.compile(r"win_amd64"),
}
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


# ---------------------------------------------------------------- nightlies

# An index of nightlies has builds of the last weeks, and those of the newest day arrive one by one. So the newest one
# is taken that has a build for everything the config asks for, and the config's own date if it names one.
TORCH = "torch"
ROW, PART = re.compile(r"\s*\[\[\s*torch\.nightly\s*\]\]"), re.compile(r"\s*\[\s*torch\.nightly\.")
HEADER = re.compile(r"\s*\[")
VERSION = re.compile(r"""\s*version\s*=\s*["']([^"']+)["']""")
PAGE = "how-to/use-a-new-torch.md#take-a-nightly"


class Nightly(NamedTuple):
    """A torch nightly, and its row in the words of the catalog."""

    version: Minor
    facts: Facts

    @property
    def row(self) -> Facts:
        """The whole row."""
        return {"version": str(self.version), **self.facts}


class _NightlyIndex(NamedTuple):
    """An index, what it lists, and the builds of nightlies in it."""

    url: str
    listing: Listing
    builds: tuple[TorchBuild, ...]


def find_nightly(
    request: Request, catalog: Catalog, indexes: Sequence[Index], say: Callable[[str], None]
) -> Nightly | None:
    """Return the nightly that a request asks for, as the indexes have it; None if it asks for none.

    Raises InputError if no index is named, or none of them has it; MachineError if one does not answer.
    """
    asked = request.torch.nightly if request.torch else None
    if asked is None:
        return None
    if not indexes:
        msg = f"{request.config} asks for a nightly of torch, and no index of nightlies is named"
        raise InputError(msg, hint="--index URL names it", page=PAGE)
    with ExitStack() as stack:
        places = [_read_index(index, stack) for index in indexes]
        found: dict[Minor, list[TorchBuild]] = {}
        for build in (build for place in places for build in place.builds):
            found.setdefault(build.minor, []).append(build)
        fitting = {version: builds for version, builds in found.items() if asked in {NEWEST, version.nightly}}
        if not fitting:
            raise _explain_absence(asked, found, indexes)
        chosen = _choose(fitting, request, catalog, say)
        facts = _describe(fitting[chosen], places)
        return Nightly(chosen, {**facts, **_read_names(fitting[chosen], places, say)})


def _read_index(index: Index, stack: ExitStack) -> _NightlyIndex:
    listing = stack.enter_context(listing_of(TORCH, index))
    names = (file.filename for file in listing.files if not file.is_yanked)
    return _NightlyIndex(index.url, listing, tuple(filter(None, map(read_nightly, names))))


def _explain_absence(asked: str, found: Iterable[Minor], indexes: Iterable[Index]) -> InputError:
    dates = sorted({version.nightly for version in found})
    there = f"there are those of {dates[0]} to {dates[-1]}" if dates else "there is none at all"
    which = "" if asked == NEWEST else f" of {asked}"
    where = " and ".join(index.url for index in indexes)
    return InputError(f"{where}: no nightly of torch{which}; {there}", page=PAGE)


def _choose(
    found: Mapping[Minor, Sequence[TorchBuild]], request: Request, catalog: Catalog, say: Callable[[str], None]
) -> Minor:
    """Return the newest nightly with a build for everything that is asked for, else the newest; say what it lacks."""
    wanted = set(_list_wanted(request, catalog))
    lacking = {version: sorted(wanted - set(_list_served(found[version]))) for version in sorted(found, reverse=True)}
    newest = next(iter(lacking))
    chosen = next((version for version, lacks in lacking.items() if not lacks), newest)
    if lacking[newest]:
        instead = f"{chosen} is taken" if chosen != newest else "no older one has all that is asked for"
        say(f"torch {newest} has no build for {', '.join(lacking[newest])}: {instead}")
    return chosen


def _list_wanted(request: Request, catalog: Catalog) -> Iterator[str]:
    for platform in request.platforms:
        for accelerator in platform.accelerators or (None,):
            yield _name(catalog.platforms[platform.platform].host, accelerator)


def _name(host: str, accelerator: Accelerator | None) -> str:
    is_listed = accelerator and (accelerator.version or not accelerator.kind.is_versioned)
    return f"{accelerator.label} on {host}" if accelerator and is_listed else host


def _list_served(builds: Iterable[TorchBuild]) -> Iterator[str]:
    for build in builds:
        labels = (build.cuda and f"cu{build.cuda.digits}", build.rocm and f"rocm{build.rocm}", build.xpu and "xpu")
        yield from (build.host, *(f"{label} on {build.host}" for label in labels if label))


def _describe(builds: Sequence[TorchBuild], places: Iterable[_NightlyIndex]) -> Facts:
    """Return the row of a nightly: its indexes, what it is for, and the wheel with its headers if one has a hash."""
    having = [(place, [build for build in place.builds if build in builds]) for place in places]
    having = [(place, own) for place, own in having if own]
    facts: Facts = {"indexes": [place.url for place, _ in having], **gather_facts(builds)}
    for place, own in having:
        files = {file.filename: file for file in place.listing.files}
        if headers := choose_headers(own, files, place.listing):
            # They are fetched from the first index: the one that has them.
            others = [url for url in facts["indexes"] if url != place.url]
            return {**facts, "indexes": [place.url, *others], "headers": headers}
    return facts


def _read_names(builds: Sequence[TorchBuild], places: Iterable[_NightlyIndex], say: Callable[[str], None]) -> Facts:
    """Return the names of a nightly, read from its wheel for Linux, or for any system without such a one."""
    for build in sorted(builds, key=lambda build: (build.host != "linux-x86_64", build.file)):  # False sorts first
        for place in places:
            files = {file.filename: file for file in place.listing.files}
            if build.file in files:
                return {**read_new_names(files[build.file], place.listing, say)}
    return {}


def drop_rows(text: str, versions: Iterable[Minor]) -> str:
    """Return the text of a catalog's file without the rows of these nightlies; all other lines stay as they are."""
    dropped = set(map(str, versions))
    kept: list[str] = []  # lines, each with its end
    row: list[str] | None = None
    for line in [*text.splitlines(keepends=True), "["]:  # a last header ends the last row
        if row is not None and HEADER.match(line) and not PART.match(line):
            kept += _keep_row(row, dropped)
            row = None
        if ROW.match(line):
            row = []
        (kept if row is None else row).append(line)
    return "".join(kept[:-1])


def _keep_row(row: list[str], dropped: set[str]) -> list[str]:
    """Return the lines of a row, or of one that is dropped the comments below it, which are about the next."""
    named = next((found[1] for line in row if (found := VERSION.match(line))), "")
    if named not in dropped:
        return row
    below = len(row)
    while row[below - 1].lstrip()[:1] in {"", "#"}:
        below -= 1
    return [line for line in row[below:] if line.strip()]
