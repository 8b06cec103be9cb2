from __future__ import annotations

from dataclasses import replace

import pytest

from ci_tools.catalog import SourceSeconds
from ci_tools.model.evidence import (
    Binding,
    CellEvidence,
    Compile,
    Evidence,
    Extension,
    Extensions,
    PlatformEvidence,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Minor, Python
from ci_tools.plan.batches import assign_batches, assign_shards
from tests.builders.plans import PROJECT, job_of

TORCH = Minor(2, 10)
RATE = SourceSeconds(host=60, device=60)


def evidence_of(sources: int) -> Evidence:
    """Return evidence of a library of so many sources, each of which takes two minutes of one core."""
    compiles = tuple(Compile(f"{number}.cu", "nvcc", ()) for number in range(sources))
    shown = CellEvidence(
        extensions=Extensions.SOME,
        extensions_where="setup.py:1",
        python_api=PythonApi(Binding.FULL, "a.cu:1"),
        torch_abi=TorchAbi(Binding.FULL, "a.cu:1"),
        built=(Extension("demo/_C.so", compiles),) if sources else (),
    )
    platform = PlatformEvidence(platform=Platform.LINUX_CUDA, native_files=(), shown=shown)
    return Evidence(project=PROJECT, source_sha256="0" * 64, commit=None, platforms=(platform,))


def job_for(python: str, torch: Minor = TORCH, container: str | None = "image") -> Job:
    job, version = job_of("demo-1.0.whl", Platform.LINUX_CUDA, "9.0"), Python.parse(python)
    name = f"linux-cuda-cu130-torch{torch}-{version.abi_tag}"
    return replace(job, name=name, python=version, python_stays=True, torch=torch, container=container)


FOUR = tuple(map(job_for, ("3.11", "3.12", "3.13", "3.14t")))
BATCH = "linux-cuda-cu130-torch2.10"


@pytest.mark.parametrize(
    ("jobs", "sources", "batches"),
    [
        pytest.param(FOUR, 1, [BATCH] * 4, id="small-ones-share-a-runner"),
        pytest.param(FOUR, 30, [f"{BATCH}-cp311-cp312"] * 2 + [f"{BATCH}-cp313-cp314t"] * 2,
                     id="two-fit-into-half-an-hour"),
        pytest.param(FOUR, 40, [""] * 4, id="large-ones-do-not"),
        pytest.param(FOUR, 0, [""] * 4, id="nobody-knows-how-long-they-take"),
        pytest.param([job_for("3.11"), job_for("3.11", Minor(2, 13))], 1, ["", ""], id="another-torch-is-set-up-anew"),
        pytest.param([job_for("3.11", container=None), job_for("3.12", container=None)], 1, ["", ""],
                     id="a-runner-without-an-image-has-one-python"),
        pytest.param([replace(job, python_stays=False) for job in FOUR[:2]], 1, ["", ""],
                     id="jobs-for-any-python-differ-in-more"),
    ],
)  # fmt: skip
def test_batches(jobs: tuple[Job, ...], sources: int, batches: list[str]) -> None:
    assert [job.batch for job in assign_batches(jobs, evidence_of(sources), RATE)] == batches


def on_own(job: Job) -> Job:
    return replace(job, runner=("self-hosted", "cuda"))


@pytest.mark.parametrize(
    ("jobs", "sources", "asked", "shards"),
    [
        pytest.param(FOUR[:1], 30, None, [1], id="a-quarter-of-an-hour"),
        pytest.param(FOUR[:1], 40, None, [1], id="twenty-minutes"),
        pytest.param(FOUR[:1], 200, None, [5], id="twenty-minutes-for-each"),
        pytest.param(FOUR[:1], 2000, None, [20], id="at-most-what-runs-at-once"),
        pytest.param(FOUR, 400, None, [5] * 4, id="four-share-what-runs-at-once"),
        pytest.param([replace(job, minutes=30) for job in FOUR], 400, None, [10] * 4, id="more-for-the-time-limit"),
        pytest.param(FOUR[:1], 0, None, [1], id="nobody-knows-how-long-it-takes"),
        pytest.param([on_own(FOUR[0])], 200, None, [1], id="nobody-knows-how-many-runners-there-are"),
        pytest.param([on_own(FOUR[0])], 4, 3, [3], id="the-config-knows"),
        pytest.param(FOUR[:1], 400, 1, [1], id="the-config-wants-no-shards"),
        pytest.param([replace(FOUR[0], platform=Platform.WINDOWS_CUDA)], 200, 4, [1], id="on-linux-only"),
    ],
)  # fmt: skip
def test_shards(jobs: list[Job], sources: int, asked: int | None, shards: list[int]) -> None:
    assert [job.shards for job in assign_shards(jobs, evidence_of(sources), RATE, asked)] == shards


def test_a_job_in_shards_is_in_no_batch() -> None:
    jobs = [*assign_shards(FOUR, evidence_of(4), RATE, 2)]
    assert {job.batch for job in assign_batches(jobs, evidence_of(4), RATE)} == {""}
