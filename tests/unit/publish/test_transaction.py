from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected, RejectedInput
from ci_tools.index.units import Published, Unit
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from ci_tools.publish import transaction
from tests.builders import releases
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import edited, listed, make

PURE, CUDA = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl"


class Meddling(Silent):
    """A reporter who does something as a step begins."""

    def __init__(self, when: str, what: Callable[[], object]) -> None:
        self.when, self.what = when, what

    @contextmanager
    def step(self, title: str) -> Iterator[Silent]:
        if title.startswith("publish") and title.endswith(self.when):
            self.what()
        yield self


@pytest.fixture
def targets(tmp_path: Path) -> list[WheelIndex]:
    return [folder_index(tmp_path / "first"), folder_index(tmp_path / "second")]


@pytest.fixture
def release(tmp_path: Path) -> Unit:
    made = tmp_path / "made"
    return unit("demo", item(make(made, PURE)), item(make(made, CUDA), "cu130"))


def other(tmp_path: Path) -> Unit:
    """Return a release with other bytes under one of the names."""
    made = tmp_path / "other"
    wheel = edited(make(made, CUDA), {"demo/new.py": b""})
    return unit("demo", item(make(made, PURE)), item(wheel, "cu130"))


def publish(release: Unit, targets: list[WheelIndex], tmp_path: Path, reporter: Silent | None = None) -> list[str]:
    shown = transaction.publish(release, targets, tmp_path / "journals", reporter or Silent())
    return [f"{one.target.rpartition('/')[2]} {sum(file.new for file in one.files)}" for one in shown]


def journal(tmp_path: Path) -> dict[str, list[str]]:
    table = json.loads((tmp_path / "journals/core.json").read_text())
    return {name: [address.rpartition("/")[2] for address in table[name]] for name in ("targets", "switched")}


def damage(root: Path) -> None:
    (root / ".fatwheel/projects").mkdir(parents=True, exist_ok=True)
    (root / ".fatwheel/projects/demo.json").write_text("{}")


def half_done(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    """Publish a release that its second target does not come to show."""
    meddling = Meddling("second", lambda: damage(tmp_path / "second"))
    with pytest.raises(MachineError, match="is damaged: generation: this key is missing"):
        publish(release, targets, tmp_path, meddling)
    (tmp_path / "second/.fatwheel/projects/demo.json").unlink()
    assert journal(tmp_path) == {"targets": ["first", "second"], "switched": ["first"]}


def standing(release: Unit, targets: list[WheelIndex], tmp_path: Path, reporter: Silent | None = None) -> str:
    """Return the last words of a publisher that fails, with each target's folder for its address."""
    with pytest.raises(FatwheelError) as failed:
        publish(release, targets, tmp_path, reporter)
    last = str(failed.value).rpartition("\n")[2].strip()
    assert last == failed.value.standing
    return last.replace(f"dir:{tmp_path}/", "").replace("demo 1.0 (core, 2 files)", "it")


def test_a_release_appears_at_every_target(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    assert publish(release, targets, tmp_path) == ["first 2", "second 2"]
    assert [listed(tmp_path / name, "cu130") for name in ("first", "second")] == [[PURE, CUDA]] * 2
    assert journal(tmp_path) == {"targets": ["first", "second"], "switched": ["first", "second"]}


def test_twice_is_as_good_as_once(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    publish(release, targets, tmp_path)
    assert publish(release, targets, tmp_path) == ["first 0", "second 0"]


def test_the_target_of_the_lowest_order_switches_first(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    targets[0].order = 9
    assert publish(release, targets, tmp_path) == ["second 2", "first 2"]


# ---------------------------------------------------------------- before it is done


def test_a_preview_changes_nothing_and_says_what_publishing_does(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    publish(release, targets[:1], tmp_path)
    before = sorted(tmp_path.rglob("*"))
    said = transaction.preview(release, targets, tmp_path / "journals")
    assert sorted(tmp_path.rglob("*")) == before
    kept, added = ([change for address, change in said if address == target.address] for target in targets)
    assert [change.what for change in kept] == ["keep", "keep"]
    assert [change.where for change in added if change.what == "add"] == [
        targets[1].store.url(PURE),
        targets[1].store.url(f"cu130/{CUDA}"),
    ]
    publish(release, targets, tmp_path)
    pages = {change.where for change in added if change.what == "update"}
    folders = {path.parent.as_uri() for path in (tmp_path / "second").rglob("index.html")}
    assert folders <= {page.rstrip("/") for page in pages}


def test_what_one_target_refuses_goes_to_none(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    publish(other(tmp_path), targets[1:], tmp_path / "before")
    with pytest.raises(
        RejectedInput, match=r"demo-1\.0\+cu130.* is in dir:.*second already with other bytes"
    ) as refused:
        publish(release, targets, tmp_path)
    assert "raise the version" in refused.value.hint
    assert not (tmp_path / "first").exists()
    assert not (tmp_path / "journals").exists()


def test_what_every_target_refuses_is_said_at_once(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    publish(other(tmp_path), targets, tmp_path / "before")
    with pytest.raises(RejectedInput) as refused:
        publish(release, targets, tmp_path)
    assert [problem.what.count("other bytes") for problem in refused.value.problems] == [1, 1]


# ---------------------------------------------------------------- on the way


def test_another_publisher_who_came_first_leaves_nothing_of_this_one(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    rival = other(tmp_path)
    first = Meddling("first", lambda: publish(rival, [folder_index(tmp_path / "first")], tmp_path / "rival"))
    with pytest.raises(InputError, match="already with other bytes") as refused:
        publish(release, targets, tmp_path, first)
    assert refused.value.hint == "another publisher came first"
    assert not (tmp_path / "journals/core.json").exists()
    assert not (tmp_path / "second/demo").exists()


def test_a_refusal_before_anything_is_shown_says_that_nothing_is_public(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    publish(other(tmp_path), targets[1:], tmp_path / "before")
    said = "so far: it is public nowhere yet. Once that is fixed, the same command begins again."
    assert standing(release, targets, tmp_path) == said


def test_a_refusal_in_the_middle_says_what_is_public_and_what_comes_next(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    rival = other(tmp_path)
    second = Meddling("second", lambda: publish(rival, [folder_index(tmp_path / "second")], tmp_path / "rival"))
    said = "so far: it is public by now at first; not yet at second. Nothing is undone. "
    again = "Once that is fixed, the same command continues with second."
    assert standing(release, targets, tmp_path, second) == f"{said}{again}"
    assert standing(release, targets, tmp_path) == f"{said}{again}"  # which is refused before it begins


def test_a_machine_that_fails_in_the_middle_is_said_to_go_on(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    second = Meddling("second", lambda: damage(tmp_path / "second"))
    said = "so far: it is public by now at first; perhaps public in part at second. "
    assert standing(release, targets, tmp_path, second) == f"{said}Run again: the same command continues with second."


def test_what_another_machine_has_shown_is_known_without_its_journal(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    publish(release, targets[:1], tmp_path / "there")
    publish(other(tmp_path), targets[1:], tmp_path / "before")
    assert standing(release, targets, tmp_path).startswith("so far: it is public by now at first; not yet at second.")


def test_files_that_appear_one_by_one_are_counted(
    release: Unit, targets: list[WheelIndex], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets[1], "stages", False)
    first = replace(release, items=release.items[:1])

    def refuse(_: Unit) -> tuple[Published, ...]:
        releases.publish(folder_index(tmp_path / "second"), first)
        raise Rejected("second refuses the other file")

    monkeypatch.setattr(targets[1], "switch", refuse)
    said = standing(release, targets, tmp_path)
    assert said.startswith("so far: it is public by now at first; public in part at second (1 of 2 files). ")


def test_a_target_that_cannot_be_asked_any_more_takes_no_error_s_place(
    release: Unit, targets: list[WheelIndex], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Unit) -> tuple[Published, ...]:
        monkeypatch.setattr(targets[1], "check", fail)
        raise MachineError("the network is down")

    monkeypatch.setattr(targets[1], "stages", False)
    monkeypatch.setattr(targets[1], "switch", fail)
    said = standing(release, targets, tmp_path)
    assert said.startswith("so far: it is public by now at first; perhaps public in part at second. Run again")


def test_what_has_begun_is_finished_by_the_same_call(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    half_done(release, targets, tmp_path)
    assert publish(release, targets, tmp_path) == ["first 0", "second 2"]
    assert journal(tmp_path)["switched"] == ["first", "second"]


def test_what_has_begun_is_finished_without_a_journal_too(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    half_done(release, targets, tmp_path)
    (tmp_path / "journals/core.json").unlink()
    assert publish(release, targets, tmp_path) == ["first 0", "second 2"]


def test_what_has_begun_is_not_finished_with_other_files(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    half_done(release, targets, tmp_path)
    with pytest.raises(
        InputError, match=r"has begun to be published at .*second; demo-1\.0\+cu130.* has other bytes than then"
    ) as no:
        publish(other(tmp_path), targets, tmp_path)
    assert no.value.hint.startswith("finish it with the files that it was begun with, or remove ")
    assert not (tmp_path / "second/demo").exists()


def test_what_has_begun_is_not_finished_without_a_target(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    half_done(release, targets, tmp_path)
    with pytest.raises(InputError, match=r"it cannot be finished without dir:\S*second\n") as refused:
        publish(release, targets[:1], tmp_path)
    named = f"name them too: --to {targets[0].address} --to {targets[1].address}; or remove "
    assert refused.value.hint.startswith(named)


def test_what_has_begun_may_go_to_one_more_target(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    half_done(release, targets, tmp_path)
    assert publish(release, [*targets, folder_index(tmp_path / "third")], tmp_path) == [
        "first 0",
        "second 2",
        "third 2",
    ]


def test_a_journal_that_is_done_stands_in_no_way(release: Unit, targets: list[WheelIndex], tmp_path: Path) -> None:
    publish(release, targets, tmp_path)
    replacing = [folder_index(tmp_path / name, replace=True) for name in ("first", "second")]
    assert publish(other(tmp_path), replacing, tmp_path) == ["first 1", "second 1"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"files": 1, "targets": [], "switched": []}', "[" * 100_000, "\xff"])
def test_a_damaged_journal_is_set_aside_and_the_targets_say_what_they_show(
    text: str, release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    half_done(release, targets, tmp_path)
    path = tmp_path / "journals/core.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="already with other bytes"):
        publish(other(tmp_path), targets, tmp_path)
    assert publish(release, targets, tmp_path) == ["first 0", "second 2"]
    assert path.with_suffix(".damaged").read_bytes() == text.encode("latin-1")


def test_a_journal_of_which_a_byte_is_another_is_damaged(
    release: Unit, targets: list[WheelIndex], tmp_path: Path
) -> None:
    half_done(release, targets, tmp_path)
    path = tmp_path / "journals/core.json"
    path.write_text(path.read_text().replace("/second", "/seconc"))
    assert publish(release, targets, tmp_path) == ["first 0", "second 2"]
    assert path.with_suffix(".damaged").exists()
