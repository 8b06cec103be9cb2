from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ao_kernels
import pytest
import torch
from ao_kernels import native
from ao_kernels.native import Action, CudaBuild, Decision, decide

BUILD = CudaBuild(cuda="13.0", architectures="9.0;10.0+PTX")


@pytest.mark.parametrize(
    ("build", "torch_cuda", "action", "reason"),
    [
        pytest.param(None, "13.0", Action.LEAVE, "generic body: this wheel holds no CUDA kernels", id="pure-wheel"),
        pytest.param(BUILD, None, Action.LEAVE, "generic body: torch 2.13.0 is built without CUDA", id="cpu-torch"),
        pytest.param(BUILD, "13.0", Action.LOAD, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX)", id="same-cuda"),
        pytest.param(BUILD, "13.2", Action.LOAD, "CUDA kernels for CUDA 13.0 (9.0;10.0+PTX)", id="other-minor"),
        pytest.param(BUILD, "12.8", Action.WARN, "generic body: these kernels are for CUDA 13.0", id="other-major"),
    ],
)
def test_the_library_is_loaded_by_the_cuda_major_version(
    build: CudaBuild | None, torch_cuda: str | None, action: Action, reason: str
) -> None:
    decision = decide(build, "2.13.0", torch_cuda)
    assert decision.action is action
    assert decision.reason.startswith(reason)


def test_a_wheel_for_another_cuda_warns_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "DECISION", decide(BUILD, "2.13.0+cu128", "12.8"))
    with pytest.warns(UserWarning, match=r"torch 2\.13\.0\+cu128 for CUDA 12\.8.*pip install --force-reinstall"):
        native.load()


def test_what_the_build_wrote_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cuda_build.json"
    assert CudaBuild.from_file(file) is None
    file.write_text('{"cuda": "13.0", "architectures": "9.0;10.0+PTX"}')
    assert CudaBuild.from_file(file) == BUILD


def test_describe_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "DECISION", Decision(action=Action.LEAVE, reason="generic body: why"))
    assert ao_kernels.describe() == "generic body: why"


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
