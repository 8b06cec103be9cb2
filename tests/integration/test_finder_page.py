"""The finder page in a browser: from a folder, from a server, by keyboard, and with what strangers may write."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

from ci_tools import catalog
from ci_tools.publish.index.finder import (
    File,
    Listing,
    Shelf,
    data_path,
    front_page,
    project_data,
    shelf_of,
)
from ci_tools.publish.index.pages import IndexedFile, project_html
from ci_tools.publish.units import Offer
from tests.builders import wheels
from tests.servers.threads import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow

CATALOG = catalog.load()
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOSTILE = "<img src=x onerror=alert(1)>"
OTHERS = tuple(f"project-{place:03}" for place in range(20))
LONG = "no wheel was asked for, and this is said at length " * 12
PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"
OURS, THEIRS = b"OWNER = 'ours'\n", b"OWNER = 'theirs'\n"
DEMO_OFFERS = (
    Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA, "native code"),
    Offer("linux-cuda", "cu130", "2.11", "3.12", CUDA, "native code"),
    Offer("linux-cuda", "cu130", "2.11", "3.14t", "", LONG),
    Offer("linux-cpu", "", "2.11", "3.12", PURE, "no native code"),
    Offer("linux-aarch64", "", "2.11", "3.12", PURE, "no native code"),
    Offer("windows", "", "2.11", "3.12", PURE, "no native code"),
)


class Site(NamedTuple):
    """An index in a folder, and where a server has it."""

    root: Path
    served: str  # its address

    def address(self, kind: str) -> str:
        """Return where a browser finds the index, in a folder or on a server."""
        return self.root.as_uri() + "/index.html" if kind == "folder" else self.served


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; one is installed where a package manager may do so, as in a container."""
    for attempt in ("found", "installed"):
        if path := next(filter(None, map(shutil.which, BROWSERS)), None):
            return path
        if attempt == "found" and shutil.which("apt-get") and os.geteuid() == 0:
            subprocess.run(["apt-get", "update"], check=False, capture_output=True, timeout=300)
            subprocess.run(["apt-get", "install", "-y", "chromium"], check=False, capture_output=True, timeout=600)
    return pytest.skip(f"there is none of {', '.join(BROWSERS)} on PATH, and none can be installed")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("an index") / "$(whl) it's"
    write_index(root)
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root.parent)))) as server:
        yield Site(root, f"http://127.0.0.1:{server.server_port}/{quote(root.name)}/")


def write_index(root: Path) -> None:
    """Write an index of a real project, a hostile one and some without data; and a stranger's index beside it."""
    files = [published(root, "", PURE), published(root, "cu130", CUDA)]
    old = IndexedFile("demo-0.9-py3-none-any.whl", "", "ab" * 32, 9, "2026-01-01T00:00:00Z", yanked=HOSTILE)
    sdist = IndexedFile("demo-1.0.tar.gz", "", "cd" * 32, 9, "2026-01-02T03:04:05Z")
    for folder in ("", "cu130"):
        write(root / folder / "demo" / "index.html", project_html("demo", files, folder))
    write(root / "index.html", front_page(["demo", "evil", HOSTILE, *OTHERS], title="Wheels", folders=["cpu", "cu130"]))
    demo = shelf_of("demo", [*files, old, sdist], {"1.0": DEMO_OFFERS}, CATALOG)
    write(root / data_path("demo"), project_data(demo, CATALOG))
    write(root / data_path("evil"), project_data(evil_shelf(), CATALOG))
    write(root / data_path(OTHERS[0]), project_data(Shelf(OTHERS[0], ()), CATALOG))
    write(root / data_path(OTHERS[1]), b"finder({")
    write(root / "alone" / "index.html", front_page(["demo"], title="Wheels", folders=[]))
    shutil.copytree(root / "finder", root / "alone" / "finder")
    write(root / "nothing" / "index.html", front_page([], title="Wheels", folders=[]))
    stranger = root.parent / "stranger"
    theirs = [published(stranger, "", name, THEIRS) for name in (PURE, CUDA)]
    write(stranger / "demo" / "index.html", project_html("demo", theirs, ""))


def published(root: Path, folder: str, name: str, content: bytes = OURS) -> IndexedFile:
    wheel = wheels.make(root / folder, name, {"demo/__init__.py": content})
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    platform, archs = ("linux-cuda", ("9.0", "10.0+PTX")) if folder else ("", ())
    size = wheel.stat().st_size
    return IndexedFile(name, folder, digest, size, "2026-01-02T03:04:05Z", platform=platform, archs=archs)


def evil_shelf() -> Shelf:
    file = File(
        name=HOSTILE,
        address="javascript:alert(1)",
        size=1,
        sha256=HOSTILE,
        pin=HOSTILE,
        uploaded=HOSTILE,
        requires_python=HOSTILE,
        yanked=HOSTILE,
        archs=(HOSTILE,),
        toolchain=HOSTILE,
        commit=HOSTILE,
    )
    offers = (Offer(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE), Offer("__proto__", "x", "", "", "", HOSTILE))
    return Shelf("evil", (Listing(HOSTILE, (file,), offers),))


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@dataclass  # neither frozen nor with slots: playwright notes its own things in it
class Watched:
    """A page, the addresses it asked for, and what went wrong in it."""

    page: Page
    asked: list[str]
    wrong: list[str]

    def dismiss(self, dialog: Dialog) -> None:
        """Close an `alert`, which no page here may open."""
        self.wrong.append(dialog.message)
        dialog.dismiss()

    def goto(self, address: str) -> Page:
        """Open an address anew: another fragment alone would not load the page again."""
        self.page.goto("about:blank")
        self.page.goto(address)
        return self.page


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    # As a Linux machine, whatever the browser runs on: the first choice depends on it.
    agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36"
    made = browser.new_context(user_agent=agent)
    made.add_init_script("Object.defineProperty(navigator, 'platform', {get: () => 'Linux x86_64'})")
    made.set_default_timeout(10_000)
    yield made
    made.close()


@pytest.fixture
def watched(context: BrowserContext) -> Watched:
    found = Watched(context.new_page(), [], [])
    found.page.on("request", lambda request: found.asked.append(request.url))
    found.page.on("console", lambda message: found.wrong.append(message.text))
    found.page.on("pageerror", lambda error: found.wrong.append(str(error)))
    found.page.on("dialog", found.dismiss)
    return found


def commands(page: Page) -> list[str]:
    """Return the commands of the answer that install the project, once there is one."""
    page.locator("#result").wait_for()
    return page.locator("#answer [data-kind=version] pre, #answer [data-kind=file] pre").all_text_contents()


def chosen(page: Page) -> dict[str, str]:
    """Return the labels of what is checked."""
    checked = page.locator("#axes input:checked").all()
    return {str(each.get_attribute("name")): str(each.get_attribute("value")) for each in checked}


def choose(page: Page, axis: str, value: str) -> None:
    page.locator(f"input[name={axis}][value='{value}']").check()


# -- from a folder and from a server


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_a_picked_project_gives_a_command(watched: Watched, site: Site, kind: str) -> None:
    page = watched.goto(site.address(kind))
    page.get_by_role("link", name="demo", exact=True).click()
    by_version, by_file = commands(page)
    assert "demo==1.0+cu130" in shlex.split(by_version)
    assert any("demo-1.0%2Bcu130-py3-none-any.whl#sha256=" in word for word in shlex.split(by_file))
    assert not watched.wrong


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_no_request_leaves_the_index(watched: Watched, site: Site, kind: str) -> None:
    page = watched.goto(site.address(kind) + "#project=demo")
    commands(page)
    page.goto(site.address(kind) + "#project=evil")
    page.locator("#shelf").wait_for()
    root = site.root.as_uri() if kind == "folder" else site.served
    assert {address for address in watched.asked if not address.startswith((root, "about:"))} == set()
    assert [Path(unquote(urlsplit(address).path)).name for address in watched.asked][-1] == "evil.js"


def test_the_first_choice_is_the_visitors_own_system_and_the_newest_of_the_rest(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    assert chosen(page) == {"system": "linux-x86_64", "accelerator": "cu130", "torch": "2.11", "python": "3.12"}


@pytest.mark.parametrize(
    ("platform", "system"),
    [
        pytest.param("Win32", "windows-x86_64", id="windows"),
        pytest.param("Linux aarch64", "linux-arm64", id="linux-on-arm"),
        pytest.param("MacIntel", "linux-x86_64", id="a-mac-for-which-there-is-nothing"),
        pytest.param("", "linux-x86_64", id="a-browser-that-does-not-say"),
    ],
)
def test_the_first_system_is_that_of_the_browser(browser: Browser, site: Site, platform: str, system: str) -> None:
    with browser.new_context(user_agent=f"Mozilla/5.0 ({platform})") as context:
        context.add_init_script(f"Object.defineProperty(navigator, 'platform', {{get: () => '{platform}'}})")
        page = context.new_page()
        page.goto(site.served + "#project=demo")
        commands(page)
        assert chosen(page)["system"] == system


# -- the choice


def test_a_choice_without_a_wheel_says_why_and_what_there_is(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    choose(page, "python", "3.14t")
    assert page.locator("#verdict").text_content() == (
        "There is no wheel for Linux x86_64, CUDA 13.0, torch 2.11, Python 3.14t."
    )
    assert page.locator(".why").text_content() == LONG
    page.get_by_role("button", name="Python 3.12").click()
    assert page.locator("#verdict").text_content() == (
        f"{CUDA} is for Linux x86_64, CUDA 13.0, torch 2.11, Python 3.12."
    )


def test_a_combination_nobody_asked_for_has_what_pip_would_take(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo&system=windows-x86_64&accelerator=cu130")
    page.locator("#verdict").wait_for()
    assert str(page.locator("#verdict").text_content()).startswith(f"{CUDA} is for Windows x86_64, CUDA 13.0")


def test_a_system_brings_an_accelerator_it_can_have_and_gives_it_back(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    choose(page, "system", "windows-x86_64")
    assert chosen(page)["accelerator"] == ""
    choose(page, "system", "linux-x86_64")
    assert chosen(page)["accelerator"] == "cu130"


def test_a_choice_can_be_shared(watched: Watched, site: Site, context: BrowserContext) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    choose(page, "torch", "2.10")
    page.locator("input[name=installer][value=uv]").check()
    said = parse_qs(urlsplit(page.url).fragment)
    assert (said["torch"], said["installer"]) == (["2.10"], ["uv"])
    other = context.new_page()
    other.goto(page.url)
    assert commands(other) == commands(page)


def test_an_older_version_that_was_yanked_is_shown_with_its_reason(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    page.get_by_label("Version").select_option("0.9")
    page.locator("#files summary").click()
    for place in ("#answer", "#files"):
        assert page.locator(f"{place} .warning").text_content() == f"Withdrawn by its makers. {HOSTILE}"
    assert "demo==0.9" in shlex.split(commands(page)[0])


def test_every_file_opens_to_its_facts(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    page.locator("#files summary").filter(has_text=CUDA).click()
    facts = page.locator("#files details[open] dl").inner_text()
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert all(fact in facts for fact in (digest, "9.0, 10.0+PTX", "580.65.06 or newer", "2026-01-02"))


def test_the_way_back_leads_to_the_list(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    page.get_by_role("link", name="demo", exact=True).click()
    commands(page)
    page.go_back()
    page.locator("#finder").wait_for(state="hidden")
    assert page.locator("a[aria-current]").count() == 0


# -- the list of projects


def test_a_filter_finds_a_project(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    page.get_by_label("Find a project").fill("Project_01")
    assert page.locator("#projects li:visible").count() == 10
    assert page.locator("#filter-count").text_content() == "10 of 23"


def test_an_only_project_is_picked_at_once(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}alone/")
    assert commands(page)
    assert page.locator("#picker").is_hidden()


def test_an_index_without_a_project_says_so(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}nothing/")
    assert page.locator("#lead").text_content() == "This index has no project yet."
    assert not watched.wrong


@pytest.mark.parametrize(
    ("project", "said"),
    [
        pytest.param(OTHERS[0], f"{OTHERS[0]} has no files here yet.", id="no-files"),
        pytest.param(OTHERS[1], f"What {OTHERS[1]} has cannot be read: finder/{OTHERS[1]}.js is not whole.", id="cut"),
        pytest.param(OTHERS[2], f"What {OTHERS[2]} has cannot be read: finder/{OTHERS[2]}.js is not there.", id="gone"),
    ],
)
def test_a_project_without_data_says_so(watched: Watched, site: Site, project: str, said: str) -> None:
    page = watched.goto(f"{site.served}#project={project}")
    playwright.expect(page.locator("#notice")).to_have_text(said)


def test_without_scripts_the_page_lists_the_projects(browser: Browser, site: Site) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.served)
        assert page.locator("#projects a:visible").count() == 3 + len(OTHERS)
        assert page.locator("#finder").is_hidden()
        page.get_by_role("link", name="demo", exact=True).click()
        assert page.title() == "Links for demo"


# -- strangers


def test_what_strangers_wrote_is_text(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=evil")
    page.locator("#shelf").wait_for()
    page.locator("#files summary").click()
    assert HOSTILE in str(page.locator("#files").text_content())
    assert page.locator("img").count() == 0
    assert page.locator("#finder a, #shelf a").count() == 0
    assert page.locator("#finder pre, #shelf pre").count() == 0
    assert not watched.wrong


def test_a_hostile_name_in_the_list_is_text(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    page.get_by_role("link", name=HOSTILE).click()
    playwright.expect(page.locator("#notice")).to_contain_text("is not there")
    assert page.locator("img").count() == 0
    assert page.locator("#finder-title").text_content() == HOSTILE


def test_a_hostile_address_chooses_nothing(watched: Watched, site: Site) -> None:
    fragment = f"#project=demo&version={HOSTILE}&system={HOSTILE}&python=__proto__&installer=constructor"
    page = watched.goto(site.served + fragment)
    assert shlex.split(commands(page)[0])[-1] == "demo==1.0+cu130"
    assert not watched.wrong


@pytest.mark.parametrize(
    "markup",
    [
        "<script>alert(1)</script>",
        "<script src='../finder/demo.js'></script>",
        HOSTILE,
        "<style>body { color: red }</style>",
        "<p style='color: red'>",
    ],
)
def test_the_policy_lets_nothing_in_that_slipped_into_the_page(watched: Watched, site: Site, markup: str) -> None:
    page = (site.root / "index.html").read_bytes()
    write(site.root / "slipped" / "index.html", page.replace(b"</main>", markup.encode() + b"</main>"))
    watched.goto(f"{site.served}slipped/")
    assert watched.wrong
    assert all("Content Security Policy" in message for message in watched.wrong)


# -- the commands


@pytest.mark.parametrize("kind", ["folder", "server"])
@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("way", [pytest.param(0, id="by-version"), pytest.param(1, id="by-file")])
def test_a_command_installs_the_file(
    watched: Watched, site: Site, tmp_path: Path, kind: str, installer: str, way: int
) -> None:
    page = watched.goto(f"{site.address(kind)}#project=demo&installer={installer}")
    done = run(commands(page)[way], tmp_path, f"{site.served}nothing/")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS
    assert (tmp_path / "demo-1.0+cu130.dist-info").is_dir()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_exact_command_takes_no_file_with_another_hash(
    watched: Watched, site: Site, tmp_path: Path, installer: str
) -> None:
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    command = commands(page)[1]
    digest = hashlib.sha256((site.root / "cu130" / CUDA).read_bytes()).hexdigest()
    assert digest in command
    assert run(command.replace(digest, "0" * 64), tmp_path, f"{site.served}nothing/").returncode != 0


@pytest.mark.parametrize(("installer", "way"), [("pip", 1), ("uv", 0), ("uv", 1)])
def test_a_stranger_with_the_same_name_is_not_installed(
    watched: Watched, site: Site, tmp_path: Path, installer: str, way: int
) -> None:
    page = watched.goto(f"{site.served}#project=demo&installer={installer}")
    stranger = site.served.removesuffix("/").rpartition("/")[0] + "/stranger/"
    assert run(commands(page)[way], tmp_path, stranger).returncode == 0
    assert (tmp_path / "demo" / "__init__.py").read_bytes() == OURS


def run(command: str, target: Path, default_index: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, as a visitor would, with another folder to install to and another default index."""
    programs = Path(sys.executable).parent
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(target / "home"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": default_index,
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_TARGET": str(target),
        "UV_NO_CONFIG": "1",
        "UV_DEFAULT_INDEX": default_index,
        "UV_NO_CACHE": "1",
    }
    words = f"{command} --target {shlex.quote(str(target))}" if command.startswith("uv") else command
    words += f" --python {shlex.quote(sys.executable)}" if command.startswith("uv") else ""
    return subprocess.run(["sh", "-c", words], env=env, capture_output=True, text=True, check=False, timeout=120)


def test_a_command_for_windows_is_quoted_for_windows(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo&system=windows-x86_64")
    by_file = commands(page)[1]
    assert by_file.startswith('pip install "demo @ http://')
    assert "'" not in by_file
    assert "$" not in by_file


def test_a_password_in_the_address_is_in_no_command(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served.replace("://", "://reader:secret@") + "#project=demo")
    assert not [command for command in commands(page) if "secret" in command or "@127" in command]


def test_an_sdist_is_offered_as_this_very_file_alone(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    page.locator("#files summary").filter(has_text="demo-1.0.tar.gz").click()
    (command,) = page.locator("#files details[open] pre").all_text_contents()
    assert "demo-1.0.tar.gz#sha256=" in command


# -- by keyboard, and for everybody


def test_the_keyboard_is_enough(watched: Watched, site: Site, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.goto(site.served)
    press(page, "Tab", "#filter-text")
    page.keyboard.type("demo")
    press(page, "Tab", "#projects a")
    page.keyboard.press("Enter")
    commands(page)
    press(page, "Tab", "#version")
    press(page, "Tab", "input[name=torch]")
    page.keyboard.press("ArrowLeft")
    assert chosen(page)["torch"] == "2.10"
    press(page, "Tab", "input[name=installer]")
    page.keyboard.press("ArrowRight")
    press(page, "Tab", "button.copy")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#copied")).to_have_text("It is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#answer pre").first.text_content()
    assert commands(page)[0].startswith("uv pip install --index ")


def press(page: Page, key: str, selector: str) -> None:
    """Press a key until what has the focus is what a selector names, and shows it."""
    for _ in range(30):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            shown = "[document.activeElement, document.activeElement.nextElementSibling]"
            rings = f"{shown}.map(each => each && getComputedStyle(each).outlineStyle)"
            assert "solid" in page.evaluate(rings)
            return
    pytest.fail(f"{key} does not lead to {selector}")


def test_without_a_clipboard_the_command_is_selected(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("document.execCommand = () => false")
    commands(page)
    page.get_by_role("button", name="Copy: From this index").click()
    assert page.evaluate("getSelection().toString()").split() == commands(page)[0].split()
    assert page.locator("#copied").text_content() == "It is selected: copy it now."


@pytest.mark.parametrize("fragment", ["", "#project=demo", "#project=demo&python=3.14t", "#project=evil"])
def test_a_phone_scrolls_in_one_direction_alone(watched: Watched, site: Site, fragment: str) -> None:
    watched.page.set_viewport_size({"width": 320, "height": 640})
    page = watched.goto(site.served + fragment)
    if fragment:
        page.locator("#shelf").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 320


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("fragment", ["", "#project=demo", "#project=demo&python=3.14t", "#project=evil"])
def test_axe_finds_nothing(watched: Watched, site: Site, scheme: Literal["light", "dark"], fragment: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core looks for barriers")
    watched.page.emulate_media(color_scheme=scheme)
    page = watched.goto(site.served + fragment)
    if fragment:
        page.locator("#shelf").wait_for()
        page.locator("#files summary").first.click()
    assert violations(axe.Axe().run(page).response) == []


def violations(response: dict[str, Any]) -> Sequence[str]:
    """Return what axe found, each with the element it is about."""
    return [f"{each['id']}: {node['html']}" for each in response["violations"] for node in each["nodes"]]


def test_motion_is_for_those_who_want_it(watched: Watched, site: Site) -> None:
    watched.page.emulate_media(reduced_motion="reduce")
    page = watched.goto(site.served)
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
