"""Accelerators by the names that others know them by."""

from __future__ import annotations

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.accelerators.rocm import ROCM as AMD
from ci_tools.catalog.accelerators.xpu import XPU as INTEL
from ci_tools.model.platforms import Accelerator, name_archs_for_torch
from ci_tools.model.versions import Minor

CUDA = Accelerator(NVIDIA, Minor(13, 0))
ROCM = Accelerator(AMD, Minor(7, 1))
XPU = Accelerator(INTEL)


@pytest.mark.parametrize(
    ("accelerator", "archs", "expected"),
    [
        pytest.param(CUDA, ("9.0", "10.0+PTX"), {"TORCH_CUDA_ARCH_LIST": "9.0;10.0+PTX"}, id="cuda"),
        pytest.param(ROCM, ("gfx90a", "gfx942"), {"PYTORCH_ROCM_ARCH": "gfx90a;gfx942"}, id="rocm"),
        pytest.param(XPU, ("pvc", "bmg"), {"TORCH_XPU_ARCH_LIST": "pvc,bmg"}, id="xpu"),
        pytest.param(XPU, (), {"TORCH_XPU_ARCH_LIST": ""}, id="xpu-without-gpus-is-told-so"),
        pytest.param(CUDA, (), {}, id="cuda-without"),
        pytest.param(None, ("9.0",), {}, id="no-accelerator"),
    ],
)
def test_a_build_is_told_its_gpus_in_torch_s_own_variable(
    accelerator: Accelerator | None, archs: tuple[str, ...], expected: dict[str, str]
) -> None:
    assert name_archs_for_torch(accelerator, archs) == expected
