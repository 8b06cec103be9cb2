"""Reads members of a wheel on the package index by HTTP range requests, without downloading the whole wheel.

A member is compressed as one stream, so it is read from its start; the bytes before and after it are not downloaded.
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

BLOCK = 1 << 18  # bytes per read


class RemoteFile(io.RawIOBase):
    """A file on a server as a seekable stream: one request for each stretch that is read without a seek."""

    def __init__(self, session: requests.Session, url: str) -> None:
        self._session, self._url = session, url
        self._response: requests.Response | None = None
        self._position, self._sent = 0, 0  # the offsets of the reader and of the open response
        self.size, self.fetched = 0, 0
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

    def readinto(self, buffer: Buffer) -> int:
        """Read as many bytes as fit into `buffer`, or all that are left; return their number."""
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
        """Return the next bytes of the open response; raise OSError if it ends early."""
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

    def _ask(self) -> None:
        """Request the bytes from the position on; raise OSError if the server ignores the range."""
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
    """A wheel on a server: the names of its members, and their content on demand."""

    file: RemoteFile
    archive: zipfile.ZipFile

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(self.archive.namelist())

    def copy(self, member: str, sink: BinaryIO) -> None:
        """Write a member's content to `sink`; zipfile verifies its CRC-32."""
        with self.archive.open(member) as content:
            shutil.copyfileobj(content, sink, BLOCK)


@contextmanager
def remote_wheel(session: requests.Session, url: str) -> Iterator[RemoteWheel]:
    """Yield the wheel at `url`; raise InputError if it is damaged, OSError if the server does not support ranges."""
    file = RemoteFile(session, url)
    try:
        with file, zipfile.ZipFile(io.BufferedReader(file, BLOCK)) as archive:
            yield RemoteWheel(file, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        msg = f"{url.rpartition('/')[2].partition('#')[0]} cannot be read on the package index: {error}"
        raise InputError(msg) from error
