"""The variables that a build for CUDA gets from its toolkit."""

from __future__ import annotations

import pytest

from ci_tools.build.cuda_toolkits import name_variables
from ci_tools.model.platforms import Accelerator, AcceleratorKind
from ci_tools.model.versions import Minor

CUDA = AcceleratorKind.CUDA


@pytest.mark.parametrize(
    ("accelerator", "is_told"),
    [
        pytest.param(Accelerator(CUDA, Minor(13, 2)), True, id="by-the-object"),
        pytest.param(Accelerator(CUDA, Minor(12, 9)), False, id="not-tried"),
        pytest.param(Accelerator(AcceleratorKind.ROCM, Minor(7, 2)), False, id="another-compiler"),
        pytest.param(None, False, id="none"),
    ],
)
def test_nvcc_is_told_to_name_by_the_object_where_it_is_known_to(
    accelerator: Accelerator | None,
    is_told: bool,  # noqa: FBT001 - a parameter
) -> None:
    assert bool(name_variables(accelerator)) == is_told
