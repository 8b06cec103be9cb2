"""Takes members out of one wheel without fetching the rest, each checked against the wheel's own RECORD (PEP 427)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ci_tools.errors import InputError
from ci_tools.machine.http.faults import NoParts
from ci_tools.machine.remote_wheel import RemoteWheel, explain_damage, remote_wheel, whole_wheel
from ci_tools.machine.storage import CHUNK, naming, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import requests

    from ci_tools.build.sdk.offers import WheelOffer

MAX_WHOLE = 4 << 30  # bytes of a wheel that is downloaded as a whole


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
        if said != (found := _digest(content)):
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
            self.digests = {row[0]: row[1] for row in rows if len(row) > 1 and row[1]}


def _digest(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


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
