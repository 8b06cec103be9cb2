"""A folder as a package index: pip and uv install from it over `file:` and over any web server.

Layout: `FOLDER/<accelerator>/<project>/` are index pages; a wheel lies in its accelerator's folder, and what
every accelerator lists (the pure wheel, the sdist) at the root. `FOLDER/.fatwheel/<project>.json` is the
manifest the pages are made from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import index
from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.index import IndexedFile
from ci_tools.model import FOLDER
from ci_tools.storage import CHUNK, UNFINISHED, locked, sha256_of, write_atomically
from ci_tools.wheelfile import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ci_tools.outside import Reporter

__all__ = ["FolderTarget", "Placement", "Published"]

METADATA_SUFFIX = ".metadata"  # PEP 658
GENERIC = "cpu"  # the index of those who have no accelerator; always there
KINDS: Mapping[str, type] = MappingProxyType({"size": int, "also": tuple})  # a manifest's other fields are text


class Placement(NamedTuple):
    """One file to publish, the accelerator folder it belongs to (empty: every one lists it), and what else lists it."""

    path: Path
    folder: str = ""
    also: tuple[str, ...] = ()


class Published(NamedTuple):
    """One file in the index, and whether this run put it there."""

    file: str
    path: Path
    new: bool


class Arrival(NamedTuple):
    """One file to publish: where it is, what the index will say of it, and its METADATA."""

    path: Path
    entry: IndexedFile
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTarget:
    """An index in the folder `root`; `replace` lets a file of other bytes take the place of one of its name."""

    root: Path
    replace: bool
    reporter: Reporter

    def publish(self, project: str, files: Sequence[Placement]) -> tuple[Published, ...]:
        """Put files into the index; twice is as good as once.

        Files come first, then the manifest, and the pages, so that no page names a file that is not whole; only
        while one is replaced, the page gives the hash of the old one. Raises InputError where a file is not the
        project's, or a published one would change and `replace` is off; nothing is written then.
        """
        project = canonicalize_name(project)
        _refuse_strangers(project, files)
        if not files:
            return ()
        with locked(self.root / ".fatwheel" / "index", self.reporter.say):
            recorded = self._recorded(project)
            manifest = self._present(recorded)
            arrivals = [_arrival(file, recorded.get(file.path.name)) for file in files]
            self._refuse_change(manifest, arrivals)
            self._sweep(project)
            left = [old for _, new, _ in arrivals if (old := manifest.get(new.name)) and old.folder != new.folder]
            published = tuple(self._place(arrival, manifest.get(arrival.entry.name)) for arrival in arrivals)
            manifest |= {arrival.entry.name: arrival.entry for arrival in arrivals}
            self._write(self._manifest_path(project), _dumped(manifest.values()))
            self._write_pages(project, tuple(manifest.values()))
            self._remove(left)
        return published

    # -- the manifest

    def _manifest_path(self, project: str) -> Path:
        return self.root / ".fatwheel" / f"{project}.json"

    def _recorded(self, project: str) -> dict[str, IndexedFile]:
        """Return what the manifest says of a project's files, by file name."""
        path = self._manifest_path(project)
        has_pages = next(self.root.glob(f"*/{project}/index.html"), None) is not None
        if not path.exists() and not has_pages:
            return {}
        try:
            return _entries(json.loads(path.read_text(encoding="utf-8")), project, has_pages=has_pages)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            msg = f"{path}, which lists the files of {project}, is damaged: {error}"
            hint = f"restore it, or remove {self.root} and publish every file again"
            raise MachineError(msg, hint=hint) from None

    def _present(self, recorded: dict[str, IndexedFile]) -> dict[str, IndexedFile]:
        """Return what is published: a file that is gone from the folder is gone from the index."""
        return {name: entry for name, entry in recorded.items() if (self.root / entry.folder / name).is_file()}

    def _refuse_change(self, manifest: dict[str, IndexedFile], arrivals: Iterable[Arrival]) -> None:
        for _, new, _ in arrivals:
            old = manifest.get(new.name)
            if old and old.sha256 != new.sha256 and not self.replace:
                hashes = f"sha256 {old.sha256[:12]}…, new {new.sha256[:12]}…"
                msg = f"{new.name} is in {self.root} already with other bytes ({hashes})"
                hint = "a published file never changes: raise the version, or say --replace for an index of your own"
                raise InputError(msg, hint=hint)

    # -- files

    def _place(self, arrival: Arrival, old: IndexedFile | None) -> Published:
        """Copy one file and its metadata into the index, where they are not there already."""
        entry = arrival.entry
        target = self.root / entry.folder / entry.name
        is_there = target.is_file() and sha256_of(target) == entry.sha256
        if not is_there:
            _copy(arrival.path, target, entry.sha256)
        if entry.metadata_sha256:
            self._write(target.with_name(f"{entry.name}{METADATA_SUFFIX}"), arrival.metadata)
        return Published(entry.name, target, new=not is_there or old != entry)

    def _remove(self, files: Iterable[IndexedFile]) -> None:
        """Remove files, which no page names any more, from where they lay."""
        for file in files:
            for name in (file.name, f"{file.name}{METADATA_SUFFIX}"):
                (self.root / file.folder / name).unlink(missing_ok=True)

    def _sweep(self, project: str) -> None:
        """Remove what a killed run had begun to write."""
        for folder in ("", "*/", f"*/{project}/"):
            for unfinished in self.root.glob(f"{folder}.*{UNFINISHED}"):
                unfinished.unlink(missing_ok=True)

    # -- pages

    def _write_pages(self, project: str, files: Sequence[IndexedFile]) -> None:
        """Write the project's page in every accelerator's index, and each index's front page.

        An index that is new starts with every project; its front page, which makes it known, comes last.
        """
        known = {page.parent.name for page in self.root.glob("*/index.html")}
        folders = {GENERIC, *known, *(name for file in files for name in (file.folder, *file.also) if name)}
        self._write_project(project, files, folders)
        for other in self._projects() - {project} if folders - known else ():
            self._write_project(other, tuple(self._present(self._recorded(other)).values()), folders - known)
        for folder in sorted(folders):
            projects = {path.parent.name for path in (self.root / folder).glob("*/index.html")}
            self._write(self.root / folder / "index.html", index.projects_html(projects))
            self._write(self.root / folder / "index.json", index.projects_json(projects))

    def _write_project(self, project: str, files: Sequence[IndexedFile], folders: Iterable[str]) -> None:
        for folder in sorted(folders):
            shown = [file for file in files if file.is_listed_in(folder)]
            page = self.root / folder / project
            self._write(page / "index.html", index.project_html(project, shown, folder))
            self._write(page / "index.json", index.project_json(project, shown, folder))

    def _projects(self) -> set[str]:
        """Return the projects that are published."""
        return {path.stem for path in (self.root / ".fatwheel").glob("*.json")}

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file in one step, and not at all where it says so already."""
        if not path.is_file() or path.read_bytes() != content:
            with write_atomically(path) as file:
                file.write(content)


def _refuse_strangers(project: str, files: Iterable[Placement]) -> None:
    """Refuse a file name that is no wheel's or sdist's of the project, or comes twice, and a folder that is none."""
    for path, folder, also in files:
        wrong = [name for name in (folder, *also) if not FOLDER.fullmatch(name)]
        if wrong:
            msg = f"{path.name} cannot go to {wrong[0]!r}, expected a folder such as cu130"
            raise InputError(msg)
    for name, count in Counter(path.name for path, _, _ in files).items():
        try:
            whose = index.project_and_version(name)[0]
        except ValueError as error:
            msg = f"{name!r} is not the name of a wheel or an sdist: {error}"
            raise InputError(msg) from None
        if whose != project:
            msg = f"{name} is a file of {whose}, expected one of {project}"
            raise InputError(msg)
        if count > 1:
            msg = f"{name} is to be published {count} times at once, expected once"
            raise InputError(msg)


def _arrival(file: Placement, old: IndexedFile | None) -> Arrival:
    """Read what the index will say of a file; bytes that are there already stay as old, and as yanked, as they are."""
    path, folder, also = file
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    entry = IndexedFile(path.name, folder, sha256_of(path), path.stat().st_size, now, also=also)
    if old and old.sha256 == entry.sha256:
        entry = entry._replace(uploaded=old.uploaded, yanked=old.yanked)
    if path.suffix != ".whl":
        return Arrival(path, entry, b"")
    wheel = opened(path)
    with wheel.archive:
        metadata = wheel.dist_info_data("METADATA")
        requires = wheel.metadata.get("Requires-Python", "")
    if not metadata:
        msg = f"{path.name} has no METADATA"
        raise Rejected(msg)
    digest = hashlib.sha256(metadata).hexdigest()
    return Arrival(path, entry._replace(requires_python=requires, metadata_sha256=digest), metadata)


def _copy(source: Path, target: Path, sha256: str) -> None:
    """Copy a file in one step; raise MachineError where it is not the one that was asked for any more."""
    digest = hashlib.sha256()
    with source.open("rb") as readable, write_atomically(target) as sink:
        while chunk := readable.read(CHUNK):
            digest.update(chunk)
            sink.write(chunk)
        if digest.hexdigest() != sha256:
            msg = f"{source} changed while it was published"
            raise MachineError(msg, hint="run the same command again once nothing writes to it")


def _entries(manifest: object, project: str, *, has_pages: bool) -> dict[str, IndexedFile]:
    """Read the files of a manifest, by name; raise ValueError or TypeError where it is none of that project's."""
    if not isinstance(manifest, list) or (has_pages and not manifest):
        msg = "it lists no files"
        raise TypeError(msg)
    files = [_entry(entry) for entry in manifest]
    strangers = [file.name for file in files if index.project_and_version(file.name)[0] != project]
    if strangers:
        msg = f"it lists {strangers[0]}"
        raise ValueError(msg)
    return {file.name: file for file in files}


def _entry(entry: object) -> IndexedFile:
    """Read one entry of a manifest; raise ValueError or TypeError where it is no entry."""
    if not isinstance(entry, dict) or not isinstance(entry.get("also", []), list):
        msg = f"{entry} names no file"
        raise TypeError(msg)
    file = IndexedFile(**{**entry, "also": tuple(entry.get("also", ()))})
    kinds = {name: KINDS.get(name, str) for name in IndexedFile._fields}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(file, name), kind)]
    if wrong and not (wrong == ["yanked"] and file.yanked is None):
        msg = f"{entry} says something else in {wrong}"
        raise TypeError(msg)
    if not all(isinstance(folder, str) and FOLDER.fullmatch(folder) for folder in (file.folder, *file.also)):
        msg = f"{file.name} lies in no folder of an index"
        raise ValueError(msg)
    return file


def _dumped(files: Iterable[IndexedFile]) -> bytes:
    """Return the manifest, an entry on each line."""
    entries = [json.dumps(file._asdict()) for file in sorted(files, key=lambda file: file.name)]
    return ("[\n" + ",\n".join(entries) + "\n]\n").encode()
