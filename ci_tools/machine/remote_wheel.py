"""Reads members of a wheel on the package index by HTTP range requests, without downloading the whole wheel.

A member is compressed as one stream, so it is read from its start; the bytes before and after it are not downloaded.
The directory of a zip file is at its end, which one request gets first.
"""

from __future__ import annotations

import io
import itertools
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ci_tools.errors import InputError
from ci_tools.machine.http.client import Body
from ci_tools.machine.http.policy import TooLarge
from ci_tools.machine.http.ranges import GAP, MAX_BYTES, RemoteFile, Stretch

if TYPE_CHECKING:
    import requests

BLOCK = 1 << 18  # bytes per read


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

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Return a member's content, fetched in a request of its own; zipfile verifies its CRC-32."""
        self.expect([member])
        return self.archive.read(member)

    def copy(self, member: str, sink: BinaryIO) -> None:
        """Write a member's content to `sink`; zipfile verifies its CRC-32."""
        with self.archive.open(member) as content:
            shutil.copyfileobj(content, sink, BLOCK)


def _runs(members: Iterable[zipfile.ZipInfo], archive: zipfile.ZipFile) -> Iterator[Stretch]:
    """Yield the stretches of an archive that hold these members; a gap of up to GAP bytes does not end one.

    A member ends where the next one begins: its own header, whose length only the header tells, comes before it.
    """
    starts = sorted({info.header_offset for info in archive.infolist()} | {archive.start_dir})
    after = dict(itertools.pairwise(starts))
    run: Stretch | None = None
    for start in sorted({info.header_offset for info in members}):
        if run and start - run.stop <= GAP:
            run = run._replace(stop=after[start])
        else:
            if run:
                yield run
            run = Stretch(start, after[start])
    if run:
        yield run


@contextmanager
def remote_wheel(session: requests.Session, url: str, most: int = MAX_BYTES) -> Iterator[RemoteWheel]:
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
        body = Body(session, url)
        for piece in body if body.stop <= most else ():
            file.write(piece)
            if body.position > most:
                break
        said = max(body.stop, body.position)
        if said > most:
            raise TooLarge(f"it has {said:,} bytes or more, expected at most {most:,}")
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
