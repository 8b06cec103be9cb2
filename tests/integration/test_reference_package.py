"""ao-kernels all the way: the plan, the wheels, their bytes, the index, and what a user installs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from ci_tools.formats.tar import tarfile
from ci_tools.machine.storage import sha256_of
from tests.builders.wheels import make
from tests.integration.conftest import CommandLine, Ran

PURE = "ao_kernels-0.1.0-py3-none-any.whl"
CUDA = "ao_kernels-0.1.0+cu130-py3-none-manylinux_2_28_x86_64.whl"
SDIST = "ao_kernels-0.1.0.tar.gz"
ROCM = "  linux-rocm:\n"
TORCH = "2.13.0"  # of the package's config, and of these tests

slow = pytest.mark.slow


def plan(fatwheel: CommandLine, checkout: Path) -> Ran:
    return fatwheel("plan", "package/fatwheel.yml", "--format", "json", cwd=checkout)


@pytest.fixture
def copy(checkout: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkout, tmp_path / "copy"))


def test_the_request_of_288_cells_is_served_by_three_wheels(fatwheel: CommandLine, checkout: Path) -> None:
    planned = json.loads(plan(fatwheel, checkout).stdout)
    assert planned["cells"] == 288
    assert [job["wheel"] for job in planned["jobs"]] == [PURE, CUDA.replace("cu130", "cu129"), CUDA]


def test_one_hip_file_brings_the_rocm_job_with_its_owner(fatwheel: CommandLine, copy: Path) -> None:
    (copy / "kernels/deep/down").mkdir(parents=True)
    (copy / "kernels/deep/down/new.hip").write_text("// HIP\n")
    planned = json.loads(plan(fatwheel, copy).stdout)
    assert {job["name"]: job["owner"] for job in planned["jobs"]}["linux-rocm-rocm7.1"] is None
    assert [warning for warning in planned["warnings"] if "has no owner" in warning] != []
    config = copy / "package/fatwheel.yml"
    config.write_text(config.read_text().replace(ROCM, f'{ROCM}    owner: "@rocm/team"\n'))
    jobs = {job["name"]: job["owner"] for job in json.loads(plan(fatwheel, copy).stdout)["jobs"]}
    assert jobs["linux-rocm-rocm7.1"] == "@rocm/team"


def release(fatwheel: CommandLine, checkout: Path) -> Ran:
    return fatwheel("release", "package/fatwheel.yml", "--to", "dir:dist/index", "--here", cwd=checkout)


@pytest.fixture(scope="module")
def cached(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose objects are compiled once for all runs, and whose wheels are tried by its commands only.

    They are tried with the torch of these tests: to install another takes as long as all the rest. The tests in
    `make proof`, and `make release`, take the package as it is.
    """
    root = Path(shutil.copytree(checkout, tmp_path_factory.mktemp("cached") / "checkout"))
    config = root / "package/fatwheel.yml"
    index = lend_torch(tmp_path_factory.mktemp("torch"))
    text = config.read_text().replace("  imports: [ao_kernels]\n", f"  imports: []\n  torch-index: {index}\n")
    config.write_text(text)
    return root


def lend_torch(folder: Path) -> str:
    """Return an index with a wheel of torch that leads to the one that runs these tests, by a path file (site)."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("needs a torch")
    packages = str(Path(found.origin).parents[1])
    wheel = make(folder / "torch", f"torch-{TORCH}-py3-none-any.whl", {"torch_of_the_tests.pth": packages.encode()})
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>\n')
    return folder.as_uri()


@pytest.fixture(scope="module")
def released(fatwheel: CommandLine, cached: Path) -> Ran:
    ran = release(fatwheel, cached)
    assert ran.status == 0, ran.stderr
    return ran


@pytest.fixture(scope="module")
def whole(fatwheel: CommandLine, checkout: Path) -> Path:
    """The folder of a release of the package as it is."""
    ran = release(fatwheel, checkout)
    assert ran.status == 0, ran.stderr
    return checkout / "dist"


@slow
def test_what_is_made_lies_where_installers_look(released: Ran, cached: Path) -> None:
    index = cached / "dist/index"
    assert [path.relative_to(index).as_posix() for path in sorted(index.rglob("*.whl"))] == [PURE, f"cu130/{CUDA}"]
    assert (index / SDIST).is_file()
    address = (index / "cu130").as_uri()
    assert released.stdout.endswith(f"pip install --extra-index-url {address} ao-kernels==0.1.0+cu130\n")


@slow
def test_what_could_not_be_built_or_tried_here_is_said(released: Ran) -> None:
    assert "the package index has no compiler of CUDA 12.9" in released.stdout
    assert "python -m ao_kernels --device cuda" in released.stdout.split("not exercised")[-1]


@slow
@pytest.mark.usefixtures("released")
def test_a_second_release_does_no_work(fatwheel: CommandLine, cached: Path) -> None:
    again = release(fatwheel, cached)
    assert (again.status, "nothing was built" in again.stdout) == (0, True)
    assert "validate " not in again.stderr


@pytest.mark.long
@slow
def test_another_checkout_gives_the_same_bytes(fatwheel: CommandLine, whole: Path, copy: Path) -> None:
    shutil.rmtree(copy / "dist", ignore_errors=True)
    for job in ("sdist", "pure", "linux-cuda-cu130"):
        ran = fatwheel("build", "package/fatwheel.yml", "--job", job, "--out", "out", cwd=copy)
        assert ran.status == 0, ran.stderr
    for name in (SDIST, PURE, CUDA):
        assert sha256_of(copy / "out" / name) == sha256_of(whole / name)


@pytest.mark.long
@slow
def test_the_unpacked_sdist_gives_the_same_cuda_wheel(
    fatwheel: CommandLine, checkout: Path, whole: Path, tmp_path: Path
) -> None:
    with tarfile.open(whole / SDIST) as sdist:
        sdist.extractall(tmp_path, filter="data")
    config = (checkout / "package/fatwheel.yml").read_text()
    config = config.replace(
        "  path: ..\n  subdirectory: package\n  include: [/package/, /kernels/]\n", "  path: ao_kernels-0.1.0\n"
    )
    (tmp_path / "fatwheel.yml").write_text(config)
    ran = fatwheel("build", "--job", "linux-cuda-cu130", "--out", "out", cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    assert sha256_of(tmp_path / "out" / CUDA) == sha256_of(whole / CUDA)


@slow
@pytest.mark.usefixtures("released")
def test_audit_holds_the_wheels_against_the_plan(fatwheel: CommandLine, cached: Path, tmp_path: Path) -> None:
    config = ("--config", "package/fatwheel.yml", "--format", "json")
    assert fatwheel("audit", f"dist/{PURE}", f"dist/{CUDA}", *config, cwd=cached).stdout == "[]\n"
    other = tmp_path / CUDA.replace("cu130", "cu129")
    shutil.copy(cached / "dist" / CUDA, other)
    ran = fatwheel("audit", other, *config, cwd=cached)
    assert (ran.status, {found["rule"] for found in json.loads(ran.stdout)}) == (1, {"names", "sbom"})


@slow
def test_pip_install_from_a_checkout_is_pure(checkout: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        tmp_path,
        checkout / "package",
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == PURE
    kinds = {Path(name).suffix for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert kinds == {".py", ".typed"}
