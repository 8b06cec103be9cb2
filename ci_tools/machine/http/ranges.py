"""A file on a server as a seekable stream, of which only the parts that are read are fetched."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import requests
from requests import HTTPError

from ci_tools.machine.http.client import Body
from ci_tools.machine.http.policy import NoParts, TooLarge

if TYPE_CHECKING:
    from typing_extensions import Buffer

TAIL = 1 << 16  # bytes at the end of a file, fetched first: the directory of most wheels, and their METADATA
GAP = 1 << 17  # bytes between two members that are read and dropped: a request of its own takes longer
MAX_BYTES = 1 << 40  # bytes fetched of one file, unless the caller sets a limit


class Stretch(NamedTuple):
    """A stretch of a file: the offsets of its first byte, and of the one after its last."""

    start: int
    stop: int


class RangedFile(io.RawIOBase):
    """A file of which the end is known; a subclass fetches the rest. TooLarge is raised beyond `most` bytes of that."""

    def __init__(self, size: int, tail: bytes, most: int) -> None:
        self.size, self.fetched, self._tail, self._most = size, len(tail), tail, most
        self._position = 0
        self._runs: tuple[Stretch, ...] = ()

    def fetch(self, position: int, view: memoryview) -> None:
        """Fill `view` with the bytes from a position on."""
        raise NotImplementedError

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

    def expect(self, runs: Iterable[Stretch]) -> None:
        """Request each of these runs as a whole once a byte of it is read, and nothing beyond its end."""
        self._runs = tuple(runs)

    def end_of_run(self, position: int) -> int:
        """Return where a request for the bytes from a position on has to end."""
        return next((run.stop for run in self._runs if run.start <= position < run.stop), self.size)

    def readinto(self, buffer: Buffer) -> int:
        """Read as many bytes as fit into `buffer`, or all that are left in this run; return their number."""
        view = memoryview(buffer)
        wanted = min(len(view), self.end_of_run(self._position) - self._position)
        if wanted <= 0:
            return 0
        before = self._position - (self.size - len(self._tail))
        if before >= 0:
            view[:wanted] = self._tail[before : before + wanted]
        elif self.fetched + wanted > self._most:
            raise TooLarge(f"it takes more than {self._most:,} bytes to read it")
        else:
            self.fetch(self._position, view[:wanted])
            self.fetched += wanted
        self._position += wanted
        return wanted


class RemoteFile(RangedFile):
    """A file on an HTTP server: one request for its end, then one for each stretch read without a seek.

    A server may know no ranges that count from the end, and still send parts: then its end has no request of its own.
    """

    def __init__(self, session: requests.Session, url: str, most: int = MAX_BYTES) -> None:
        self._session, self._url, self.requests = session, url, 1
        tail = b""
        try:
            self._body = Body(session, url, -TAIL, in_parts=True)
            if self._body.stop - self._body.position <= TAIL:
                tail = b"".join(self._body)
        except (NoParts, HTTPError):
            self._body, self.requests = Body(session, url, in_parts=True), 2
        super().__init__(self._body.stop, tail, most)

    def fetch(self, position: int, view: memoryview) -> None:
        """Fill `view` from the open answer if it is not far behind, else from another."""
        gap = position - self._body.position
        if position >= self._body.stop or not 0 <= gap <= (GAP if self._runs else 0):
            self._body.close()
            state, stop = self._body.state, self.end_of_run(position)
            self._body = Body(self._session, self._url, position, stop, in_parts=True, state=state)
            self.requests, gap = self.requests + 1, 0
        self._read(memoryview(bytearray(gap)))
        self.fetched += gap
        self._read(view)

    def _read(self, view: memoryview) -> None:
        """Fill `view` with the next bytes of the open answer."""
        done = 0
        while done < len(view):
            piece = self._body.read(len(view) - done)
            view[done : done + len(piece)] = piece
            done += len(piece)

    def close(self) -> None:
        """Close the stream and the open answer."""
        if "_body" in vars(self):  # else it could not be opened
            self._body.close()
        super().close()
