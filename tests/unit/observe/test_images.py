"""What the flags of a compiler of kernels ask for, and what a request does, in the same words."""

from __future__ import annotations

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.evidence import Compile
from ci_tools.observe.images import list_images, read_command_images, read_images


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param("-fsycl", {"spir64"}, id="by-default"),
        pytest.param("-fsycl -fsycl-targets=spir64-unknown-unknown", {"spir64"}, id="a-whole-triple"),
        pytest.param(
            "-fsycl -fsycl-targets=spir64_gen,spir64 -Xs -device|pvc,bmg",
            {"spir64", "spir64_gen:pvc", "spir64_gen:bmg"},
            id="passed-on-to-ocloc",
        ),
        pytest.param(
            "-fsycl -fsycl-targets=spir64_gen -Xsycl-target-backend=spir64_gen -device|lnl-m",
            {"spir64_gen:lnl-m"},
            id="passed-on-by-its-target",
        ),
        pytest.param("-fsycl -fsycl-targets=spir64_gen", None, id="gpus-that-are-not-named"),
        pytest.param("-fsycl -fsycl-targets=intel_gpu_mtl_h", {"spir64_gen:mtl-h"}, id="one-gpu-as-a-target"),
        pytest.param("-fsycl -fsycl-targets=spir64_gen -fsycl-targets=spir64", {"spir64"}, id="the-last-one-counts"),
        pytest.param("-fsycl -fsycl-targets=spir64_x86_64", {"spir64_x86_64"}, id="for-a-cpu"),
        pytest.param("-gencode arch=compute_90,code=[sm_90,compute_90]", {"sm_90", "compute_90"}, id="cuda"),
        pytest.param("--offload-arch=gfx90a,gfx942:xnack+", {"gfx90a", "gfx942:xnack+"}, id="rocm"),
        pytest.param("-O3", None, id="none"),
    ],
)
def test_the_images_that_flags_ask_for(flags: str, expected: set[str] | None) -> None:
    found = read_images(flag.replace("|", " ") for flag in flags.split(" "))
    assert (None if found is None else set(found)) == expected


def test_a_source_without_kernels_asks_for_none() -> None:
    host, device = Compile("a.cpp", "c++", ("-O3",)), Compile("b.cpp", "icpx", ("-fsycl",))
    assert (read_command_images([host]), read_command_images([host, device])) == ((), ("spir64",))


def test_the_images_of_a_request_by_kind() -> None:
    asked = ((CUDA, "9.0a"), (CUDA, "10.0+PTX"), (ROCM, "gfx942"), (XPU, "mtl-h"))
    assert [list_images(kind, [arch]) for kind, arch in asked] == [
        {"sm_90a"},
        {"sm_100", "compute_100"},
        {"gfx942"},
        {"spir64_gen:mtl-h"},
    ]
    assert list_images(XPU, ["pvc", "bmg"]) == {"spir64_gen:pvc", "spir64_gen:bmg"}
