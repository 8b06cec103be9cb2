"""The schema without Python: whoever comes first defines it, and the other finds it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.builders.compilers import CXX, build_library, compile_cxx, has_compiler
from tests.kernels import cpubodies
from tests.servers.prepared import TORCH, run_prepared

pytestmark = [
    pytest.mark.slow,  # they compile
    pytest.mark.skipif(not has_compiler(), reason="no C++ compiler: install g++ or set CXX"),
]

HOME = Path(torch.__file__).parent
SOURCES = Path(__file__).parents[2] / "package" / "src"
OPTIONS = ("-std=c++17", "-O0", f"-I{HOME / 'include'}", "-DTORCH_TARGET_VERSION=0x020a000000000000")
LINK = (f"-L{HOME / 'lib'}", f"-Wl,-rpath,{HOME / 'lib'}", "-ltorch_cpu", "-lc10")
PRODUCT = "42f0 c2f0 4370\n"  # 120, -120 and 240 in bfloat16


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The libraries of the CPU wheel, and the schema's once more: to torch a copy is another library."""
    folder = tmp_path_factory.mktemp("libraries")
    source = SOURCES.parent / "native" / "schema.cpp"
    schema = build_library(source, folder / "libao_kernels_schema.so", *OPTIONS, link=LINK)
    again = Path(shutil.copy(schema, folder / "again.so"))
    return {"schema": schema, "again": again, "cpu": cpubodies.build_wheels_library(folder)}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    compiled = compile_cxx(Path(__file__).parent / "host" / "program.cpp", folder / "program.o", *OPTIONS)
    subprocess.run([CXX, compiled, *LINK, "-ldl", "-o", folder / "program"], check=True)
    return folder / "program"


@pytest.mark.parametrize("names", [("schema", "cpu"), ("cpu", "schema"), ("schema", "again", "cpu")], ids="-".join)
def test_a_program_without_python_multiplies(program: Path, libraries: dict[str, Path], names: tuple[str, ...]) -> None:
    done = subprocess.run([program, *(libraries[name] for name in names)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, PRODUCT, "")


def test_without_the_schema_there_is_no_operator(program: Path, libraries: dict[str, Path]) -> None:
    done = subprocess.run([program, libraries["cpu"]], check=False, capture_output=True, text=True)
    assert done.returncode != 0


PACKAGE = """
import sys, torch, ao_kernels
linear, x = torch.nn.Linear(128, 48).bfloat16(), torch.ones(2, 128, dtype=torch.bfloat16)
ao_kernels.quantize_(linear, ao_kernels.Int4WeightOnlyConfig(32))
with torch.no_grad():
    exported = torch.export.export(linear.eval(), (x,))
    torch._inductor.aoti_compile_and_package(exported, package_path=sys.argv[1])
    print(torch._inductor.aoti_load_package(sys.argv[1])(x).double().sum().item(), linear(x).double().sum().item())
"""


@pytest.mark.long
def test_a_package_of_aotinductor_runs_without_python(libraries: dict[str, Path], tmp_path: Path) -> None:
    package = tmp_path / "layer.pt2"
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, "-W", "ignore", "-c", PACKAGE, package]
    made = subprocess.run(command, check=True, capture_output=True, text=True, env=environ)
    options = ("-std=c++20", "-O0", f"-I{HOME / 'include'}", f"-I{HOME / 'include/torch/csrc/api/include'}")
    compiled = compile_cxx(Path(__file__).parent / "host" / "package.cpp", tmp_path / "package.o", *options)
    subprocess.run([CXX, compiled, *LINK, "-ltorch", "-ldl", "-o", tmp_path / "program"], check=True)
    command = [tmp_path / "program", libraries["schema"], libraries["cpu"], package]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    sums = [float(text) for text in (*made.stdout.split(), done.stdout)]
    assert sums == pytest.approx([sums[0]] * 3, rel=0.02)


IMPORT = "import ao_kernels, ao_kernels.__main__\n"
LOAD = "import torch; torch.ops.load_library(sys.argv[1]); torch.ops.load_library(sys.argv[2])\n"
CHECK = (
    "import torch\n"
    "assert ao_kernels.__main__.is_exact('cpu')\n"
    "x = torch.ones(1, 16, dtype=torch.bfloat16, requires_grad=True)\n"
    "q, scale = ao_kernels.int8_row_quantize(torch.ones(2, 16))\n"
    "ao_kernels.bf16i8bf16_rowwise(x, q, scale).sum().backward()\n"
    "print(x.grad.sum().item(), ao_kernels.bf16i8bf16_rowwise(x.to('meta'), q.to('meta'), scale.to('meta')).shape)\n"
)


def run_python(program: str, *arguments: Path) -> tuple[str, str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = run_prepared(["-c", f"import sys\n{program}", *map(str, arguments)], env=environ, program=TORCH)
    return done.stdout, done.stderr


@pytest.mark.parametrize("order", [LOAD + IMPORT, IMPORT + LOAD], ids=["before", "after"])
def test_the_library_loads_before_or_after_the_package(libraries: dict[str, Path], order: str) -> None:
    out, err = run_python(order + CHECK, libraries["schema"], libraries["cpu"])
    assert (out, err) == ("32.0 torch.Size([1, 2])\n", "")


def test_another_operator_of_the_name_is_told() -> None:
    other = "torch.library.Library('ao', 'DEF')\nother.define('bf16i8bf16_rowwise(Tensor x) -> Tensor')\n"
    _, err = run_python(f"import torch\nother = {other}{IMPORT}")
    assert "ao::bf16i8bf16_rowwise must be ao::bf16i8bf16_rowwise(Tensor input, Tensor weight, Tensor scale)" in err
