"""Publishing leaves alone what others put into an index, and says how it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.index.objects.store import FolderStore
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.forked import OUTSIDE
from tests.builders.wheels import make

WHEEL = "theirs-1.0-py3-none-any.whl"


def publish(tmp_path: Path, settings: str = "", project: str = "demo") -> WheelIndex:
    index = index_of(f"dir:{tmp_path / 'index'}{settings}", OUTSIDE)
    wheel = make(tmp_path / "ours", f"{project}-1.0-py3-none-any.whl")
    releases.publish(index, releases.unit(project, releases.item(wheel)))
    return index


def fill(tmp_path: Path, **files: str) -> dict[str, bytes]:
    """Let others fill the index; return what is there."""
    for name, text in files.items():
        path = tmp_path / "index" / name.replace("__", "/").replace("_html", ".html").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return content(tmp_path)


def content(tmp_path: Path) -> dict[str, bytes]:
    root = tmp_path / "index"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["index_html", "demo__index_html", "a__index_json", "theirs-1.0.tar.gz", "b__c.whl"])
def test_a_place_that_others_filled_is_refused_with_the_way_on(name: str, tmp_path: Path) -> None:
    before = fill(tmp_path, **{name: "<html></html>"})
    with pytest.raises(InputError, match="has files that Fatwheel did not put there") as refused:
        publish(tmp_path)
    assert "index adopt" in refused.value.hint
    assert "root=shared" in refused.value.hint
    after = {key: data for key, data in content(tmp_path).items() if not key.startswith(".fatwheel/")}
    assert after == before


@pytest.mark.parametrize("name", ["README.txt", "logo.png", "nightly__index_html", "test__demo__index_html"])
def test_what_no_installer_reads_is_in_nobodys_way(name: str, tmp_path: Path) -> None:
    before = fill(tmp_path, **{name: "text"})
    publish(tmp_path)
    assert before.items() <= content(tmp_path).items()


def test_a_page_of_the_project_is_refused_in_a_shared_root_too(tmp_path: Path) -> None:
    fill(tmp_path, demo__index_html='<a href="demo-0.9.tar.gz">x</a>')
    with pytest.raises(InputError, match="others have published demo") as refused:
        publish(tmp_path, "?root=shared")
    assert "--project demo" in refused.value.hint


def test_a_shared_root_has_a_line_more_and_stays_shared(tmp_path: Path) -> None:
    before = fill(tmp_path, index_html='<a href="torch/">torch</a>\n', torch__index_html=f'<a href="{WHEEL}">x</a>')
    publish(tmp_path, "?root=shared")
    publish(tmp_path, project="other")
    after = content(tmp_path)
    assert after["index.html"].decode().splitlines() == [
        '<a href="torch/">torch</a>',
        '<a href="demo/">demo</a>',
        '<a href="other/">other</a>',
    ]
    assert after["torch/index.html"] == before["torch/index.html"]
    assert not [key for key in after if key.endswith("index.json") and not key.startswith(".fatwheel/")]
    with pytest.raises(InputError, match="begun with root=shared"):
        publish(tmp_path, "?root=own", project="third")


def test_a_kept_root_stays_as_it_is(tmp_path: Path) -> None:
    before = fill(tmp_path, index_html='<a href="torch/">torch</a>')
    publish(tmp_path, "?root=kept")
    assert content(tmp_path)["index.html"] == before["index.html"]
    assert "demo/index.html" in content(tmp_path)


def test_a_front_page_without_a_place_for_a_line_stays_in_an_index_of_ours_too(tmp_path: Path) -> None:
    publish(tmp_path)
    text = '<base href="https://x.example/"><a href="a/">a</a> <a href="b-1.0.tar.gz">b</a>'
    before = fill(tmp_path, index_html=text)
    publish(tmp_path, project="other")
    assert content(tmp_path)["index.html"] == before["index.html"]


@pytest.mark.parametrize("steps", [("stage",), ("stage", "verify", "switch")], ids=["begins", "ends"])
def test_two_that_begin_an_index_at_once_do_not_take_each_other_for_others(
    steps: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(store: FolderStore, prefix: str) -> Iterator[str]:
        if not prefix:  # the first look at the whole index
            monkeypatch.setattr(FolderStore, "listed", look)
            other = index_of(f"dir:{tmp_path / 'index'}", OUTSIDE)
            for step in steps:
                getattr(other, step)(releases.unit("other", releases.item(wheel, "cu130")))
        yield from look(store, prefix)

    wheel = make(tmp_path / "other", "other-1.0-py3-none-any.whl")
    look = FolderStore.listed
    monkeypatch.setattr(FolderStore, "listed", listed)
    publish(tmp_path)
    assert (tmp_path / "index" / "demo-1.0-py3-none-any.whl").is_file()
    assert FolderStore.listed is look
