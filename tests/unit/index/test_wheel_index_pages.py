"""Every byte of an index with one file of each kind: its pages may be written faster, and stay what they are."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Manifest
from ci_tools.index.pages import ADOPTED, VARIANTS, IndexedFile, Link
from ci_tools.index.units import Offer
from tests.builders import releases

GOLDEN = Path(__file__).parent / "pages" / "index.txt"
ODD = "\">=3.8\" & <3.15, '!=3.9.1' é"
PURE = IndexedFile("demo-1.0-py3-none-any.whl", "", "ef" * 32, 8, "2026-01-02T03:04:05Z", ">=3.9", "cd" * 32)
BUILT = PURE._replace(
    name="demo-1.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl",
    folder="cu130",
    also=("cu132",),
    job="linux-cuda-cu130",
    platform="linux-cuda",
    archs=("9.0", "10.0+PTX"),
    toolchain="pypi",
    commit="12" * 20,
)
FILES = (
    BUILT,
    PURE,
    PURE._replace(name="demo-1.0.tar.gz", metadata_sha256="", yanked=""),
    PURE._replace(name="demo-0.9-py3-none-any.whl", yanked='it said "no" & <b>broke</b>', requires_python=ODD),
    PURE._replace(name="demo-1.10-py3-none-any.whl", requires_python=""),
    PURE._replace(name="demo-1.9.0-1-py3-none-any.whl", apart="ef" * 8),
    PURE._replace(name="Demo-1!0.1.dev1-py2.py3-none-any.whl", uploaded="", size=0, origin="added"),
    PURE._replace(name="demo-1.0.0-py3-none-any.whl", requires_python="", yanked="broken"),
    PURE._replace(name="demo-1.10rc1-py3-none-any.whl", candidate=1, lost="its bytes are gone"),
    BUILT._replace(name="demo-0.8+cu130-py3-none-any.whl", yanked=""),
    PURE._replace(name="demo-0.1-py3-none-any.whl", at="demo/demo 0.1/demo-0.1-py3-none-any.whl", origin=ADOPTED),
    PURE._replace(name="demo-0.2.tar.gz", at="../pool/demo-0.2.tar.gz", origin=ADOPTED, only_in=("", "cpu")),
    PURE._replace(name="demo-0.3.zip", at="https://a.test/?a=1&b=2/demo-0.3.zip", origin=ADOPTED, only_in=("cu130",)),
    PURE._replace(
        name="demo-1.0-cp312-cp312-linux_x86_64-sm90.whl", folder=VARIANTS, variant=("nvidia :: sm_arch :: 90_real",)
    ),
)
LINKS = (Link("manual & more.pdf", "docs/manual & more.pdf", ("", "cu130")),)
OFFERS = (
    Offer("linux-cuda", "cu130", "2.10", "3.12", BUILT.name, ""),
    Offer("linux-cuda", "cu130", "2.10", "3.13", "gone-1.0.whl", ""),
    Offer("windows", "", "2.10", "3.12", "", "nobody </script> built it"),
)


def fill(root: Path) -> None:
    """Write an index of two projects."""
    index = releases.folder_index(root)
    ledger = Ledger(index.store, "")
    for project, files in (("demo", FILES), ("other", (PURE._replace(name="other-1.0-py3-none-any.whl"),))):
        offers = {"1.0": ledger.keep_offers(project, OFFERS)} if project == "demo" else {}
        links = LINKS if project == "demo" else ()
        found = Manifest(project, files={file.name: file for file in files}, offers=offers, links=links)
        ledger.change_manifest(project, lambda _, found=found: found)
    index.show(ledger, [ledger.manifest(project) for project in sorted(ledger.projects())])


def contents(root: Path) -> Iterator[str]:
    """Yield every file of a folder with a line that names it, apart from the finder's own script and style."""
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"):
        key = path.relative_to(root).as_posix()
        if key != "index.html":
            yield f"== {key}\n{path.read_bytes().decode()}\n"


def test_every_byte_of_an_index_is_as_its_golden_text_says(tmp_path: Path) -> None:
    fill(tmp_path / "whl")
    found = "".join(contents(tmp_path / "whl"))
    if "FATWHEEL_GOLDEN" in os.environ:
        GOLDEN.write_bytes(found.encode())
    assert found == GOLDEN.read_bytes().decode()


def test_the_finder_says_what_the_newest_metadata_says(tmp_path: Path) -> None:
    content = b"Metadata-Version: 2.4\nName: demo\nSummary: Kernels\nProject-URL: Source, https://host/demo\n"
    index = releases.folder_index(tmp_path / "whl")
    ledger = Ledger(index.store, "")
    file = PURE._replace(metadata_sha256=hashlib.sha256(content).hexdigest())
    _, manifest = ledger.change_manifest("demo", lambda known: known._replace(files={file.name: file}))
    for written, about in ((None, {}), (content, {"summary": "Kernels", "links": [["Source", "https://host/demo"]]})):
        if written:
            (tmp_path / "whl" / f"{file.key}.metadata").write_bytes(written)
        index.show(ledger, [manifest])
        (page,) = (page for page in index.writer.pages(ledger, manifest, ()) if page.keys == ("finder/demo.js",))
        assert json.loads(page.data.decode().removeprefix("finder(").removesuffix(");\n"))["about"] == about
