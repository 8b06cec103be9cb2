from __future__ import annotations

import ctypes
import os
import re
import warnings
from pathlib import Path

import ao_kernels
import pytest
import torch
from ao_kernels import native
from ao_kernels.native import Action, CudaBuild, Decision, decide_cpu, decide_cuda, decide_gpu, has_kernel

from tests.servers.prepared import TORCH, Called, run_prepared

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


@pytest.mark.parametrize(
    ("serves", "told"),
    [
        pytest.param(True, f"{BUILD.kernels} serve some, the generic body all else", id="code"),
        pytest.param(False, f"generic body: {BUILD.kernels} have no code for compute capability 8.0", id="none"),
    ],
)
def test_a_gpu_is_told_whether_the_kernels_have_code_for_it(*, serves: bool, told: str) -> None:
    assert native.tell_of_device(decide_gpu(BUILD, (8, 0), serves=serves), ["some"]) == told


def test_what_multiplies_is_asked_of_the_library(cpu_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CPU", decide_cpu(is_in_wheel=True))
    monkeypatch.setattr(native, "CPU_LIBRARY", cpu_library)
    assert ao_kernels.describe("cpu", (1, 64, 64)).endswith("; 1 x 64 x 64: weights decoded in registers")
    assert ": panels of dequantized weights" in ao_kernels.describe("cpu", (300, 64, 64))


@pytest.mark.slow
def test_the_cuda_library_decides_by_device_and_shape(host_library: Path) -> None:
    """As a GPU's library, run on the host: what it answers is what its own calls go by."""

    def asked(rows: int, group_size: int) -> str | None:
        return native.ask(host_library, "ao_kernels_cuda_serves", 0, *map(ctypes.c_int64, (rows, 64, 128, group_size)))

    assert [asked(rows, 32) for rows in (1, 32, 33, 128, 129)] == [
        *["streaming"] * 2,
        *["tiles"] * 2,
        "slabs and torch's product",
    ]
    assert asked(1, 48) == "slabs and torch's product"
    pretend = ctypes.CDLL(str(host_library)).pretend_to_have_code
    pretend(0)
    assert asked(1, 32) is None
    pretend(1)


def test_an_older_gpu_is_described_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILD", BUILD)
    monkeypatch.setattr(native, "CUDA", decide_cuda(BUILD, "2.13.0", "13.0"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", {torch.device("cuda:1"): (8, 0)}.get)
    monkeypatch.setattr(native, "ask", lambda *_: None)
    assert ao_kernels.describe("cuda:1") == f"generic body: {BUILD.kernels} have no code for compute capability 8.0"


def test_a_gpu_without_code_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BUILD", BUILD)
    monkeypatch.setattr(native, "CUDA", decide_cuda(BUILD, "2.13.0", "13.0"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", {torch.device("cuda:1"): (8, 0)}.get)
    monkeypatch.setattr(native, "ask", lambda *_: None)
    native.warn_without_code.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            native.warn_without_code(torch.device("cuda:1"))
    native.warn_without_code.cache_clear()
    what = f"ao-kernels: generic body: {BUILD.kernels} have no code for compute capability 8.0"
    assert [str(one.message) for one in warned] == [what]


@pytest.mark.parametrize(
    ("device", "told"),
    [
        pytest.param("cpu", "generic body: this wheel holds no CPU kernels", id="cpu"),
        pytest.param("cuda", "generic body: this wheel holds no CUDA kernels", id="cuda"),
        pytest.param("xpu", "generic body: no kernel is registered for xpu devices", id="another"),
    ],
)
def test_the_generic_body_is_given_its_reason_for_each_device(
    device: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "CUDA", decide_cuda(None, "2.13.0", None))
    monkeypatch.setattr(native, "CPU", decide_cpu(is_in_wheel=False))
    assert ao_kernels.describe(device) == told


def test_a_kernel_that_anybody_registers_is_described() -> None:
    before = ao_kernels.describe("mps")
    library = torch.library.Library("ao", "IMPL")
    library.impl("bf16i8bf16_rowwise", lambda *_: None, "MPS")
    during = ao_kernels.describe(torch.device("mps"))
    library._destroy()  # noqa: SLF001 - torch's own tests do, for no other way forgets a kernel
    assert before == ao_kernels.describe("mps") == "generic body: no kernel is registered for mps devices"
    assert during == "kernels registered for mps devices serve bf16i8bf16_rowwise, the generic body all else"


def test_the_loaded_cpu_library_is_described(cpu_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "CPU", decide_cpu(is_in_wheel=True))
    monkeypatch.setattr(native, "CPU_LIBRARY", cpu_library)
    assert re.match(r"CPU kernels \((plain C\+\+|AVX.*)\) serve ", ao_kernels.describe("cpu"))


def check(*arguments: str) -> Called:
    # The package as these tests import it, installed or not.
    env = {**os.environ, "PYTHONPATH": str(Path(ao_kernels.__file__).parents[1])}
    return run_prepared(["-m", "ao_kernels", *arguments], env=env, program=TORCH)


def test_the_command_checks_the_installation() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ao_kernels.describe('cpu')}; the product on cpu is exact\n"


@pytest.mark.skipif(native.CPU.action is Action.LOAD, reason="the readme shows what the pure wheel says")
def test_the_readme_shows_what_the_command_says() -> None:
    readme = (Path(__file__).parents[2] / "package" / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^\$ python -m ao_kernels\n(.*\n)", readme, re.MULTILINE)
    assert shown is not None
    assert shown[1] == check().stdout


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        pytest.param("nonsense", "Expected one of cpu, ", id="unknown"),
        pytest.param("meta", "Cannot copy out of meta tensor", id="without-data"),
        pytest.param("hpu", "No module named 'torch.hpu'", id="not-installed"),
    ],
)
def test_a_device_that_cannot_be_used_is_named(device: str, reason: str) -> None:
    done = check("--device", device)
    assert (done.returncode, done.stdout) == (2, "")
    must = f"argument --device: the device must be one that torch computes on here, got '{device}': {reason}"
    assert must in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch is built with CUDA")
def test_a_device_that_torch_is_not_built_for_is_named() -> None:
    assert "got 'cuda': Torch not compiled with CUDA enabled" in check("--device", "cuda").stderr


@pytest.mark.skipif(has_kernel("bf16u4bf16_rowwise", "xpu"), reason="there is a kernel")
def test_the_readme_says_that_no_kernel_is_registered_for_xpu() -> None:
    readme = (Path(__file__).parents[2] / "package" / "README.md").read_text(encoding="utf-8")
    assert "no kernel is registered for XPU yet" in " ".join(readme.split())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_command_checks_a_gpu() -> None:
    assert check("--device", "cuda").returncode == 0
