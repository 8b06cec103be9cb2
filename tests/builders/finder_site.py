"""An index with the finder: a real project, one that strangers wrote, and some without data."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ci_tools import catalog
from ci_tools.index.finder.data import RECIPES, Exclusion, Maker, data_path, project_data, recipes_data
from ci_tools.index.finder.page import front_page
from ci_tools.index.finder.shelf import About, File, Shelf, ShelfVersion, shelf_of
from ci_tools.index.pages import IndexedFile
from ci_tools.index.units import Offer
from tests.builders import wheels
from tests.builders.index_pages import project_html

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

CATALOG = catalog.load()
HOSTILE = "<img src=x onerror=alert(1)>"
OTHERS = tuple(f"project-{place:03}" for place in range(20))
LONG = "no wheel was asked for, and this is said at length " * 12
PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"
FOLLOW = """fragment => new Promise((done) => {
  addEventListener("hashchange", () => done(), { once: true }); // after the page's own
  location.hash = fragment;
})"""
UPLOADED = "2026-01-02T03:04:05Z"
ATTESTED = ("no", "yes", "")
REMADE = (
    ("Ada", "2026-11-28", ""),
    ("https://github.com/owner/kernels", "2026-11-29", "https://github.com/o/fatwheel/.github/workflows/verify.yml@v1"),
)
LINUX = (("linux-x86_64", "cuda"),)
MAKERS = (
    Maker("nunchaku", "nunchaku", LINUX, uses_torch=True, exclusions=(Exclusion("it turns the GIL on", ("3.14t",)),)),
    Maker("demo-of-ours", "demo", (("linux-arm64", ""), *LINUX), python=("3.12", "3.13")),
    Maker(HOSTILE, "evil", LINUX, exclusions=(Exclusion(HOSTILE, cuda=("13.0",)),)),
)
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


def write_index(root: Path) -> None:
    """Write an index of a real project, a hostile one and some without data; and a stranger's index beside it."""
    files = [published(root, "", PURE), published(root, "cu130", CUDA)]
    old = IndexedFile("demo-0.9-py3-none-any.whl", "", "ab" * 32, 9, "2026-01-01T00:00:00Z", yanked=HOSTILE)
    sdist = IndexedFile("demo-1.0.tar.gz", "", "cd" * 32, 9, "2026-01-02T03:04:05Z")
    for folder in ("", "cu130"):
        write(root / folder / "demo" / "index.html", project_html("demo", files, folder))
    write(
        root / "index.html",
        front_page(["demo", "evil", "kernels", HOSTILE, *OTHERS], title="Wheels", folders=["cpu", "cu130"]),
    )
    demo = shelf_of("demo", [*files, old, sdist], {"1.0": DEMO_OFFERS}, CATALOG)
    write(root / data_path("demo"), project_data(demo, CATALOG))
    write(root / data_path("kernels"), project_data(kernels_shelf(), CATALOG))
    write(root / data_path("evil"), project_data(evil_shelf(), CATALOG))
    write(root / RECIPES, recipes_data(MAKERS, "https://host/octo/wheels/issues/new?template=wheel.yml"))
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


def kernels_shelf() -> Shelf:
    """Return a project with a wheel for each CUDA: for every torch from 2.10 on, and one for torch 2.9 only."""
    archs, machine = ("8.0", "9.0", "10.0+PTX"), "py3-none-manylinux_2_28_x86_64"
    names = {"cu126": f"kernels-2.0+cu126-{machine}.whl", "cu130": f"kernels-2.0+cu130-{machine}.whl"}
    bound = IndexedFile(
        f"kernels-2.0+cu126torch2.9-cp312-cp312-{machine[9:]}.whl", "cu126torch2.9", "ef" * 32, 9, UPLOADED
    )
    files = [
        *(IndexedFile(name, folder, "ab" * 32, 9, UPLOADED) for folder, name in names.items()),
        bound,
        IndexedFile(f"kernels-1.0+cu126-{machine}.whl", "cu126", "ba" * 32, 9, UPLOADED),
        IndexedFile("kernels-2.0-py3-none-any.whl", "", "cd" * 32, 9, UPLOADED),
    ]
    cuda = [
        file._replace(
            platform="linux-cuda",
            archs=archs,
            commit="1" * 40,
            repository="owner/kernels",
            attested=ATTESTED[place % 3],
            remade=REMADE[place % 2],
        )
        if file.folder
        else file
        for place, file in enumerate(files)
    ]
    torches = ("2.10", "2.12", "2.14")
    offers = [
        Offer("linux-cuda", label, torch, python, "" if (label, torch) == ("cu129", "2.14") else names[base], "reason")
        for label, base in (("cu126", "cu126"), ("cu129", "cu126"), ("cu130", "cu130"))
        for torch in torches
        for python in ("3.12", "3.13")
    ]
    offers += [Offer("linux-cuda", "cu126", "2.9", "3.12", bound.name, "for one torch")]
    offers += [Offer("linux-cpu", "", torch, "3.12", "kernels-2.0-py3-none-any.whl", "") for torch in torches]
    about = About(
        "Kernels as torch ops", (("Source", "https://github.com/owner/kernels"), ("Changelog", "https://host/c"))
    )
    return shelf_of("kernels", cuda, {"2.0": offers}, CATALOG, about)


def evil_shelf() -> Shelf:
    entry = IndexedFile(
        name=HOSTILE,
        folder="",
        size=1,
        sha256=HOSTILE,
        uploaded=HOSTILE,
        requires_python=HOSTILE,
        yanked=HOSTILE,
        archs=(HOSTILE,),
        toolchain=HOSTILE,
        commit=HOSTILE,
        remade=(HOSTILE, HOSTILE, HOSTILE),
    )
    file = File(entry, address="javascript:alert(1)", pin=HOSTILE)
    offers = (Offer(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE), Offer("__proto__", "x", "", "", "", HOSTILE))
    return Shelf("evil", (ShelfVersion(HOSTILE, (file,), offers),))


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
        if self.page.url.partition("#")[0] == address.partition("#")[0]:
            self.page.goto("about:blank")
        self.page.goto(address)
        return self.page

    def follow(self, fragment: str) -> Page:
        """Open another fragment of the page that is here, as a link in it does: it is not loaded again."""
        self.page.evaluate(FOLLOW, fragment)
        return self.page


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
