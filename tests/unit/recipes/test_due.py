from __future__ import annotations

import pytest

from ci_tools.cli.tables.recipes import due_rows, parts, verdicts_page
from ci_tools.errors import InputError
from ci_tools.recipes.due import DueVerdict, State, WantedRelease, decide

TAG = "demo-v1.0-py313"
WANTED = WantedRelease("demo", TAG, "Demo", "a" * 64, "1.0", "3.13", "2.10", "13.0", "8.9", "no release has its tag")
OTHER = "b" * 64


@pytest.mark.parametrize(
    ("wanted", "published", "state", "reason", "rebuild"),
    [
        pytest.param(WANTED, {}, State.DUE, "no release has its tag", 0, id="nothing-published"),
        pytest.param(WANTED, {f"{TAG}t": "a" * 64}, State.DUE, "no release has its tag", 0, id="another-python"),
        pytest.param(WANTED, {TAG: "a" * 64}, State.DONE, f"{TAG} is published, by the same recipe", 0, id="published"),
        pytest.param(WANTED, {TAG: ""}, State.DONE, f"{TAG} is published; which recipe made it is not known", 0,
                     id="published-by-other-tools"),
        pytest.param(WANTED, {TAG: OTHER}, State.DUE, f"the recipe has changed since {TAG}", 1, id="recipe-changed"),
        pytest.param(WANTED, {TAG: OTHER, f"{TAG}-r1": "a" * 64}, State.DONE,
                     f"{TAG}-r1 is published, by the same recipe", 0, id="rebuilt-by-this-recipe"),
        pytest.param(WANTED, {TAG: "a" * 64, f"{TAG}-r9": OTHER, f"{TAG}-r10": OTHER}, State.DUE,
                     f"the recipe has changed since {TAG}-r10", 11, id="rebuilt-by-another-recipe"),
        pytest.param(WANTED._replace(cannot="it needs a GIL"), {}, State.CANNOT, "it needs a GIL", 0, id="impossible"),
    ],
)  # fmt: skip
def test_a_release_is_due_for_a_reason(
    wanted: WantedRelease, published: dict[str, str], state: State, reason: str, rebuild: int
) -> None:
    verdict = decide(wanted, published)
    assert (verdict.state, verdict.reason, verdict.rebuild) == (state, reason, rebuild)


def test_a_workflow_builds_what_one_matrix_takes_and_says_what_is_left() -> None:
    verdicts = [decide(WANTED._replace(tag=f"demo/v{number}"), {}) for number in range(300)]
    rows = due_rows(verdicts)
    assert len(rows) == 256
    assert len({row["artifact"] for row in rows}) == 256
    found = parts(rows)
    assert (len(found), found[0]["pattern"].count(",")) == (32, 7)
    assert "A run builds the 256 oldest of them, and the next one the other 44." in verdicts_page(verdicts)
    assert "A run builds" not in verdicts_page(verdicts[:256])


def test_what_a_run_leaves_is_built_by_the_next_ones_whatever_fails_each_time() -> None:
    tags = [f"demo/v{number:03}" for number in range(600)]
    failing = {*tags[:20]}
    published: dict[str, str] = {}
    for run in range(3):
        rows = due_rows([decide(WANTED._replace(tag=tag), published) for tag in tags])
        built = [row["tag"] for row in rows if row["tag"] not in failing]
        assert (len(rows), len(built)) == ((256, 236), (256, 236), (128, 108))[run]
        published = dict.fromkeys(reversed(built), WANTED.request) | published  # the newest first
    assert published.keys() == {*tags} - failing


def test_what_was_never_published_is_built_first_and_then_what_is_oldest() -> None:
    published = {"demo-v3": OTHER, "demo-v1": OTHER, "demo-v2": OTHER, "demo-v1-r1": OTHER}  # the newest first
    verdicts = [decide(WANTED._replace(tag=f"demo-v{number}"), published) for number in (1, 2, 3, 4)]
    assert [row["tag"] for row in due_rows(verdicts)] == ["demo-v4", "demo-v1", "demo-v2", "demo-v3"]
    assert parts(due_rows(verdicts)[:1]) == [{"number": 1, "pattern": "recipe-demo-v4"}]


def test_a_recipe_that_cannot_be_read_has_no_row_of_a_workflow() -> None:
    verdict = DueVerdict(State.UNKNOWN, "it is no YAML", WANTED, error=InputError("it is no YAML"))
    assert due_rows([verdict]) == []
    assert "it is no YAML" in verdicts_page([verdict])
