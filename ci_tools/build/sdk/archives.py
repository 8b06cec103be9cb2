"""Downloads an archive whose size and sha256 are known, in as many requests as it takes, and unpacks it safely."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, MachineError
from ci_tools.formats.tar import tarfile
from ci_tools.machine.http.faults import UNANSWERED, innermost, status_of
from ci_tools.machine.storage import naming, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import requests

    from ci_tools.machine.context import Step

BEYOND_END = 416  # the status of a server whose file is shorter (RFC 9110, 15.5.17)
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
                    break
    except UNANSWERED as error:
        if status_of(error) == BEYOND_END:
            path.unlink()
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
                        archive.extract(own, folder, filter="data")
    except (tarfile.TarError, EOFError, ValueError) as error:
        msg = f"{file} cannot be unpacked: {innermost(error)}"
        raise InputError(msg, hint="its sha256 is right, so it was made like this: nothing was kept") from error
    return tuple(names)
