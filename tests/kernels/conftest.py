"""The bodies that must agree: the generic one, the CPU kernel, the CUDA kernel run on the host, and on a GPU.

With `--device acme`, it is what serves that device instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import ao_kernels
import pytest
import torch
from ao_kernels.formats import FORMATS, INT4, WeightFormat
from torch import Tensor

from tests.builders.compilers import build_library, has_compiler
from tests.kernels import cpubodies
from tests.kernels.cpubodies import BUILT_ALREADY
from tests.kernels.hostbodies import HOST, INCLUDES, QUICK, compile_bodies

Body = Callable[..., Tensor]

SCHEMA = "bf16i4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor"


def compile_for_host(library: Path) -> None:
    torch_home = Path(torch.__file__).parent
    defines = ["-DUSE_CUDA", "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    # The bodies take the time of a call, not the binding, which compiles sooner without optimization.
    options = ["-std=c++17", "-O0", "-fvisibility=hidden", *INCLUDES, f"-I{torch_home / 'include'}", *defines]
    bodies = compile_bodies(library.parent, *QUICK)
    # Its stand-ins for CUDA must win over the originals, where torch has them.
    link = [str(bodies), f"-L{torch_home / 'lib'}", "-ltorch_cpu", "-Wl,-Bsymbolic"]
    build_library(HOST / "bf16i4bf16_rowwise.cpp", library, *options, link=link)


@pytest.fixture(scope="session")
def host_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_compiler():
        pytest.skip("no C++ compiler: install g++ or set CXX")
    library = tmp_path_factory.mktemp("host") / "libao_on_host.so"
    compile_for_host(library)
    return library


@pytest.fixture(scope="session")
def kernel_on_host(host_library: Path) -> Iterator[Body]:
    fragment = torch.library.Library("ao_on_host", "FRAGMENT")
    fragment.define(SCHEMA)
    torch.ops.load_library(host_library)
    yield torch.ops.ao_on_host.bf16i4bf16_rowwise
    del fragment


@pytest.fixture(scope="session")
def cpu_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_compiler():
        pytest.skip("no C++ compiler: install g++ or set CXX")
    if BUILT_ALREADY in os.environ:
        return Path(os.environ[BUILT_ALREADY])
    return cpubodies.build(tmp_path_factory.mktemp("cpu"))


@pytest.fixture(scope="session")
def cpu_bodies(cpu_library: Path) -> Iterator[dict[str, Body]]:
    fragments = [torch.library.Library(f"ao_on_{name}", "FRAGMENT") for name in (*cpubodies.NEEDED, "chosen")]
    for fragment in fragments:
        for form in FORMATS:
            fragment.define(form.schema)
    torch.ops.load_library(cpu_library)
    yield find_bodies(INT4)
    del fragments


def find_bodies(form: WeightFormat) -> dict[str, Body]:
    """Return the operators of a format that `cpu_bodies` has loaded."""
    return {name: getattr(getattr(torch.ops, f"ao_on_{name}"), form.operator) for name in (*cpubodies.NEEDED, "chosen")}


@pytest.fixture(scope="session")
def bodies_of(cpu_bodies: dict[str, Body]) -> Callable[[WeightFormat], dict[str, Body]]:
    """The same for any format."""
    assert cpu_bodies
    return find_bodies


def on_device(device: str) -> Body:
    """Whatever serves a device, with operands and a product on the CPU."""
    return lambda *operands: ao_kernels.bf16i4bf16_rowwise(*(operand.to(device) for operand in operands)).cpu()


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The device whose body is held to the list: the CPU, unless `--device` says another."""
    return request.config.getoption("--device", default=None) or "cpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", help="the torch device whose body tests/kernels/test_rowwise.py holds to its list")


@pytest.fixture
def body(request: pytest.FixtureRequest, device: str) -> Body:
    if request.param == "generic":
        return ao_kernels.bf16i4bf16_rowwise
    if request.param == "kernel_on_host":
        found: Body = request.getfixturevalue("kernel_on_host")
        return found
    if request.param == "kernel_on_cpu":
        bodies: dict[str, Body] = request.getfixturevalue("cpu_bodies")
        return bodies["chosen"]
    if request.param == "kernel_on_gpu":
        if not torch.cuda.is_available() or not ao_kernels.describe("cuda").startswith("CUDA"):
            pytest.skip(f"needs a GPU and the CUDA wheel; {ao_kernels.describe('cuda')}")
        return on_device("cuda")
    return on_device(device)
