from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from ao_kernels.formats import FORMATS

from ci_tools.formats.tar import tarfile
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, sha256_of
from ci_tools.plan.make import make_plan
from tests.builders.compilers import CACHED
from tests.servers.prepared import TORCH, run_prepared

pytestmark = pytest.mark.slow

PACKAGE = Path(__file__).parents[2] / "package"


def build(kind: str, source: Path, out: Path, **environment: str) -> Path:
    """Build in an environment of its own, as a user's pip does."""
    command = [sys.executable, "-m", "build", "--installer", "uv", f"--{kind}", "--outdir", str(out), str(source)]
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"AO_KERNELS_CPU", "AO_KERNELS_CUDA", "PYTHONPATH"}
    }
    subprocess.run(command, check=True, capture_output=True, text=True, env=inherited | CACHED | environment)
    (built,) = out.iterdir()
    return built


def unpack(sdist: Path, folder: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return folder / "ao_kernels-0.1.0"


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sdist = build("sdist", PACKAGE, tmp_path_factory.mktemp("sdist"))
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture
def cuda(cuda_home: Path) -> dict[str, str]:
    headers = str(Path(torch.__file__).parent / "include")
    return {"AO_KERNELS_CUDA": "1", "CUDA_HOME": str(cuda_home), "FATWHEEL_TORCH_INCLUDE": headers}


@pytest.fixture
def cpu() -> dict[str, str]:
    return {"AO_KERNELS_CPU": "1", "FATWHEEL_TORCH_INCLUDE": str(Path(torch.__file__).parent / "include")}


def files_in(folder: Path) -> dict[Path, str]:
    return {file.relative_to(folder): sha256_of(file) for file in folder.rglob("*") if file.is_file()}


def test_the_sdist_holds_the_kernels(unpacked: Path) -> None:
    assert files_in(unpacked / "kernels") == files_in(PACKAGE.parent / "kernels")


def test_the_sdist_makes_itself_again(unpacked: Path, tmp_path: Path) -> None:
    again = unpack(build("sdist", unpacked, tmp_path / "sdist"), tmp_path / "again")
    assert files_in(again) == files_in(unpacked)


@pytest.mark.long
def test_the_cuda_wheel_of_the_sdist_is_that_of_the_tree(unpacked: Path, cuda: dict[str, str], tmp_path: Path) -> None:
    tree = build("wheel", PACKAGE, tmp_path / "tree", **cuda)
    sdist = build("wheel", unpacked, tmp_path / "sdist", **cuda)
    assert tree.name == sdist.name == "ao_kernels-0.1.0-py3-none-linux_x86_64.whl"
    assert sha256_of(tree) == sha256_of(sdist)
    assert libraries_in(tree) == ["libao_kernels_cpu.so", "libao_kernels_cuda.so", "libao_kernels_schema.so"]


def libraries_in(wheel: Path) -> list[str]:
    return sorted(Path(name).name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so"))


@pytest.mark.long
def test_the_cpu_wheel_of_the_sdist_is_that_of_the_tree(unpacked: Path, cpu: dict[str, str], tmp_path: Path) -> None:
    tree = build("wheel", PACKAGE, tmp_path / "tree", **cpu)
    sdist = build("wheel", unpacked, tmp_path / "sdist", **cpu)
    assert sha256_of(tree) == sha256_of(sdist)
    assert libraries_in(tree) == ["libao_kernels_cpu.so", "libao_kernels_schema.so"]


LOAD = "torch.ops.load_library(sys.argv[1])\n"
IMPORT = "import ao_kernels, ao_kernels.__main__\n"
CHECK = "assert ao_kernels.__main__.is_exact('cpu')\nprint(ao_kernels.describe('cpu'))\n"


@pytest.mark.parametrize(
    "order",
    [pytest.param(IMPORT + LOAD, id="after"), pytest.param(LOAD + IMPORT, id="before", marks=pytest.mark.long)],
)
def test_the_cpu_library_may_load_before_or_after_the_package(cpu: dict[str, str], order: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(build("wheel", PACKAGE, tmp_path / "wheel", **cpu)) as wheel:
        wheel.extractall(tmp_path / "site")
    library = tmp_path / "site" / "ao_kernels" / "libao_kernels_cpu.so"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = run_prepared(["-c", f"import sys, torch\n{order}{CHECK}", str(library)], env=environ, program=TORCH)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"CPU kernels \(.*\) serve {', '.join(form.operator for form in FORMATS)}\n", done.stdout)


PURE = "ao_kernels-0.1.0-py3-none-any.whl"
NATIVE = "ao_kernels-0.1.0-py3-none-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("config", "wheel"), [("fatwheel.yml", PURE), ("fatwheel-cpu.yml", NATIVE)], ids=["reference", "cpu"]
)
def test_native_sources_alone_decide_which_wheel_serves_linux_cpu(config: str, wheel: str) -> None:
    planned = make_plan(
        PACKAGE / config, Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    )
    serving = {job.wheel for job in planned.plan.jobs for cell in job.covers if cell.platform == "linux-cpu"}
    assert serving == {wheel}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param(
            "CUDA_HOME", "/nowhere", "CUDA_HOME must name a CUDA toolkit", id="cuda-home", marks=pytest.mark.long
        ),
        pytest.param(
            "TORCH_CUDA_ARCH_LIST",
            "9.0;Hopper",
            'must list architectures such as 9.0.*got "Hopper"',
            id="arch",
            marks=pytest.mark.long,
        ),
        pytest.param("FATWHEEL_TORCH_INCLUDE", "/nowhere", "FATWHEEL_TORCH_INCLUDE must name a folder", id="headers"),
    ],
)
def test_the_build_names_what_it_misses(
    cuda: dict[str, str], name: str, value: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        build("wheel", PACKAGE, tmp_path, **cuda | {name: value})
    assert re.search(message, " ".join((failed.value.stdout + failed.value.stderr).split()))
