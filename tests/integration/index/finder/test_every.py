"""Every package for one machine: the table of a front page, in a browser, and the same by the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.barriers import find_barriers
from tests.builders.finder_site import HOSTILE, OTHERS, Site, Watched, write
from tests.integration.conftest import CommandLine

if TYPE_CHECKING:
    from playwright.sync_api import Page


playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow

LINUX = "system=linux-x86_64&accelerator=cu130&torch=2.12&python=3.12"


READ = """rows => rows.map((row) => [row.querySelector("th").textContent,
  [...row.querySelectorAll("td")].map((cell) => cell.textContent)])"""


def table(page: Page, name: str) -> dict[str, list[str]]:
    """Return the rows of a table by their package, each the texts of its cells."""
    return dict(page.locator(f"#every-{name} tbody tr").evaluate_all(READ))


def opened(watched: Watched, address: str) -> Page:
    """Return the page once every project is read; those that the site has no data of are in the count."""
    page = watched.goto(address)
    playwright.expect(page.locator("#every-count")).to_contain_text("packages have a wheel for it")
    return page


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_a_machine_gets_every_package_that_has_a_wheel(watched: Watched, site: Site, kind: str) -> None:
    page = opened(watched, f"{site.address(kind)}#every&{LINUX}")
    having = table(page, "having")
    assert [*having] == ["demo", "kernels"]
    assert having["kernels"] == ["2.0", "kernels-2.0+cu130-py3-none-manylinux_2_28_x86_64.whl", "owner/kernels", "yes"]
    assert having["demo"][2:] == ["this index", "not known"]
    assert page.get_by_role("link", name="owner/kernels").get_attribute("href") is not None


def test_what_is_chosen_is_asked_of_all_and_can_be_shared(watched: Watched, site: Site) -> None:
    page = opened(watched, f"{site.served}#every&{LINUX}")
    page.get_by_label("Accelerator", exact=True).select_option("cu126")
    assert table(page, "having")["kernels"][1:] == [
        "kernels-2.0+cu126-py3-none-manylinux_2_28_x86_64.whl", "owner/kernels", "no"]  # fmt: skip
    page.get_by_label("torch", exact=True).select_option("2.9")
    assert "torch2.9" in table(page, "having")["kernels"][1]
    assert "accelerator=cu126&torch=2.9" in page.url
    page.get_by_role("link", name="kernels", exact=True).last.click()
    page.locator("#verdict").wait_for()
    assert "cu126torch2.9" in str(page.locator("#verdict").text_content())


def test_where_there_is_no_wheel_the_recipe_is_named_with_its_form(watched: Watched, site: Site) -> None:
    page = opened(watched, f"{site.served}#every&{LINUX}")
    assert table(page, "lacking")["nunchaku"][0] == "This index has no wheel of it."
    command = page.locator("#every-lacking [data-kind=recipe] pre").first.text_content()
    assert command == "fatwheel recipe copy nunchaku build --release --python 3.12 --torch 2.12 --cuda 13.0"
    form = page.get_by_role("link", name="Ask for this wheel").get_attribute("href")
    assert form == (
        "https://host/octo/wheels/issues/new?template=wheel.yml&package=nunchaku&python=3.12&pytorch=2.12&cuda=13.0"
    )
    page.get_by_label("Python", exact=True).select_option("3.14t")
    assert table(page, "lacking")["nunchaku"][1] == "nunchaku cannot: it turns the GIL on"
    page.get_by_label("torch", exact=True).select_option("2.11")  # for which the release says that it has none
    assert table(page, "lacking")["demo"][1] == "demo-of-ours cannot: it names a version for Python 3.12 and 3.13 only"


def test_nothing_that_somebody_wrote_runs_and_data_that_cannot_be_read_is_named(watched: Watched, site: Site) -> None:
    page = opened(watched, f"{site.served}#every&{LINUX}")
    assert table(page, "lacking")["evil"][1] == f"{HOSTILE} cannot: {HOSTILE}"
    broken = ("404 (File not found)", "Unexpected end of input")  # the data that some projects of the site lack
    assert [one for one in watched.wrong if not one.endswith(broken)] == []
    assert f"What {HOSTILE}, {OTHERS[1]}, {OTHERS[2]} and 17 more has cannot be read." in str(
        page.locator("#every-count").text_content()
    )


def test_it_is_for_everybody(watched: Watched, site: Site) -> None:
    page = opened(watched, f"{site.served}#every&{LINUX}")
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert find_barriers(page) == []


# -- the command line gives the same answer


def found(fatwheel: CommandLine, target: str, *words: str) -> dict[str, Any]:
    ran = fatwheel("index", "find", target, *words, "--format", "json")
    assert ran.status == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_the_terminal_says_what_the_page_says(watched: Watched, site: Site, fatwheel: CommandLine) -> None:
    page = opened(watched, f"{site.served}#every&{LINUX}")
    for cuda in ("12.6", "13.0", "none"):
        page.get_by_label("Accelerator", exact=True).select_option(
            "" if cuda == "none" else f"cu{cuda.replace('.', '')}"
        )
        for python in ("3.12", "3.14t"):
            page.get_by_label("Python", exact=True).select_option(python)
            words = ("--system", "linux-x86_64", "--torch", "2.12", "--cuda", cuda, "--python", python)
            said = {one["project"]: one for one in found(fatwheel, f"dir:{site.root}", *words)["packages"]}
            compare(said, table(page, "having"), table(page, "lacking"))


def compare(said: dict[str, Any], having: dict[str, list[str]], lacking: dict[str, list[str]]) -> None:
    """Hold what a terminal said to the two tables of the page."""
    assert {name: one["wheel"] for name, one in said.items() if one["wheel"]} == {
        name: cells[1].partition(" ")[0] for name, cells in having.items()
    }
    words_of = {True: "yes", False: "no", None: "not known"}
    assert {name: words_of[said[name]["attested"]] for name in having} == {name: row[3] for name, row in having.items()}
    for name in ("nunchaku", "demo"):
        (recipe,) = said[name]["recipes"] or [{"command": "", "cannot": ""}]
        shown = " ".join(lacking.get(name, [""]))
        assert recipe["command"] in shown
        assert recipe["cannot"] in shown


def test_the_terminal_reads_an_index_by_its_address(site: Site, fatwheel: CommandLine) -> None:
    ran = fatwheel("index", "find", site.served, "--system", "linux-x86_64", "--torch", "2.12", "--cuda", "13.0",
                   "--python", "3.12")  # fmt: skip
    assert ran.status == 0
    assert "2 packages with a wheel for linux-x86_64, CUDA 13.0, torch 2.12, Python 3.12" in ran.stdout
    assert "owner/kernels" in ran.stdout
    assert "fatwheel recipe copy nunchaku build --release --python 3.12 --torch 2.12 --cuda 13.0" in ran.stdout
    assert f"left out: {OTHERS[1]}: finder/{OTHERS[1]}.js is not whole" in ran.stderr
    only = found(fatwheel, site.served, "nunchaku")
    assert [one["project"] for one in only["packages"]] == ["nunchaku"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--cuda", "13"], '--cuda: "13" is not a version, expected one such as 13.0, or none', id="cuda"),
        pytest.param(["--torch", "new"], '--torch: "new" is not a version, expected one such as 2.10', id="torch"),
        pytest.param(["--python", "3"], '--python: "3" is not', id="python"),
        pytest.param(["--gpu", "sm_90"], '--gpu: "sm_90" is not a version, expected one such as 9.0', id="gpu"),
        pytest.param(["--system", "linux"], '--system: "linux" is not known', id="system"),
        pytest.param(["kernel"], 'has no project "kernel", nor has a recipe, did you mean "kernels"', id="project"),
    ],
)
def test_a_wrong_word_is_an_error(site: Site, fatwheel: CommandLine, words: list[str], said: str) -> None:
    ran = fatwheel("index", "find", f"dir:{site.root}", *words)
    assert (ran.status, said in ran.stderr) == (2, True), ran.stderr


def test_what_is_no_index_is_an_error(site: Site, fatwheel: CommandLine) -> None:
    write(site.root.parent / "bare" / "index.html", b"<p>nothing</p>")
    for target in (f"dir:{site.root.parent}/bare", f"dir:{site.root.parent}/absent", f"{site.served}absent/"):
        ran = fatwheel("index", "find", target)
        assert ran.status == 2, target
        assert "has no front page that lists projects, expected an index that Fatwheel wrote" in ran.stderr
