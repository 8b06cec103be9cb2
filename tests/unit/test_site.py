"""What the website is made of before a generator sees it: pages by section, links that hold there, versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.site import stage as staging
from docs.site.errors import find_hinted
from docs.site.versions import newest_releases, write_versions
from tests.unit.test_docs import pages_in_code

REPOSITORY = Path(__file__).parents[2]
PLACES = {
    Path("docs/index.md"): "index.md",
    Path("docs/how-to/a.md"): "how-to/a.md",
    Path("CHANGELOG.md"): "project/changelog.md",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    staging.stage(REPOSITORY, folder, folder / "no index")
    return folder


def test_every_page_is_in_the_list_of_its_section(pages: Path) -> None:
    staged = {path.relative_to(pages).with_suffix("").as_posix() for path in pages.rglob("*.md")}
    listed = {
        f"{landing.parent.name}/{line}"
        for landing in pages.glob("*/index.md")
        for line in landing.read_text(encoding="utf-8").partition(":hidden:")[2].split()
        if line != "```"
    }
    assert {name for name in staged if Path(name).name != "index"} == listed


def test_every_error_that_names_a_page_has_one(pages: Path) -> None:
    named = {hinted.page for hinted in find_hinted(REPOSITORY / "ci_tools")}
    assert named == set(pages_in_code())
    texts = [page.read_text(encoding="utf-8") for page in (pages / "errors").glob("*.md")]
    assert [page for page in named if not any(f"See Fatwheel's docs/{page}\n" in text for text in texts)] == []


def test_the_page_of_an_error_has_its_words_and_what_helps(pages: Path) -> None:
    text = (pages / "errors" / "this-machine-cannot-build-of-jobs.md").read_text(encoding="utf-8")
    assert "# This machine cannot build … of … jobs\n" in text
    assert "  hint: --here goes on with the rest, and says so\n" in text
    assert "Exit status 3: " in text
    assert "From [What this machine cannot build](../how-to/choose-a-toolchain.md#" in text


def test_the_front_page_has_a_place_for_the_finder(pages: Path, tmp_path: Path) -> None:
    assert staging.MARK in (pages / "index.md").read_text(encoding="utf-8")
    index = tmp_path / "index"
    index.mkdir()
    (index / "index.html").write_text("finder", encoding="utf-8")
    staging.stage(REPOSITORY, tmp_path / "pages", index)
    assert "<iframe" in (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")
    assert (tmp_path / "pages" / staging.EXTRA / staging.INDEX / "index.html").read_text(encoding="utf-8") == "finder"


def test_the_schema_is_published(pages: Path) -> None:
    published = pages / staging.EXTRA / "fatwheel.schema.json"
    assert json.loads(published.read_text(encoding="utf-8"))["title"] == "fatwheel.yml"


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        pytest.param("[x](../index.md#a)", "[x](../index.md#a)", id="page"),
        pytest.param("[x](../../CHANGELOG.md)", "[x](../project/changelog.md)", id="page-that-moves"),
        pytest.param("[x](../README.md)", "[x](../index.md)", id="list-of-pages"),
        pytest.param("[`x` [y]](../../Makefile)", "[`x` [y]](https://host/me/fatwheel/blob/1/Makefile)", id="file"),
        pytest.param("[x](nowhere.md)", "[x](nowhere.md)", id="nothing"),
        pytest.param("[x](#a)", "[x](#a)", id="anchor"),
        pytest.param("[x](https://example.org/a.md)", "[x](https://example.org/a.md)", id="elsewhere"),
        pytest.param("```\n[x](../README.md)\n```\n", "```\n[x](../README.md)\n```\n", id="code"),
    ],
)
def test_a_link_leads_to_its_place_on_the_site(link: str, expected: str) -> None:
    repository = "https://host/me/fatwheel/blob/1"
    assert staging.rewrite_links(link, Path("docs/how-to/a.md"), PLACES, REPOSITORY, repository) == expected


def test_a_link_to_a_file_is_text_where_no_repository_is_known() -> None:
    text = staging.rewrite_links("see [the file](../Makefile).", Path("docs/index.md"), PLACES, REPOSITORY)
    assert text == "see the file."


def test_the_newest_release_of_each_minor_version_is_shown() -> None:
    tags = ["v0.9.1", "v0.10.0", "v0.9.10", "v0.10.0-rc1", "ao-kernels-v0.1.0", "v1"]
    assert list(newest_releases(tags).items()) == [("0.10", "v0.10.0"), ("0.9", "v0.9.10")]


def test_the_first_version_is_the_one_a_visitor_gets(tmp_path: Path) -> None:
    write_versions(tmp_path, ["0.2", "0.1", "dev"], "/fatwheel/")
    entries = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [entry["url"] for entry in entries if entry["preferred"]] == ["/fatwheel/0.2/"]
    assert [entry["version"] for entry in entries] == ["0.2", "0.1", "dev"]
    assert "url=0.2/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
