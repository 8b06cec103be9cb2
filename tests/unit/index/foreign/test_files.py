"""What pages of others list becomes files of a manifest, with what the pages leave out."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ci_tools.index.foreign.files import complete, merge_listings, resolve
from ci_tools.index.foreign.pages import Listed
from ci_tools.index.objects.store import Entry, FolderStore
from ci_tools.index.pages import ADOPTED, IndexedFile
from ci_tools.machine.context import Silent
from tests.builders.wheels import hexdigest, make

WHEEL = "demo-1.0-py3-none-any.whl"
BASE = "https://x.example/whl/"


@pytest.mark.parametrize(
    ("at", "key"),
    [
        pytest.param(f"demo/{WHEEL}", f"demo/{WHEEL}", id="relative"),
        pytest.param(f"/mount/demo/{WHEEL}", f"demo/{WHEEL}", id="with-a-mount"),
        pytest.param(f"/else/{WHEEL}", f"/else/{WHEEL}", id="nowhere"),
        pytest.param(f"{BASE}demo/{WHEEL}?x=1", f"demo/{WHEEL}", id="own-address"),
        pytest.param(f"{BASE}a/../demo/{WHEEL}", f"demo/{WHEEL}", id="dots-inside"),
        pytest.param(f"{BASE}../{WHEEL}", f"{BASE}../{WHEEL}", id="dots-out"),
        pytest.param(f"{BASE}%2e%2e/{WHEEL}", f"{BASE}%2e%2e/{WHEEL}", id="percent-dots-out"),
        pytest.param(f"https://y.example/{WHEEL}", f"https://y.example/{WHEEL}", id="another-host"),
    ],
)
def test_a_link_leads_to_a_key_where_the_index_has_it(at: str, key: str) -> None:
    assert resolve(at, BASE, {f"demo/{WHEEL}"}.__contains__) == key


@pytest.mark.parametrize(
    ("pages", "only_in"),
    [
        pytest.param({"": [WHEEL], "cu130": [WHEEL]}, (), id="every-folder"),
        pytest.param({"": [WHEEL], "cu130": []}, ("",), id="root-only"),
        pytest.param({"": [], "cu130": [WHEEL]}, ("cu130",), id="folder-only"),
    ],
)
def test_a_file_is_listed_where_it_was(pages: dict[str, list[str]], only_in: tuple[str, ...]) -> None:
    listing = {folder: [Listed(name, name) for name in names] for folder, names in pages.items()}
    assert [file.only_in for file in merge_listings("demo", listing, {"", "cu130"}).files] == [only_in]


@pytest.mark.parametrize(
    "name", ["manual.pdf", "demo-1.0-py2.7.egg", "other-1.0.tar.gz", "demo-1.0-py3-none-any-x1.whl"]
)
def test_what_is_no_file_of_the_project_stays_a_link(name: str) -> None:
    found = merge_listings("demo", {"": [Listed(name, f"demo/{name}")]}, {""})
    assert ([link.name for link in found.links], found.files) == ([name], ())


@pytest.mark.parametrize("at", ["demo/", "..", "demo/notes", "about.html"])
def test_what_leads_to_no_file_is_no_link(at: str) -> None:
    assert merge_listings("demo", {"": [Listed(at.rpartition("/")[2], at)]}, {""}) == ((), ())


# ---------------------------------------------------------------- what is left out


def file_at(root: Path, **more: str) -> tuple[IndexedFile, FolderStore]:
    file = IndexedFile(WHEEL, "", more.pop("sha256", ""), 0, "", origin=ADOPTED, **more)  # type: ignore[arg-type]
    return file, FolderStore(root, Silent())


def entry(path: Path) -> Entry | None:
    return Entry(path.name, path.stat().st_size, "2026-01-01T00:00:00Z") if path.is_file() else None


def test_a_wheel_gets_its_hash_size_metadata_and_pythons(tmp_path: Path) -> None:
    wheel = make(tmp_path, fields="Requires-Python: >=3.8\n")
    file, store = file_at(tmp_path)
    done = complete(file, store, "", entry(wheel), None)
    assert done.file
    assert (done.file.sha256, done.file.size) == (hexdigest(wheel), wheel.stat().st_size)
    assert (done.file.requires_python, done.file.uploaded) == (">=3.8", "2026-01-01T00:00:00Z")
    assert done.metadata.startswith(b"Metadata-Version")


@pytest.mark.parametrize(
    "beside",
    [b"", b"Name: other\nVersion: 1.0\n", b"Name: demo\nVersion: 2.0\n", b"Name: demo\nVersion: !\n", b"\xff\0"],
)
def test_metadata_of_another_wheel_is_not_told_of(beside: bytes, tmp_path: Path) -> None:
    wheel, told = make(tmp_path), tmp_path / f"{WHEEL}.metadata"
    told.write_bytes(beside)
    file, store = file_at(tmp_path)
    done = complete(file, store, "", entry(wheel), entry(told))
    assert done.file
    assert (done.file.metadata_sha256, done.metadata) == ("", b"")


@pytest.mark.parametrize("content", [b"no zip", b"PK\5\6" + b"\0" * 18, b""], ids=["junk", "empty-zip", "nothing"])
def test_what_is_no_wheel_has_no_metadata(content: bytes, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(content)
    file, store = file_at(tmp_path, sha256="ab" * 32)
    done = complete(file, store, "", entry(tmp_path / WHEEL), None)
    assert done.file
    assert (done.file.metadata_sha256, done.metadata) == ("", b"")


def test_a_file_that_is_gone_stays_a_link(tmp_path: Path) -> None:
    for at in ("", f"../out/{WHEEL}", f"/x/{WHEEL}", f"http://127.0.0.1:9/{WHEEL}"):
        file, store = file_at(tmp_path, at=at)
        done = complete(file, store, "", None, None)
        assert done.file is None
        assert done.link
        assert done.link.at == (at or WHEEL)


# ---------------------------------------------------------------- what is left out


@pytest.mark.slow
def test_metadata_of_a_hundred_megabytes_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", b"Name: demo\nVersion: 1.0\n" + b"x" * (100 << 20))
    file, store = file_at(tmp_path, sha256="ab" * 32)
    done = complete(file, store, "", entry(tmp_path / WHEEL), None)
    assert (done.metadata, done.read) == (b"", 0)
