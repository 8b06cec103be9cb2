"""A browser that looks at an index with the finder."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.builders.finder_site import Site, Watched, write_index
from tests.servers.framing import FolderHandler, Server
from tests.servers.threads import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

SCREEN: ViewportSize = {"width": 1280, "height": 720}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("an index") / "$(whl) it's"
    write_index(root)
    with serve(Server(functools.partial(FolderHandler, directory=str(root.parent)))) as server:
        yield Site(root, f"{server.url}/{quote(root.name)}/")


@pytest.fixture(scope="session")
def page(browser: Browser) -> Iterator[Page]:
    """The one page of these tests: a page of its own would cost each test more than all that it looks at."""
    # As a Linux machine, whatever the browser runs on: the first choice depends on it.
    agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36"
    with browser.new_context(user_agent=agent, viewport=SCREEN) as made:
        made.add_init_script(
            "Object.defineProperty(navigator, 'platform', {get: () => 'Linux x86_64', configurable: true})"
        )
        made.set_default_timeout(10_000)
        yield made.new_page()


@pytest.fixture
def context(page: Page) -> Iterator[BrowserContext]:
    """What the page lives in, without what a test before has done to it."""
    yield page.context
    for other in page.context.pages:
        if other != page:
            other.close()
    page.context.clear_permissions()


@pytest.fixture
def watched(page: Page) -> Iterator[Watched]:
    found = Watched(page, [], [])
    heard = {
        "request": lambda request: found.asked.append(request.url),
        "console": lambda message: found.wrong.append(message.text),
        "pageerror": lambda error: found.wrong.append(str(error)),
        "dialog": found.dismiss,
    }
    for event, hear in heard.items():
        page.on(event, hear)
    yield found
    page.goto("about:blank")
    page.set_viewport_size(SCREEN)
    page.emulate_media(color_scheme="null", reduced_motion="null")
    for event, hear in heard.items():
        page.remove_listener(event, hear)
