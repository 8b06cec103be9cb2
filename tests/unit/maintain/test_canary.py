"""The table of canary.yml: what held, what did not, and what nobody could try, by what the jobs have noted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError
from tests.builders.sources import world
from tests.maintain import canary
from tests.maintain.canary import Asked, Row, State

ALL = {"units": json.dumps(["core", *canary.PLATFORMS]), "withheld": "[]"}
GOOD: dict[str, Any] = {
    "wheels": {"result": "success", "outputs": ALL},
    "fails": {"result": "success", "outputs": {}},
    "attested": {"result": "success", "outputs": {}},
}
ELSEWHERE = "a workflow called from another repository"


def note(folder: Path, check: str, name: str = "", **fields: object) -> None:
    path = folder / f"noted-{check}-{name}" / f"{check}-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"check": check, "name": name, **fields}))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """What a run leaves in which all held."""
    folder = tmp_path / "noted"
    for name in canary.MACHINES:
        note(folder, "machine", name, detail=name)
    for turn in range(canary.TURNS):
        note(folder, "turn", str(turn), begun=20.0 * turn, ended=20.0 * turn + 10)
    for check in ("container", "fails", "after", "take", "attested"):
        note(folder, check)
    return folder


def states(folder: Path, asked: Asked | None = None) -> dict[str, State]:
    found = canary.rows(folder, asked or Asked(GOOD), world(folder.parent))
    return {row.what: row.state for row in found}


def with_result(job: str, result: str, outputs: Mapping[str, str] | None = None) -> Asked:
    return Asked({**GOOD, job: {"result": result, "outputs": outputs or {}}})


def test_all_holds_but_what_nobody_was_named_for(notes: Path) -> None:
    found = states(notes)
    assert found.pop(ELSEWHERE) is State.NOT_TRIED
    assert set(found.values()) == {State.HELD}
    assert len(found) == 4 + 5 + 1 + 4


@pytest.mark.parametrize(
    ("check", "name", "fields", "what"),
    [
        pytest.param("machine", "macos-arm64", {"held": False}, "a runner with macOS on Arm", id="another-machine"),
        pytest.param("container", "", {"held": False}, "a container", id="no-container"),
        pytest.param("turn", "1", {"begun": 5.0, "ended": 15.0}, "jobs of a group wait, and none is dropped",
                     id="two-at-once"),
        pytest.param("take", "", {"held": False}, "an artifact has its name and bytes", id="another-file"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_said(notes: Path, check: str, name: str, fields: dict[str, Any], what: str) -> None:
    note(notes, check, name, **fields)
    assert [one for one, state in states(notes).items() if state is State.NOT_HELD] == [what]


@pytest.mark.parametrize(
    ("check", "name", "what"),
    [
        pytest.param("machine", "windows-amd64", "a runner with Windows", id="machine"),
        pytest.param("turn", "2", "jobs of a group wait, and none is dropped", id="a-turn-was-dropped"),
        pytest.param("after", "", "a job that may fail stops nothing", id="the-next-job-did-not-run"),
        pytest.param("attested", "", "an attestation is verified", id="attestation"),
    ],
)
def test_what_was_not_heard_of_did_not_hold(notes: Path, check: str, name: str, what: str) -> None:
    (notes / f"noted-{check}-{name}" / f"{check}-{name}.json").unlink()
    assert [one for one, state in states(notes).items() if state is State.NOT_HELD] == [what]


def test_a_job_that_may_fail_has_to_count_as_a_success(notes: Path) -> None:
    assert states(notes, with_result("fails", "failure"))["a job that may fail stops nothing"] is State.NOT_HELD


def test_a_platform_that_is_not_whole_did_not_hold(notes: Path) -> None:
    found = states(notes, with_result("wheels", "success", {"units": '["core", "windows"]'}))
    assert (found["a wheel for windows"], found["a wheel for linux-cpu"]) == (State.HELD, State.NOT_HELD)


def test_what_was_not_asked_for_could_not_be_tried(notes: Path) -> None:
    found = states(notes, Asked(GOOD, only="linux-cpu"))
    assert (found["a wheel for windows"], found["a wheel for linux-cpu"]) == (State.NOT_TRIED, State.HELD)


def test_what_act_does_otherwise_could_not_be_tried(notes: Path) -> None:
    note(notes, "machine", "macos-arm64", held=False, act=True)
    assert states(notes)["a runner with macOS on Arm"] is State.NOT_TRIED


def test_a_repository_that_cannot_be_asked_could_not_be_tried(notes: Path) -> None:
    assert states(notes, Asked(GOOD, elsewhere="me/mine", repository="us/ours"))[ELSEWHERE] is State.NOT_TRIED


def test_a_job_notes_what_it_saw(tmp_path: Path) -> None:
    made = canary.take_note("keep", "", "", tmp_path / "canary", world(tmp_path))
    taken = canary.take_note("take", "", "", tmp_path / "canary", world(tmp_path, ACT="true"))
    assert (made.held, taken.held, made.act, taken.act) == (True, True, False, True)
    (tmp_path / "canary" / canary.WHEEL).write_bytes(b"another")
    assert not canary.take_note("take", "", "", tmp_path / "canary", world(tmp_path)).held
    assert not canary.take_note("machine", "x", "vax", tmp_path / "canary", world(tmp_path)).held


def test_the_page_counts_and_shows_any_text_as_text() -> None:
    text = canary.page([Row("a <b>", State.HELD, "| x"), Row("c", State.NOT_HELD)])
    assert text.startswith("## The canary: 1 held, 1 did not hold, 0 could not be tried\n")
    assert "| a &lt;b&gt; | held | &#124; x |" in text


@pytest.mark.parametrize(
    "text", [pytest.param("{", id="no-json"), pytest.param("[]", id="a-list"), pytest.param('{"a": 1}', id="a-number")]
)
def test_what_is_no_result_of_jobs_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--needs is not the JSON"):
        canary.results_of(text)


def test_what_is_no_note_or_no_check_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='there is no check "turns", did you mean "turn"'):
        canary.take_note("turns", "", "", tmp_path, world(tmp_path))
    (tmp_path / "a.json").write_text('{"else": 1}')
    with pytest.raises(InputError, match=r"a.json: note.check: this key is missing"):
        canary.rows(tmp_path, Asked({}), world(tmp_path))


def test_the_table_is_printed_and_its_status_says_what_did_not_hold(
    notes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["table", "--folder", str(notes), "--needs", json.dumps(GOOD)]
    assert canary.main(words, world(notes.parent)) == 0
    note(notes, "machine", "macos-arm64", held=False)
    assert canary.main(words, world(notes.parent)) == 1
    assert "| a runner with macOS on Arm | did not hold |" in capsys.readouterr().out
    assert canary.main(["machines"], world(notes.parent)) == 2
