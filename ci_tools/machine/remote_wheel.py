"""Reads members of a wheel on the package index by HTTP range requests, without downloading the whole wheel.

A member is compressed as one stream, so it is read from its start; the bytes before and after it are not downloaded.
The directory of a zip file is at its end, which one request gets first.
"""

from __future__ import annotations

import io
import itertools
import re
import shutil
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ci_tools.errors import InputError
from ci_tools.machine.package_index import AS_IT_IS, TIMEOUT
from ci_tools.machine.storage import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import requests
    from typing_extensions import Buffer

BLOCK = 1 << 18  # bytes per read
TAIL = 1 << 16  # bytes at the end of a file, fetched first: the directory of most wheels, and their METADATA
GAP = 1 << 17  # bytes between two members that are read and dropped: a request of its own takes longer
MOST_BYTES = 1 << 40  # bytes fetched of one file, unless the caller sets a limit
PARTIAL = 206  # the status of an answer with a part
SENT = re.compile(r"bytes (\d+)-\d+/(\d+)")  # Content-Range (RFC 9110, 14.4)


class NoParts(OSError):
    """A server sends files only as a whole."""


class TooLarge(OSError):
    """A file has more bytes than the caller wants."""


class Changed(OSError):
    """A file on a server was replaced while it was read."""


class Run(NamedTuple):
    """A stretch of a file: the offsets of its first byte, and of the one after its last."""

    start: int
    stop: int


class RemoteFile(io.RawIOBase):
    """A file on a server as a seekable stream: one request for its end, then one for each stretch read without a seek.

    A server may know no ranges that count from the end, and still send parts: then its end has no request of its own.
    """

    def __init__(self, session: requests.Session, url: str, most: int = MOST_BYTES) -> None:
        self._session, self._url, self._most = session, url, most
        self._response: requests.Response | None = None
        self._position, self._sent = 0, 0  # the offsets of the reader and of the open response
        self._runs: tuple[Run, ...] = ()
        self._stop = 0  # where the open response ends
        self._state = ""  # the server's name for the file's content (ETag, Last-Modified)
        self.size, self.fetched, self.requests = 0, 0, 0
        self._tail = self._fetch_tail()
        if not self._tail:
            self._ask()

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; no request is sent until bytes are read there."""
        self._position = offset + (0, self._position, self.size)[whence]
        return self._position

    def expect(self, runs: Iterable[Run]) -> None:
        """Request each of these runs as a whole once a byte of it is read, and nothing beyond its end."""
        self._runs = tuple(runs)

    def _end_of_request(self) -> int:
        """Return where a request for the bytes from the position on has to end."""
        return next((run.stop for run in self._runs if run.start <= self._position < run.stop), self.size)

    def readinto(self, buffer: Buffer) -> int:
        """Read as many bytes as fit into `buffer`, or all that are left in this run; return their number."""
        view = memoryview(buffer)
        wanted = min(len(view), self._end_of_request() - self._position)
        if wanted <= 0:
            return 0
        before = self._position - (self.size - len(self._tail))
        if before >= 0:
            view[:wanted] = self._tail[before : before + wanted]
        else:
            self._read_from_server(view[:wanted])
        self._position += wanted
        return wanted

    def _read_from_server(self, view: memoryview) -> None:
        if self.fetched + len(view) > self._most:
            msg = f"it takes more than {self._most:,} bytes to read it"
            raise TooLarge(msg)
        if self._response is None or not self._sent <= self._position < self._stop or not self._skips():
            self._ask()
        view[:] = self._read_exactly(len(view))
        self._sent = self._position + len(view)
        self.fetched += len(view)

    def _skips(self) -> bool:
        """Read on to the position in the open response; return False if that is not worth its bytes."""
        gap = self._position - self._sent
        if not self._runs or gap > GAP:
            return gap == 0
        self._read_exactly(gap)
        self.fetched += gap
        self._sent = self._position
        return True

    def _read_exactly(self, wanted: int) -> bytes:
        """Return the next bytes of the open response; raise OSError if it ends early."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - it loads longer than a plan is made

        try:
            content: bytes = self._response.raw.read(wanted) if self._response else b""
        except HTTPError as error:
            raise OSError(str(error)) from error
        if len(content) != wanted:
            msg = f"the server stopped after {len(content):,} bytes of {wanted:,}"
            raise OSError(msg)
        return content

    def close(self) -> None:
        """Close the stream and the open response."""
        if self._response:
            self._response.close()
        super().close()

    def _fetch_tail(self) -> bytes:
        """Return the end of the file, and note its size; b"" if the server knows no ranges from the end."""
        with self._get(f"bytes=-{TAIL}") as response:
            said = SENT.fullmatch(response.headers.get("Content-Range", ""))
            if response.status_code != PARTIAL or said is None or int(said[2]) - int(said[1]) > TAIL:
                return b""
            self._note_state(response, int(said[2]))
            tail: bytes = response.content
        if len(tail) != self.size - int(said[1]):
            msg = f"the server stopped after {len(tail):,} bytes of {self.size - int(said[1]):,}"
            raise OSError(msg)
        self.fetched += len(tail)
        return tail

    def _ask(self) -> None:
        """Request the bytes from the position on; raise NoParts if the server ignores the range."""
        if self._response:
            self._response.close()
        stop = self._end_of_request()
        self._response = self._get(f"bytes={self._position}-{stop - 1 if self._runs else ''}")
        self._response.raise_for_status()
        said = SENT.fullmatch(self._response.headers.get("Content-Range", ""))
        if said is None or int(said[1]) != self._position:
            msg = "the server does not send a part of a file"
            raise NoParts(msg)
        self._note_state(self._response, int(said[2]))
        self._sent, self._stop = self._position, stop or self.size

    def _note_state(self, response: requests.Response, size: int) -> None:
        """Note the file's size and state; raise Changed if an earlier answer was of another file."""
        state = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        if self.size and (size, state) != (self.size, self._state):
            msg = "the file was replaced on the server while it was read"
            raise Changed(msg)
        self.size, self._state = size, state

    def _get(self, parts: str) -> requests.Response:
        self.requests += 1
        return self._session.get(self._url, headers={**AS_IT_IS, "Range": parts}, timeout=TIMEOUT, stream=True)


class RemoteWheel(NamedTuple):
    """A wheel on a server: the names of its members, and their content on demand."""

    file: RemoteFile
    archive: zipfile.ZipFile

    def expect(self, members: Iterable[zipfile.ZipInfo]) -> None:
        """Fetch these members in few requests: one for those that lie close together."""
        self.file.expect(_runs(members, self.archive))

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(self.archive.namelist())

    def copy(self, member: str, sink: BinaryIO) -> None:
        """Write a member's content to `sink`; zipfile verifies its CRC-32."""
        with self.archive.open(member) as content:
            shutil.copyfileobj(content, sink, BLOCK)


def _runs(members: Iterable[zipfile.ZipInfo], archive: zipfile.ZipFile) -> Iterator[Run]:
    """Yield the stretches of an archive that hold these members; a gap of up to GAP bytes does not end one.

    A member ends where the next one begins: its own header, whose length only the header tells, comes before it.
    """
    starts = sorted({info.header_offset for info in archive.infolist()} | {archive.start_dir})
    after = dict(itertools.pairwise(starts))
    run: Run | None = None
    for start in sorted({info.header_offset for info in members}):
        if run and start - run.stop <= GAP:
            run = run._replace(stop=after[start])
        else:
            if run:
                yield run
            run = Run(start, after[start])
    if run:
        yield run


@contextmanager
def remote_wheel(session: requests.Session, url: str, most: int = MOST_BYTES) -> Iterator[RemoteWheel]:
    """Yield the wheel at `url`; raise InputError if it is damaged, NoParts if the server sends no parts of it.

    Raises TooLarge if more than `most` bytes have to be fetched.
    """
    file = RemoteFile(session, url, most)
    with explain_damage(url), file, zipfile.ZipFile(io.BufferedReader(file, BLOCK)) as archive:
        yield RemoteWheel(file, archive)


@contextmanager
def whole_wheel(session: requests.Session, url: str, most: int) -> Iterator[tuple[zipfile.ZipFile, int]]:
    """Yield the wheel at `url` of a server that sends no parts, downloaded into a temporary file, and its size.

    Raises InputError if it is damaged, TooLarge if it has more than `most` bytes: then no more are fetched.
    """
    with tempfile.TemporaryFile() as file:
        with session.get(url, headers=AS_IT_IS, timeout=TIMEOUT, stream=True) as response:
            response.raise_for_status()
            said = int(response.headers.get("Content-Length", 0))
            for chunk in response.iter_content(CHUNK) if said <= most else ():
                file.write(chunk)
                said = max(said, file.tell())
                if said > most:
                    break
        if said > most:
            msg = f"it has {said:,} bytes or more, expected at most {most:,}"
            raise TooLarge(msg)
        with explain_damage(url), zipfile.ZipFile(file) as archive:
            yield archive, said


@contextmanager
def explain_damage(url: str) -> Iterator[None]:
    """Convert the errors of a damaged archive into InputError; zipfile takes a lost connection for one at its end."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        if isinstance(error.__context__, OSError):
            raise OSError(str(error.__context__)) from error.__context__
        msg = f"{url.rpartition('/')[2].partition('#')[0]} cannot be read on the package index: {error}"
        raise InputError(msg) from error
