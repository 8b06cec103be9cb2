from __future__ import annotations

import hashlib

import pytest

from ci_tools.index.finder.shelf import About, read_about, read_newest
from ci_tools.index.pages import IndexedFile

METADATA = b"""Metadata-Version: 2.4
Name: demo
Version: 1.0
Summary: Kernels for a demonstration
Project-URL: Release Notes, https://host/demo/changes
Project-URL: GitHub, https://github.com/owner/demo
Project-URL: Funding, https://host/money
Project-URL: Documentation, javascript:alert(1)
Home-page: https://host/demo

Project-URL: Issues, https://host/not-a-header
"""
KNOWN = About(
    "Kernels for a demonstration",
    (
        ("Source", "https://github.com/owner/demo"),
        ("Changelog", "https://host/demo/changes"),
        ("Homepage", "https://host/demo"),
    ),
)


def wheel(version: str, content: bytes) -> IndexedFile:
    digest = hashlib.sha256(content).hexdigest()
    return IndexedFile(f"demo-{version}-py3-none-any.whl", "", "ab" * 32, 7, "", metadata_sha256=digest)


def test_a_project_has_its_summary_and_the_links_that_have_a_well_known_label() -> None:
    assert read_about(METADATA) == KNOWN


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"Summary", b"Project-URL: Source\n", b"Project-URL: ,\n"])
def test_what_is_no_metadata_says_nothing(content: bytes) -> None:
    assert read_about(content) == About()


def test_the_newest_version_speaks_for_the_project() -> None:
    files = [wheel("1.9", b"Summary: old\n"), wheel("1.10", METADATA), wheel("2.0", b"")._replace(yanked="broken")]
    there = {"demo-1.10-py3-none-any.whl.metadata": METADATA}
    assert read_newest(files, there.get) == KNOWN


def test_metadata_with_another_hash_is_not_believed() -> None:
    assert read_newest([wheel("1.0", METADATA)], lambda _: METADATA + b"more\n") == About()


def test_an_index_without_metadata_says_nothing_of_the_project() -> None:
    assert read_newest([wheel("1.0", METADATA)], lambda _: None) == About()
    assert read_newest([], {}.get) == About()
