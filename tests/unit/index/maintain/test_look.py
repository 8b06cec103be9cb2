from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.index.maintain import look
from ci_tools.index.manifest import Root
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.promotion import promote
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.indexes import CUDA, PURE, STRAY, entry, found, rewrite, root
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import make
from tests.servers.buckets import CREDENTIALS, NO_PROXY, keys, moto

TEST_INFRA = '<!DOCTYPE html>\n<html><body>\n<a href="torch/">torch</a><br/>\n'  # its front page, up to ours


def share(index: WheelIndex, mode: Root, page: str) -> None:
    """Make an index one whose front pages others write."""
    path = root(index) / ".fatwheel/index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "root": mode.value}))
    for place in ("", "cpu/", "cu130/", "cu132/"):
        (root(index) / place / "index.html").write_text(page)


@pytest.mark.parametrize("mode", [Root.SHARED, Root.KEPT])
def test_front_pages_of_others_that_list_our_projects_are_no_flaw(
    mode: Root, index: WheelIndex, outside: Outside
) -> None:
    ours = '<a href="demo/">demo</a><br/>\n<a href="Other/index.html">Other</a>\n'
    share(index, mode, TEST_INFRA + ours)
    assert found(index, outside) == []


def test_front_pages_of_others_that_lack_our_line_are_a_flaw_only_where_we_keep_it_there(
    index: WheelIndex, outside: Outside
) -> None:
    share(index, Root.SHARED, TEST_INFRA + '<a href="demo/">demo</a>')
    flaws = found(index, outside)
    assert {what for _, what in flaws} == {"the page is shared with others, and does not list other"}
    assert len(flaws) == 4
    share(index, Root.KEPT, TEST_INFRA)
    assert found(index, outside) == []


def test_a_page_of_our_project_that_others_wrote_is_said_to_be_theirs(index: WheelIndex, outside: Outside) -> None:
    page = root(index) / "cu130/demo/index.html"
    page.write_text(page.read_text() + '<a href="demo-0.9.tar.gz">demo-0.9.tar.gz</a>')
    assert found(index, outside) == [("cu130/demo/index.html", look.OTHERS)]


def test_files_that_lie_elsewhere_are_not_read(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/projects/other.json"
    file = entry(index, "other-1.0-py3-none-any.whl", "other")
    away = {**file, "at": "https://elsewhere.example/other-1.0-py3-none-any.whl", "origin": "adopted"}
    rewrite(path, json.dumps(file), json.dumps(away))
    assert {what for _, what in found(index, outside)} == {look.STALE}


def test_an_index_s_channels_are_read_by_their_own_address(tmp_path: Path, outside: Outside) -> None:
    stable = folder_index(tmp_path / "index")
    releases.publish(stable, unit("demo", item(make(tmp_path, PURE)), edition=Edition(Channel.TEST, 1)))
    assert maintain.verify(folder_index(tmp_path / "index/test"), outside) == ()


@pytest.mark.parametrize("names", [(), ("thesis.txt", STRAY)], ids=["nothing", "some-files"])
@pytest.mark.parametrize(
    "act",
    [
        maintain.verify,
        lambda index, outside: maintain.repair(index, outside, remove_unlisted=True),
        lambda index, _: maintain.yank(index, "demo==1.0", "bad"),
        lambda index, outside: promote(index, [folder_index(root(index) / "to")], "demo==1.0", outside),
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
        maintain.repair(folder_index(root(index) / "cu130"), outside, remove_unlisted=True)
    assert found(index, outside) == []


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
            maintain.repair(index_of(bucket.target(prefix), outside), outside, remove_unlisted=True)
        assert keys(bucket.client()) == before
