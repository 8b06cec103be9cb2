from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import ao_kernels
import pytest
import torch
from ao_kernels import native
from ao_kernels.native import Action, CudaBuild, Decision, decide_cpu, decide_cuda

BUILD = CudaBuild(cuda="13.0", architectures="9.0;10.0+PTX")


@pytest.mark.parametrize(
    ("build", "torch_cuda", "action", "reason"),
    [
        pytest.param(None, "13.0", Action.LEAVE, "this wheel holds no CUDA kernels", id="pure-wheel"),
        pytest.param(BUILD, None, Action.LEAVE, "torch 2.13.0 is built without CUDA", id="cpu-torch"),
        pytest.param(BUILD, "13.0", Action.LOAD, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX)", id="same-cuda"),
        pytest.param(BUILD, "13.2", Action.LOAD, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX)", id="other-minor"),
        pytest.param(BUILD, "12.8", Action.WARN, "these kernels are for CUDA 13.0", id="other-major"),
    ],
)
def test_the_cuda_library_is_loaded_by_the_cuda_major_version(
    build: CudaBuild | None, torch_cuda: str | None, action: Action, reason: str
) -> None:
    decision = decide_cuda(build, "2.13.0", torch_cuda)
    assert decision.action is action
    assert decision.reason.startswith(reason)


@pytest.mark.parametrize(
    ("is_in_wheel", "action"),
    [pytest.param(True, Action.LOAD, id="native-wheel"), pytest.param(False, Action.LEAVE, id="pure-wheel")],
)
def test_the_cpu_library_is_loaded_where_the_wheel_holds_it(*, is_in_wheel: bool, action: Action) -> None:
    assert decide_cpu(is_in_wheel=is_in_wheel).action is action


def test_a_wheel_for_another_cuda_warns_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CUDA", decide_cuda(BUILD, "2.13.0+cu128", "12.8"))
    with pytest.warns(UserWarning, match=r"torch 2\.13\.0\+cu128 for CUDA 12\.8.*pip install --force-reinstall"):
        native.load()


def test_what_the_build_wrote_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cuda_build.json"
    assert CudaBuild.from_file(file) is None
    file.write_text('{"cuda": "13.0", "architectures": "9.0;10.0+PTX"}')
    assert CudaBuild.from_file(file) == BUILD


@pytest.mark.parametrize(
    ("torch_cuda", "is_in_wheel", "told"),
    [
        pytest.param(
            "13.0", True, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX), CPU kernels (AVX2), else generic body", id="both"
        ),
        pytest.param(
            None, True, "CPU kernels (AVX2), else generic body: torch 2.13.0 is built without CUDA", id="cpu-torch"
        ),
        pytest.param(
            "13.0", False, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX), else generic body", id="cuda-kernels-alone"
        ),
        pytest.param(None, False, "generic body: torch 2.13.0 is built without CUDA", id="neither"),
    ],
)
def test_what_serves_is_told_in_one_line(torch_cuda: str | None, is_in_wheel: bool, told: str) -> None:  # noqa: FBT001 - a row of a table
    decisions = decide_cuda(BUILD, "2.13.0", torch_cuda), decide_cpu(is_in_wheel=is_in_wheel)
    assert native.tell(*decisions, body="AVX2") == told


def test_describe_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CUDA", Decision(action=Action.LEAVE, reason="why"))
    monkeypatch.setattr(native, "CPU", decide_cpu(is_in_wheel=False))
    assert ao_kernels.describe() == "generic body: why"


def test_the_loaded_library_is_asked_for_its_body(cpu_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CPU", decide_cpu(is_in_wheel=True))
    monkeypatch.setattr(native, "CPU_LIBRARY", cpu_library)
    assert re.match(r"CPU kernels \((plain C\+\+|AVX.*)\), else generic body", ao_kernels.describe())


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ao_kernels", *arguments]
    # The package as these tests import it, installed or not.
    env = {**os.environ, "PYTHONPATH": str(Path(ao_kernels.__file__).parents[1])}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=env)


def test_the_command_checks_the_installation() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ao_kernels.describe()}; the product on cpu is exact\n"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_command_checks_a_gpu() -> None:
    assert check("--device", "cuda").returncode == 0
