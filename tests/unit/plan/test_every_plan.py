"""What holds of every plan there is: each kind of evidence with each kind of request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ci_tools.model.plan import JobKind
from tests.builders.planned import every_plan


def test_every_cell_is_covered_or_skipped_exactly_once() -> None:
    for plan in every_plan():
        cells = Counter([item.cell for item in plan.covered] + [item.cell for item in plan.skipped])
        torches = len(plan.request.torch.versions) if plan.request.torch else 1
        points = (
            sum(max(1, len(one.accelerators)) for one in plan.request.platforms) * torches * len(plan.request.pythons)
        )
        assert set(cells.values()) <= {1}
        assert len(cells) == plan.cells == points
        assert Counter(cell for job in plan.jobs for cell in job.covers) == Counter(item.cell for item in plan.covered)


def test_every_covered_cell_names_a_job_that_covers_it() -> None:
    for plan in every_plan():
        covers = {(job.name, cell) for job in plan.jobs for cell in job.covers}
        assert {(item.job, item.cell) for item in plan.covered} == covers
        assert all(item.reason for item in (*plan.covered, *plan.skipped))


def test_every_job_has_a_name_and_a_wheel_of_its_own() -> None:
    for plan in every_plan():
        assert len({job.name for job in plan.jobs}) == len(plan.jobs)
        assert len({job.wheel for job in plan.jobs}) == len(plan.jobs)


def test_every_python_that_builds_a_wheel_makes_that_wheel() -> None:
    for plan in every_plan():
        for job in plan.jobs:
            abi = job.wheel.split("-")[-2]
            assert job.python.free_threaded is (
                abi.endswith("t") or (abi == "none" and _only_free_threaded(job.covers))
            )
            assert job.python_stays is (abi not in {"none", "abi3"})


def _only_free_threaded(cells: Iterable[object]) -> bool:
    return all(str(cell).endswith("t") for cell in cells)


def test_every_axis_that_stays_keeps_its_cells_apart() -> None:
    for plan in every_plan():
        for job, found in ((job, plan.request) for job in plan.jobs if job.kind is JobKind.NATIVE):
            assert len({cell.platform for cell in job.covers}) == 1
            assert len({cell.accelerator and cell.accelerator.version for cell in job.covers}) == 1 or (
                found.platforms[0].one_per_major
            )
            if job.requires_torch:
                assert len({cell.torch for cell in job.covers}) == 1
                assert job.requires_torch == f">={job.torch},<{job.torch and job.torch.next}"
