"""What a build is asked of its compilers and its machine: the very words of what answers, and nothing for silence."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from ci_tools.build import built_with
from ci_tools.machine.python import Environment
from ci_tools.verify.validator import gpu_here

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"
HIPCC = "HIP version: 7.1.25424-4179531dcd\nAMD clang version 20.0.0git\n"
ICPX = "Intel(R) oneAPI DPC++/C++ Compiler 2025.2.0 (2025.2.0.20250605)\nTarget: x86_64\n"


def command(folder: Path, name: str, said: str) -> Path:
    """Write a program that says something."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\n")
    path.chmod(0o755)
    return path


def environment(home: Path, **variables: str) -> Environment:
    shown = {"PATH": f"{home / 'path'}:{os.environ['PATH']}", **variables}
    return Environment(path=home, variables=shown, log=home / "log")


@pytest.mark.parametrize(
    ("variable", "name", "said", "shown"),
    [
        pytest.param("CUDA_HOME", "nvcc", NVCC, "CUDA 13.0 (nvcc V13.0.88)", id="cuda"),
        pytest.param("ROCM_HOME", "hipcc", HIPCC, "ROCm 7.1 (HIP 7.1.25424-4179531dcd)", id="rocm"),
        pytest.param("CMPLR_ROOT", "icpx", ICPX, "oneAPI 2025.2.0 (icpx 2025.2.0.20250605)", id="xpu"),
        pytest.param("CUDA_HOME", "nvcc", "another one\n", "another one", id="other-words"),
    ],
)
def test_a_toolkit_is_what_its_compiler_says(tmp_path: Path, variable: str, name: str, said: str, shown: str) -> None:
    command(tmp_path / "bin", name, said)
    assert built_with.asked_in(environment(tmp_path, **{variable: str(tmp_path)}), {}).toolkit == shown


def test_a_compiler_is_the_one_that_the_build_would_call(tmp_path: Path) -> None:
    command(tmp_path / "path", "c++", "c++ of the path 1\nCopyright\n")
    own = command(tmp_path / "own", "mine", "mine 2\n")
    assert built_with.asked_in(environment(tmp_path), {}).compiler == "c++ of the path 1"
    assert built_with.asked_in(environment(tmp_path, CXX=f"{own} -O2"), {}).compiler == "mine 2"
    assert built_with.asked_in(environment(tmp_path, CXX="no-such"), {}).compiler == ""


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        pytest.param("torch/headeronly/version.h", '#define TORCH_VERSION \\\n  "2.10.0"\n',
                     "2.10.0 (headers)", id="of-today"),
        pytest.param("torch/csrc/api/include/torch/version.h", '#define TORCH_VERSION "2.8.0"\n',
                     "2.8.0 (headers)", id="older"),
        pytest.param("torch/headeronly/version.h", "// nothing\n", "", id="without-a-version"),
    ],
)  # fmt: skip
def test_the_torch_of_a_build_without_torch_is_that_of_its_headers(
    tmp_path: Path, name: str, text: str, shown: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert built_with.asked_in(environment(tmp_path, FATWHEEL_TORCH_INCLUDE=str(tmp_path)), {}).torch == shown


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        pytest.param({"FATWHEEL_IMAGE": "quay.io/x@sha256:1"}, "quay.io/x@sha256:1 ({})", id="container"),
        pytest.param({"ImageOS": "ubuntu24", "ImageVersion": "2026.1"}, "ubuntu24 2026.1 ({})", id="hosted"),
        pytest.param({}, "{}", id="own-machine"),
    ],
)
def test_the_image_is_named_with_the_system_in_it(tmp_path: Path, environ: dict[str, str], shown: str) -> None:
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    assert built_with.asked_in(environment(tmp_path), environ).image == shown.format(system)


@pytest.mark.parametrize(
    ("name", "said", "shown"),
    [
        pytest.param("nvidia-smi", "NVIDIA H200, 580.65.06\nNVIDIA H200, 580.65.06\n",
                     "NVIDIA H200, driver 580.65.06", id="nvidia"),
        pytest.param("nvidia-smi", "No devices were found\n", None, id="no-device"),
        pytest.param("rocm-smi", "Driver version: 6.12.12\nGPU[0]\t\t: Card Series: \t\tAMD Instinct MI300X\n",
                     "AMD Instinct MI300X, driver 6.12.12", id="amd"),
        pytest.param("rocm-smi", "Driver version: 6.12.12\n", None, id="amd-without-a-card"),
    ],
)  # fmt: skip
def test_a_gpu_is_what_its_driver_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str, shown: str | None
) -> None:
    command(tmp_path, name, said)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpu_here() == shown
