"""One release to several targets at once, with something going wrong at every point of the way."""

from __future__ import annotations

import pytest

from tests.builders import transactions
from tests.builders.transactions import Point
from tests.servers.faults import Fault

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    """Every point, tried; the table of them lies in the folder of the test run."""
    tried = transactions.table()
    (tmp_path_factory.getbasetemp() / "faults.md").write_text(transactions.summary(tried))
    return tried


def of(points: list[Point], *faults: Fault) -> list[Point]:
    return [point for point in points if Fault(point.fault) in faults]


def test_one_point_of_fifty_is_survived() -> None:
    points = transactions.table(parts=[0], of=50)
    assert len({point.fault for point in points}) > 3  # of the kinds of faults, which follow each other
    assert [point for point in points if point.complaints] == []


@pytest.mark.long
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower().replace("_", "-"))
def test_readers_see_old_or_new_and_one_more_run_finishes(fault: Fault, points: list[Point]) -> None:
    assert of(points, fault)
    assert [point for point in of(points, fault) if point.complaints] == []


@pytest.mark.long
def test_there_are_at_least_200_points_in_every_part_of_the_transaction(points: list[Point]) -> None:
    assert len(points) >= 200
    assert {transactions.phase(point) for point in points} == set(transactions.PHASES)


@pytest.mark.long
def test_a_killed_publisher_is_killed(points: list[Point]) -> None:
    assert {point.first for point in of(points, Fault.KILLED_BEFORE, Fault.KILLED_AFTER)} == {-9}


@pytest.mark.long
def test_what_a_client_can_try_again_it_tries_again(points: list[Point]) -> None:
    assert {point.first for point in of(points, Fault.ERROR, Fault.BUSY, Fault.SILENT, Fault.CUT_UPLOAD)} == {0}


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "status", "sentence"),
    [
        (Fault.UNKNOWN, 2, "the credentials are refused"),
        (Fault.DENIED, 2, "these credentials may not"),
        (Fault.SKEWED, 3, "this machine's clock is wrong"),
        (Fault.LOOP, 3, "Temporary Redirect"),
        (Fault.FULL, 3, "File too large"),
    ],
)
def test_what_only_a_user_can_mend_is_said(fault: Fault, status: int, sentence: str, points: list[Point]) -> None:
    disturbed = [point for point in of(points, fault) if point.first and point.what != "HEAD"]  # which has no body
    assert {(point.first, sentence in point.said) for point in disturbed} == {(status, True)}


@pytest.mark.long
def test_a_wrong_byte_is_put_right_by_the_run_that_stored_it(points: list[Point]) -> None:
    corrupted = [point for point in of(points, Fault.CORRUPT) if not point.where.endswith((".whl", ".metadata"))]
    assert {(point.first, point.mended) for point in corrupted} == {(0, "the same run")}


@pytest.mark.long
def test_a_wheel_that_is_not_what_was_sent_is_never_shown(points: list[Point]) -> None:
    said = [(point.first, point.said) for point in of(points, Fault.CORRUPT) if point.where.endswith(".whl")]
    assert said
    assert all(status == 1 and "nothing was published" in text for status, text in said)
