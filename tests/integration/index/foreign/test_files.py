"""What pages of others list becomes files of a manifest, with what the pages leave out."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from ci_tools.index.foreign.files import complete
from ci_tools.index.objects.store import Entry, FolderStore
from ci_tools.index.pages import ADOPTED, IndexedFile
from ci_tools.machine.context import Silent

if TYPE_CHECKING:
    from pathlib import Path

WHEEL = "demo-1.0-py3-none-any.whl"


# ---------------------------------------------------------------- what is left out


def file_at(root: Path, name: str = WHEEL, **more: str) -> tuple[IndexedFile, FolderStore]:
    file = IndexedFile(name, "", more.pop("sha256", ""), 0, "", origin=ADOPTED, **more)  # type: ignore[arg-type]
    return file, FolderStore(root, Silent())


def entry(path: Path) -> Entry | None:
    return Entry(path.name, path.stat().st_size, "2026-01-01T00:00:00Z") if path.is_file() else None


@pytest.mark.slow
def test_metadata_of_a_hundred_megabytes_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", b"Name: demo\nVersion: 1.0\n" + b"x" * (100 << 20))
    file, store = file_at(tmp_path, sha256="ab" * 32)
    done = complete(file, store, "", entry(tmp_path / WHEEL), None)
    assert (done.metadata, done.read) == (b"", 0)
