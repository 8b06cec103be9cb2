from __future__ import annotations

import json
import re
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from pypi_simple import IndexPage

from ci_tools import catalog
from ci_tools.index.finder.data import NO_FILE, NOT_ASKED, data_path, project_data
from ci_tools.index.finder.page import front_page, write_script
from ci_tools.index.finder.shelf import File, Shelf, ShelfVersion, shelf_of
from ci_tools.index.pages import IndexedFile
from ci_tools.index.units import Offer

CATALOG = catalog.load()
HOSTILE = "</script><img src=x onerror=alert(1)>"
CUDA = IndexedFile(
    "demo-1.0+cu130-py3-none-manylinux_2_28_x86_64.whl",
    "cu130",
    "ab" * 32,
    7,
    "2026-01-02T03:04:05Z",
    platform="linux-cuda",
    archs=("9.0", "10.0+PTX"),
)
PURE = IndexedFile("demo-1.0-py3-none-any.whl", "", "ef" * 32, 8, "2026-01-02T03:04:05Z", ">=3.10")
OFFERS = (
    Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA.name, "one for all"),
    Offer("linux-cuda", "cu130", "2.10", "3.13", CUDA.name, "one for all"),
    Offer("linux-cuda", "cu130", "2.9", "3.13", "", "upstream has none"),
    Offer("windows", "", "2.10", "3.12", PURE.name, "no native code"),
)


def shelf(*files: IndexedFile, **offers: tuple[Offer, ...]) -> Shelf:
    by_version = {name.removeprefix("v").replace("_", "."): found for name, found in offers.items()}
    return shelf_of("demo", files, by_version, CATALOG)


def data_of(shelf: Shelf) -> dict[str, Any]:
    text = project_data(shelf, CATALOG).decode("ascii")
    found = re.fullmatch(r"finder\((.*)\);\n", text)
    assert found is not None
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def read_back(data: dict[str, Any], listing: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the offers as the page's script reads them."""
    grid = data["grids"][listing["grid"]]
    offers: list[tuple[str, ...]] = []
    for system, accelerator, torch, row in zip(*(grid[start::4] for start in range(4)), strict=True):
        for python, outcome in enumerate(data["rows"][row]):
            if outcome != NOT_ASKED:
                file, text = listing["outcomes"][outcome]
                name = "" if file == NO_FILE else listing["files"][file]["name"]
                axes = (data["systems"][system][0], data["accelerators"][accelerator][0], data["torches"][torch])
                offers.append((*axes, data["pythons"][python], name, data["texts"][text]))
    return offers


# -- the front page


def test_the_front_page_is_a_root_page_of_an_index() -> None:
    page = front_page(["demo", "other"], title="Wheels", folders=["cpu", "cu130"])
    assert IndexPage.from_html(page).projects == ["demo", "other"]
    assert IndexPage.from_html(page).repository_version == "1.1"


def test_every_link_of_the_front_page_is_a_project() -> None:
    page = front_page(["other", "demo"], title="Wheels", folders=["cpu"]).decode()
    assert re.findall(r'<a href="([^"]*)"', page) == ["demo/", "other/"]


def test_a_hostile_name_is_text() -> None:
    page = front_page([HOSTILE], title=HOSTILE, folders=[HOSTILE]).decode()
    assert "<img" not in page
    assert page.count("</script>") == 1


def test_the_front_page_knows_no_more_of_a_project_than_its_name() -> None:
    sizes = [
        len(front_page([f"demo-{place:05}" for place in range(count)], title="", folders=[])) for count in (0, 1000)
    ]
    assert sizes[1] - sizes[0] < 60 * 1000


def test_the_page_asks_nobody_else_for_anything() -> None:
    page = front_page(["demo"], title="Wheels", folders=["cpu"]).decode()
    assert "default-src 'none'" in page
    links = "https://api.github.com/repos/${slug}/attestations/"  # a link is followed by a person only
    assert not re.findall(r"https?://|@import|url\(", page.replace(f"link(`{links}", "", 1))
    assert "innerHTML" not in page


def test_the_same_projects_in_another_order_give_the_same_page() -> None:
    assert front_page(["a", "b"], title="", folders=["x", "y"]) == front_page({"b", "a"}, title="", folders={"y", "x"})


# -- the data of a project


def test_the_data_says_what_the_offers_say() -> None:
    data = data_of(shelf(CUDA, PURE, v1_0=OFFERS))
    assert set(read_back(data, data["listings"][0])) == {
        ("linux-x86_64", "cu130", "2.10", "3.12", CUDA.name, "one for all"),
        ("linux-x86_64", "cu130", "2.10", "3.13", CUDA.name, "one for all"),
        ("linux-x86_64", "cu130", "2.9", "3.13", "", "upstream has none"),
        ("windows-x86_64", "", "2.10", "3.12", PURE.name, "no native code"),
    }


def test_an_offer_whose_file_is_not_in_the_index_says_so() -> None:
    data = data_of(shelf(PURE, v1_0=OFFERS[:1]))
    assert read_back(data, data["listings"][0])[0][-2:] == ("", f"{CUDA.name} was made for it and is not in this index")


def test_versions_stand_newest_first() -> None:
    files = [PURE._replace(name=f"demo-{version}-py3-none-any.whl") for version in ("1.9", "1.10", "2.0rc1")]
    listings = data_of(shelf(*files))["listings"]
    assert [(each["version"], each["pre"]) for each in listings] == [("2.0rc1", True), ("1.10", False), ("1.9", False)]


def test_a_local_version_stands_with_its_public_one() -> None:
    (listing,) = data_of(shelf(CUDA, PURE))["listings"]
    assert [file["pin"] for file in listing["files"]] == ["1.0+cu130", "1.0"]


def test_an_address_is_quoted_for_s3() -> None:
    (listing,) = shelf(CUDA).listings
    assert listing.files[0].address == "cu130/demo-1.0%2Bcu130-py3-none-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("file", "known"),
    [
        pytest.param(CUDA, ("13.0", "580", "580.65.06", None), id="cuda-13"),
        pytest.param(
            CUDA._replace(folder="cu129torch2.10"), ("12.9", "525", "575.51.03", ("2.10", "2.11")), id="for-one-torch"
        ),
        pytest.param(CUDA._replace(folder="cu999"), ("99.9", None, None, None), id="a-cuda-nobody-knows"),
        pytest.param(
            CUDA._replace(folder="cu999", drivers=("900", "999.1")),
            ("99.9", "900", "999.1", None),
            id="a-cuda-of-the-projects-catalog",
        ),
        pytest.param(CUDA._replace(folder="rocm7.1", platform="linux-rocm"), (None, None, None, None), id="no-cuda"),
        pytest.param(
            CUDA._replace(folder="", only_in=("", "cu130"), origin="adopted"),
            ("13.0", "580", "580.65.06", None),
            id="adopted-from-the-page-of-a-folder",
        ),
        pytest.param(PURE, (None, None, None, None), id="pure"),
    ],
)
def test_a_wheel_has_the_facts_of_a_lock(
    file: IndexedFile, known: tuple[str | None, str | None, str | None, tuple[str, str] | None]
) -> None:
    (listing,) = shelf(file).listings
    lock = listing.files[0].lock
    assert lock is not None
    assert (lock.cuda, lock.driver_sass, lock.driver_ptx, lock.torch) == known


def test_the_lowest_torch_of_a_wheel_is_the_lowest_that_it_is_offered_for() -> None:
    offers = tuple(OFFERS[0]._replace(torch=torch) for torch in ("2.14", "2.9", "2.10"))
    (listing,) = data_of(shelf(CUDA, v1_0=offers))["listings"]
    assert listing["files"][0]["lock"]["torch"] == ["2.9", None]


def test_an_sdist_has_no_facts_of_a_lock() -> None:
    (listing,) = data_of(shelf(PURE._replace(name="demo-1.0.tar.gz")))["listings"]
    assert "lock" not in listing["files"][0]


@pytest.mark.parametrize(
    ("accelerator", "label"),
    [
        ("cu130", "CUDA 13.0"),
        ("cu999", "CUDA 99.9"),
        ("cu1210", "cu1210"),
        ("rocm7.1", "ROCm 7.1"),
        ("xpu", "Intel XPU"),
        ("", "None (CPU)"),
        ("abacus1", "abacus1"),
        (HOSTILE, HOSTILE),
    ],
)
def test_accelerators_are_called_as_people_call_them(accelerator: str, label: str) -> None:
    data = data_of(shelf(CUDA, v1_0=(OFFERS[0]._replace(accelerator=accelerator),)))
    assert data["accelerators"] == [[accelerator, label]]


def test_a_platform_that_nobody_knows_is_shown_by_its_name() -> None:
    data = data_of(shelf(CUDA, v1_0=(OFFERS[0]._replace(platform="plan9"),)))
    assert data["systems"] == [["plan9", "plan9"]]


def test_platforms_of_one_machine_are_one_system() -> None:
    offers = tuple(OFFERS[0]._replace(platform=name) for name in ("linux-cuda", "linux-rocm", "linux-cpu"))
    assert data_of(shelf(CUDA, v1_0=offers))["systems"] == [["linux-x86_64", "Linux x86_64"]]


def test_hostile_texts_cannot_leave_the_data() -> None:
    entry = IndexedFile(HOSTILE, "", HOSTILE, 1, "", yanked=HOSTILE + "\u2028", archs=(HOSTILE,))
    file = File(entry, HOSTILE)
    offer = Offer(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "", HOSTILE)
    content = project_data(Shelf("demo", (ShelfVersion(HOSTILE, (file,), (offer,)),)), CATALOG)
    assert b"<" not in content
    content.decode("ascii")


def test_a_yank_without_a_reason_is_still_a_yank() -> None:
    (listing,) = data_of(shelf(PURE._replace(yanked="")))["listings"]
    assert listing["files"][0]["yanked"] == ""


def test_a_file_that_is_not_yanked_says_nothing_of_it() -> None:
    (listing,) = data_of(shelf(PURE))["listings"]
    assert "yanked" not in listing["files"][0]


def test_ten_versions_with_288_combinations_each_are_small() -> None:
    pythons = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
    platforms = (("linux-cuda", "cu129"), ("linux-cuda", "cu130"), ("linux-rocm", "rocm7.1"), ("linux-xpu", "xpu"))
    torches = [f"2.{minor}" for minor in range(4, 16)]
    versions = [f"1.{minor}" for minor in range(10)]
    files = [PURE._replace(name=f"demo-{version}-py3-none-any.whl") for version in versions]
    offers = {
        version: tuple(
            Offer(*platform, torch, python, f"demo-{version}-py3-none-any.whl", "a long reason " * 20)
            for platform in platforms
            for torch in torches
            for python in pythons
        )
        for version in versions
    }
    content = project_data(shelf_of("demo", files, offers, CATALOG), CATALOG)
    assert {len(found) for found in offers.values()} == {288}
    assert len(content) < 8_000


def test_the_data_lies_where_the_page_looks_for_it() -> None:
    assert data_path("Demo_Kernels") == f"finder/{canonicalize_name('Demo_Kernels')}.js"


@pytest.mark.parametrize("origin", ["added", "adopted"])
@pytest.mark.parametrize(
    ("tags", "folder", "systems", "pythons"),
    [
        ("cp312-cp312-manylinux_2_28_x86_64", "cu130", {"linux-x86_64"}, {"3.12"}),
        ("cp313-abi3-win_amd64", "", {"windows-x86_64"}, {"3.13", "3.14", "3.15"}),
        ("cp313-cp313t-macosx_11_0_universal2", "", {"macos-arm64", "macos-x86_64"}, {"3.13t"}),
        ("cp312-cp312-musllinux_1_2_aarch64", "rocm7.1", {"linux-arm64"}, {"3.12"}),
    ],
)
def test_a_wheel_of_others_is_a_choice_by_its_tags_and_folder(
    tags: str, folder: str, systems: set[str], pythons: set[str], origin: str
) -> None:
    other = PURE._replace(name=f"demo-1.0-{tags}.whl", folder=folder, requires_python="", origin=origin)
    data = data_of(shelf(CUDA, PURE, other, v1_0=OFFERS))
    found = [offer for offer in read_back(data, data["listings"][0]) if offer[4] == other.name]
    assert {offer[0] for offer in found} == systems
    assert {offer[1] for offer in found} == {folder}
    assert {offer[3] for offer in found} == pythons


def test_the_files_of_the_script_name_nothing_alike() -> None:
    names = re.findall(r"^(?:function|const|let) (\w+)", write_script(catalog.load()), re.MULTILINE)
    assert len(names) == len({*names})
