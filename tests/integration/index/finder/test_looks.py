"""The finder by keyboard, on a phone, on a wide screen, and for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.barriers import find_barriers
from tests.builders.finder_site import Site, Watched, chosen, commands, press

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow


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


def test_the_keyboard_reaches_what_opens_and_what_is_pasted(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu130&torch=2.12&python=3.12")
    commands(page)
    page.locator("#gpu").focus()
    press(page, "Tab", "#others summary")
    page.keyboard.press("Enter")
    assert page.locator("#others[open]").count() == 1
    press(page, "Tab", "#error-text")
    page.keyboard.type("/e/site-packages/kernels/_C.so: undefined symbol: _ZN2at3x")
    press(page, "Tab", "#forget")
    press(page, "Tab", "#diagnosis button.copy")
    press(page, "Tab", "#files summary")


def test_without_a_clipboard_the_command_is_selected(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.evaluate("document.execCommand = () => false")
    commands(page)
    page.get_by_role("button", name="Copy: From this index").click()
    assert page.evaluate("getSelection().toString()").split() == commands(page)[0].split()
    assert page.locator("#copied").text_content() == "It is selected: copy it now."


STATES = ("#project=demo", "#project=demo&python=3.14t", "#project=evil", "#project=kernels&installer=Docker")


def test_a_phone_scrolls_in_one_direction_alone(watched: Watched, site: Site) -> None:
    watched.page.set_viewport_size({"width": 320, "height": 640})
    page = watched.goto(site.served)
    widths = {"": page.evaluate("document.documentElement.scrollWidth")}
    for fragment in (*STATES, "#project=kernels&installer=pip"):
        watched.follow(fragment).locator("#shelf").wait_for()
        widths[fragment] = page.evaluate("document.documentElement.scrollWidth")
    assert set(widths.values()) == {320}, widths


def test_axe_finds_nothing(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    found = find_in_both_schemes(page)
    for fragment in STATES:
        watched.follow(fragment).locator("#shelf").wait_for()
        page.locator("#files details").first.evaluate("each => { each.open = true }")
        found += find_in_both_schemes(page, *([] if fragment == STATES[0] else ["#finder", "#shelf"]))
    assert found == []


def find_in_both_schemes(page: Page, *within: str) -> list[str]:
    """Return the barriers of a light page, and those of the same one in the dark."""
    page.emulate_media(color_scheme="light")
    found = find_barriers(page, *within)
    page.emulate_media(color_scheme="dark")
    return found + find_barriers(page, *within, colours_only=True)


def test_motion_is_for_those_who_want_it(watched: Watched, site: Site) -> None:
    watched.page.emulate_media(reduced_motion="reduce")
    page = watched.goto(site.served)
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


@pytest.mark.parametrize("fragment", ["#project=demo", "#project=kernels"])
def test_a_phone_has_the_command_on_its_first_screen(watched: Watched, site: Site, fragment: str) -> None:
    watched.page.set_viewport_size({"width": 320, "height": 640})
    page = watched.goto(site.served + fragment)
    commands(page)
    assert page.evaluate("scrollY") == 0
    box = page.locator("#answer [data-kind=version] pre").bounding_box()
    assert box is not None
    assert box["y"] + 20 < 640
    page.get_by_role("button", name="All projects").click()
    page.locator("#picker").wait_for()


def test_a_wide_screen_has_the_choice_beside_the_answer(watched: Watched, site: Site) -> None:
    watched.page.set_viewport_size({"width": 1720, "height": 1000})
    page = watched.goto(f"{site.served}#project=kernels")
    commands(page)
    left, right = (page.locator(name).bounding_box() for name in ("#machine", "#result"))
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] <= right["x"]
    assert abs(left["y"] - right["y"]) < left["height"]
    assert left["width"] + right["width"] > 0.7 * 1720  # of the screen
