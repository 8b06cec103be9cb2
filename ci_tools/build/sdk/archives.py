"""Downloads an archive whose size and sha256 are known, in as many requests as it takes, and unpacks it safely."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, MachineError
from ci_tools.formats.tar import tarfile
from ci_tools.machine.package_index import AS_IT_IS, TIMEOUT, UNANSWERED, innermost
from ci_tools.machine.storage import naming, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import requests

    from ci_tools.machine.context import Step

TRIES = 5  # requests in a row that bring no byte
PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)  # seconds before the next request, by the number of those
PIECE = 1 << 16  # bytes; of a body that is cut short, the last piece is lost
PARTIAL, REFUSED, BEYOND_END, SERVER_ERROR = 206, 400, 416, 500  # status codes (RFC 9110)
LEVEL = re.compile(r"[^/]+/")  # NVIDIA's archives have one folder, of the archive's own name


class ComponentArchive(NamedTuple):
    """An archive of one component, as a list of NVIDIA's describes it."""

    component: str
    version: str
    path: str  # below the address of the list
    sha256: str
    size: int  # bytes

    @property
    def file(self) -> str:
        """Its file name."""
        return self.path.rpartition("/")[2]


class _RefusedError(Exception):
    """A server's answer that will be the same the next time."""


def download(archive: ComponentArchive, url: str, path: Path, session: requests.Session, step: Step) -> None:
    """Download an archive to `path`; bytes that are there already are kept, so a broken download goes on.

    Raises MachineError if the server has no such file, or stops sending: what came is kept for the next run. Raises
    InputError if the file has another sha256: then nothing is kept.
    """
    tries = 0  # in a row that brought no byte
    while (there := _size_of(path)) < archive.size:
        try:
            _continue(archive, url, path, session, step)
        except (_RefusedError, *UNANSWERED) as error:  # noqa: PERF203 - what was not sent is asked for again
            tries = 0 if _size_of(path) > there else tries + 1
            if isinstance(error, _RefusedError) or tries == TRIES:
                msg = f"{archive.file} cannot be fetched from {url}: {innermost(error)}"
                raise MachineError(msg, hint="what came is kept: the same command goes on from there") from error
            step.waiting(PAUSES[tries])
            time.sleep(PAUSES[tries])
    if (found := sha256_of(path)) != archive.sha256:
        path.unlink()
        msg = f"{archive.file} has the sha256 {found}, expected {archive.sha256}"
        raise InputError(msg, hint=f"{url} has another file than its list says: nothing was kept")


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _continue(archive: ComponentArchive, url: str, path: Path, session: requests.Session, step: Step) -> None:
    """Append what is missing, or write all of it if the server sends no parts of a file."""
    start = _size_of(path)
    headers = {**AS_IT_IS, **({"Range": f"bytes={start}-"} if start else {})}
    with session.get(url, stream=True, timeout=TIMEOUT, headers=headers) as answer, naming(path):
        if answer.status_code == BEYOND_END:  # the server's file is shorter than its list says
            path.unlink()
        if REFUSED <= answer.status_code < SERVER_ERROR:
            msg = f"{answer.status_code} {answer.reason}"
            raise _RefusedError(msg)
        answer.raise_for_status()
        is_rest = answer.status_code == PARTIAL and answer.headers.get("Content-Range", "").startswith(
            f"bytes {start}-"
        )
        done = start if is_rest else 0
        with path.open("ab" if is_rest else "wb") as file:
            for chunk in answer.iter_content(PIECE):
                file.write(chunk[: archive.size - done])
                done += len(chunk)
                step.progress(min(done, archive.size), archive.size)
                if done > archive.size:
                    msg = f"it has more than the {archive.size:,} bytes that its list says"
                    raise _RefusedError(msg)
        if done < archive.size:
            msg = f"it ended after {done:,} of {archive.size:,} bytes"
            raise OSError(msg)


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
                        archive.extract(own, folder, filter="data")
    except (tarfile.TarError, EOFError, ValueError) as error:
        msg = f"{file} cannot be unpacked: {innermost(error)}"
        raise InputError(msg, hint="its sha256 is right, so it was made like this: nothing was kept") from error
    return tuple(names)
