from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.index.ledger import Ledger
from ci_tools.index.units import NOT_TRIED, Offer, Published, Unit
from ci_tools.model.request import Channel, Edition
from tests.builders import releases, wheels
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import broken, edited, hexdigest, listed, make

PURE = "demo-1.0-py3-none-any.whl"
CUDA = "demo-1.0+cu130-py3-none-any.whl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def files(tmp_path: Path) -> list[tuple[Path, str]]:
    sdist = tmp_path / "made" / "demo-1.0.tar.gz"
    pure = make(tmp_path / "made", PURE, fields="Requires-Python: >=3.9\n")
    sdist.write_bytes(b"sdist")
    return [(pure, ""), (make(tmp_path / "made", CUDA), "cu130"), (sdist, "")]


def publish(
    root: Path, files: list[tuple[Path, str]], project: str = "demo", *, replace: bool = False
) -> Sequence[Published]:
    release = unit(project, *(item(path, folder) for path, folder in files))
    return releases.publish(folder_index(root, replace=replace), release)


def state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return what is in the folder, with times, apart from the lock."""
    found = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def content(root: Path) -> dict[str, bytes]:
    return {name: data for name, (_, data) in state(root).items()}


# ---------------------------------------------------------------- what is there


def test_each_index_lists_its_own_and_what_all_share(root: Path, files: list[tuple[Path, str]]) -> None:
    published = publish(root, files)
    assert [file.new for file in published] == [True, True, True]
    assert listed(root, "cu130") == [PURE, "demo-1.0.tar.gz", CUDA]
    assert listed(root, "cpu") == [PURE, "demo-1.0.tar.gz"]
    assert broken(root) == []


def test_metadata_lies_beside_each_wheel(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    document = json.loads((root / "cu130" / "demo" / "index.json").read_text())
    hashes = {file["filename"]: file.get("core-metadata", {}).get("sha256") for file in document["files"]}
    for name, folder in ((PURE, ""), (CUDA, "cu130")):
        beside = (root / folder / f"{name}.metadata").read_bytes()
        member = next(
            data for path, data in wheels.members_of(root / folder / name).items() if path.endswith("/METADATA")
        )
        assert beside == member
        assert hashes[name] == hashlib.sha256(beside).hexdigest()
    assert hashes["demo-1.0.tar.gz"] is None
    assert not (root / "demo-1.0.tar.gz.metadata").exists()


def test_a_second_project_joins_the_front_pages(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    publish(root, [(make(tmp_path, "My.Other-2-py3-none-any.whl"), "rocm7.1")], "my.other")
    for folder in ("cpu", "cu130", "rocm7.1"):
        names = [entry["name"] for entry in json.loads((root / folder / "index.json").read_text())["projects"]]
        assert names == ["demo", "my-other"]
    assert listed(root, "rocm7.1") == [PURE, "demo-1.0.tar.gz"]
    assert broken(root) == []


def test_a_killed_run_s_new_index_is_made_whole(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    other = [(make(tmp_path, "other-2-py3-none-any.whl"), "xpu")]
    publish(root, other, "other")
    for lost in ("xpu/index.html", "xpu/demo/index.html"):
        (root / lost).unlink()
    directory = {"generation": 3, "projects": ["demo"], "folders": ["cpu", "cu130"], "filling": ["xpu"]}
    (root / ".fatwheel" / "index.json").write_text(json.dumps(directory))
    publish(root, other, "other")
    assert listed(root, "xpu") == [PURE, "demo-1.0.tar.gz"]


# ---------------------------------------------------------------- again


def test_publishing_twice_changes_nothing(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    before = state(root)
    assert [file.new for file in publish(root, files)] == [False, False, False]
    assert state(root) == before


def test_the_order_of_the_files_does_not_matter(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    publish(tmp_path / "other", files[::-1])
    pages = [name for name in content(root) if name.endswith(".html")]
    assert pages
    assert [content(root)[page] for page in pages] == [content(tmp_path / "other")[page] for page in pages]


def test_one_more_leaves_the_rest(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    before = state(root)
    publish(root, [(make(tmp_path, "demo-1.1-py3-none-any.whl"), "")])
    assert "demo-1.1-py3-none-any.whl" in listed(root, "cu130")
    kept = {name: what for name, what in state(root).items() if name.endswith((".whl", ".metadata", ".gz"))}
    assert {name: what for name, what in kept.items() if "1.1" not in name}.items() <= before.items()


def test_other_bytes_under_one_name_are_refused(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    before = state(root)
    edited(files[1][0], {"demo/new.py": b""})
    new = make(tmp_path, "demo-1.1-py3-none-any.whl")
    with pytest.raises(InputError, match=r"demo-1\.0\+cu130.*already with other bytes") as refused:
        publish(root, [(new, ""), *files])
    assert "--replace" in refused.value.hint
    assert state(root) == before


def test_other_bytes_may_replace_a_file(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    edited(files[1][0], {"demo/new.py": b""})
    assert [file.new for file in publish(root, files, replace=True)] == [False, True, False]
    assert [path.read_bytes() for path in root.rglob(CUDA)] == [files[1][0].read_bytes()]
    assert broken(root) == []


@pytest.mark.parametrize(("before", "after"), [("cu130", "cu132"), ("", "cu130"), ("cu130", "")])
def test_a_file_can_move_to_another_index(before: str, after: str, root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, [(files[0][0], before)])
    publish(root, [(files[0][0], after)])
    assert [str(path.parent.relative_to(root)) for path in root.rglob(PURE)] == [after or "."]
    assert [str(path.parent.relative_to(root)) for path in root.rglob(f"{PURE}.metadata")] == [after or "."]
    assert broken(root) == []


def test_what_was_yanked_stays_yanked(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    manifest = root / ".fatwheel" / "projects" / "demo.json"
    table = json.loads(manifest.read_text())
    entries = [{**entry, "yanked": "broken", "uploaded": "then"} for entry in table["files"]]
    manifest.write_text(json.dumps({**table, "files": entries}))
    publish(root, files)
    document = json.loads((root / "cpu" / "demo" / "index.json").read_text())
    assert {(file["yanked"], file["upload-time"]) for file in document["files"]} == {("broken", "then")}


# ---------------------------------------------------------------- damage


def listing(**changes: object) -> bytes:
    entry = {"name": PURE, "folder": "", "sha256": "0" * 64, "size": 1, "uploaded": "2026-01-01T00:00:00Z"}
    return json.dumps({"generation": 1, "files": [{**entry, **changes}]}).encode()


@pytest.mark.parametrize("lost", [f"cu130/{CUDA}", f"{PURE}.metadata", "cpu/demo/index.html", "cu130/index.json"])
def test_what_is_damaged_or_lost_is_put_back(lost: str, root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    before = content(root)
    for change in (root.joinpath(lost).unlink, lambda: root.joinpath(lost).write_bytes(b"damaged")):
        change()
        publish(root, files)
        assert content(root) == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[{", id="half"),
        pytest.param(b"\xff", id="not-text"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[1]", id="numbers"),
        pytest.param(b'{"a": 1}', id="no-list"),
        pytest.param(b"[]", id="empty-with-pages-left"),
        pytest.param(b"[" * 100_000, id="too-deep"),
        pytest.param(b'[{"name": "a"}]', id="half-an-entry"),
        pytest.param(listing(name="foo.txt"), id="no-wheel-s-name"),
        pytest.param(listing(name="other-1.0-py3-none-any.whl"), id="another-project-s"),
        pytest.param(listing(size="x"), id="a-size-that-is-text"),
        pytest.param(listing(folder="../evil"), id="a-folder-outside"),
        pytest.param(listing(also=["/evil"]), id="a-listing-outside"),
        pytest.param(listing(also="cu130"), id="also-as-text"),
        pytest.param(listing(yanked=False), id="yanked-as-a-truth"),
        pytest.param(b'[{"name": 1, "folder": 2, "sha256": "", "size": 0, "uploaded": ""}]', id="other-types"),
        pytest.param(None, id="gone-with-pages-left"),
    ],
)
def test_a_damaged_manifest_is_told_and_nothing_changes(
    damage: bytes | None, root: Path, files: list[tuple[Path, str]]
) -> None:
    publish(root, files)
    manifest = root / ".fatwheel" / "projects" / "demo.json"
    manifest.unlink() if damage is None else manifest.write_bytes(damage)
    before = state(root)
    with pytest.raises(MachineError, match=r"demo\.json, which the pages are made from, is damaged: "):
        publish(root, files[:1])
    assert state(root) == before


def test_what_a_killed_run_had_begun_is_swept(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files)
    before = content(root)
    (root / ".fatwheel" / "unfinished").mkdir(exist_ok=True)
    (root / ".fatwheel" / "unfinished" / ".a.whl.x.partial").write_bytes(b"half")
    publish(root, files)
    assert content(root) == before


# ---------------------------------------------------------------- strangers


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("other-1.0-py3-none-any.whl", "is a file of other, expected one of demo", id="another-project"),
        pytest.param("demo.whl", "is not the name of a wheel or an sdist", id="no-wheel-name"),
        pytest.param("notes.txt", "is not the name of a wheel or an sdist", id="no-wheel"),
        pytest.param('demo-1.0-py3-none-a"><script>.whl', "holds a character", id="html-in-its-name"),
    ],
)
def test_a_stranger_is_refused_and_nothing_written(
    name: str, sentence: str, root: Path, files: list[tuple[Path, str]]
) -> None:
    stranger = files[0][0].rename(files[0][0].with_name(name))
    with pytest.raises(InputError, match=sentence):
        publish(root, [*files[1:], (stranger, "")])
    assert not root.exists()


def test_one_name_twice_at_once_is_refused(root: Path, tmp_path: Path, files: list[tuple[Path, str]]) -> None:
    again = make(tmp_path / "again", CUDA, {"demo.py": b""})
    with pytest.raises(InputError, match="published 2 times at once"):
        publish(root, [*files, (again, "cu132")])
    assert not root.exists()


def test_a_wheel_is_listed_for_every_cuda_version_it_serves(tmp_path: Path) -> None:
    wheel = make(tmp_path, "demo-1.0+cu130-py3-none-any.whl")
    target = folder_index(tmp_path / "index")
    releases.publish(target, unit("demo", item(wheel, "cu130", ("cu132",))))
    releases.publish(target, unit("demo", item(make(tmp_path, "demo-1.0-py3-none-any.whl"))))
    page = (tmp_path / "index/cu132/demo/index.html").read_text()
    assert '"../../cu130/demo-1.0%2Bcu130-py3-none-any.whl#sha256=' in page
    assert "%2Bcu130" not in (tmp_path / "index/cpu/demo/index.html").read_text()


def test_two_wheels_of_one_folder_are_listed_where_each_serves(root: Path, tmp_path: Path) -> None:
    names = [f"demo-1.0+cu130-{tag}-none-any.whl" for tag in ("cp311", "cp312")]
    items = (item(make(tmp_path, names[0]), "cu130", ("cu132",)), item(make(tmp_path, names[1]), "cu130"))
    releases.publish(folder_index(root), unit("demo", *items))
    assert (listed(root, "cu130"), listed(root, "cu132")) == (names, names[:1])


@pytest.mark.parametrize(("folder", "also"), [("../evil", ()), ("/evil", ()), ("cu130", ("..",)), (".fatwheel", ())])
def test_nothing_is_written_outside_the_index(folder: str, also: tuple[str, ...], root: Path, tmp_path: Path) -> None:
    wheel = item(make(tmp_path / "made", PURE), folder, also)
    with pytest.raises(InputError, match="expected a folder such as cu130"):
        releases.publish(folder_index(root), unit("demo", wheel))
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


# ---------------------------------------------------------------- several publishers


CANDIDATES = [Edition(Channel.TEST, number) for number in (1, 2)]


def test_a_later_candidate_takes_the_place_of_all_of_the_earlier_one(root: Path, tmp_path: Path) -> None:
    pure, cuda = item(make(tmp_path / "one", PURE)), item(make(tmp_path / "one", CUDA), "cu130")
    other = item(make(tmp_path / "two", PURE, {"demo.py": b"2"}))
    releases.publish(folder_index(root), unit("demo", pure, cuda, edition=CANDIDATES[0]))
    releases.publish(folder_index(root), unit("demo", other, edition=CANDIDATES[1]))
    assert listed(root / "test", "cu130") == [PURE]
    assert [hexdigest(path) for path in root.rglob("*.whl")] == [other.sha256]
    with pytest.raises(InputError, match="already with other bytes"):
        releases.publish(folder_index(root), unit("demo", pure, edition=CANDIDATES[0]))


def test_who_names_a_channel_and_who_publishes_to_it_wait_for_each_other(root: Path, tmp_path: Path) -> None:
    releases.publish(folder_index(root), unit("demo", item(make(tmp_path, PURE)), edition=CANDIDATES[0]))
    locks = {str(path.relative_to(root)) for path in root.rglob("*.lock")}
    with folder_index(root / "test").store.alone():
        pass
    assert {str(path.relative_to(root)) for path in root.rglob("*.lock")} == locks == {"test/.fatwheel/index.lock"}


def test_a_file_that_another_publisher_removed_after_it_was_found_is_put_again(root: Path, tmp_path: Path) -> None:
    first, second = item(make(tmp_path / "one", PURE)), item(make(tmp_path / "two", PURE, {"demo.py": b"2"}))
    releases.publish(folder_index(root), unit("demo", first))
    slow = folder_index(root, replace=True)
    slow.stage(unit("demo", first))
    releases.publish(folder_index(root, replace=True), unit("demo", second))
    slow.switch(unit("demo", first))
    assert broken(root) == []
    assert listed(root, "cpu") == [PURE]


def test_a_nightly_that_is_too_old_by_the_time_it_is_shown_is_refused(root: Path, tmp_path: Path) -> None:
    def nightly(day: int) -> Unit:
        version = f"1.0.dev2026{day:04}"
        wheel = make(tmp_path, f"demo-{version}-py3-none-any.whl")
        return unit("demo", item(wheel), edition=Edition(Channel.NIGHTLY, date=f"2026{day:04}"), version=version)

    slow, old = folder_index(root), nightly(1)
    slow.stage(old)
    newer = [made.items[0] for made in map(nightly, range(2, 62))]
    releases.publish(folder_index(root), unit("demo", *newer, edition=Edition(Channel.NIGHTLY, date="20260061")))
    with pytest.raises(InputError, match="is older than the 60 nightlies"):
        slow.switch(old)


def test_the_metadata_of_others_beside_a_place_of_ours_stays(root: Path, files: list[tuple[Path, str]]) -> None:
    publish(root, files[1:])
    theirs = root / f"{PURE}.metadata"
    theirs.write_bytes(b"theirs")
    publish(root, files)
    assert theirs.read_bytes() == b"theirs"
    assert broken(root) == []
    assert PURE in listed(root, "cpu")


# ---------------------------------------------------------------- what is added to a release


def offer(torch: str, file: str, reason: str = "") -> Offer:
    return Offer("linux-cuda", "cu130", torch, "3.12", file, reason)


def offered(root: Path) -> dict[str, tuple[str, str]]:
    """Return what the index keeps of each torch: the file, or the reason why there is none."""
    ledger = Ledger(folder_index(root).store, "")
    kept = ledger.offers("demo", ledger.manifest("demo").offers["1.0"])
    return {one.torch: (one.file, one.reason) for one in kept}


@pytest.mark.parametrize("again", [pytest.param(False, id="once"), pytest.param(True, id="the-core-again")])
def test_what_is_added_joins_what_the_version_has_for_others(
    root: Path, files: list[tuple[Path, str]], tmp_path: Path, *, again: bool
) -> None:
    core = replace(
        unit("demo", *(item(*file) for file in files)), offers=(offer("2.10", CUDA), offer("2.9", "", "old"))
    )
    later = make(tmp_path / "later", CUDA.replace("cu130", "cu130torch2.15"))
    added = replace(unit("demo", item(later, "cu130torch2.15")), name="core-torch2.15", added="torch2.15")
    added = replace(added, offers=(offer("2.15", later.name),))
    for one in (core, added, core) if again else (core, added):
        releases.publish(folder_index(root), one)
    assert offered(root) == {"2.10": (CUDA, ""), "2.9": ("", "old"), "2.15": (later.name, "")}


def test_a_page_says_which_wheel_was_not_tried_on_a_gpu(root: Path, files: list[tuple[Path, str]]) -> None:
    words = {"cu130": NOT_TRIED}
    items = (item(*file)._replace(gpu=words.get(file[1], "")) for file in files)
    releases.publish(folder_index(root), unit("demo", *items))
    page = (root / "cu130" / "demo" / "index.html").read_text()
    assert (page.count(f"({NOT_TRIED})"), f">{CUDA}</a> ({NOT_TRIED})<br>" in page) == (1, True)


__all__ = ["files", "root"]  # fixtures


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        pytest.param(None, "has no METADATA", id="no-metadata"),
        pytest.param(b"Name: \xff\n", "METADATA is not UTF-8", id="not-text"),
        pytest.param(b"Name: demo\n\n" + bytes(64 << 20), r"METADATA has 67,\d{3},\d{3} bytes, expected", id="huge"),
    ],
)
def test_a_bad_wheel_is_rejected_and_nothing_written(
    metadata: bytes | None, sentence: str, root: Path, files: list[tuple[Path, str]]
) -> None:
    edited(files[1][0], {"demo-1.0+cu130.dist-info/METADATA": metadata})
    with pytest.raises(Rejected, match=sentence):
        publish(root, files)
    assert state(root) == {}
