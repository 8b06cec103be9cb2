"""Pages that others wrote are read as installers read them, and a line of ours joins them with every byte kept."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_tools.index.foreign.files import merge_listings
from ci_tools.index.foreign.pages import Listed, add_projects, parse_project_page, projects_on
from ci_tools.index.manifest import Manifest, parse_manifest

SHA256 = "ab" * 32
WHEEL = "demo-1.0-py3-none-any.whl"
PAGE = "demo/index.html"


# ---------------------------------------------------------------- a project's page


@pytest.mark.parametrize(
    ("href", "place"),
    [
        pytest.param(WHEEL, f"demo/{WHEEL}", id="beside"),
        pytest.param(f"../{WHEEL}", WHEEL, id="above"),
        pytest.param(f"  ./{WHEEL}\n", f"demo/{WHEEL}", id="spaces"),
        pytest.param(f"../../pool/{WHEEL}", f"../pool/{WHEEL}", id="out-of-the-root"),
        pytest.param(f"%2e%2e/%2E%2E/pool/{WHEEL}", f"../pool/{WHEEL}", id="out-by-percents"),
        pytest.param("../" * 40 + WHEEL, f"/{WHEEL}", id="above-the-server"),
        pytest.param(f"/whl/{WHEEL}", f"/whl/{WHEEL}", id="with-a-mount"),
        pytest.param(f"/whl/../../x/{WHEEL}", f"/x/{WHEEL}", id="absolute-with-dots"),
        pytest.param(f"///{WHEEL}", f"/{WHEEL}", id="three-slashes"),
        pytest.param(f"https://x.example/a b/{WHEEL}", f"https://x.example/a%20b/{WHEEL}", id="web-with-a-space"),
        pytest.param("demo-1.0%2Bcu130-py3-none-any.whl", "demo/demo-1.0+cu130-py3-none-any.whl", id="plus"),
        pytest.param("demo-1.0+cu130-py3-none-any.whl", "demo/demo-1.0+cu130-py3-none-any.whl", id="raw-plus"),
        pytest.param("100%25/%C3%A9 %26/x.whl", "demo/100%/é &/x.whl", id="percent-unicode-space"),
        pytest.param(f"{WHEEL}?download=1#md5=0", f"demo/{WHEEL}", id="query"),
    ],
)
def test_a_link_leads_where_installers_go(href: str, place: str) -> None:
    assert [link.at for link in parse_project_page(f'<a href="{href}">x</a>'.encode(), PAGE)] == [place]


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)//x.whl",
        "mailto:jo@example.org",
        "ftp://x.example/x.whl",
        "http://[/x.whl",
        "#top",
        "",
        "../",
        "%ff%fe.whl",
        "a%00b.whl",
        "a%0ab.whl",
        "data:text/html,x.whl",
        "file:///etc/x.whl",
    ],
)
def test_a_link_to_nowhere_hides_no_other(href: str) -> None:
    page = f'<a href="{href}">x</a><a href="{WHEEL}">x</a>'.encode()
    assert [link.name for link in parse_project_page(page, PAGE) if link.name != "index.html"] == [WHEEL]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(f"<A HREF='{WHEEL}'>x</A>", id="capitals"),
        pytest.param(f"<a\n class=x\n href={WHEEL}>x", id="no-quotes-no-end"),
        pytest.param(f'<p title="<a href=x.whl>"><a href="{WHEEL}">', id="in-an-attribute"),
        pytest.param(f'<!-- <a href="x.whl"> --><a href="{WHEEL}">', id="behind-a-comment"),
        pytest.param(f'<!--><a href="{WHEEL}">', id="empty-comment"),
        pytest.param(f'<script>"<a href=x.whl>"</script><a href="{WHEEL}">', id="behind-a-script"),
        pytest.param(f'<![endif]><!x><?x?></ x><a href="{WHEEL}">', id="junk"),
        pytest.param(f'1 < 2 <3 <> <a href="{WHEEL}">', id="less-than"),
        pytest.param(f'<a href="{WHEEL}"><a href="demo-1.1.tar.', id="half-a-page"),
        pytest.param(f'<a name="top"><a href="{WHEEL}" href="x.whl">', id="first-attribute"),
        pytest.param(f'<a href="../{WHEEL}"><base href="x/">', id="base-behind"),
        pytest.param(f'<base href="http://["><a href="{WHEEL}">', id="bad-base"),
        pytest.param(f'<meta name="pypi:repository-version" content="9.0"><a href="{WHEEL}">', id="newer-version"),
        pytest.param(f'\ufeff<a href="{WHEEL}">x</a>\r\n<a>é</a>', id="byte-order-mark"),
        pytest.param("<div>" * 1000 + f'<a href="{WHEEL}">', id="deep"),
    ],
)
def test_a_page_in_any_hand_is_read(page: str) -> None:
    assert [link.name for link in parse_project_page(page.encode(), PAGE)] == [WHEEL]


def test_a_page_in_an_old_encoding_is_read() -> None:
    page = f'<p>caf\xe9</p><a href="{WHEEL}" data-yanked="caf\xe9">x</a><a href="caf\xe9.whl">'.encode("latin-1")
    assert [(link.name, link.yanked) for link in parse_project_page(page, PAGE)] == [(WHEEL, "caf?")]


def test_what_a_link_says_is_kept() -> None:
    page = (
        f'<a href="{WHEEL}#egg=demo&sha256={SHA256.upper()}" data-requires-python="&gt;=3.8" data-yanked'
        f' data-core-metadata="true" data-dist-info-metadata="sha256={SHA256}">'
    )
    wanted = Listed(WHEEL, f"demo/{WHEEL}", SHA256, requires_python=">=3.8", metadata_sha256=SHA256, yanked="")
    assert parse_project_page(page.encode(), PAGE) == (wanted,)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        pytest.param({"size": 7, "yanked": "bad"}, {"size": 7, "yanked": "bad"}, id="plain"),
        pytest.param({"size": -1, "yanked": True}, {"yanked": ""}, id="no-size"),
        pytest.param({"size": 10**30, "upload-time": "yesterday", "requires-python": ["3"]}, {}, id="nonsense"),
        pytest.param({"upload-time": "2026-01-01T00:00:00.5Z"}, {"uploaded": "2026-01-01T00:00:00.5Z"}, id="time"),
        pytest.param(
            {"yanked": "\ud800", "requires-python": "\udfff"}, {"yanked": "?", "requires_python": "?"}, id="½"
        ),
        pytest.param({"hashes": {"sha256": [1]}, "core-metadata": False}, {}, id="hashes"),
        pytest.param({"core-metadata": True}, {"said": (("core-metadata", "true"),)}, id="metadata-without-a-hash"),
    ],
)
def test_a_document_says_what_it_can(said: object, kept: dict[str, object]) -> None:
    entry = {"filename": WHEEL, "url": f"../{WHEEL}", **dict(said)}  # type: ignore[call-overload]
    page = json.dumps({"files": [{}, {"filename": 1, "url": WHEEL}, {"filename": "x", "url": "http://["}, entry]})
    assert parse_project_page(page.encode(), "demo/index.json") == (Listed(WHEEL, WHEEL, **kept),)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [b"", b"{}", b"[]", b'{"files": 1}', b'{"files": [1]}', b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_said_to_be_none(page: bytes) -> None:
    with pytest.raises(ValueError, match=r"no list|Expecting|decode"):
        parse_project_page(page, "demo/index.json")


# ---------------------------------------------------------------- front pages


@pytest.mark.parametrize(
    ("page", "joined"),
    [
        pytest.param('<a href="a/">a</a><br>\n', '<a href="a/">a</a><br>\n{}<br>\n', id="last-line"),
        pytest.param(' <li><a href="a/">a</a>', ' <li><a href="a/">a</a>\n <li>{}', id="no-line-end"),
        pytest.param(
            '<li><a href="a/">A</a></li>\r\n</ul>', '<li><a href="a/">A</a></li>\r\n<li>{}</li>\r\n</ul>', id="crlf"
        ),
        pytest.param('<a href="a/">a</a> is old\n', '<a href="a/">a</a> is old\n{}<br>\n', id="words"),
        pytest.param('<body><a href="a/">a</a></body>', '<body><a href="a/">a</a>{}<br>\n</body>', id="one-line"),
        pytest.param("<body>\n  </body></html>", "<body>\n{}<br>\n  </body></html>", id="no-project"),
        pytest.param("", "{}<br>\n", id="empty"),
        pytest.param(
            '<a href="a/">a</a>\n<!--\n<a href="b/">b</a>\n-->',
            '<a href="a/">a</a>\n{}<br>\n<!--\n<a href="b/">b</a>\n-->',
            id="comment",
        ),
        pytest.param('<a href="a/">a</a> <!--\n--> x', '<a href="a/">a</a> <!--\n--> x{}<br>\n', id="comment-begins"),
        pytest.param('<a href="/whl/a/">a</a>\n', '<a href="/whl/a/">a</a>\n{}\n', id="absolute"),
    ],
)
def test_a_line_joins_in_the_way_of_the_last(page: str, joined: str) -> None:
    line = '<a href="demo/">demo</a>'
    assert add_projects(page.encode(), "index.html", ["demo"]).decode() in {
        joined.format(line),
        joined.replace("<br>\n", "\n").format(line),
    }


@pytest.mark.parametrize("page", ['<a href="/whl/demo/">x</a>', '<a href="Demo/index.html">', '<a href="./demo">'])
def test_a_project_that_is_listed_is_not_listed_twice(page: str) -> None:
    assert add_projects(page.encode(), "index.html", ["demo"]) == page.encode()


@pytest.mark.parametrize(
    ("page", "key"),
    [
        pytest.param(b"PK\3\4\0\0", "index.html", id="binary"),
        pytest.param(b"<!-- never closed <a href='a/'>a</a>", "index.html", id="comment"),
        pytest.param(b'<base href="https://x.example/"><a href="a/">a</a>\n', "index.html", id="base"),
        pytest.param(b'{"meta": "projects", "projects": 1}', "index.json", id="json"),
    ],
)
def test_a_page_without_a_place_for_a_line_is_left(page: bytes, key: str) -> None:
    with pytest.raises(ValueError, match=r"no (place|list)|not text"):
        add_projects(page, key, ["demo"])


def test_a_document_keeps_its_form() -> None:
    page = b'{"x": "\\"projects\\": [", "meta": {"projects": []},\n "projects": [\n {"name": "A"}\n] }'
    after = add_projects(page, "index.json", ["b", "a"])
    assert projects_on(after, "index.json") == ("a", "b")
    assert after.replace(b', {"name": "b"}', b"") == page


PIECES = [
    "<li>",
    '<a href="{}/">',
    "</a>",
    "\n",
    "\r\n",
    "<!--",
    "-->",
    "</body>",
    "</html>",
    "text",
    "<br>",
    "\xe9",
    " ",
]
NAMES = ["torch", "demo", "a-b", "../x", "cu130"]


@given(
    st.lists(st.sampled_from(PIECES), max_size=25),
    st.sampled_from(NAMES),
    st.sets(st.sampled_from(["demo", "a-b", "z"])),
)
def test_every_other_byte_stays_and_nothing_doubles(pieces: list[str], name: str, projects: set[str]) -> None:
    page = (
        "".join(pieces).format(name).encode("latin-1")
        if "{}" in pieces
        else "".join(pieces).replace("{}", name).encode("latin-1")
    )
    before = projects_on(page, "index.html")
    try:
        after = add_projects(page, "index.html", projects)
    except ValueError:
        assert page.count(b"<!--") > 0
        return
    assert sorted(projects_on(after, "index.html")) == sorted([*before, *(projects - set(before))])
    assert add_projects(after, "index.html", projects) == after
    start = next((at for at, (old, new) in enumerate(zip(page, after)) if old != new), len(page))  # noqa: B905
    added = len(after) - len(page)
    assert any(after[:at] + after[at + added :] == page for at in range(start + 1))


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
