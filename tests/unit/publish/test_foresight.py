from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, MachineError, RejectedInput
from ci_tools.index.units import Item, Unit
from ci_tools.model.request import STABLE, Channel, Edition
from ci_tools.publish.foresight import core_of, find_holders, refuse_clash, report_existing, say_clash, say_shared
from ci_tools.publish.targets.addresses import targets_of
from tests.builders.releases import folder_index, item, publish, unit
from tests.builders.sources import demo, plan_of, world
from tests.builders.wheels import make

PURE = "demo-1.0-py3-none-any.whl"


def sdist(folder: Path, text: str) -> Item:
    path = folder / "demo-1.0.tar.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return item(path)._replace(made=None)


def core(folder: Path, text: str, edition: Edition | None = None) -> Unit:
    """Return a release of which the sdist is made, and no wheel yet."""
    return unit("demo", sdist(folder, text), edition=edition)


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """The folder of an index that has a release."""
    publish(folder_index(tmp_path / "index"), unit("demo", sdist(tmp_path / "a", "one"), item(make(tmp_path, PURE))))
    return tmp_path / "index"


def test_another_sdist_of_a_version_that_is_there_is_refused(held: Path, tmp_path: Path) -> None:
    with pytest.raises(RejectedInput, match=r"demo-1\.0\.tar\.gz is in dir:.* already with other bytes") as refused:
        refuse_clash(core(tmp_path / "b", "two"), [folder_index(held)], print)
    assert "nothing was compiled yet; a published file never changes" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "replacing", "edition"),
    [
        pytest.param("one", False, None, id="a-run-that-goes-on"),
        pytest.param("two", True, None, id="replace"),
        pytest.param("two", False, Edition(Channel.TEST, 2), id="a-candidate"),
    ],
)
def test_what_publishing_would_take_is_not_refused(
    text: str,
    replacing: bool,  # noqa: FBT001
    edition: Edition | None,
    held: Path,
    tmp_path: Path,
) -> None:
    refuse_clash(core(tmp_path / "b", text, edition), [folder_index(held, replace=replacing)], print)


def test_a_target_that_does_not_answer_is_said_and_refuses_nothing(tmp_path: Path) -> None:
    environ = {"UV_PUBLISH_CHECK_URL": "http://127.0.0.1:9/simple/"}
    targets, said = targets_of(["pypi:http://127.0.0.1:9/"], world(tmp_path, **environ)), []
    release = replace(core(tmp_path / "b", "two"), route="wheels")
    refuse_clash(release, targets, said.append)
    assert [line.partition(":9/ could not be checked for demo 1.0: ")[0] for line in said] == ["pypi:http://127.0.0.1"]


def test_an_index_whose_own_files_are_damaged_is_in_the_way_at_once(held: Path, tmp_path: Path) -> None:
    (held / ".fatwheel/projects/demo.json").write_text("{}")
    with pytest.raises(MachineError, match="is damaged"):
        refuse_clash(core(tmp_path / "b", "one"), [folder_index(held)], print)


def test_a_build_says_what_a_release_would_be_refused_for(held: Path, tmp_path: Path) -> None:
    said: list[str] = []
    say_clash(core(tmp_path / "b", "two"), [folder_index(held)], said.append)
    assert "warning: publishing this would be refused: demo-1.0.tar.gz is in" in said[0]


def test_who_has_a_version_is_known_by_its_files(held: Path, tmp_path: Path) -> None:
    plan, indexes = plan_of(demo(tmp_path / "source")), [folder_index(held), folder_index(tmp_path / "other")]
    said: list[str] = []
    report_existing(core_of(plan, STABLE), indexes, said.append)
    what = "already has 2 files of demo 1.0: it accepts a file of the same name only with the same bytes"
    assert said == [f"warning: {indexes[0].address} {what}"]


def test_a_target_that_cannot_be_asked_holds_nothing(tmp_path: Path) -> None:
    class Silent:
        address = "github:octo/demo"

        def holds(self, _: Unit) -> frozenset[str]:
            raise FatwheelError("it needs a token")

    said: list[str] = []
    assert list(find_holders(core(tmp_path / "b", "one"), [Silent()], said.append)) == []  # type: ignore[list-item]
    assert said == ["github:octo/demo could not be checked for demo 1.0: it needs a token"]


def test_a_file_that_another_project_of_a_folder_installs_is_said(tmp_path: Path) -> None:
    files, said = {"demo/__init__.py": b"", "demo/run.py": b"1"}, list[str]()
    index, own = tmp_path / "index", item(make(tmp_path, PURE, files))
    for name in (PURE, "other-1.0-py3-none-any.whl", "near-1.0-py3-none-any.whl"):
        make(index / "cu130", name, files)
    make(index, "near-2.0-py3-none-any.whl", {"near/__init__.py": b""})  # its newest has none of them
    say_shared(unit("demo", own), [folder_index(index)], said.append)
    (sentence,) = said
    assert "other-1.0-py3-none-any.whl of other both install demo/__init__.py, demo/run.py: " in sentence
