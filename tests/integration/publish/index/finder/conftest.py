"""A browser that looks at an index with the finder."""

from __future__ import annotations

import functools
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.builders.finder_site import Site, Watched, write_index
from tests.servers.threads import Quiet, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("an index") / "$(whl) it's"
    write_index(root)
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root.parent)))) as server:
        yield Site(root, f"http://127.0.0.1:{server.server_port}/{quote(root.name)}/")


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
