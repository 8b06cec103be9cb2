"""A folder as a package index: pip and uv install from it over `file:` and over any web server.

Layout: `FOLDER/<accelerator>/<project>/` are index pages; a wheel lies in its accelerator's folder, and what
every accelerator lists (the pure wheel, the sdist) at the root. `FOLDER/.fatwheel/<project>.json` is the
manifest the pages are made from.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import index
from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.index import IndexedFile
from ci_tools.storage import locked, sha256_of, write_atomically
from ci_tools.wheelfile import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ci_tools.outside import Reporter

__all__ = ["FolderTarget", "Published"]

GENERIC = "cpu"  # the index of those who have no accelerator; always there


class Published(NamedTuple):
    """One file in the index, and whether this run put it there."""

    file: str
    path: Path
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTarget:
    """An index in the folder `root`; `replace` lets a file of other bytes take the place of one of its name."""

    root: Path
    replace: bool
    reporter: Reporter

    def publish(self, project: str, files: Sequence[tuple[Path, str]]) -> tuple[Published, ...]:
        """Put files, each with the accelerator folder it belongs to, into the index; twice is as good as once.

        Files come first, then their metadata, the manifest, and the pages, so that no page names a file that is
        not whole. Raises InputError where a published file would change and `replace` is off.
        """
        project = canonicalize_name(project)
        with locked(self.root / ".fatwheel" / "index", self.reporter.say):
            manifest = self._manifest(project)
            hashed = [(path, folder, sha256_of(path)) for path, folder in files]
            self._refuse_change(manifest, hashed)
            published = [self._place(path, folder, sha256, manifest) for path, folder, sha256 in hashed]
            self._write(self._manifest_path(project), _dumped(manifest.values()))
            self._write_pages(project, tuple(manifest.values()))
        return tuple(published)

    # -- the manifest

    def _manifest_path(self, project: str) -> Path:
        return self.root / ".fatwheel" / f"{project}.json"

    def _manifest(self, project: str) -> dict[str, IndexedFile]:
        """Return what is published, by file name; a file that is gone from the folder is gone from the index."""
        path = self._manifest_path(project)
        try:
            entries = [IndexedFile(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            msg = f"{path} is damaged: {error}"
            raise MachineError(msg, hint="remove it and publish again: the files themselves are safe") from None
        return {entry.name: entry for entry in entries if (self.root / entry.folder / entry.name).is_file()}

    def _refuse_change(self, manifest: dict[str, IndexedFile], files: Iterable[tuple[Path, str, str]]) -> None:
        for path, _, sha256 in files:
            old = manifest.get(path.name)
            if old and old.sha256 != sha256 and not self.replace:
                hashes = f"sha256 {old.sha256[:12]}…, new {sha256[:12]}…"
                msg = f"{path.name} is in {self.root} already with other bytes ({hashes})"
                hint = "a published file never changes: raise the version, or say --replace for an index of your own"
                raise InputError(msg, hint=hint)

    # -- files

    def _place(self, path: Path, folder: str, sha256: str, manifest: dict[str, IndexedFile]) -> Published:
        """Copy one file and its metadata into the index, and note it in the manifest."""
        target = self.root / folder / path.name
        old = manifest.get(path.name)
        if old and old.sha256 == sha256 and sha256_of(target) == sha256:
            return Published(path.name, target, new=False)
        with path.open("rb") as source, write_atomically(target) as sink:
            shutil.copyfileobj(source, sink)
        if sha256_of(target) != sha256:
            msg = f"{target} does not hold what was written to it"
            raise MachineError(msg, hint="check the disk, then run the same command again")
        if old and old.folder != folder:
            (self.root / old.folder / path.name).unlink(missing_ok=True)
        manifest[path.name] = self._described(target, folder, sha256)
        return Published(path.name, target, new=True)

    def _described(self, path: Path, folder: str, sha256: str) -> IndexedFile:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        entry = IndexedFile(path.name, folder, sha256, path.stat().st_size, now)
        if path.suffix != ".whl":
            return entry
        wheel = opened(path)
        with wheel.archive:
            metadata = wheel.dist_info_text("METADATA").encode()
            requires = wheel.metadata.get("Requires-Python", "")
        if not metadata:
            msg = f"{path.name} has no METADATA"
            raise Rejected(msg)
        self._write(path.with_name(f"{path.name}.metadata"), metadata)
        digest = hashlib.sha256(metadata).hexdigest()
        return entry._replace(requires_python=requires, metadata_sha256=digest)

    # -- pages

    def _write_pages(self, project: str, files: Sequence[IndexedFile]) -> None:
        """Write the project's page in every accelerator's index, and each index's front page."""
        for folder in sorted({GENERIC, *self._folders(), *(file.folder for file in files if file.folder)}):
            shown = [file for file in files if file.folder in {"", folder}]
            page = self.root / folder / project
            self._write(page / "index.html", index.project_html(project, shown, folder))
            self._write(page / "index.json", index.project_json(project, shown, folder))
            projects = {path.parent.name for path in (self.root / folder).glob("*/index.html")}
            self._write(self.root / folder / "index.html", index.projects_html(projects))
            self._write(self.root / folder / "index.json", index.projects_json(projects))

    def _folders(self) -> Iterator[str]:
        """Yield the accelerator folders that are there."""
        for page in self.root.glob("*/index.html"):
            yield page.parent.name

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file in one step, and not at all where it says so already."""
        if not path.is_file() or path.read_bytes() != content:
            with write_atomically(path) as file:
                file.write(content)


def _dumped(files: Iterable[IndexedFile]) -> bytes:
    entries = [file._asdict() for file in sorted(files, key=lambda file: file.name)]
    return json.dumps(entries, indent=1).encode()
