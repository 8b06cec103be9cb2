"""The wheels of a project that the user's pip could install, and members taken out of one without fetching the rest.

They are looked for on all its indexes and in its folders (find-links). Each member is checked against the wheel's own
RECORD (PEP 427).
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, parse_wheel_filename

from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.formats.wheel import record_hash
from ci_tools.machine import package_index
from ci_tools.machine.http.policy import UNANSWERED, NoParts
from ci_tools.machine.remote_wheel import RemoteWheel, explain_damage, remote_wheel, whole_wheel
from ci_tools.machine.storage import CHUNK, naming, sha256_of

if TYPE_CHECKING:
    import requests
    from packaging.tags import Tag
    from packaging.version import Version

MAX_WHOLE = 4 << 30  # bytes of a wheel that is downloaded as a whole


class WheelOffer(NamedTuple):
    """A wheel: its file name, its address, and the sha256 that the index gives for it ("": none)."""

    file: str
    url: str
    sha256: str = ""

    @property
    def version(self) -> Version:
        """Its version, with the local part."""
        return parse_wheel_filename(self.file)[1]

    @property
    def tags(self) -> frozenset[Tag]:
        """The tags of its file name."""
        return parse_wheel_filename(self.file)[3]

    @property
    def pythons(self) -> frozenset[str]:
        """The Pythons it is for, as `cp311` or `cp313t`."""
        return frozenset(f"{tag.interpreter}{'t' if tag.abi.endswith('t') else ''}" for tag in self.tags)

    def is_for_python(self, python: str) -> bool:
        """Whether it is for a Python such as `cp311`, or for every Python."""
        return python in self.pythons or "py3" in self.pythons

    def is_for(self, host: str) -> bool:
        """Whether it is for a kind of machine, such as `linux-x86_64` or `windows-amd64`, or for every machine."""
        system, _, machine = host.partition("-")
        own = {"windows": "win", "macos": "macosx"}.get(system, system)
        names = [tag.platform for tag in self.tags]
        return any(name == "any" or (name.endswith(f"_{machine}") and own in name) for name in names)


class Offers(NamedTuple):
    """The wheels of a project, an HTTP session that reads them, and the places that did not answer."""

    session: requests.Session
    wheels: tuple[WheelOffer, ...]
    unanswered: tuple[MachineError, ...] = ()

    def explain_none(self, error: FatwheelError) -> FatwheelError:
        """Return the error for no fitting wheel; a place that did not answer may have one."""
        if not self.unanswered:
            return error
        first = self.unanswered[0]
        return MachineError(f"{first.message}; elsewhere, {error.message}", hint=first.hint, page=error.page)


@contextmanager
def find_offers(project: str, environ: Mapping[str, str]) -> Iterator[Offers]:
    """Yield every wheel of `project` where the user's pip looks, each file name once: the first place that has it.

    Raises the error of an index if no place has any wheel: of one that did not answer, or else of the first.
    """
    settings = package_index.users_places(environ)
    found: dict[str, WheelOffer] = {}
    errors: list[FatwheelError] = []
    with package_index.users_session(environ) as session:
        for place in settings.folders:
            found |= {offer.file: offer for offer in _in_folder(project, place, session) if offer.file not in found}
        for place in settings.indexes:
            listed = _list_index(project, place, session, errors)
            found |= {offer.file: offer for offer in listed if offer.file not in found}
        unanswered = tuple(error for error in errors if isinstance(error, MachineError))
        if not found:
            raise next(iter((*unanswered, *errors)), _nothing(project))
        yield Offers(session, tuple(found.values()), unanswered)


def _nothing(project: str) -> InputError:
    return InputError(f'no package index and no folder of pip\'s settings has a wheel of "{project}"')


def _list_index(
    project: str, index: str, session: requests.Session, errors: list[FatwheelError]
) -> tuple[WheelOffer, ...]:
    """Return the wheels on an index; if it has no such project, or does not answer, add its error to `errors`."""
    try:
        return tuple(_on_index(project, index, session))
    except FatwheelError as error:
        errors.append(error)
        return ()


def _on_index(project: str, index: str, session: requests.Session) -> Iterator[WheelOffer]:
    if index.startswith("file:"):
        page = _path(index) / canonicalize_name(project) / "index.html"
        if page.is_file():
            yield from _on_page(project, page.read_text(encoding="utf-8"), page.as_uri())
        return
    with package_index.listing_of(project, package_index.Index(index, str(session.verify or ""))) as listing:
        yield from _offers((each.filename, each.url, each.digests.get("sha256", "")) for each in listing.files)


def _in_folder(project: str, place: str, session: requests.Session) -> Iterator[WheelOffer]:
    """Yield the wheels that `--find-links` names: those in a folder, or those that a page links to."""
    if not place.startswith(("http://", "https://")):
        folder = _path(place)
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        yield from _offers((path.name, path.as_uri(), "") for path in files if _is_of(path.name, project))
        return
    from ci_tools.machine.http.client import read_document  # noqa: PLC0415 - it loads longer than a plan is made

    try:
        page = read_document(session, place) or b""
    except UNANSWERED:
        return  # as pip does: another place may have it
    yield from _on_page(project, page.decode(errors="replace"), place)


def _on_page(project: str, html: str, url: str) -> Iterator[WheelOffer]:
    from pypi_simple import ProjectPage  # noqa: PLC0415 - as `requests` above

    page = ProjectPage.from_html(project, html, base_url=url)
    named = (each for each in page.packages if _is_of(each.filename, project))
    yield from _offers((each.filename, each.url, each.digests.get("sha256", "")) for each in named)


def _offers(found: Iterable[tuple[str, str, str]]) -> Iterator[WheelOffer]:
    for file, url, sha256 in found:
        try:
            parse_wheel_filename(file)
        except ValueError:
            continue  # an sdist, or a name older than the rules of PEP 427
        yield WheelOffer(file, url, sha256)


def _is_of(file: str, project: str) -> bool:
    return canonicalize_name(file.partition("-")[0]) == canonicalize_name(project)


def _path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)


@dataclass(slots=True)
class Parts:
    """An open wheel, and the digests that its RECORD gives for its members."""

    offer: WheelOffer
    archive: zipfile.ZipFile
    remote: RemoteWheel | None = None  # None: the whole file is on this machine
    size: int = 0  # bytes fetched, if it was fetched as a whole
    _record: str = ""
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files."""
        return tuple(name for name in self.archive.namelist() if not name.endswith("/"))

    @property
    def fetched(self) -> int:
        """The bytes fetched so far."""
        return self.remote.file.fetched if self.remote else self.size

    @property
    def requests(self) -> int:
        """The requests sent so far."""
        return self.remote.file.requests if self.remote else int(bool(self.size))

    @property
    def record_sha256(self) -> str:
        """The sha256 of its RECORD."""
        self._read_record()
        return self._record

    def peek(self, member: str) -> bytes:
        """Return one member's content before its wheel is chosen: RECORD, which is large, is not read for it."""
        info = self.archive.getinfo(member)
        return self.remote.read(info) if self.remote else self.archive.read(info)

    def read(self, member: str) -> bytes:
        """Return one member's content; raise InputError if it is not what RECORD says."""
        self._read_record([member])
        return self._read(self.archive.getinfo(member))

    def copy(self, wanted: Iterable[str], folder: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write members below `folder`, fetched in few requests; raise InputError if one is not what RECORD says."""
        self._read_record(wanted := tuple(wanted))
        infos = sorted(map(self.archive.getinfo, wanted), key=lambda info: info.header_offset)
        total = sum(info.compress_size for info in infos)
        done = 0
        for info in infos:
            path = folder / _refuse_outside(info.filename, self.offer.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            with naming(path):
                path.write_bytes(self._read(info))
            done += info.compress_size
            if progress:
                progress(done, total)

    def _read(self, info: zipfile.ZipInfo) -> bytes:
        content = self.archive.read(info)
        said = self.digests.get(info.filename, "")
        if said != (found := record_hash(content)):
            what = f"has the digest {found}, its RECORD says {said}" if said else "is not in its RECORD"
            msg = f"{self.offer.file}: {info.filename} {what}"
            raise InputError(
                msg, hint="the wheel was damaged on its way, or changed after it was made: nothing was kept"
            )
        return content

    def _read_record(self, wanted: Iterable[str] = ()) -> None:
        """Read RECORD once, and tell the server's reader which members will be read beside it."""
        project, version, *_ = self.offer.file.split("-")
        record = f"{project}-{version}.dist-info/RECORD"
        if record not in self.archive.NameToInfo:
            raise InputError(f"{self.offer.file} has no {record}")
        infos = [self.archive.getinfo(name) for name in {record, *wanted}]
        if self.remote:
            self.remote.expect(infos)
        if not self.digests:
            content = self.archive.read(record)
            self._record = hashlib.sha256(content).hexdigest()
            rows = csv.reader(io.StringIO(content.decode("utf-8")))
            self.digests = {row[0]: row[1] for row in rows if len(row) > 1 and row[1]}  # RECORD has no hash of itself


def _refuse_outside(member: str, wheel: str) -> str:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member:
        raise InputError(f"{wheel}: the path of the member {member} leads outside the wheel")
    return member


@contextmanager
def open_parts(offer: WheelOffer, session: requests.Session, say: Callable[[str], None]) -> Iterator[Parts]:
    """Yield a wheel whose members can be fetched one by one; if its server sends no parts, fetch it as a whole.

    Raises InputError if the wheel is damaged, or is not the file that the index lists; OSError if the network fails.
    """
    if offer.url.startswith("file:"):
        path = Path(unquote(urlsplit(offer.url).path))
        _refuse_other(sha256_of(path) if offer.sha256 else "", offer)
        with explain_damage(offer.url), zipfile.ZipFile(path) as archive:
            yield Parts(offer, archive)
        return
    with ExitStack() as stack:
        try:
            remote = stack.enter_context(remote_wheel(session, offer.url))
        except NoParts:
            say(f"the server of {offer.file} sends no parts of a file, so it is fetched as a whole")
            archive, size = stack.enter_context(whole_wheel(session, offer.url, MAX_WHOLE))
            _refuse_other(_sha256(archive) if offer.sha256 else "", offer)
            yield Parts(offer, archive, size=size)
        else:
            yield Parts(offer, remote.archive, remote)


def _sha256(archive: zipfile.ZipFile) -> str:
    digest = hashlib.sha256()
    if archive.fp:
        archive.fp.seek(0)
        while chunk := archive.fp.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _refuse_other(found: str, offer: WheelOffer) -> None:
    if found != offer.sha256:
        raise InputError(f"{offer.file} has the sha256 {found}, expected {offer.sha256}")
