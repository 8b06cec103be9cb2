"""Which flags say only how many jobs a compiler runs at once."""

from __future__ import annotations

import pytest

from ci_tools.model.evidence import Compile
from ci_tools.observe.observation import Observed


def observed(flags: tuple[str, ...], configured: tuple[str, ...] = ()) -> Observed:
    return Observed({}, commands=(Compile("a.cu", "nvcc", flags),), configured=(configured,))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(("--threads", "1"), ("--threads", "64"), True, id="of-nvcc"),
        pytest.param(("-t4",), ("-t8",), True, id="of-nvcc-in-one-word"),
        pytest.param(("-flto=1",), ("-flto=64",), True, id="of-gcc"),
        pytest.param(("/MP",), ("/MP8",), True, id="of-msvc"),
        pytest.param(("-flto",), (), False, id="to-link-with-lto"),
        pytest.param(("-flto=8",), (), False, id="only-with-jobs"),
        pytest.param(("-DTHREADS=1",), ("-DTHREADS=64",), False, id="a-macro-of-the-code"),
        pytest.param(("-O1",), ("-O2",), False, id="another-flag"),
    ],
)
def test_a_number_of_jobs_does_not_count(one: tuple[str, ...], other: tuple[str, ...], *, is_same: bool) -> None:
    assert (observed(one).without_jobs == observed(other).without_jobs) == is_same


def test_a_number_of_jobs_for_cmake_does_not_count() -> None:
    one, other = (observed((), (f"-DCMAKE_JOB_POOLS:STRING=compile={number}", "-DA=1")) for number in (1, 64))
    assert one.without_jobs == other.without_jobs
    assert one.without_jobs != observed((), ("-DCMAKE_JOB_POOLS:STRING=compile=1", "-DA=2")).without_jobs
