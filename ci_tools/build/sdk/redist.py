"""CUDA toolkits from NVIDIA's component archives ("redistributables"): the compiler, and libraries by need.

A list, redistrib_X.Y.Z.json, names the archives of a release with their sizes and sha256. The catalog has the sha256 of
the list, so that no server, and no mirror, can change what is built with.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.build.room import Need, refuse_no_room
from ci_tools.build.sdk.cuda_libraries import HOME, Overlay, complete_links, write_stand_ins
from ci_tools.catalog.accelerators.cuda import Redist
from ci_tools.catalog.providers import CudaPart, redist_facts
from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.formats.tar import tarfile
from ci_tools.machine import package_index
from ci_tools.machine.context import Outside, Step
from ci_tools.machine.http.policy import UNANSWERED, explain_unanswered, innermost, status_of
from ci_tools.machine.storage import fill_once, hold_lock, naming, sha256_of

if TYPE_CHECKING:
    import requests

MIRROR = "FATWHEEL_CUDA_REDIST"
PAGE = "how-to/choose-a-toolchain.md#nvidias-archives"
LIST = "redistrib.json"
SHA256 = re.compile(r"[0-9a-f]{64}")
# How many times the size of an archive its files have, at least: nothing says it before the archive is here. Those of
# the compiler of CUDA 13.2 have 79 MB by its list, and the wheels of 13.0 with the same files take 271 MiB.
UNPACKED = 3
BEYOND_END = 416  # the status of a server whose file is shorter (RFC 9110, 15.5.17)
LEVEL = re.compile(r"[^/]+/")  # NVIDIA's archives have one folder, of the archive's own name


class ToolkitArchives(NamedTuple):
    """The archives of one toolkit for this machine, by component."""

    name: str  # 12.9.1
    address: str
    platform: str  # linux-x86_64, linux-sbsa
    archives: Mapping[str, ComponentArchive]

    @property
    def listing(self) -> str:
        """The file name of its list."""
        return f"redistrib_{self.name}.json"

    def find(self, *components: str) -> ComponentArchive:
        """Return the archive of the first component that it has; raise MachineError if it has none."""
        found = next((self.archives[name] for name in components if name in self.archives), None)
        if found is None:
            msg = f"{self.listing} has no {components[0]} for {self.platform}, {nearest(components[0], self.archives)}"
            raise MachineError(msg, hint="`toolchain: system` takes an installed toolkit", page=PAGE)
        return found

    @property
    def compiler(self) -> tuple[ComponentArchive, ...]:
        """The archives of the compiler, the runtime and CCCL."""
        facts = redist_facts()
        split = (self.archives[name] for name in facts.split if name in self.archives)
        return *(self.find(*names) for names in facts.compiler), *split


def address_of(environ: Mapping[str, str]) -> str:
    """Return the address of the archives: NVIDIA's, or that of the mirror that a variable names."""
    address = environ.get(MIRROR, "").strip() or redist_facts().address
    if not address.startswith(("https://", "http://")):
        raise InputError(f'{MIRROR} is "{address}"; expected an address such as {redist_facts().address}', page=PAGE)
    return f"{address.rstrip('/')}/"


# ---------------------------------------------------------------- the list


def read_release(redist: Redist, outside: Outside) -> ToolkitArchives:
    """Return a release's archives for this machine; its list is fetched unless the cache has it.

    Raises MachineError if there is no such list, or the server does not answer, InputError if the list is another one
    than the catalog says.
    """
    address, platform = address_of(outside.environ), redist_facts().platforms[outside.host]
    whose = redist.sha256 or f"at-{hashlib.sha256(address.encode()).hexdigest()}"
    folder = outside.cache / "toolchains" / f"redistrib-{redist.release}-{whose[:16]}"

    def fill(target: Path) -> None:
        content = _fetch_list(redist, address, outside)
        _read_archives(content, redist.release, platform)  # a list that cannot be read is not kept
        (target / LIST).write_bytes(content)

    filled = fill_once(folder, fill, outside.reporter.say)
    archives = _read_archives((filled / LIST).read_bytes(), redist.release, platform)
    return ToolkitArchives(redist.release, address, platform, archives)


def _fetch_list(redist: Redist, address: str, outside: Outside) -> bytes:
    url = f"{address}redistrib_{redist.release}.json"
    from ci_tools.machine.http.client import read_document  # noqa: PLC0415 - it loads longer than a plan is made

    with explain_unanswered(f"{url} cannot be fetched", PAGE), package_index.users_session(outside.environ) as session:
        content = read_document(session, url)
    if content is None:
        msg = f"there is no {url}"
        raise MachineError(msg, hint=f"without {MIRROR}, it is looked for at {redist_facts().address}", page=PAGE)
    found = hashlib.sha256(content).hexdigest()
    if redist.sha256 and found != redist.sha256:
        msg = f"{url} has the sha256 {found}, the catalog says {redist.sha256}"
        raise InputError(msg, hint="the server has another list under this name: nothing was kept", page=PAGE)
    if not redist.sha256:
        outside.reporter.say(f"the catalog has no sha256 of redistrib_{redist.release}.json: only TLS vouches for it")
    return content


def _read_archives(content: bytes, release: str, platform: str) -> dict[str, ComponentArchive]:
    """Return the archives of a list for a platform, by component."""
    try:
        table: dict[str, Any] = json.loads(content)
        components = {name: value for name, value in table.items() if isinstance(value, dict) and platform in value}
        return {name: _read_archive(name, value, platform) for name, value in components.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"redistrib_{release}.json is not a list of NVIDIA's archives: {type(error).__name__} {error}"
        raise InputError(msg, page=PAGE) from error


def _read_archive(component: str, value: Mapping[str, Any], platform: str) -> ComponentArchive:
    said = value[platform]
    if not SHA256.fullmatch(said["sha256"]):
        raise ValueError(f"{component} has no sha256")
    return ComponentArchive(value["version"], said["relative_path"], said["sha256"], int(said["size"]))


# ---------------------------------------------------------------- toolkits


def fetch_compiler(release: ToolkitArchives, outside: Outside) -> Path:
    """Return a toolkit's home with the compiler, the runtime and CCCL of a release, fetched unless the cache has it."""
    archives = release.compiler
    content = hashlib.sha256(" ".join(sorted(archive.sha256 for archive in archives)).encode()).hexdigest()
    folder = outside.cache / "toolchains" / f"cuda-redist-{release.name}-{release.platform}-{content[:16]}"

    def fill(target: Path) -> None:
        _refuse_no_room(archives, folder, UNPACKED, f"for the compiler of CUDA {release.name}")
        with package_index.users_session(outside.environ) as session:
            for archive in archives:
                _take(archive, _Source(release.address, session, outside), target / HOME)
        complete_links(target / HOME, outside.cache / "logs" / f"{folder.name}.log")

    return fill_once(folder, fill, outside.reporter.say) / HOME


def fetch_parts(release: ToolkitArchives, parts: Iterable[CudaPart], outside: Outside) -> tuple[Overlay, ...]:
    """Return the libraries of a release, fetched unless the cache has them: their headers, and stand-ins to link with.

    An archive is fetched as a whole, since it is one compressed stream, and removed once its headers are out.
    """
    return tuple(_fetch_part(release, part, outside) for part in parts)


def _fetch_part(release: ToolkitArchives, part: CudaPart, outside: Outside) -> Overlay:
    archive = release.find(part.redist)
    folder = outside.cache / "toolchains" / f"cuda-redist-{part.redist}-{release.platform}-{archive.sha256[:16]}"

    def fill(target: Path) -> None:
        _refuse_no_room([archive], folder, 0, f"for the headers of {part.name}")
        home = target / HOME
        with package_index.users_session(outside.environ) as session:
            names = _take(archive, _Source(release.address, session, outside), home, ("include/", "lib/stubs/"))
        write_stand_ins(home, names, part, outside.cache / "logs" / f"{part.redist}.log")

    filled = fill_once(folder, fill, outside.reporter.say)
    return Overlay(filled / HOME, f"{part.redist}-{archive.version}")


class _Source(NamedTuple):
    """Where archives come from, and the context of the run that fetches them."""

    address: str
    session: requests.Session
    outside: Outside


def _take(archive: ComponentArchive, source: _Source, home: Path, wanted: tuple[str, ...] = ("",)) -> tuple[str, ...]:
    """Fetch an archive, and unpack into `home` the members whose paths start with `wanted`; return all their paths."""
    reporter = source.outside.reporter
    path = source.outside.cache / "toolchains" / "archives" / f"{archive.sha256}.tar.xz"
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(path, reporter.say):
        with reporter.step(f"fetch {archive.file}") as step:
            download(archive, f"{source.address}{archive.path}", path, source.session, step)
            step.result(f"{archive.size / 1e6:.1f} MB")
        try:
            # Each has a LICENSE at its top, which the next one would replace.
            return unpack(path, archive.file, home, lambda name: "/" in name and name.startswith(wanted))
        finally:
            path.unlink()


def _refuse_no_room(archives: Iterable[ComponentArchive], folder: Path, times: int, what: str) -> None:
    """Raise MachineError if the disk has no room for archives, one after the other, and for what is kept of them."""
    sizes = [archive.size for archive in archives]
    refuse_no_room([Need(folder, max(sizes) + times * sum(sizes), what)])


class ComponentArchive(NamedTuple):
    """An archive of one component, as a list of NVIDIA's describes it."""

    version: str
    path: str  # below the address of the list
    sha256: str
    size: int  # bytes

    @property
    def file(self) -> str:
        """Its file name."""
        return self.path.rpartition("/")[2]


def download(archive: ComponentArchive, url: str, path: Path, session: requests.Session, step: Step) -> None:
    """Download an archive to `path`; bytes that are there already are kept, so a broken download goes on.

    Raises MachineError if the server has no such file, or stops sending: what came is kept for the next run. Raises
    InputError if the file has another sha256: then nothing is kept.
    """
    from ci_tools.machine.http.client import Body  # noqa: PLC0415 - it loads longer than a plan is made

    done = path.stat().st_size if path.exists() else 0
    try:
        with naming(path), path.open("ab") as file:
            for piece in Body(session, url, done) if done < archive.size else ():
                file.write(piece)
                done += len(piece)
                step.progress(min(done, archive.size), archive.size)
                if done > archive.size:
                    break  # the server sends another file, perhaps without end
    except UNANSWERED as error:
        if status_of(error) == BEYOND_END:
            path.unlink()  # longer than the file
        msg = f"{archive.file} cannot be fetched from {url}: {innermost(error)}"
        raise MachineError(msg, hint="what came is kept: the same command goes on from there") from error
    if (found := sha256_of(path)) != archive.sha256:
        path.unlink()
        msg = f"{archive.file} has the sha256 {found}, expected {archive.sha256}"
        raise InputError(msg, hint=f"{url} has another file than its list says: nothing was kept")


def unpack(path: Path, file: str, folder: Path, wanted: Callable[[str], bool]) -> tuple[str, ...]:
    """Unpack the members that are wanted below `folder`, without the archive's own folder; return all their paths.

    Raises InputError for a damaged archive, and for a member that would be written outside `folder`.
    """
    names = []
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                name = LEVEL.sub("", member.name, count=1) if "/" in member.name else ""
                names.append(name)
                if name and wanted(name):
                    link = LEVEL.sub("", member.linkname, count=1) if member.islnk() else member.linkname
                    own = member.replace(name=name, linkname=link)
                    with naming(folder / name):
                        archive.extract(own, folder, filter="data")  # PEP 706: no member leaves the folder
    except (tarfile.TarError, EOFError, ValueError) as error:
        msg = f"{file} cannot be unpacked: {innermost(error)}"
        raise InputError(msg, hint="its sha256 is right, so it was made like this: nothing was kept") from error
    return tuple(names)
