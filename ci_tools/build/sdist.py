"""Checks and unpacks finished sdists (PEP 517, PEP 625), and writes them with a fixed date."""

from __future__ import annotations

import gzip
import io
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO

from packaging.utils import canonicalize_name

from ci_tools.errors import Problem, Rejected
from ci_tools.formats.tar import UNREADABLE, tarfile
from ci_tools.formats.wheel import MAX_DIST_INFO_BYTES, read_headers
from ci_tools.machine.storage import write_atomically
from ci_tools.model.evidence import Project
from ci_tools.model.files import EPOCH, Finding, Level
from ci_tools.model.versions import read_version
from ci_tools.source.files import Tree
from ci_tools.source.includes import SourceLine


def audit_sdist(path: Path, project: Project) -> tuple[Finding, ...]:
    """Return the flaws of the sdist at `path`: members that leave its folder, or another project's name or version."""
    try:
        with tarfile.open(path) as archive:
            flaws = [*_escapes(archive), *_names(archive, path, project)]
    except (*UNREADABLE, ValueError) as error:
        flaws = [("archive", f"it cannot be read: {error}", "another file", "a .tar.gz file (PEP 517)")]
    return tuple(Finding(path.name, rule, Level.ERROR, what, found, expected) for rule, what, found, expected in flaws)


def _escapes(archive: tarfile.TarFile) -> Iterator[tuple[str, str, str, str]]:
    """Yield the members that an installer would refuse to unpack (PEP 721)."""
    for member in archive:
        error = _refusal(member)
        if error:
            yield "paths", f"{member.name} leaves the folder it is unpacked into: {error}", member.name, "a path inside"


def _refusal(member: tarfile.TarInfo) -> str:
    try:
        tarfile.data_filter(member, "/nowhere")  # nothing is written: the filter only computes the path
    except tarfile.FilterError as error:
        return str(error)
    return ""


def _names(archive: tarfile.TarFile, path: Path, project: Project) -> Iterator[tuple[str, str, str, str]]:
    """Yield a flaw where the top folder or PKG-INFO names another project or version."""
    top = path.name.removesuffix(".tar.gz")
    tops = {PurePosixPath(member.name).parts[0] for member in archive.getmembers() if PurePosixPath(member.name).parts}
    if tops != {top}:
        yield "names", "it does not unpack to one folder of its name", ", ".join(sorted(tops)) or "nothing", top
    try:
        file = archive.extractfile(f"{top}/PKG-INFO")
    except KeyError:  # PEP 517 demands one, a broken backend leaves it out
        file = None
    content = file.read(MAX_DIST_INFO_BYTES).decode("utf-8", "replace") if file else ""
    headers = read_headers(content, f"{path.name}: PKG-INFO")
    said = headers.get("Name", ""), headers.get("Version", "")
    is_same = canonicalize_name(said[0]) == canonicalize_name(project.name)
    if not is_same or read_version(said[1]) != read_version(project.version):
        yield "names", "PKG-INFO is another project's", " ".join(said).strip(), f"{project.name} {project.version}"


def unpack_sdist(path: Path, folder: Path) -> Tree:
    """Unpack an sdist below `folder` and return it as a tree; raise Rejected if it cannot be unpacked safely."""
    try:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    except UNREADABLE as error:
        raise Rejected(f"{path.name} cannot be unpacked: {error}") from error
    root = folder / path.name.removesuffix(".tar.gz")
    files = (file for file in root.rglob("*") if file.is_file() or file.is_symlink())  # a broken link is a member, too
    return Tree(root, tuple(sorted(file.relative_to(root).as_posix() for file in files)))


def add_sources(path: Path, sources: Iterable[str], tree: Tree, folder: str) -> tuple[str, ...]:
    """Add to an sdist the sources that another platform's build names, and return those that it lacked.

    setuptools packs the sources of the extensions that the setup.py names where the sdist is built. `folder` is the
    project's place in the tree.
    """
    top = path.name.removesuffix(".tar.gz")
    lacking = list_lacking(path, sources, folder)
    if lacking:
        files = {f"{top}/{_inside(name, folder)}": (tree.root / name).read_bytes() for name in lacking}
        with write_atomically(path.with_name(f"more-{path.name}")) as sink:
            write_with_date(path, sink, EPOCH, files)
        path.with_name(f"more-{path.name}").replace(path)
    return lacking


def list_lacking(path: Path, names: Iterable[str], folder: str) -> tuple[str, ...]:
    """Return the files of the project in `folder` that an sdist does not have."""
    has = _list_members(path)
    return tuple(name for name in dict.fromkeys(names) if _inside(name, folder) not in {None, *has})


def refuse_lacking(path: Path, headers: Mapping[str, SourceLine], folder: str) -> None:
    """Raise Rejected if an sdist lacks a file that a job reads: a header, or a source, whose place is its own."""
    lacking = list_lacking(path, headers, folder)
    problems = [
        Problem(str(at), f"includes {name}, which {path.name} lacks: nobody can build it")
        if at.file != name
        else Problem(name, f"a job compiles it, and {path.name} lacks it: nobody can build it")
        for name, at in ((name, headers[name]) for name in lacking)
    ]
    if problems:
        named = " ".join(sorted(f"{_inside(name, folder)}" for name in lacking))
        how = f"with setuptools, `include {named}` in MANIFEST.in, with others, what their `exclude` or `include` says"
        hint = f"{how}; `build: {{sdist: false}}` releases wheels only"
        raise Rejected("\n".join(map(str, problems)), hint=hint)


def _list_members(path: Path) -> frozenset[str]:
    with tarfile.open(path) as archive:
        return frozenset(name.partition("/")[2] for name in archive.getnames())


def _inside(name: str, folder: str) -> str | None:
    """Return a file's name in the project's folder; None for one outside, which no sdist of it has."""
    place = PurePosixPath(name)
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else None


def write_with_date(path: Path, sink: BinaryIO, epoch: int, files: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """Write an sdist to `sink` with one date, and with some files added, or in place of its own of that name.

    It stays as it is if it has that date and gets no files. Raises Rejected if the sdist cannot be read.
    """
    try:
        with tarfile.open(path) as archive:
            # 0: the header has no time (RFC 1952, MTIME)
            if files or _read_gzip_time(path) not in {0, epoch} or any(member.mtime != epoch for member in archive):
                _write_anew(archive, sink, epoch, files)
                return
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Rejected(f"{path.name} cannot be read: {error}") from error
    with path.open("rb") as source:
        shutil.copyfileobj(source, sink)


def _read_gzip_time(path: Path) -> int:
    """Return the modification time in a gzip header, in seconds since 1970 (RFC 1952)."""
    with path.open("rb") as file:
        return int.from_bytes(file.read(8)[4:], "little")


def _write_anew(archive: tarfile.TarFile, sink: BinaryIO, epoch: int, files: Mapping[str, bytes]) -> None:
    """Write an archive's members without the dates, owners, modes and order that differ between machines."""
    kept = ((member, None) for member in archive.getmembers() if member.name not in files)
    own = ((_new_member(name, content), content) for name, content in files.items())
    with (
        gzip.GzipFile("", "wb", fileobj=sink, mtime=epoch) as packed,  # without a name, which the header would have
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as dated,
    ):
        # A hard link must come after its target, or it cannot be unpacked.
        for member, data in sorted((*kept, *own), key=lambda pair: (pair[0].islnk(), pair[0].name)):
            content = io.BytesIO(data) if data is not None else archive.extractfile(member) if member.isreg() else None
            mode = 0o755 if member.mode & 0o100 else 0o644  # whatever the umask of the builder was
            same = member.replace(mtime=epoch, mode=mode, uid=0, gid=0, uname="", gname="")
            same.pax_headers = {}  # they repeat the date, with fractions of a second
            dated.addfile(same, content)


def _new_member(name: str, content: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member
