"""Errors that people pasted into public issues, pasted into the finder."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.index.finder.causes import describe, explain, read_rows
from tests.builders.barriers import find_barriers
from tests.builders.finder_site import Site, Watched, chosen, commands

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from playwright.sync_api import Page

playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow

PASTED = tomllib.loads((Path(__file__).parents[3] / "samples/pasted_errors.toml").read_text(encoding="utf-8"))["error"]
SYMBOL = "/e/site-packages/kernels/_C.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
LINES = [row["name"] for row in read_rows() if row["late"] in {8, 10}]
AGAIN = "pip install --force-reinstall --no-deps --no-cache-dir --extra-index-url"


def paste(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Paste your error").fill(text)


def opened(watched: Watched, site: Site, fragment: str = "#project=kernels") -> Page:
    page = watched.goto(site.served + fragment)
    commands(page)
    return page


def mending(page: Page) -> list[str]:
    """Return the lines that mend what was pasted."""
    return page.locator("#diagnosis pre").all_text_contents()


# What the page shows of each text, as the user's keys would put it there.
SHOW = """texts => texts.map((text) => {
  const box = document.getElementById("error-text");
  box.value = text;
  box.dispatchEvent(new InputEvent("input", { bubbles: true }));
  const shown = (selector) => [...document.querySelectorAll(`#diagnosis ${selector}`)];
  const [article] = shown("article");
  return { causes: shown("article").map((each) => each.dataset.cause), text: article.textContent };
})"""


def test_every_error_gets_its_sentence_and_nothing_is_sent(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    before = list(watched.asked)
    said = page.evaluate(SHOW, [error["text"] for error in PASTED])
    for error, shown in zip(PASTED, said, strict=True):
        assert ("" if shown["causes"][0] in LINES else shown["causes"][0]) == error["cause"]
        assert len(shown["causes"]) == 1
        answer = explain(error["text"])
        sentences = describe(answer) if answer else ()
        assert [one for one in sentences if one.replace("`", "").split(". ")[0] not in shown["text"]] == []
    assert watched.asked == before
    assert watched.wrong == []


def test_the_page_may_not_send_what_is_pasted(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    before = list(watched.asked)
    said = page.evaluate("fetch('/').then(() => 'sent', (error) => error.name)")
    assert said == "TypeError"
    assert watched.asked == before


def test_the_line_for_the_torch_that_is_pasted(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    paste(page, f"PyTorch version: 2.12.1+cu130\nPython version: 3.13.1\n{SYMBOL}")
    assert chosen(page) == {"system": "linux-x86_64", "accelerator": "cu130", "torch": "2.12", "python": "3.13"}
    (line,) = mending(page)
    assert line.startswith(AGAIN)
    assert shlex.split(line)[-1] == "kernels==2.0+cu130"
    title = "_C.so was compiled for another torch than the one that is installed."
    assert page.locator("#diagnosis h3").text_content() == title


def test_a_cuda_that_is_not_to_choose_gets_the_wheel_of_its_major(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    paste(page, f"PyTorch version: 2.10.0+cu128\nPython version: 3.12.3\n{SYMBOL}")
    assert shlex.split(mending(page)[0])[-1] == "kernels==2.0+cu126"
    assert "CUDA 12.8" in str(page.locator("#verdict").text_content())


def test_a_torch_that_is_too_old_is_said_by_the_choice(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    vllm = next(error for error in PASTED if error["source"].endswith("/8841"))
    paste(page, vllm["text"].replace("/flash_attn_2_cuda", "/kernels/flash_attn_2_cuda"))
    assert "torch 2.4.0+cu121" in str(page.locator("#others").text_content())
    assert shlex.split(mending(page)[0])[-1] == "kernels==2.0"  # the pure wheel serves
    page.locator("input[name=torch][value='2.12']").check()
    assert "torch 2.12" in str(page.locator("#verdict").text_content())


def test_a_driver_that_is_too_old_gets_a_number_and_the_cuda_that_it_runs(watched: Watched, site: Site) -> None:
    page = opened(watched, site, "#project=kernels&accelerator=cu130&torch=2.12&python=3.12&gpu=9.0")
    paste(page, "NVIDIA driver on your system is too old\n| Driver Version: 550.54.14   CUDA Version: 12.4 |")
    said = page.locator("#diagnosis")
    playwright.expect(said).to_contain_text("driver 550.54.14 (of CUDA 12.4)")
    playwright.expect(said).to_contain_text("Update the driver to 580 or newer.")
    assert said.locator(".ways button").all_text_contents() == ["CUDA 12.6", "CUDA 12.9"]
    said.get_by_role("button", name="CUDA 12.6").click()
    assert chosen(page)["accelerator"] == "cu126"


UNRELATED = {
    SYMBOL.replace("kernels", "other"): "The text is about other, so no line",
    "undefined symbol: _ZN3c104cuda9SetDeviceEi": "It does not say that it is about",
    "dlopen(/e/site-packages/kernels/_C.so, 0x0002): symbol not found in flat namespace '__ZN3c10x'": "from macos",
    "{file} is not a supported wheel on this platform.": "It is about the very file",
    "no kernel image is available": "What mends it is not known.",
    "kernels==2.0\nTHESE PACKAGES DO NOT MATCH THE HASHES FROM": "clear the cache",
    "with CUDA capability sm_120 is not compatible with the current PyTorch": "12.8",
}


def test_no_line_is_offered_that_has_nothing_to_do_with_the_cause(watched: Watched, site: Site) -> None:
    page = opened(watched, site, "#project=kernels&accelerator=cu126&torch=2.12&python=3.12")
    file = str(page.locator("#verdict code").text_content())
    for text, why in UNRELATED.items():
        paste(page, text.replace("{file}", file))
        playwright.expect(page.locator("#diagnosis")).to_contain_text(why)
        assert mending(page) == [], text


def test_a_torch_without_the_gpu_is_mended_by_one_for_a_newer_cuda(watched: Watched, site: Site) -> None:
    page = opened(watched, site, "#project=kernels&accelerator=cu126&torch=2.12&python=3.12")
    paste(page, "RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch")
    ways = page.locator("#diagnosis .ways button").all_text_contents()
    assert "CUDA 12.6" not in ways
    assert "CUDA 13.0" in ways
    page.locator("#diagnosis .ways button", has_text="CUDA 13.0").click()
    assert ["cu130" in line for line in mending(page)] == [True]  # torch's: the text names no package


def test_an_old_glibc_counts_in_the_choice(watched: Watched, site: Site) -> None:
    page = opened(watched, site, "#project=kernels&accelerator=cu130&torch=2.12&python=3.12")
    paste(page, "version `GLIBC_2.28' not found (required by /e/site-packages/kernels/_C.so)")
    assert shlex.split(mending(page)[0])[-1] == "kernels==2.0"
    assert "with glibc 2.27" in str(page.locator("#others").text_content())


def test_libraries_that_hide_torchs_own_are_to_be_unset(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    library = "/e/site-packages/nvidia/cusparse/lib/libcusparse.so.12"
    paste(page, f"{library}: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12")
    assert mending(page)[0] == "unset LD_LIBRARY_PATH"
    assert "--torch-backend=cu130" in mending(page)[1]


def test_an_error_before_a_project_is_picked_leads_to_it(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    paste(page, "ERROR: kernels-1.0+cu126-cp310-cp310-linux_x86_64.whl is not a supported wheel on this platform.")
    assert page.locator("#diagnosis pre").count() == 0
    page.get_by_role("button", name="Show the line for kernels").click()
    commands(page)
    assert mending(page)[0].startswith(AGAIN)


def test_an_unknown_text_says_what_is_known(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    paste(page, "<img src=x onerror=alert(1)> Killed")
    assert page.locator("#diagnosed").text_content() == "This page knows none of it."
    playwright.expect(page.locator("#diagnosis")).to_contain_text("This page finds no line with an error in it")
    paste(page, "well\nValueError: scale\nninja: build stopped")
    assert page.locator("#diagnosed").text_content() == "The cause is not known."
    playwright.expect(page.locator("#diagnosis")).to_contain_text("Line 2: ValueError: scale")
    assert page.locator("img").count() == 0
    assert watched.wrong == []


def test_a_paste_can_be_taken_back(watched: Watched, site: Site) -> None:
    page = opened(watched, site, "#project=kernels&accelerator=cu130&torch=2.12&python=3.12")
    paste(page, "version `GLIBC_2.28' not found (required by kernels.so)")
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#diagnosis").text_content() == ""
    assert "kernels==2.0+cu130" in shlex.split(commands(page)[0])


def test_what_is_pasted_is_not_in_the_address(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    paste(page, "secret undefined symbol: _ZN3c104cuda9SetDeviceEi in /home/somebody/python3.12/site-packages/")
    assert "secret" not in page.url
    assert "somebody" not in page.url


def test_axe_finds_nothing_in_a_diagnosis(watched: Watched, site: Site) -> None:
    page = opened(watched, site)
    narrow, wide, found = 320, 1720, []
    causes = ("other-torch", "hidden-cuda-library", "old-driver")
    shown = [next(error for error in PASTED if error["cause"] == cause) for cause in causes]
    for error in shown:
        paste(page, error["text"])
        within = [] if error == shown[0] else ["#result", "#paste"]
        for width in (narrow, wide):
            page.set_viewport_size({"width": width, "height": 800})
            found += find_barriers(page, *within)
            assert page.evaluate("document.documentElement.scrollWidth") == width
        page.emulate_media(color_scheme="dark")
        found += find_barriers(page, *within, colours_only=True)
        page.emulate_media(color_scheme="light")
    assert found == []
