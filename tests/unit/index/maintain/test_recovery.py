from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci_tools.index import maintain
from ci_tools.index.foreign.adoption import adopt
from ci_tools.index.maintain.rebuild import manifest_from_pages
from ci_tools.index.manifest import Root, parse_manifest
from ci_tools.index.pages import IndexedFile, Link
from ci_tools.index.units import Offer
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.hand_made_index import by_hand
from tests.builders.index_pages import project_html
from tests.builders.indexes import CUDA, LATER, PURE, SDIST, entry, found, root
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import listed, make

MANIFEST = ".fatwheel/projects/demo.json"
LOST = pytest.mark.parametrize("data", ["[]", '{"generation": 5, "files": [{', None], ids=["other", "cut", "gone"])


def lose(path: Path, data: str | None) -> None:
    path.write_text(data) if data else path.unlink()


def pages(index: WheelIndex) -> dict[str, bytes]:
    """Return all that clients read."""
    paths = (path for path in root(index).rglob("*") if path.is_file() and ".fatwheel" not in path.parts)
    return {path.relative_to(root(index)).as_posix(): path.read_bytes() for path in paths}


def without_jobs(data: bytes) -> list[dict[str, Any]]:
    return [{**file, "job": ""} for file in json.loads(data)["files"]]


@LOST
def test_a_manifest_is_made_again_from_its_pages(data: str | None, index: WheelIndex, outside: Outside) -> None:
    maintain.yank(index, "demo==1.1", "<broken>")
    path, before = root(index) / MANIFEST, pages(index)
    whole = path.read_bytes()
    lose(path, data)
    assert [key for key, _ in found(index, outside)] == [MANIFEST]
    mended = maintain.repair(index, outside)
    assert [(flaw.key, flaw.is_left) for flaw in mended] == [(MANIFEST, False)]
    assert mended[0].done.startswith("rebuilt from its pages: 4 files; not recovered: which jobs built its")
    assert without_jobs(path.read_bytes()) == without_jobs(whole)
    assert found(index, outside) == []
    assert pages(index) == before


@pytest.mark.parametrize("kind", ["html", "json"])
def test_half_of_the_pages_is_enough(kind: str, index: WheelIndex, outside: Outside) -> None:
    path, before = root(index) / MANIFEST, pages(index)
    whole = path.read_bytes()
    for page in root(index).rglob(f"demo/index.{kind}"):
        page.write_bytes(page.read_bytes()[:-7])
    path.unlink()
    maintain.repair(index, outside)
    assert without_jobs(path.read_bytes()) == without_jobs(whole)
    assert pages(index) == before


def test_without_the_finder_s_data_what_pages_say_is_kept(index: WheelIndex, outside: Outside) -> None:
    (root(index) / "finder/demo.js").write_text("finder(")
    (root(index) / MANIFEST).unlink()
    maintain.repair(index, outside)
    assert ("platform" in entry(index, CUDA), entry(index, CUDA)["also"]) == (False, ["cu132"])
    assert found(index, outside) == []


def test_a_manifest_without_a_whole_page_stays_as_it_is(index: WheelIndex, outside: Outside) -> None:
    for page in root(index).rglob("demo/index.*"):
        page.write_bytes(page.read_bytes() + b"<!-- seen -->")
    lose(root(index) / MANIFEST, "[]")
    before = pages(index)
    mended = maintain.repair(index, outside)
    assert [(flaw.key, flaw.is_left) for flaw in mended] == [(MANIFEST, True)]
    assert "none of its pages is complete" in mended[0].done
    assert (root(index) / MANIFEST).read_text() == "[]"
    assert pages(index) == before


def test_a_page_that_is_not_whole_is_said_to_be_unknown(index: WheelIndex, outside: Outside) -> None:
    for page in root(index).glob("cu132/demo/index.*"):
        page.unlink()
    (root(index) / MANIFEST).unlink()
    assert "what cu132/demo/ listed" in maintain.repair(index, outside)[0].done
    assert PURE in listed(root(index), "cu132")


def test_a_file_that_pages_list_and_is_not_there_is_lost_and_not_listed(index: WheelIndex, outside: Outside) -> None:
    (root(index) / LATER).unlink()
    (root(index) / MANIFEST).unlink()
    assert f"where {LATER} is" in maintain.repair(index, outside)[0].done
    assert listed(root(index), "cu130") == [PURE, SDIST, CUDA]
    assert entry(index, LATER)["lost"] == "gone"


def test_what_a_release_offers_is_found_again(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    offer = Offer("linux-cuda", "cu130", "2.10", "3.12", "more-1.0-py3-none-any.whl", "")
    release = unit("more", item(make(tmp_path, "more-1.0-py3-none-any.whl")))
    releases.publish(index, replace(release, offers=(offer,)))
    path, before = root(index) / ".fatwheel/projects/more.json", pages(index)
    offers = json.loads(path.read_text())["offers"]
    path.unlink()
    maintain.repair(index, outside)
    assert json.loads(path.read_text())["offers"] == offers
    assert pages(index) == before


def test_an_adopted_manifest_is_made_again_with_its_places(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / MANIFEST
    manifest = parse_manifest(path.read_bytes(), "demo")
    old = manifest.files[LATER]._replace(name="demo-0.9-py3-none-any.whl", origin="adopted")
    moved = [
        old._replace(at="demo/demo-0.9-py3-none-any.whl", only_in=("", "cpu")),
        old._replace(at="https://elsewhere.example/demo%2B/demo-0.9-py3-none-any.whl", only_in=("cu130",)),
        old._replace(name="demo-0.8-py3-none-any.whl", at="../up/demo-0.8-py3-none-any.whl"),
    ]
    (root(index) / "demo/demo-0.9-py3-none-any.whl").write_bytes((root(index) / LATER).read_bytes())
    (root(index) / "demo/demo-0.9-py3-none-any.whl.metadata").write_bytes(
        (root(index) / f"{LATER}.metadata").read_bytes()
    )
    adopted = manifest.add_files(moved)._replace(place="demo")
    path.write_bytes(adopted.dumps())
    maintain.repair(index, outside)  # writes the pages
    before = pages(index)
    path.unlink()
    maintain.repair(index, outside)
    again = parse_manifest(path.read_bytes(), "demo")
    assert {file.key: file._replace(job="") for file in again.files.values()} == {
        file.key: file._replace(job="") for file in adopted.files.values()
    }
    assert again.place == "demo"
    assert pages(index) == before


def test_links_of_pages_to_what_is_no_file_are_known_again(index: WheelIndex) -> None:
    files = [IndexedFile(**{**entry(index, PURE), "also": (), "archs": (), "variant": (), "only_in": ()})]
    link = Link("manual.pdf", "demo/manual.pdf", ("cpu",))
    (root(index) / "cpu/demo/index.json").unlink()
    (root(index) / "cpu/demo/index.html").write_bytes(project_html("demo", files, "cpu", [link]))
    rebuilt = manifest_from_pages(index, "demo", ["cpu"])
    assert rebuilt is not None
    assert rebuilt.manifest.links == (link,)


@LOST
def test_a_directory_is_made_again_from_manifests_and_pages(
    data: str | None, index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / ".fatwheel/index.json"
    before = json.loads(path.read_text())
    lose(path, data)
    mended = maintain.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.done) for flaw in mended] == [(".fatwheel/index.json", "written again")]
    one = {"generation": 0, "seal": ""}
    assert {**json.loads(path.read_text()), **one} == {**before, **one}
    assert found(index, outside) == []


def test_a_directory_is_made_again_beside_a_manifest_that_is_gone_too(index: WheelIndex, outside: Outside) -> None:
    before = pages(index)
    (root(index) / ".fatwheel/index.json").unlink()
    (root(index) / MANIFEST).unlink()
    maintain.repair(index, outside)
    assert found(index, outside) == []
    assert pages(index) == before


@pytest.mark.parametrize(
    ("ours", "mode"),
    [('<a href="demo/">demo</a> <a href="other/">other</a>', Root.SHARED), ("", Root.KEPT)],
    ids=["shared", "kept"],
)
def test_a_directory_made_again_leaves_a_root_that_others_write_as_it_is(
    ours: str, mode: Root, index: WheelIndex, outside: Outside
) -> None:
    front = f'<a href="torch/">torch</a> {ours}'
    (root(index) / "index.html").write_text(front)
    lose(root(index) / ".fatwheel/index.json", "[]")
    maintain.repair(index, outside)
    assert json.loads((root(index) / ".fatwheel/index.json").read_text())["root"] == mode.value
    assert (root(index) / "index.html").read_text() == front
    assert found(index, outside) == []


def test_all_that_a_shared_index_keeps_for_itself_is_made_again(tmp_path: Path, outside: Outside) -> None:
    (tmp_path / "index/torch").mkdir(parents=True)
    (tmp_path / "index/index.html").write_text('<a href="torch/">torch</a>\n')
    (tmp_path / "index/torch/index.html").write_text('<a href="../torch-2.0.zip">torch-2.0.zip</a>\n')
    index = index_of(f"dir:{tmp_path}/index?root=shared", outside)
    releases.publish(index, unit("demo", item(make(tmp_path, PURE)), item(make(tmp_path, CUDA), "cu130")))
    before = pages(index)
    for path in (".fatwheel/index.json", MANIFEST):
        (root(index) / path).write_text("[]")
    maintain.repair(index_of(f"dir:{tmp_path}/index", outside), outside, remove_unlisted=True)
    assert found(index, outside) == []
    assert pages(index) == before


def test_every_manifest_of_an_adopted_index_is_made_again_as_it_was(tmp_path: Path, outside: Outside) -> None:
    index = folder_index(by_hand(tmp_path / "index", tmp_path / "elsewhere"))
    adopt(index, (), outside)
    manifests = {path: path.read_bytes() for path in (root(index) / ".fatwheel/projects").iterdir()}
    before = pages(index)
    for path in manifests:
        path.unlink()
    maintain.repair(index, outside)
    for path, data in manifests.items():
        again, whole = (parse_manifest(text, path.stem) for text in (path.read_bytes(), data))
        assert again._replace(generation=0) == whole._replace(generation=0)
    assert len(manifests) == 6
    assert pages(index) == before
