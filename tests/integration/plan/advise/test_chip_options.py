"""One file that forces an architecture on all files of an extension."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.advised import PYTHONS, SETUPTOOLS, consult
from tests.builders.sources import demo

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what setup.py builds is observed on Linux"),
    pytest.mark.slow,  # many real processes
]

CHIP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

nvcc = ["-gencode", "arch=compute_90a,code=sm_90a"]
setup(
    name="demo",
    version="1.0",
    ext_modules=[CUDAExtension("_C", ["a.cu", "b.cu", "c.cu"], extra_compile_args={"cxx": [], "nvcc": nvcc})],
    cmdclass={"build_ext": BuildExtension},
)
"""
HOPPER = '#include <torch/all.h>\n__device__ void f() { asm("wgmma.fence.sync.aligned;"); }\n'


@pytest.mark.parametrize(
    ("sources", "advice"),
    [
        pytest.param([HOPPER, "", ""], [
            "1 of 3 files of _C uses features that only sm_90a has, and all 3 are compiled for it",
            "a.cu:2: wgmma", "setup.py:4: compute_90a",
        ], id="one-needs-it"),
        pytest.param([HOPPER, HOPPER, HOPPER], [], id="all-need-it"),
        pytest.param(["", "", ""], [], id="none-is-seen-to-need-it"),
        pytest.param([HOPPER, "#include <cutlass/gemm.h>\n", "#include <cute/layout.hpp>\n"], [], id="others-may"),
    ],
)  # fmt: skip
def test_one_file_that_forces_an_architecture_on_all_is_named(
    tmp_path: Path, sources: list[str], advice: list[str]
) -> None:
    config = f'{PYTHONS}torch: ["2.12"]\nplatforms:\n  linux-cuda: {{owner: us, cuda: ["12.9"], archs: ["9.0"]}}\n'
    kernels = dict(zip(["a.cu", "b.cu", "c.cu"], sources, strict=True))
    files = {"fatwheel.yml": config, "pyproject.toml": SETUPTOOLS, "setup.py": CHIP, **kernels}
    _, advised, _ = consult(demo(tmp_path / "a", files))
    found = [(one.sentence, *one.option.places) for one in advised.advice if one.option.name == "one-chip"]
    assert [line for lines in found for line in lines] == advice
