"""The finder in a browser: from a folder and a server, the choice, the list, what strangers wrote."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.builders.finder_site import CUDA, HOSTILE, LONG, OTHERS, Site, Watched, choose, chosen, commands, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="the finder is looked at through playwright")
pytestmark = pytest.mark.slow


# -- from a folder and from a server


@pytest.mark.parametrize("kind", ["folder", "server"])
def test_a_picked_project_gives_a_command_and_no_request_leaves(watched: Watched, site: Site, kind: str) -> None:
    page = watched.goto(site.address(kind))
    page.get_by_role("link", name="demo", exact=True).click()
    by_version, by_file = commands(page)
    assert "demo==1.0+cu130" in shlex.split(by_version)
    assert any("demo-1.0%2Bcu130-py3-none-any.whl#sha256=" in word for word in shlex.split(by_file))
    assert not watched.wrong
    watched.follow("#project=evil").locator("#shelf").wait_for()
    root = site.root.as_uri() if kind == "folder" else site.served
    assert {address for address in watched.asked if not address.startswith((root, "about:"))} == set()
    assert [Path(unquote(urlsplit(address).path)).name for address in watched.asked][-1] == "evil.js"


# What a browser says of its system, which the first choice depends on.
SYSTEMS = {
    "Win32": "windows-x86_64",
    "Linux aarch64": "linux-arm64",
    "MacIntel": "linux-x86_64",  # for a Mac there is nothing
    "": "linux-x86_64",  # it does not say
}
SAY = """([platform, userAgent]) => {
  Object.defineProperty(navigator, "platform", { get: () => platform, configurable: true });
  Object.defineProperty(navigator, "userAgent", { get: () => userAgent, configurable: true });
}"""


def test_the_first_choice_is_the_visitors_own_system_and_the_newest_of_the_rest(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served + "#project=demo")
    commands(page)
    assert chosen(page) == {"system": "linux-x86_64", "accelerator": "cu130", "torch": "2.11", "python": "3.12"}
    found = {}
    for platform in SYSTEMS:
        page.evaluate(SAY, [platform, f"Mozilla/5.0 ({platform})"])
        watched.follow("#project=demo")
        commands(page)
        found[platform] = chosen(page)["system"]
    assert found == SYSTEMS


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


def test_a_filter_finds_a_project_or_says_that_there_is_none(watched: Watched, site: Site) -> None:
    page = watched.goto(site.served)
    page.get_by_label("Find a project").fill("Project_01")
    assert page.locator("#projects li:visible").count() == 10
    assert page.locator("#filter-count").text_content() == "10 of 24"
    page.get_by_label("Find a project").fill("Tensor_Cores")
    page.keyboard.press("Enter")
    assert page.locator("#filter-count").text_content() == "There is no project tensor-cores."
    assert page.locator("#finder").is_hidden()
    page.get_by_label("Find a project").fill("Kern")
    page.keyboard.press("Enter")
    commands(page)
    assert page.locator("#finder-title").text_content() == "kernels"
    assert page.evaluate("document.activeElement.id") == "finder-title"


def test_an_only_project_is_picked_at_once(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}alone/")
    assert commands(page)
    assert page.locator("#picker").is_hidden()


def test_an_index_without_a_project_says_so(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}nothing/")
    assert page.locator("#lead").text_content() == "This index has no project yet."
    assert not watched.wrong


def test_a_project_without_data_says_so(watched: Watched, site: Site) -> None:
    watched.goto(site.served)
    for project, said in (
        (OTHERS[0], f"{OTHERS[0]} has no files here yet."),
        (OTHERS[1], f"What {OTHERS[1]} has cannot be read: finder/{OTHERS[1]}.js is not whole."),
        (OTHERS[2], f"What {OTHERS[2]} has cannot be read: finder/{OTHERS[2]}.js is not there."),
    ):
        page = watched.follow(f"#project={project}")
        playwright.expect(page.locator("#notice")).to_have_text(said)


def test_without_scripts_the_page_lists_the_projects(browser: Browser, site: Site) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site.served)
        assert page.locator("#projects a:visible").count() == 4 + len(OTHERS)
        assert page.locator("#finder").is_hidden()
        page.get_by_role("link", name="demo", exact=True).click()
        assert page.title() == "Links for demo"


def test_an_unknown_project_is_said_with_the_nearest_name(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernel")
    assert page.locator("#unknown").text_content() == "There is no project kernel in this index. Did you mean kernels?"
    page.locator("#unknown a").click()
    commands(page)
    assert page.locator("#unknown").text_content() == ""
    watched.follow("#project=Kernels")  # any spelling of a name is that name
    commands(page)
    assert page.locator("#finder-title").text_content() == "kernels"


def test_the_address_of_a_folder_can_be_copied(watched: Watched, site: Site, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.goto(site.served)
    page.locator("#folders li").filter(has_text="cu130").get_by_role("button").click()
    playwright.expect(page.locator("#copied")).to_have_text("It is copied.")
    address = page.evaluate("navigator.clipboard.readText()")
    assert unquote(address) == f"{unquote(site.served)}cu130/"


# -- a project with several wheels


def test_a_project_says_what_it_is_and_where_its_source_is(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels")
    commands(page)
    assert page.locator("#about p").text_content() == "Kernels as torch ops"
    links = {link.text_content(): link.get_attribute("href") for link in page.locator("#about a, #answer dd a").all()}
    assert links["Source"] == "https://github.com/owner/kernels"
    assert links["Changelog"] == "https://host/c"
    assert links[f"commit {'1' * 40}"] == f"https://github.com/owner/kernels/commit/{'1' * 40}"
    said = {each.locator("dt").text_content(): each.locator("dd") for each in page.locator("#answer dl > div").all()}
    (name, sha256) = (said[title].text_content() for title in ("File", "SHA-256"))
    signed = f"https://api.github.com/repos/owner/kernels/attestations/sha256:{sha256}"
    assert links["what GitHub signed of it"] == signed  # REST API, "List attestations": for the public without a login
    verified = f"gh attestation verify {name} --repo owner/kernels"
    assert said["Attestation"].locator("code").text_content() == verified
    assert said["Rebuilt"].text_content().startswith("by owner/kernels on 2026-11-29: what GitHub signed of it")
    signer = "--signer-workflow o/fatwheel/.github/workflows/verify.yml"
    assert said["Rebuilt"].locator("code").text_content() == f"{verified} {signer}"


def test_who_signs_nothing_is_shown_as_a_word(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu126&torch=2.10&python=3.12")
    commands(page)
    said = page.locator("#answer dl > div").filter(has_text="Rebuilt").locator("dd").text_content()
    assert said == "by Ada on 2026-11-28, in their own word: nothing is signed"


def test_a_torch_that_pytorch_does_not_build_is_said_in_words(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu129&torch=2.14&python=3.12")
    page.locator(".why").wait_for()
    said = "PyTorch has no 2.14 for CUDA 12.9; it has it for CUDA 12.6, CUDA 13.0 and CUDA 13.2."
    assert page.locator(".why").text_content() == said


def test_the_driver_is_one_number_for_the_readers_gpu(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu130")
    commands(page)
    facts = page.locator("#answer dl > div").filter(has_text="NVIDIA driver")
    for gpu, driver in (("9.0", "580 or newer"), ("12.0", "580.65.06 or newer"), ("", "580.65.06 or newer")):
        page.get_by_label("NVIDIA GPU").select_option(gpu)
        assert facts.locator("dd").first.text_content() == driver


def test_a_gpu_without_a_kernel_gets_the_reason_that_pip_would_print(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu130")
    commands(page)
    page.get_by_label("NVIDIA GPU").select_option("7.5")
    page.locator("#others summary").click()
    assert str(page.locator("#answer .why").text_content()).startswith("It has no kernels for CUDA 13.0. ")
    assert str(page.locator("#verdict").text_content()).startswith("kernels-2.0-py3-none-any.whl is for")
    assert "it has no kernel for the GPU here, 7.5, but for 8.0 9.0 10.0+PTX" in str(
        page.locator("#others").text_content()
    )


def test_a_version_that_nothing_was_offered_for_is_answered_by_its_wheels(watched: Watched, site: Site) -> None:
    page = watched.goto(f"{site.served}#project=kernels&accelerator=cu126&torch=2.12&python=3.13")
    commands(page)
    page.get_by_label("Version").select_option("1.0")
    assert "kernels==1.0+cu126" in shlex.split(commands(page)[0])
    choose(page, "accelerator", "cu130")
    why = str(page.locator(".why").text_content())
    assert why.endswith("it is for CUDA 12.6, and torch 2.12+cu130 has CUDA 13.0.")


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


def test_the_policy_lets_nothing_in_that_slipped_into_the_page(watched: Watched, site: Site) -> None:
    page = (site.root / "index.html").read_bytes()
    for place, markup in enumerate(
        (
            "<script>alert(1)</script>",
            "<script src='../../finder/demo.js'></script>",
            HOSTILE,
            "<style>body { color: red }</style>",
            "<p style='color: red'>",
        )
    ):
        slipped = page.replace(b"</main>", markup.encode() + b"</main>")
        write(site.root / "slipped" / str(place) / "index.html", slipped)
        watched.wrong.clear()
        watched.goto(f"{site.served}slipped/{place}/")
        assert watched.wrong, markup
        assert all("Content Security Policy" in message for message in watched.wrong), watched.wrong
