from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ci_tools.index.manifest import (
    Directory,
    dump_staged_keys,
    is_project,
    parse_directory,
    parse_manifest,
    parse_staged_keys,
)

WHEEL = "demo-1.0-py3-none-any.whl"
HASH = "0a" * 32


def manifest(**changes: object) -> bytes:
    """Return a manifest of one file, of which some fields are others."""
    entry = {"name": WHEEL, "folder": "", "sha256": HASH, "size": 1, "uploaded": "2026-01-01T00:00:00Z", **changes}
    return json.dumps({"generation": 1, "files": [entry]}).encode()


def directory(**changes: object) -> bytes:
    """Return a directory, of which some sets are others."""
    return json.dumps({"generation": 1, "projects": ["demo"], "folders": ["cpu"], "filling": [], **changes}).encode()


FOLDERS = ["cpu", "xpu", "cu130", "cu13.0", "rocm7.1", "cu130torch2.10", "cputorch2.10", "variants"]
NO_FOLDERS = [
    "index.html",
    "demo",
    "nightly",
    "test",
    "finder",
    "cu",
    "cu130/",
    "cu130torch",
    "torch2.10",
    "cu1..0",
    "variantstorch2.10",
    "CU130",
    "cu\u0661\u0663",
    "cpu\n",
    "../cpu",
    ".fatwheel",
]
NO_PROJECTS = ["", "Demo", "a_b", "a--b", "-a", "a/b", "..", "cpu", "cu130", "demo\n", "d\udce9mo", "démo"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_folders_of_an_index_are_those_of_accelerators(folder: str) -> None:
    assert parse_manifest(manifest(folder=folder, also=[folder]), "demo").files[WHEEL].folder == folder
    assert folder in parse_directory(directory(folders=[folder])).folders
    assert folder in parse_directory(directory(filling=[folder])).filling


@pytest.mark.parametrize("folder", NO_FOLDERS)
def test_a_page_a_project_and_a_channel_are_no_folders(folder: str) -> None:
    for changes in ({"folder": folder}, {"also": [folder]}):
        with pytest.raises(ValueError, match="is in a folder that no index has"):
            parse_manifest(manifest(**changes), "demo")
    for name in ("folders", "filling"):
        with pytest.raises(ValueError, match="as a folder"):
            parse_directory(directory(**{name: ["cpu", folder]}))


def test_a_directory_has_no_folder_without_a_name() -> None:
    with pytest.raises(ValueError, match="it has '' as a folder"):
        parse_directory(directory(folders=[""]))


@pytest.mark.parametrize("project", NO_PROJECTS)
def test_what_is_no_canonical_name_is_no_project(project: str) -> None:
    assert not is_project(project)
    with pytest.raises(ValueError, match=r"as a project|can't encode"):
        parse_directory(directory(projects=["demo", project]))


@pytest.mark.parametrize("project", ["demo", "a-b-1", "7z", "cuda"])
def test_a_canonical_name_is_a_project(project: str) -> None:
    assert parse_directory(directory(projects=[project])).projects == {project}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"yanked": "caf\udce9"}, id="half-a-character"),
        pytest.param({"archs": ["\ud800"]}, id="half-a-character-in-a-list"),
        pytest.param({"sha256": ""}, id="no-hash"),
        pytest.param({"sha256": HASH[1:]}, id="a-short-hash"),
        pytest.param({"sha256": HASH.upper()}, id="a-hash-in-capitals"),
        pytest.param({"sha256": f"{HASH}\n"}, id="a-hash-and-a-line-end"),
        pytest.param({"metadata_sha256": "0a"}, id="a-short-hash-of-its-metadata"),
        pytest.param({"apart": "cu130"}, id="apart-in-a-folder-of-the-index"),
    ],
)
def test_an_entry_that_no_page_could_show_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"can't encode|is not a sha256|is in a folder that no index has"):
        parse_manifest(manifest(**changes), "demo")


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(ValueError, match="can't decode"):
        parse_directory(directory().replace(b"demo", b"d\xe9mo"))


def test_a_directory_is_read_as_it_is_written() -> None:
    written = Directory(3, frozenset({"demo", "other"}), frozenset({"cpu", "cu130"}), frozenset({"rocm7.1"}))
    assert parse_directory(written.dumps()) == written


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"size": "1"}, "files[0].size: expected a whole number, found a text", id="a-text-for-a-number"),
        pytest.param({"size": True}, "files[0].size: expected a whole number, found true or false", id="a-yes"),
        pytest.param({"also": "cpu"}, "files[0].also: expected a list, found a text", id="a-text-for-a-list"),
        pytest.param({"name": None}, "files[0].name: expected a text, found null", id="no-name"),
        pytest.param({"sice": 1}, "files[0]: unknown keys: sice", id="a-key-that-no-entry-has"),
    ],
)
def test_a_value_of_another_kind_is_named_with_its_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_manifest(manifest(**changes), "demo")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{}", "generation: this key is missing", id="nothing"),
        pytest.param("[]", "expected an object, found a list", id="a-list"),
        pytest.param(
            '{"generation": 1, "links": [{"name": "a", "at": "b"}]}',
            "links[0].only_in: this key is missing",
            id="half-a-link",
        ),
        pytest.param('{"generation": 1, "place": "../x"}', "'../x' is not a folder for its files", id="a-place-above"),
        pytest.param("[" * 100_000, "it is nested too deeply", id="deep"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_with_its_key(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_manifest(text.encode(), "demo")


def test_a_note_names_keys_of_the_index_only() -> None:
    assert parse_staged_keys(dump_staged_keys({"cpu/a.whl"})) == {"cpu/a.whl"}
    with pytest.raises(ValueError, match=re.escape("it names 'a/../../b', expected a key of the index")):
        parse_staged_keys(dump_staged_keys({"a/../../b"}))
