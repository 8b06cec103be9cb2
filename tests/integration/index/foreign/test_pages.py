"""Pages that others wrote are read as installers read them, and a line of ours joins them with every byte kept."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_tools.index.foreign.files import merge_listings
from ci_tools.index.foreign.pages import add_projects, parse_project_page
from ci_tools.index.manifest import Manifest, parse_manifest

SHA256 = "ab" * 32
WHEEL = "demo-1.0-py3-none-any.whl"
PAGE = "demo/index.html"
LONG = 200_000  # of a hostile page's pieces: time in the square of them would be minutes
SECONDS = 20  # of the processor's time that such a page may take on a slow machine


HOSTILE = ["<", "<!", "<!--", "<a ", "<a href='", "<![foo", "</", "<?", "=", "<script>", "<div>", " ", "/ ", "x = "]
HOSTILE += ["<a x=\"'", "</body", "&", "<a href=x/>\n", "\0", "\xff\xfe", '"projects": [']


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
def test_a_page_of_one_piece_takes_no_time(piece: str) -> None:
    page, started = f"<a {piece * (LONG // len(piece))}".encode("latin-1"), time.process_time()
    for work in (lambda: parse_project_page(page, PAGE), lambda: add_projects(page, "index.html", ["demo"])):
        with suppress(ValueError):
            work()
    assert time.process_time() - started < SECONDS


@pytest.mark.slow
@given(st.lists(st.text(max_size=60), max_size=4), st.sampled_from(['<a href="{}">', "{}", '<base href="{}">']))
def test_whatever_a_page_lists_a_manifest_can_keep(hrefs: list[str], way: str) -> None:
    page = "".join(way.format(href) + f'<a href="{href}/{WHEEL}#sha256={SHA256}">' for href in hrefs)
    found = merge_listings("demo", {"": parse_project_page(page.encode(errors="surrogatepass"), PAGE)}, {""})
    manifest = Manifest("demo", links=found.links).add_files(found.files)
    assert parse_manifest(manifest.dumps(), "demo") == manifest
