from __future__ import annotations

import json
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from pypi_simple import ProjectPage

from ci_tools.index.pages import IndexedFile, project_and_version, projects_html, projects_json
from tests.builders.index_pages import project_html, project_json

HERE = "http://127.0.0.1/whl/cu130/demo/"
CUDA = IndexedFile(
    "demo-1.0+cu130-py3-none-any.whl", "cu130", "ab" * 32, 7, "2026-01-02T03:04:05Z", ">=3.9,!=3.9.1", "cd" * 32
)
PURE = IndexedFile("demo-1.0-py3-none-any.whl", "", "ef" * 32, 8, "2026-01-02T03:04:05Z")
SDIST = IndexedFile("demo-1.0.tar.gz", "", "01" * 32, 9, "2026-01-02T03:04:05Z", yanked="")
OLD = PURE._replace(name="demo-0.9-py3-none-any.whl", yanked='it said "no" & <b>broke</b>')
FILES = (CUDA, PURE, SDIST, OLD)


class Anchors(HTMLParser):
    """Collects every link with its attributes and text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.tags: set[str] = set()
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "a":
            self.found.append({**dict(attrs), "text": ""})

    def handle_data(self, data: str) -> None:
        if self.found and not self.found[-1]["text"]:
            self.found[-1]["text"] = data


def anchors(*files: IndexedFile) -> list[dict[str, str | None]]:
    return Anchors(project_html("demo", files, "cu130")).found


def test_the_page_lists_files_by_version() -> None:
    assert [anchor["text"] for anchor in anchors(*FILES)] == [OLD.name, PURE.name, SDIST.name, CUDA.name]


def test_versions_are_ordered_as_versions() -> None:
    files = [PURE._replace(name=f"demo-{version}-py3-none-any.whl") for version in ("1.10", "1.9", "1.10rc1", "1!0.1")]
    names = [anchor["text"] for anchor in anchors(*files)]
    assert [name.split("-")[1] for name in names if name] == ["1.9", "1.10rc1", "1.10", "1!0.1"]


@pytest.mark.parametrize(
    ("file", "folder", "address"),
    [
        pytest.param(CUDA, "cu130", "../demo-1.0%2Bcu130-py3-none-any.whl", id="in-the-same-index"),
        pytest.param(PURE, "cu130", "../../demo-1.0-py3-none-any.whl", id="at-the-root"),
        pytest.param(CUDA, "cpu", "../../cu130/demo-1.0%2Bcu130-py3-none-any.whl", id="in-another-index"),
        pytest.param(
            CUDA._replace(folder="a+b c"), "cpu", "../../a%2Bb%20c/demo-1.0%2Bcu130-py3-none-any.whl", id="odd-folder"
        ),
        pytest.param(
            PURE._replace(name="demo-1!1.0-py3-none-any.whl"), "", "../demo-1%211.0-py3-none-any.whl", id="epoch"
        ),
    ],
)
def test_addresses_are_relative_and_quoted(file: IndexedFile, folder: str, address: str) -> None:
    assert f'href="{address}#sha256={file.sha256}"' in project_html("demo", [file], folder).decode()
    assert json.loads(project_json("demo", [file], folder))["files"][0]["url"] == address


def test_what_installers_ask_is_in_the_html() -> None:
    (anchor,) = anchors(CUDA)
    assert anchor["data-requires-python"] == CUDA.requires_python
    assert anchor["data-core-metadata"] == f"sha256={CUDA.metadata_sha256}"
    assert "data-dist-info-metadata" not in anchor  # pip 22.3 to 23.1.2 would compare names as they are spelled
    assert "data-yanked" not in anchor


def test_what_is_not_known_is_not_said() -> None:
    (anchor,) = anchors(PURE)
    assert set(anchor) == {"href", "text"}
    assert {"core-metadata", "requires-python"}.isdisjoint(json.loads(project_json("demo", [PURE], ""))["files"][0])


@pytest.mark.parametrize("odd", [">=3.9,<4", '"><script>x</script>', "'", "&lt;", "\n", "é"])
def test_nothing_breaks_out_of_an_attribute(odd: str) -> None:
    page = Anchors(project_html("demo", [CUDA._replace(requires_python=odd, yanked=odd)], "cu130"))
    assert page.found[0]["data-requires-python"] == page.found[0]["data-yanked"] == odd
    assert page.tags <= {"html", "head", "meta", "title", "body", "h1", "a", "br"}


@pytest.mark.parametrize(
    ("reason", "html", "json_"),
    [
        pytest.param(None, None, False, id="not-yanked"),
        pytest.param("", "", True, id="without-a-reason"),
        pytest.param("broken", "broken", "broken", id="with-a-reason"),
    ],
)
def test_a_yanked_file_says_so(reason: str | None, html: str | None, json_: object) -> None:
    file = PURE._replace(yanked=reason)
    assert anchors(file)[0].get("data-yanked") == html
    assert json.loads(project_json("demo", [file], ""))["files"][0]["yanked"] == json_


def test_html_and_json_say_the_same_to_a_client() -> None:
    html = ProjectPage.from_html("demo", project_html("demo", FILES, "cu130").decode(), HERE)
    as_json = ProjectPage.from_json_data(json.loads(project_json("demo", FILES, "cu130")), HERE)
    assert [package.filename for package in html.packages] == [package.filename for package in as_json.packages]
    for left, right in zip(html.packages, as_json.packages, strict=True):
        assert urljoin(HERE, left.url) == urljoin(HERE, right.url)
        assert (left.digests, left.requires_python, left.is_yanked) == (
            right.digests,
            right.requires_python,
            right.is_yanked,
        )
        assert (left.has_metadata or False, left.yanked_reason or "") == (
            right.has_metadata or False,
            right.yanked_reason or "",
        )


def test_json_says_what_html_cannot() -> None:
    document = json.loads(project_json("Demo", FILES, "cu130"))
    assert (document["meta"], document["name"]) == ({"api-version": "1.1"}, "demo")
    assert document["versions"] == ["0.9", "1.0", "1.0+cu130"]
    assert (document["files"][-1]["size"], document["files"][-1]["upload-time"]) == (7, CUDA.uploaded)


def test_the_front_page_lists_projects() -> None:
    page = Anchors(projects_html(["torch", "a&b", "demo"]))
    assert [(anchor["href"], anchor["text"]) for anchor in page.found] == [
        ("a%26b/", "a&b"),
        ("demo/", "demo"),
        ("torch/", "torch"),
    ]
    assert [entry["name"] for entry in json.loads(projects_json(["torch", "demo"]))["projects"]] == ["demo", "torch"]


@pytest.mark.parametrize(
    ("name", "project", "version"),
    [
        pytest.param("My_Demo-1.0-py3-none-any.whl", "my-demo", "1.0", id="wheel"),
        pytest.param("demo-1!2.0+cu130.x-7a-cp310-abi3-manylinux_2_28_x86_64.whl", "demo", "1!2.0+cu130.x", id="long"),
        pytest.param("my-demo-1.0rc1.tar.gz", "my-demo", "1.0rc1", id="sdist"),
        pytest.param("demo-1.0.zip", "demo", "1.0", id="zip"),
    ],
)
def test_a_file_name_says_what_it_is(name: str, project: str, version: str) -> None:
    found = project_and_version(name)
    assert (found[0], str(found[1])) == (project, version)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("demo.whl", "Invalid wheel filename"),
        ("demo-1.0.exe", "Invalid sdist filename"),
        ("demo-x-py3-none-any.whl", "Invalid wheel filename"),
        ('demo-1.0-py3-none-a"><b.whl', "holds a character"),
        ("demo-1.0-py3-none-any\n.whl", "holds a character"),
        ("../demo-1.0-py3-none-any.whl", "holds a character"),
        ("d\u00e9mo-1.0-py3-none-any.whl", "holds a character"),
        ("", "holds a character"),
    ],
)
def test_what_is_no_wheel_and_no_sdist_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        project_and_version(name)
