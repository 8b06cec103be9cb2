from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.index import maintain
from ci_tools.index.maintain import look
from ci_tools.index.objects.store import FolderStore
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.indexes import CUDA, LATER, PURE, SDIST, entry, found, rewrite, root
from tests.builders.releases import item, unit
from tests.builders.wheels import broken, listed, make
from tests.servers.buckets import BUCKET, CREDENTIALS, NO_PROXY, moto

AS_IT_WAS = "written again, with what it listed"


def test_a_good_index_has_no_flaw_and_nothing_to_mend(index: WheelIndex, outside: Outside) -> None:
    before = {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")}
    assert maintain.verify(index, outside) == ()
    assert maintain.repair(index, outside) == ()
    assert {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")} == before


@pytest.mark.parametrize(
    ("key", "data", "what", "done"),
    [
        pytest.param(f"{PURE}.metadata", None, look.NO_METADATA, "written again", id="metadata-is-gone"),
        pytest.param(f"{PURE}.metadata", b"other", look.NO_METADATA, "written again", id="metadata-has-other-bytes"),
        pytest.param("cu132/demo/index.html", None, look.STALE, "written again", id="a-page-is-gone"),
        pytest.param("finder/demo.js", b"other", look.STALE, "written again", id="the-finder-knows-something-else"),
        pytest.param("demo/index.json", b"{}", look.OTHERS, AS_IT_WAS, id="a-page-has-other-bytes"),
        pytest.param("cpu/index.html", b"other", look.OTHERS, AS_IT_WAS, id="a-front-page-has-other-bytes"),
    ],
)
def test_each_flaw_is_found_and_mended(
    key: str, data: bytes | None, what: str, done: str, index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / key
    path.unlink() if data is None else path.write_bytes(data)
    assert found(index, outside) == [(key, what)]
    assert [(flaw.key, flaw.what, flaw.done) for flaw in maintain.repair(index, outside)] == [(key, what, done)]
    assert found(index, outside) == []
    assert broken(root(index)) == []


LOST = [
    pytest.param(f"cu130/{CUDA}", None, look.GONE, "gone", id="a-wheel-is-gone"),
    pytest.param(f"cu130/{CUDA}", b"other", look.DAMAGED, "damaged", id="a-wheel-has-other-bytes"),
    pytest.param(SDIST, b"other", look.DAMAGED, "damaged", id="an-sdist-has-other-bytes"),
]


@pytest.mark.parametrize(("key", "data", "what", "lost"), LOST)
def test_a_lost_file_is_not_listed_until_its_bytes_are_back(
    key: str, data: bytes | None, what: str, lost: str, index: WheelIndex, outside: Outside
) -> None:
    path, before = root(index) / key, entry(index, key.rpartition("/")[2])
    page, whole = (root(index) / "cu130/demo/index.html").read_bytes(), path.read_bytes()
    path.unlink() if data is None else path.write_bytes(data)
    mended = maintain.repair(index, outside)
    assert [(flaw.what, flaw.done) for flaw in mended] == [(what, "not listed until its bytes are back")]
    assert path.name not in listed(root(index), "cu130")
    assert entry(index, path.name) == {**before, "lost": lost}
    path.write_bytes(whole)
    assert [flaw.done for flaw in maintain.repair(index, outside)] == ["listed again"]
    assert (root(index) / "cu130/demo/index.html").read_bytes() == page
    assert found(index, outside) == []


def test_a_lost_file_is_a_flaw_that_only_its_owner_ends(index: WheelIndex, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    maintain.repair(index, outside)
    before = {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")}
    assert [(flaw.key, flaw.is_left) for flaw in maintain.repair(index, outside)] == [(f"cu130/{CUDA}", True)]
    assert {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")} == before
    maintain.yank(index, CUDA, "lost")
    assert found(index, outside) == []


def test_a_lost_file_that_is_published_again_is_listed_again(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    (root(index) / LATER).write_bytes(b"other")
    maintain.repair(index, outside)
    releases.publish(index, unit("demo", item(tmp_path / "made" / LATER), version="1.1"))
    assert LATER in listed(root(index), "cu130")
    assert found(index, outside) == []


def test_every_flaw_is_mended_at_once(index: WheelIndex, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    (root(index) / f"{PURE}.metadata").unlink()
    (root(index) / "other/index.html").write_bytes(b"other")
    assert len(maintain.repair(index, outside)) == 3
    assert [key for key, _ in found(index, outside)] == [f"cu130/{CUDA}"]
    assert listed(root(index), "cu130") == [PURE, SDIST, LATER]


class Failing(FolderStore):
    """A folder on a disk or behind a network that fails."""

    def __init__(self, root: Path, fault: str) -> None:
        super().__init__(root, Silent())
        self.fault = fault
        self.answers = 0

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes of a wheel as a fault leaves them."""
        if not key.endswith(CUDA):
            yield from super().chunks(key)
            return
        self.answers += 1
        if self.fault == "error":
            raise MachineError("503: slow down")
        whole = b"".join(super().chunks(key))
        yield whole[: len(whole) // 2] if self.fault == "cut" or self.answers == 1 else whole


@pytest.mark.parametrize(("fault", "flaws"), [("error", 1), ("cut", 1), ("cut once", 0)])
def test_an_answer_that_fails_or_is_cut_is_no_damage(
    fault: str, flaws: int, index: WheelIndex, outside: Outside
) -> None:
    failing = WheelIndex(Failing(root(index), fault), order=0)
    before = entry(index, CUDA)
    mended = maintain.repair(failing, outside)
    assert [flaw.what.partition(":")[0] for flaw in mended] == ["it cannot be read now"] * flaws
    assert entry(index, CUDA) == before
    assert CUDA in listed(root(index), "cu130")


def test_a_project_that_the_directory_forgot_is_listed_again(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "projects": ["demo"]}))
    assert found(index, outside) != []
    maintain.repair(index, outside)
    assert "other" in (root(index) / "cpu/index.html").read_text()
    assert found(index, outside) == []


def test_a_directory_that_lacks_a_folder_is_a_flaw_even_where_every_page_is_right(
    index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / ".fatwheel/index.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "folders": ["cpu", "cu130"], "filling": ["cu132"]}))
    assert found(index, outside) == [(".fatwheel/index.json", look.UNFINISHED)]
    assert [flaw.done for flaw in maintain.repair(index, outside)] == ["written again"]
    assert json.loads(path.read_text())["folders"] == whole["folders"]


def test_a_wrong_size_is_put_right_and_its_file_stays(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/projects/other.json"
    whole = path.read_text()
    rewrite(path, '"size": ', '"size": 1')
    maintain.repair(index, outside)
    assert json.loads(path.read_text())["files"] == json.loads(whole)["files"]
    assert found(index, outside) == []


def test_a_file_that_is_put_back_while_the_index_is_mended_stays_listed(index: WheelIndex, outside: Outside) -> None:
    class PutBack(Silent):
        @contextmanager
        def step(self, title: str) -> Iterator[Silent]:
            if title.startswith("repair"):
                wheel.write_bytes(whole)
            yield self

    wheel = root(index) / f"cu130/{CUDA}"
    whole = wheel.read_bytes()
    wheel.unlink()
    maintain.repair(index, replace(outside, reporter=PutBack()))
    assert CUDA in listed(root(index), "cu130")
    assert found(index, outside) == []


@pytest.mark.slow
@pytest.mark.long
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
        maintain.yank(index, "demo==1.0", "bad")
        for key, data in zip(own, older, strict=True):
            client.put_object(Bucket=BUCKET, Key=key, Body=data)
        assert "written again" in {flaw.done for flaw in maintain.repair(index, outside)}
        assert maintain.verify(index, outside) == ()  # nobody knows the later wheel any more
        page = client.get_object(Bucket=BUCKET, Key="whl/cu130/demo/")["Body"].read().decode()
        assert PURE in page
        assert LATER not in page
        assert "yanked" not in page
