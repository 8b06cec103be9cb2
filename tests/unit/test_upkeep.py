from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools import upkeep
from ci_tools.errors import InputError, Rejected
from ci_tools.model import Channel, Edition
from ci_tools.outside import Outside, Silent
from ci_tools.release import Offer
from ci_tools.targets.addresses import index_of
from ci_tools.targets.ledger import Ledger
from tests import releases
from tests.buckets import BUCKET, CREDENTIALS, NO_PROXY, keys, moto
from tests.releases import folder_index, item, unit
from tests.wheels import broken, edited, hexdigest, listed, make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_tools.targets.wheelindex import WheelIndex

PURE, CUDA, SDIST = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl", "demo-1.0.tar.gz"
LATER = "demo-1.1-py3-none-any.whl"
STRAY = "demo-1.2-py3-none-any.whl"


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(environ=os.environ, cache=tmp_path / "cache", reporter=Silent())


@pytest.fixture
def index(tmp_path: Path) -> WheelIndex:
    """An index with two versions of a project, and another project."""
    made = tmp_path / "made"
    made.mkdir()
    (made / SDIST).write_bytes(b"sdist")
    built = folder_index(tmp_path / "index")
    files = [item(make(made, PURE)), item(make(made, CUDA), "cu130", ("cu132",)), item(made / SDIST)]
    releases.publish(built, unit("demo", *files))
    releases.publish(built, unit("demo", item(make(made, LATER)), version="1.1"))
    releases.publish(built, unit("other", item(make(made, "other-1.0-py3-none-any.whl"))))
    return built


def root(index: WheelIndex) -> Path:
    return index.store.root  # type: ignore[attr-defined,no-any-return]


def found(index: WheelIndex, outside: Outside) -> list[tuple[str, str]]:
    return [(flaw.key, flaw.what) for flaw in upkeep.verify(index, outside)]


# ---------------------------------------------------------------- read again, and mended


def test_a_good_index_has_no_flaw_and_nothing_to_mend(index: WheelIndex, outside: Outside) -> None:
    before = {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")}
    assert upkeep.verify(index, outside) == ()
    assert upkeep.repair(index, outside) == ()
    assert {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")} == before


@pytest.mark.parametrize(
    ("key", "data", "what", "done"),
    [
        pytest.param(f"cu130/{CUDA}", None, upkeep.GONE, "not listed any more", id="a-wheel-is-gone"),
        pytest.param(f"cu130/{CUDA}", b"other", upkeep.DAMAGED, "not listed any more", id="a-wheel-has-other-bytes"),
        pytest.param(SDIST, b"other", upkeep.DAMAGED, "not listed any more", id="an-sdist-has-other-bytes"),
        pytest.param(f"{PURE}.metadata", None, upkeep.NO_METADATA, "written again", id="metadata-is-gone"),
        pytest.param(f"{PURE}.metadata", b"other", upkeep.NO_METADATA, "written again", id="metadata-has-other-bytes"),
        pytest.param("cu132/demo/index.html", None, upkeep.STALE, "written again", id="a-page-is-gone"),
        pytest.param("demo/index.json", b"{}", upkeep.STALE, "written again", id="a-page-has-other-bytes"),
        pytest.param("cpu/index.html", b"other", upkeep.STALE, "written again", id="a-front-page-has-other-bytes"),
        pytest.param(STRAY, b"other", upkeep.UNLISTED, "removed", id="a-file-that-nobody-lists"),
        pytest.param(f"cu130/{STRAY}", b"other", upkeep.UNLISTED, "removed", id="in-a-folder"),
        pytest.param(f"{'0a' * 8}/{STRAY}", b"other", upkeep.UNLISTED, "removed", id="apart"),
        pytest.param(f"cu132/{'0a' * 8}/{STRAY}.metadata", b"other", upkeep.UNLISTED, "removed", id="metadata-apart"),
        pytest.param("variants/demo-1.0-variants.json", b"other", upkeep.UNLISTED, "removed", id="a-document"),
    ],
)
def test_each_flaw_is_found_and_mended(
    key: str, data: bytes | None, what: str, done: str, index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink() if data is None else path.write_bytes(data)
    assert found(index, outside) == [(key, what)]
    mended = upkeep.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.what, flaw.done) for flaw in mended] == [(key, what, done)]
    upkeep.repair(index, outside, remove_unlisted=True)  # what is listed no longer lies there still
    assert found(index, outside) == []
    assert broken(root(index)) == []


def test_what_no_page_lists_stays_unless_it_is_asked_for(index: WheelIndex, outside: Outside) -> None:
    (root(index) / LATER.replace("1.1", "1.2")).write_bytes(b"on its way")
    assert [flaw.done for flaw in upkeep.repair(index, outside)] == ["left: --remove-unlisted removes it"]
    assert (root(index) / LATER.replace("1.1", "1.2")).exists()


def test_every_flaw_is_mended_at_once(index: WheelIndex, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    (root(index) / f"{PURE}.metadata").unlink()
    (root(index) / "other/index.html").write_bytes(b"other")
    assert len(upkeep.repair(index, outside)) == 3
    assert [what for _, what in found(index, outside)] == [upkeep.UNLISTED]  # the METADATA of the wheel that is gone
    assert listed(root(index), "cu130") == [PURE, SDIST, LATER]


def test_a_project_that_the_directory_forgot_is_listed_again(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "projects": ["demo"]}))
    assert found(index, outside) != []
    upkeep.repair(index, outside)
    assert "other" in (root(index) / "cpu/index.html").read_text()
    assert found(index, outside) == []


@pytest.mark.parametrize("data", ["[]", None], ids=["damaged", "gone"])
def test_a_damaged_manifest_is_a_flaw_that_stays_and_the_rest_is_mended(
    data: str | None, index: WheelIndex, outside: Outside
) -> None:
    path, page = root(index) / ".fatwheel/projects/demo.json", root(index) / "other/index.html"
    whole, before = path.read_bytes(), (root(index) / "demo/index.html").read_bytes()
    path.write_text(data) if data else path.unlink()
    page.write_bytes(b"other")
    mended = upkeep.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.done.partition(":")[0]) for flaw in mended] == [
        (".fatwheel/projects/demo.json", "left"),
        ("other/index.html", "written again"),
    ]
    assert mended[0].what.startswith("it is damaged: it ")
    assert (root(index) / "demo/index.html").read_bytes() == before
    path.write_bytes(whole)
    assert found(index, outside) == []


def test_a_damaged_directory_is_made_again_from_the_manifests(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/index.json"
    before = json.loads(path.read_text())
    path.write_text("[]")
    mended = upkeep.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.done) for flaw in mended] == [(".fatwheel/index.json", "written again")]
    assert {**json.loads(path.read_text()), "generation": 0} == {**before, "generation": 0}
    assert found(index, outside) == []


def test_a_directory_that_lacks_a_folder_is_a_flaw_even_where_every_page_is_right(
    index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / ".fatwheel/index.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "folders": ["cpu", "cu130"], "filling": ["cu132"]}))
    assert found(index, outside) == [(".fatwheel/index.json", upkeep.UNFINISHED)]
    assert [flaw.done for flaw in upkeep.repair(index, outside)] == ["written again"]
    assert json.loads(path.read_text())["folders"] == whole["folders"]


def test_a_wrong_size_is_put_right_and_its_file_stays(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/projects/other.json"
    whole = path.read_text()
    path.write_text(whole.replace('"size": ', '"size": 1'))
    upkeep.repair(index, outside)
    assert json.loads(path.read_text())["files"] == json.loads(whole)["files"]
    assert found(index, outside) == []


@pytest.mark.parametrize(
    "key",
    [
        "thesis.txt",
        "thesis.tar.gz",
        "photos/demo-1.2.tar.gz",
        f"cu999/{STRAY}",
        f"cu130/more/{STRAY}",
        "cu130/notes.html",
        ".fatwheel.json",
    ],
)
def test_what_no_publisher_puts_there_stays(key: str, index: WheelIndex, outside: Outside) -> None:
    path = root(index) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    mended = upkeep.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.done) for flaw in mended] == [(key, "left: no publisher puts such a file there")]
    assert path.read_text() == "mine"


@pytest.mark.parametrize("folder", ["mirror", "test"])
def test_another_index_below_is_left_alone(folder: str, index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    below = folder_index(root(index) / folder)
    releases.publish(below, unit("demo", item(make(tmp_path, PURE))))
    (root(below) / STRAY).write_bytes(b"on its way")
    assert found(index, outside) == []
    (root(index) / "other/index.html").write_bytes(b"other")
    upkeep.repair(index, outside, remove_unlisted=True)
    assert (root(below) / STRAY).exists()


@pytest.mark.parametrize("names", [(), ("thesis.txt", STRAY)], ids=["nothing", "some-files"])
@pytest.mark.parametrize(
    "act",
    [
        upkeep.verify,
        lambda index, outside: upkeep.repair(index, outside, remove_unlisted=True),
        lambda index, _: upkeep.yank(index, "demo==1.0", "bad"),
        lambda index, outside: upkeep.promote(index, [folder_index(root(index) / "to")], "demo==1.0", outside),
    ],
    ids=["verify", "repair", "yank", "promote"],
)
def test_where_there_is_no_index_nothing_is_made_or_removed(
    act: Callable[[WheelIndex, Outside], object], names: tuple[str, ...], tmp_path: Path, outside: Outside
) -> None:
    folder = tmp_path / "typo"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("mine")
    with pytest.raises(InputError, match=r"there is no index at dir:.*, expected file:.*/\.fatwheel/index\.json"):
        act(folder_index(folder), outside)
    assert {path.name for path in folder.iterdir()} == set(names)


def test_a_folder_of_an_index_is_no_index(index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="there is no index at"):
        upkeep.repair(folder_index(root(index) / "cu130"), outside, remove_unlisted=True)
    assert found(index, outside) == []


def test_a_file_that_is_put_back_while_the_index_is_mended_stays_listed(index: WheelIndex, outside: Outside) -> None:
    class PutBack(Silent):
        @contextmanager
        def step(self, title: str) -> Iterator[Silent]:
            if title.startswith("mend"):
                wheel.write_bytes(whole)
            yield self

    wheel = root(index) / f"cu130/{CUDA}"
    whole = wheel.read_bytes()
    wheel.unlink()
    upkeep.repair(index, replace(outside, reporter=PutBack()))
    assert CUDA in listed(root(index), "cu130")
    assert found(index, outside) == []


def test_an_index_s_channels_are_read_by_their_own_address(tmp_path: Path, outside: Outside) -> None:
    stable = folder_index(tmp_path / "index")
    releases.publish(stable, unit("demo", item(make(tmp_path, PURE)), edition=Edition(Channel.TEST, 1)))
    assert upkeep.verify(folder_index(tmp_path / "index/test"), outside) == ()


@pytest.mark.long
@pytest.mark.slow
def test_a_manifest_and_a_directory_that_were_restored_show_again_in_a_bucket(
    tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, **NO_PROXY}.items():
        monkeypatch.setenv(name, value)
    with moto() as bucket:
        index, client, folder = index_of(bucket.target(), outside), bucket.client(), "whl/.fatwheel"
        releases.publish(index, unit("demo", item(make(tmp_path, PURE))))
        own = [f"{folder}/index.json", f"{folder}/projects/demo.json"]
        older = [client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in own]
        releases.publish(index, unit("demo", item(make(tmp_path, LATER)), version="1.1"))
        releases.publish(index, unit("other", item(make(tmp_path, "other-1.0-py3-none-any.whl"), "cu130")))
        upkeep.yank(index, "demo==1.0", "bad")
        for key, data in zip(own, older, strict=True):
            client.put_object(Bucket=BUCKET, Key=key, Body=data)
        assert "written again" in {flaw.done for flaw in upkeep.repair(index, outside)}
        assert {flaw.what for flaw in upkeep.verify(index, outside)} == {upkeep.UNLISTED}  # the later wheel
        page = client.get_object(Bucket=BUCKET, Key="whl/cu130/demo/")["Body"].read().decode()
        assert PURE in page
        assert LATER not in page
        assert "yanked" not in page


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [pytest.param("", marks=pytest.mark.long), "whl/cu130"])
def test_a_bucket_around_an_index_or_a_folder_of_it_is_no_index(
    prefix: str, tmp_path: Path, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, **NO_PROXY}.items():
        monkeypatch.setenv(name, value)
    with moto() as bucket:
        releases.publish(index_of(bucket.target(), outside), unit("demo", item(make(tmp_path, CUDA), "cu130")))
        before = keys(bucket.client())
        with pytest.raises(InputError, match="there is no index at s3://bucket"):
            upkeep.repair(index_of(bucket.target(prefix), outside), outside, remove_unlisted=True)
        assert keys(bucket.client()) == before


# ---------------------------------------------------------------- yanked


def test_a_release_is_yanked_and_comes_back(index: WheelIndex, outside: Outside) -> None:
    page = root(index) / "cu130/demo/index.html"
    whole = page.read_bytes()
    assert upkeep.yank(index, "demo==1.0", "<broken>") == (CUDA, PURE, SDIST)
    assert page.read_text().count('data-yanked="&lt;broken&gt;"') == 3
    assert found(index, outside) == []
    assert upkeep.yank(index, "Demo == 1.0", None) == (CUDA, PURE, SDIST)
    assert page.read_bytes() == whole


def test_a_yank_without_a_reason_is_one(index: WheelIndex) -> None:
    upkeep.yank(index, "demo==1.1", "")
    document = json.loads((root(index) / "demo/index.json").read_text())
    assert [file["filename"] for file in document["files"] if file["yanked"] is True] == [LATER]


def test_a_yanked_release_that_is_published_again_stays_yanked(index: WheelIndex, tmp_path: Path) -> None:
    upkeep.yank(index, "demo==1.1", "bad")
    releases.publish(index, unit("demo", item(tmp_path / "made" / LATER), version="1.1"))
    assert "data-yanked" in (root(index) / "demo/index.html").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "demo",
        "demo>=1.0",
        "demo==1.*",
        "demo===1.0",
        "demo==1.0,==1.0",
        "demo[x]==1.0",
        "demo @ file:///x",
        'demo==1.0; python_version<"3"',
        "demo==1.0+cu130",
        "==1",
        "",
    ],
)
def test_what_is_no_release_is_said_to_be_none(text: str, index: WheelIndex) -> None:
    with pytest.raises(InputError, match=r"is no release, expected one such as demo==1\.0"):
        upkeep.yank(index, text, "bad")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("demo==1.2", r"the index has no demo 1\.2, did you mean"), ("nothing==1.0", "no nothing 1.0, it has none of it")],
)
def test_what_the_index_has_not_is_said(text: str, sentence: str, index: WheelIndex) -> None:
    before = sorted(root(index).rglob("*.json"))
    with pytest.raises(InputError, match=sentence):
        upkeep.yank(index, text, "bad")
    assert sorted(root(index).rglob("*.json")) == before


@pytest.mark.parametrize("reason", ["caf\udce9", "\x1b[31m", "two\nlines", "\x00"])
def test_a_reason_that_no_page_can_show_is_refused(reason: str, index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="expected UTF-8 text without control characters") as refused:
        upkeep.yank(index, "demo==1.0", reason)
    assert refused.value.message.isprintable()
    assert found(index, outside) == []


# ---------------------------------------------------------------- promoted


def test_a_promoted_release_is_the_very_bytes(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    shown = upkeep.promote(index, [target], "demo==1.0", outside)
    assert sorted(file.file for file in shown[0].files) == [CUDA, PURE, SDIST]
    for key in (f"cu130/{CUDA}", PURE, SDIST):
        assert hexdigest(root(target) / key) == hexdigest(root(index) / key)
    assert listed(root(target), "cu132") == [PURE, SDIST, CUDA]
    assert upkeep.verify(target, outside) == ()
    assert [file.new for file in upkeep.promote(index, [target], "demo==1.0", outside)[0].files] == [False] * 3


def test_what_an_entry_says_of_its_wheel_is_promoted_too(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    upkeep.promote(index, [target], "demo==1.0", outside)
    entries: list[dict[str, Any]] = [
        next(
            file
            for file in json.loads((root(one) / ".fatwheel/projects/demo.json").read_text())["files"]
            if file["name"] == CUDA
        )
        for one in (index, target)
    ]
    assert {**entries[0], "uploaded": ""} == {**entries[1], "uploaded": ""}


def test_a_damaged_file_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").write_bytes(b"other")
    with pytest.raises(Rejected, match=r"has the sha256 .*, expected") as refused:
        upkeep.promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)
    assert "index repair" in refused.value.hint
    assert not (tmp_path / "stable").exists()


def test_what_the_target_has_with_other_bytes_is_not_promoted(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    target = folder_index(tmp_path / "stable")
    releases.publish(target, unit("demo", item(edited(make(tmp_path, PURE), {"demo/new.py": b""}))))
    with pytest.raises(InputError, match="already with other bytes"):
        upkeep.promote(index, [target], "demo==1.0", outside)


def test_files_of_several_candidates_are_not_promoted(tmp_path: Path, outside: Outside) -> None:
    stable, wheels = folder_index(tmp_path / "index"), [item(make(tmp_path, PURE)), item(make(tmp_path, CUDA), "cu130")]
    releases.publish(stable, unit("demo", *wheels, edition=Edition(Channel.TEST, 2)))
    source = folder_index(tmp_path / "index/test")
    path = root(source) / ".fatwheel/projects/demo.json"
    path.write_text(path.read_text().replace('"candidate": 2', '"candidate": 1', 1))
    with pytest.raises(InputError, match=r"is of candidate 1, and others are of candidate 2"):
        upkeep.promote(source, [stable], "demo==1.0", outside)
    assert not (root(stable) / PURE).exists()


def test_a_release_is_promoted_with_what_it_has_for_every_combination(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    offer = Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA, "")
    release = unit("more", item(make(tmp_path, "more-1.0-py3-none-any.whl")))
    releases.publish(index, replace(release, offers=(offer,)))
    target = folder_index(tmp_path / "stable")
    upkeep.promote(index, [target], "more==1.0.0", outside)
    ledger = Ledger(target.store, "")
    assert ledger.offers("more", ledger.manifest("more").offers["1.0"]) == (offer,)


def test_a_yanked_release_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    upkeep.yank(index, "demo==1.0", "bad")
    with pytest.raises(InputError, match=r"is yanked in dir:.*, expected a release that is not"):
        upkeep.promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)


def test_a_release_is_not_promoted_to_where_it_is(index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="is where the release is, expected another index"):
        upkeep.promote(index, [folder_index(root(index))], "demo==1.0", outside)


def test_a_nightly_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    with pytest.raises(InputError, match=r"demo 1\.0\.dev20261121 is a nightly, expected a release or a candidate"):
        upkeep.promote(index, [folder_index(tmp_path / "stable")], "demo==1.0.dev20261121", outside)
