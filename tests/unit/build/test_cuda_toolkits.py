"""The variables that a build for CUDA gets from its toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build.cuda_toolkits import CudaToolkits
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.model.platforms import Accelerator
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders.planned import ABIS, asked, planned
from tests.builders.sources import world, write

CUDA = NVIDIA


@pytest.mark.parametrize(
    ("accelerator", "is_told"),
    [
        pytest.param(Accelerator(CUDA, Minor(13, 2)), True, id="by-the-object"),
        pytest.param(Accelerator(CUDA, Minor(12, 9)), False, id="not-tried"),
        pytest.param(Accelerator(ROCM, Minor(7, 2)), False, id="another-compiler"),
        pytest.param(None, False, id="none"),
    ],
)
def test_nvcc_is_told_to_name_by_the_object_where_it_is_known_to(
    accelerator: Accelerator | None,
    is_told: bool,  # noqa: FBT001 - a parameter
) -> None:
    told = accelerator.kind.variables(accelerator.version) if accelerator else {}
    assert ("NVCC_PREPEND_FLAGS" in told) == is_told


@pytest.mark.parametrize(
    ("toolchain", "headers", "is_lacking"),
    [
        pytest.param(ToolchainKind.AUTO, ("cuda.h",), True, id="the-compiler-alone"),
        pytest.param(ToolchainKind.SYSTEM, ("cuda.h",), False, id="asked-for"),
        pytest.param(ToolchainKind.AUTO, ("cuda.h", "cusparse.h"), False, id="all-that-is-included"),
    ],
)
def test_an_installed_toolkit_without_an_included_header_is_passed_over(
    tmp_path: Path, toolchain: ToolchainKind, headers: tuple[str, ...], *, is_lacking: bool
) -> None:
    home = write(tmp_path / "cuda", {f"include/{name}": "" for name in headers})
    nvcc = write(home, {"bin/nvcc": "#!/bin/sh\necho 'release 13.0, V13.0.88'\n"}) / "bin/nvcc"
    nvcc.chmod(0o755)
    plan = planned([asked(accelerators=(Accelerator(CUDA, Minor(13, 0)),), toolchain=toolchain)], abi=ABIS[0])
    toolkits = CudaToolkits(catalog.load(), world(tmp_path, CUDA_HOME=str(home)))
    assert toolkits._list_lacking(plan.jobs[0], ["cusparse.h"]) == (("cuSPARSE",) if is_lacking else ())  # noqa: SLF001
