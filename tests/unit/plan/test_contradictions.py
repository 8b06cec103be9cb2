"""Warnings of a request whose torch, CUDA and trials go together nowhere, with what to write."""

from __future__ import annotations

import pytest

from ci_tools.model.request import Torch, Validation
from ci_tools.model.versions import Minor
from tests.builders.planned import ABIS, CUDAS, asked, planned

FULL, STABLE = ABIS[1], ABIS[3]


@pytest.mark.parametrize(
    ("abi", "torch", "said"),
    [
        pytest.param(FULL, "2.13.0", 'torch 2.13.0, but no wheel is for it, only for 2.10, 2.14; write `validate: {torch: "2.14.1"}`', id="another-torch"),  # noqa: E501
        pytest.param(FULL, "2.14.1+cu118", 'torch 2.14.1+cu118, but no wheel is for cu118; write `validate: {torch: "2.14.1+cu130"}`', id="another-cuda"),  # noqa: E501
        pytest.param(STABLE, "2.9.1", "torch 2.9.1, but no wheel is for it", id="below-the-stable-abi"),
    ],
)  # fmt: skip
def test_a_torch_of_the_trials_that_no_wheel_is_for_is_warned_of(abi: object, torch: str, said: str) -> None:
    versions = Torch(versions=(Minor(2, 10), Minor(2, 14)))
    plan = planned([asked()], abi=abi, torch=versions, validate=Validation(torch=torch))  # type: ignore[arg-type]
    assert [said in warning for warning in plan.warnings] == [True]


@pytest.mark.parametrize(
    ("abi", "torch"),
    [
        pytest.param(FULL, "2.14.0", id="its-own"),
        pytest.param(FULL, "2.14.1+cu130", id="its-own-cuda"),
        pytest.param(FULL, "2.14.1+cpu", id="for-cpus"),
        pytest.param(STABLE, "2.13.0", id="between-two-that-a-stable-abi-serves"),
    ],
)
def test_a_torch_of_the_trials_that_a_wheel_is_for_is_not_warned_of(abi: object, torch: str) -> None:
    plan = planned([asked()], abi=abi, validate=Validation(torch=torch))  # type: ignore[arg-type]
    assert [warning for warning in plan.warnings if "`validate`" in warning] == []


def test_a_torch_of_the_trials_beside_no_torch_axis_is_not_warned_of() -> None:
    assert planned([asked()], torch=None, validate=Validation(torch="2.9.1")).warnings == ()


def test_a_cuda_that_no_asked_torch_is_built_for_is_warned_of() -> None:
    plan = planned([asked(accelerators=CUDAS[1:])], abi=FULL, torch=Torch(versions=(Minor(2, 14),)))
    assert plan.warnings == (
        'linux-cuda: no torch of the request is built for cuda 12.9; torch 2.14 has cuda: ["12.6", "13.0", "13.2"]',
    )
