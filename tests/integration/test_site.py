"""The website as it is built: strict about links, and looked at in a browser. `make test-docs` runs this."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.framing import FolderHandler, Server
from tests.servers.threads import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("sphinx", reason="`make docs` installs what builds the site")
pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PAGES = ("index.html", "how-to/index.html", "how-to/get-fatwheel.html", "reference/config.html")


def build(root: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout."""
    command = [sys.executable, "-m", "docs.site", "--out", str(out), *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def checkout(root: Path) -> Path:
    """Return a copy of this one."""
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, root / name)
    return root


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        pytest.param("get-fatwheel.md", "[x](nowhere.md)", "nowhere.md", id="page"),
        pytest.param("get-fatwheel.md", "[x](read-a-plan.md#no-such-heading)", "no-such-heading", id="anchor"),
        pytest.param("get-fatwheel.md", '<a href="nowhere.html">x</a>', "nowhere.html leads nowhere", id="html"),
        pytest.param("lost.md", "# Lost", "lost.md", id="a-page-in-no-list"),
    ],
)
def test_a_broken_link_or_a_lost_page_fails_the_build(page: str, text: str, said: str, tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    with (root / "docs/how-to" / page).open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")
    built = build(root, tmp_path / "site")
    assert built.returncode == 1
    assert said in built.stderr


def test_a_release_is_built_from_its_tag(tmp_path: Path) -> None:
    root = checkout(tmp_path / "checkout")
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "All"], check=True)
    subprocess.run([*git, "tag", "v0.1.0"], check=True)
    (root / "docs/index.md").write_text("# The next version\n", encoding="utf-8")
    built = build(root, tmp_path / "site", "--releases")
    assert built.returncode == 0, built.stderr
    fronts = {name: (tmp_path / "site" / name / "index.html").read_text(encoding="utf-8") for name in ("0.1", "dev")}
    assert {name: "The next version" in text for name, text in fronts.items()} == {"0.1": False, "dev": True}
    assert "url=0.1/" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, served."""
    folder, index = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("index")
    (index / "index.html").write_text("<!doctype html><title>Wheels</title>", encoding="utf-8")
    built = build(REPOSITORY, folder, "--index", str(index))
    assert built.returncode == 0, built.stderr
    with serve(Server(functools.partial(FolderHandler, directory=str(folder)))) as server:
        yield f"{server.url}/"


@pytest.fixture(params=[(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")], ids=str)
def screen(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A wide and a narrow screen, light and dark."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield context.new_page()
    context.close()


def test_pages_fit_the_screen_and_load_nothing_from_elsewhere(screen: Page, site: str) -> None:
    asked, failed, complaints = [], [], []
    screen.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    screen.on("request", lambda request: asked.append(request.url))
    screen.on("response", lambda response: failed.append(response.url) if response.status >= 400 else None)
    for name in PAGES:
        screen.goto(f"{site}dev/{name}")
        wider = screen.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert (name, wider) == (name, 0)
    assert [url for url in asked if not url.startswith((site, "data:"))] == []
    assert (failed, complaints) == ([], [])


def test_each_title_names_the_project_once(screen: Page, site: str) -> None:
    for name, title in (("index.html", "Fatwheel"), ("how-to/read-a-plan.html", "Read a plan — Fatwheel")):
        screen.goto(f"{site}dev/{name}")
        assert screen.title() == title


def test_the_page_is_as_dark_as_the_system(screen: Page, site: str, request: pytest.FixtureRequest) -> None:
    screen.goto(f"{site}dev/index.html")
    assert screen.locator("html").get_attribute("data-theme") == request.node.callspec.params["screen"][1]


@pytest.mark.parametrize("chosen", ["light", "dark"])
def test_the_finder_is_as_dark_as_a_visitor_wants(browser: Browser, site: str, chosen: str) -> None:
    context = browser.new_context(color_scheme="null")  # an emulated scheme would hold in every frame
    context.add_init_script(f"localStorage.setItem('mode', '{chosen}')")
    page = context.new_page()
    page.goto(f"{site}dev/index.html")
    finder = page.frame(url="**/whl/index.html")
    assert finder is not None
    assert finder.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (chosen == "dark")
    context.close()


def test_a_search_finds_a_page(screen: Page, site: str) -> None:
    screen.goto(f"{site}dev/search.html?q=externally-managed-environment")
    found = screen.locator("ul.search a", has_text="Get Fatwheel").first
    found.click()
    assert "get-fatwheel" in screen.url


def test_a_visitor_of_the_root_gets_the_front_page(screen: Page, site: str) -> None:
    screen.goto(site)
    screen.wait_for_url("**/dev/index.html")
    assert screen.title() == "Fatwheel"


def test_the_versions_can_be_chosen(screen: Page, site: str) -> None:
    screen.goto(f"{site}dev/how-to/index.html")
    entry = screen.locator(".version-switcher__menu a").first
    entry.wait_for(state="attached")
    assert entry.get_attribute("href") == "/dev/how-to/index.html"
