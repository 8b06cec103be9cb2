"""PyPI, TestPyPI and every other index with their upload API: twine or uv uploads file after file."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZIP_STORED

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from ci_tools.errors import InputError, MachineError, Problem, Rejected, RejectedInput, nearest
from ci_tools.formats.pypi_rules import Archive, Held, UploadRelease, pypi_problems, strangers
from ci_tools.formats.tar import UNREADABLE, tarfile
from ci_tools.formats.wheel import open_wheel
from ci_tools.index.units import CORE, Change, Item, Published, Unit
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import LISTING
from ci_tools.machine.storage import refuse_change, sha256_of
from ci_tools.model.request import Route
from ci_tools.model.versions import parse_version
from ci_tools.publish.targets import UPLOADERS
from ci_tools.publish.targets.pypi.listing import IndexPages
from ci_tools.publish.targets.pypi.uploader import AGAIN, TAKEN, Uploader, clean_text, parse_answer, place_of

PATIENCE = 300.0  # seconds until the index must list an uploaded file; PyPI's pages are cached
SETTLING = 10.0  # seconds to wait for another publisher's upload of a file
MAX_PKG_INFO = 16 << 20  # bytes


class PyPITarget:
    """An index for uploads: PyPI, TestPyPI, a section of the user's .pypirc, or an upload address.

    `name` is the part after `pypi:` in `--to`. The unit's route selects the files. PyPI's own rules (pypirules) are
    applied on PyPI and TestPyPI; every other index accepts local versions, linux tags and files of any size, and is
    only asked whether it has a file already. The uploader itself finds the credentials, as its users expect.
    """

    order = 3  # the last: an upload cannot be undone
    stages = False

    def __init__(self, name: str, outside: Outside, *, uploader: str = "twine", patience: float = PATIENCE) -> None:
        if uploader not in UPLOADERS:
            raise InputError(f'there is no uploader "{uploader}", {nearest(uploader, UPLOADERS)}')
        self.address = f"pypi:{name}" if name not in {"", "pypi"} else "pypi"
        self._outside = outside
        self._patience = patience
        self._place = place_of(name or "pypi", outside.environ)
        self._listing = IndexPages(self.address, self._place, outside)
        self._uploader = Uploader(uploader, self.address, self._place, outside)

    def locate(self, item: Item, unit: Unit) -> None:
        """Return None: the index decides on the address when it has the file."""

    def explain_private(self, unit: Unit) -> str:  # noqa: ARG002 - see Target
        """Return "": a smart sdist names no address here."""
        return ""

    # -- the four steps

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return which files would be added and which exist already, in upload order.

        Raises RejectedInput with everything for which the index would refuse a file, or has it with other bytes;
        InputError if the config does not select the files for PyPI; MachineError if the index does not answer.
        """
        items = select_items(unit, self.address)
        new = self._new(unit, items)
        return [Change("add" if item in new else "keep", f"{self.address}/{item.name}") for item in items]

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the files of the unit's version that the index lists."""
        return frozenset(self._listing.yanks(unit.project, parse_version(unit.version)))

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check`, which concern each file by itself; of a draft those of its name and metadata."""
        self._new(unit, select_known(unit, self.address), unit.drafts)

    def stage(self, unit: Unit) -> None:
        """Do nothing: an uploaded file is public at once, until indexes support draft releases (PEP 694)."""

    def verify(self, unit: Unit) -> None:
        """Do nothing: nothing is staged; `switch` reads back the hashes of all files it uploads."""

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Upload the missing files, and return every file once the index lists it with its sha256.

        Wheels of one platform come first, then the pure one, the sdist last: a user's best file is uploaded before the
        lesser ones, and until then an installer takes the previous release. In any other order somebody with a GPU
        would get the pure wheel, or anybody would start a build.

        Raises as `check` does, InputError if the credentials are wrong, Rejected if the index refuses a file,
        MachineError if it cannot be reached, does not list an uploaded file in time, or a file changed meanwhile.
        """
        items = select_items(unit, self.address)
        new = self._new(unit, items)
        for item in new:
            self._upload(unit, item)
        held = self._await_listing(unit, items, self._patience) if items else {}  # users see it only then
        return [Published(item.name, clean_text(held[item.name].url), item in new) for item in items]

    # -- bad releases

    def yanks(self, project: str, version: Version) -> dict[str, str | None]:
        """Return the listed files of a version, each with the reason for its yank; None if it is not yanked."""
        return self._listing.yanks(project, version)

    def manage_page(self, project: str) -> str:
        """Return the page where a maintainer yanks a project's releases, or "" if it is not known."""
        host = urlsplit(self._place.simple).netloc
        return f"https://{host}/manage/project/{project}/releases/" if self._place.has_rules else ""

    # -- problems

    def _new(self, unit: Unit, items: Sequence[Item], drafts: Sequence[Item] = ()) -> list[Item]:
        """Return the unit's files that the index lacks; raise RejectedInput if it would not accept them or a draft."""
        if not (items or drafts):
            return []
        held = self._listing.held(unit.project, items)
        there = {file.name: file.sha256 for file in held or ()}
        new = [item for item in items if item.name not in there]  # by name: bytes come next
        changed = [item for item in items if item not in new and there[item.name] != item.sha256]
        release = UploadRelease(unit.project, unit.version, held, datetime.now(timezone.utc))
        problems = [
            *(self._describe_conflict(item, there[item.name]) for item in changed),
            *self._problems([*new, *(draft for draft in drafts if draft.name not in there)], release),
        ]
        if problems:
            raise RejectedInput(problems, hint=f"nothing was sent to {self.address}")
        return new

    def _describe_conflict(self, item: Item, sha256: str) -> Problem:
        hashes = f"sha256 {clean_text(sha256)[:12]}…, new {item.sha256[:12]}…"
        what = f"{self.address} has it with other bytes ({hashes}), and a published file never changes"
        return Problem(item.name, f"{what}: raise the version")

    def _problems(self, items: Iterable[Item], release: UploadRelease) -> Iterator[Problem]:
        files = []
        for item in items:
            if sha256_of(item.path) != item.sha256:
                yield Problem(item.name, "its bytes differ from its receipt")
            try:
                files.append(archive_of(item.path))
            except Rejected as error:
                yield Problem("", error.message)
        yield from strangers(files, release)
        if self._place.has_rules:
            yield from pypi_problems(files, release, sys.stdlib_module_names)

    # -- uploading

    def _upload(self, unit: Unit, item: Item) -> None:
        """Upload one file; if that fails, ask the index whether it has the file, from us or from another publisher."""
        with self._outside.reporter.step(f"upload {item.name} to {self.address}"):
            refuse_change(item.path, item.sha256)  # earlier uploads may have taken an hour
            said = self._uploader.run(item)
            if said is None:
                return
            status, words = parse_answer(said)
            if not self._is_there(unit, item, SETTLING if status in TAKEN else 0.0):
                raise self._uploader.explain(item, status, words)

    def _is_there(self, unit: Unit, item: Item, patience: float) -> bool:
        try:
            self._await_listing(unit, [item], patience)
        except MachineError:
            return False
        return True

    # -- reading back

    def _await_listing(self, unit: Unit, items: Sequence[Item], patience: float) -> dict[str, Held]:
        """Return the entries of `items` once the index lists them all with their sha256.

        Raises InputError if the index has one with other bytes, MachineError if it does not list all in time.
        """
        for waited in LISTING.attempts():  # seconds since the first
            held = {file.name: file for file in self._listing.held(unit.project, items) or ()}
            other = [item for item in items if item.name in held and held[item.name].sha256 != item.sha256]
            lacking = [item.name for item in items if item.name not in held or item in other]
            if not lacking:
                return held
            if other and waited >= min(SETTLING, self._patience):
                raise RejectedInput([self._describe_conflict(item, held[item.name].sha256) for item in other])
            if waited >= patience:
                break
            self._outside.reporter.say(f"waiting for {self.address} to list {', '.join(lacking)}")
        msg = f"{self.address} does not list {', '.join(lacking)} after {waited:.0f} seconds"
        raise MachineError(msg, hint=f"its pages may lag behind; {AGAIN}")


# ---------------------------------------------------------------- the files that go to PyPI


def select_items(unit: Unit, address: str) -> list[Item]:
    """Return the unit's files for an index by its route, in upload order; raise InputError if the config has none."""
    taken = select_known(unit, address)
    if unit.name == CORE and not taken:
        raise InputError(f"{unit.project} {unit.version} has nothing that goes to {address} by `pypi: {unit.route}`")
    return taken


def select_known(unit: Unit, address: str) -> list[Item]:
    """Return those files of a unit that is not complete yet; raise InputError if its config selects none for PyPI."""
    if unit.route is Route.NONE:
        msg = f"nothing of {unit.project} goes to {address}: the config does not select files for PyPI"
        raise InputError(msg, hint="set `pypi: wheels` below `publish:`")
    taken = [item for item in unit.files if _goes(item, unit.route)]
    return sorted(taken, key=lambda item: (_rank(item), item.name))


def _goes(item: Item, route: Route) -> bool:
    if item.made is None:
        return True
    return route is Route.WHEELS and (item.made.kind == "pure" or not _has_local_version(item.name))


def _rank(item: Item) -> int:
    if item.made is None:
        return 2
    return 1 if item.made.kind == "pure" else 0


def _has_local_version(wheel: str) -> bool:
    try:
        return parse_wheel_filename(wheel)[1].local is not None
    except ValueError:  # InvalidWheelFilename, InvalidVersion, or more digits than Python converts
        return False  # the rules report what is wrong with its name


def archive_of(path: Path) -> Archive:
    """Return the parts of a file that the rules check; raise Rejected if it cannot be read."""
    return _wheel(path) if path.name.endswith(".whl") else _sdist(path)


def _wheel(path: Path) -> Archive:
    wheel = open_wheel(path)
    with wheel.archive as archive, path.open("rb") as file:
        infos = archive.infolist()
        members = tuple(info.filename for info in infos)
        unpacked = sum(info.file_size for info in infos)
        file.seek(-min(path.stat().st_size, 22 + len(archive.comment)), os.SEEK_END)  # end of central directory
        is_end = file.read(4) == b"PK\x05\x06"  # its signature (APPNOTE 4.3.16)
        flaws = (*_flaws(infos), *([] if is_end else ["it has bytes after the end of its zip file"]))
        return Archive(path.name, path.stat().st_size, wheel.dist_info_data("METADATA"), members, unpacked, flaws)


def _flaws(infos: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    if infos and min(info.header_offset for info in infos):
        yield "it begins with bytes before its zip file"
    for info in infos:
        if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
            yield f"{info.filename!r} is neither stored nor deflated"
        if info.flag_bits & 8:
            yield f"{info.filename!r} gives its size only after its content (a data descriptor)"
        if info.comment:
            yield f"{info.filename!r} has a comment"


def _sdist(path: Path) -> Archive:
    top = path.name.removesuffix(".tar.gz")
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = tuple(archive.getnames())
            found = f"{top}/PKG-INFO" in members and archive.getmember(f"{top}/PKG-INFO")
            file = archive.extractfile(found) if found and found.size <= MAX_PKG_INFO else None
            return Archive(path.name, path.stat().st_size, file.read() if file else b"", members)
    except (*UNREADABLE, ValueError) as error:
        raise Rejected(f"{path.name} is not an sdist: {error}") from error
