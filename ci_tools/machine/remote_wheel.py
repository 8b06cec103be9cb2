"""Members of a wheel on the package index, read without downloading the wheel: by HTTP range requests.

A member is compressed as one stream, so that it is read from its start; what lies before and after it is not fetched.
"""

from __future__ import annotations

import io
import re
import shutil
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from urllib3.exceptions import HTTPError

from ci_tools.errors import InputError
from ci_tools.machine.package_index import AS_IT_IS, TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests
    from typing_extensions import Buffer

__all__ = ["RemoteFile", "RemoteWheel", "remote_wheel"]

BLOCK = 1 << 18  # bytes taken at once


class RemoteFile(io.RawIOBase):
    """A file on a server as a seekable stream: one request for each run of bytes that is read without a seek."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self._session, self._url = session, url
        self._response: requests.Response | None = None
        self._position, self._sent = 0, 0  # where the reader is, and where the response under way is
        self.size, self.fetched = 0, 0
        self._ask()

    def seekable(self) -> bool:
        """Return that it is."""
        return True

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, which costs nothing until bytes are read there."""
        self._position = offset + (0, self._position, self.size)[whence]
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        """Take as many bytes as `buffer` has room for, or all that are left."""
        view = memoryview(buffer)
        wanted = min(len(view), self.size - self._position)
        if wanted <= 0:
            return 0
        if self._response is None or self._sent != self._position:
            self._ask()
        view[:wanted] = self._read_exactly(wanted)
        self._position += wanted
        self._sent = self._position
        self.fetched += wanted
        return wanted

    def _read_exactly(self, wanted: int) -> bytes:
        """Return the next bytes of the response under way; raise OSError where it ends before them."""
        try:
            content: bytes = self._response.raw.read(wanted) if self._response else b""
        except HTTPError as error:
            raise OSError(str(error)) from error
        if len(content) != wanted:
            msg = f"the server stopped after {len(content):,} bytes of {wanted:,}"
            raise OSError(msg)
        return content

    def close(self) -> None:
        """End the response under way."""
        if self._response:
            self._response.close()
        super().close()

    def _ask(self) -> None:
        """Request the bytes from the position on; raise OSError where the server sends something else."""
        if self._response:
            self._response.close()
        headers = {**AS_IT_IS, "Range": f"bytes={self._position}-"}
        self._response = self._session.get(self._url, headers=headers, timeout=TIMEOUT, stream=True)
        self._response.raise_for_status()
        said = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", self._response.headers.get("Content-Range", ""))
        if said is None or int(said[1]) != self._position:
            msg = "the server does not send a part of a file"
            raise OSError(msg)
        self._sent, self.size = self._position, int(said[2])


class RemoteWheel(NamedTuple):
    """A wheel on a server: its members' names and, one at a time, their content."""

    file: RemoteFile
    archive: zipfile.ZipFile

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(self.archive.namelist())

    def copy(self, member: str, sink: BinaryIO) -> None:
        """Write a member's content to `sink`, checked against its checksum."""
        with self.archive.open(member) as content:
            shutil.copyfileobj(content, sink, BLOCK)


@contextmanager
def remote_wheel(session: requests.Session, url: str) -> Iterator[RemoteWheel]:
    """Yield the wheel at `url`; raise InputError where it is damaged, OSError where the server sends no parts of it."""
    file = RemoteFile(session, url)
    try:
        with file, zipfile.ZipFile(io.BufferedReader(file, BLOCK)) as archive:
            yield RemoteWheel(file, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        msg = f"{url.rpartition('/')[2].partition('#')[0]} cannot be read on the package index: {error}"
        raise InputError(msg) from None
