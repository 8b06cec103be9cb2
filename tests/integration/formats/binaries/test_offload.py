"""Device images in other people's wheels, which icpx of 2025 and of 2026 made, and the GPUs their builds were given."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.catalog.accelerators.xpu import intel_gpus
from ci_tools.formats.binaries.fatbinary import units
from ci_tools.machine import package_index

pytestmark = [pytest.mark.long, pytest.mark.slow]

# The GPUs after `-device` in the options that torchcodec-xpu's images of SPIR-V hold.
GIVEN = "pvc bmg dg2 arl-h mtl-h lnl-m ptl-h ptl-u".split()  # noqa: SIM905 - as they stand there
FOR_GPUS = {f"spir64_gen:{image}" for name in GIVEN for image in intel_gpus().named[name]}


class Held(NamedTuple):
    """A library in a wheel, and the images and kernels that it holds."""

    file: str
    sha256: str
    library: str
    images: set[str]
    kernels: int


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(
            Held(
                "torchcodec_xpu-0.17.0-cp312-cp312-manylinux_2_24_x86_64.whl",
                "9f5a0d482b783be45b8cd3cb762bd1b1653964c885c65794259159288272adcb",
                "torchcodec_xpu/xpu_ops9.cpython-312-x86_64-linux-gnu.so",
                {"spir64", *FOR_GPUS},
                4,
            ),
            id="packed-machine-code-of-2026-by-torch",
        ),
        pytest.param(
            Held(
                "xpu_kernels-0.3.0-py3-none-manylinux_2_35_x86_64.whl",
                "d346056469cb634a9f1605805cf04a372354d2abe669a93e4672f2e4d3f3a34c",
                "xpu_kernels/int8/libxpuint8.so",
                {"spir64"},
                43,
            ),
            id="spirv-of-2025",
        ),
        pytest.param(
            Held(
                "dpctl-0.22.1-0-cp311-cp311-manylinux_2_28_x86_64.whl",
                "19b90062f02ca9a8e8c534169e607b251c05d0da51a4c21d3c3e7c96d9e70bb7",
                "dpctl/libDPCTLSyclInterface.so",
                {"spir64"},
                10,
            ),
            id="spirv-of-2026",
        ),
    ],
)
def test_the_images_of_a_stranger_s_library(held: Held, tmp_path: Path) -> None:
    index, path = package_index.users_index(os.environ), tmp_path / held.file
    project = held.file.partition("-")[0].replace("_", "-")
    package_index.download(project, held.file, held.sha256, path, index=index, progress=lambda *_: None)
    with zipfile.ZipFile(path) as wheel, Path(wheel.extract(held.library, tmp_path)).open("rb") as content:
        (unit,) = units(content)
    assert {str(code.image): len(code.kernels or ()) for code in unit.codes} == dict.fromkeys(held.images, held.kernels)
