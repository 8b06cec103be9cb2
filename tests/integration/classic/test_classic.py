"""A project whose matrix does not collapse: pybind and ATen, so that each torch, Python and CUDA has a wheel.

All of it is planned. A batch of two Pythons is built for CPUs, and installed beside a right and a wrong torch.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.machine import package_index
from ci_tools.machine import python as interpreter
from ci_tools.machine.storage import cache_folder
from ci_tools.model.versions import Python
from tests.builders.wheels import make
from tests.integration.conftest import CommandLine
from tests.servers.prepared import TORCH, run_prepared

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="builds for x86-64 Linux"),
]
PROJECT = Path(__file__).with_name("project")
BATCH = ("linux-cpu-torch2.13-cp311", "linux-cpu-torch2.13-cp312")
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(PROJECT, tmp_path_factory.mktemp("classic") / "project"))


def test_a_runner_is_planned_for_each_torch_and_cuda_and_a_wheel_for_each_python(
    fatwheel: CommandLine, source: Path
) -> None:
    plan = json.loads(fatwheel("plan", "--format", "json", cwd=source).stdout)
    wheels = {job["wheel"] for job in plan["jobs"]}
    assert (plan["cells"], len(plan["skipped"]), len(wheels)) == (24, 0, 24)
    assert "classic-1.0+cu126torch2.14-cp314-cp314-manylinux_2_28_x86_64.whl" in wheels
    listed = fatwheel("plan", "--format", "github", cwd=source).stdout.splitlines()
    builds = next(line.removeprefix("builds=") for line in listed if line.startswith("builds="))
    rows = {row["name"]: row["jobs"].count("-cp3") for row in json.loads(builds)["include"]}
    assert rows == {
        f"linux-cuda-{cuda}-torch{torch}": 4 for cuda in ("cu126", "cu130") for torch in ("2.12", "2.13", "2.14")
    }


def lay_torch(folder: Path) -> None:
    """Put a CPU build of torch where pip looks for both Pythons: none of the parts that a build gets depends on it."""
    places = [Path(place) for place in package_index.users_places(os.environ).folders]
    found = [wheel for place in places if place.is_dir() for wheel in place.glob("torch-2.13.0+cpu-cp311-cp311-*.whl")]
    if not found:
        pytest.skip("needs a CPU build of torch 2.13 for Python 3.11 in a folder of pip's settings (find-links)")
    folder.mkdir()
    for python in ("cp311", "cp312"):
        (folder / found[0].name.replace("cp311", python)).symlink_to(found[0])


@pytest.fixture(scope="module")
def built(source: Path, fatwheel: CommandLine) -> dict[str, Path]:
    """The wheels of the batch, by Python."""
    if any(interpreter.find(Python.parse(name), {}) is None for name in ("3.11", "3.12")):
        pytest.skip("needs Python 3.11 and 3.12")
    links = source.with_name("links")
    lay_torch(links)
    command = ["build", "cpu.yml", "--job", ",".join(BATCH), "--keep-going", "--out", "dist"]
    cache = (
        cache_folder(os.environ) / "lent"
    )  # apart from the user's own: one of these wheels is not what its name says
    ran = fatwheel(*command, cwd=source, PIP_FIND_LINKS=str(links), FATWHEEL_CACHE=str(cache))
    assert ran.status == 0, ran.stderr
    assert ran.stderr.count("without its libraries") == 1, ran.stderr  # one torch, lent to each
    return {wheel.name.split("-")[2]: wheel for wheel in (source / "dist").glob("*.whl")}


def test_each_wheel_of_a_batch_is_for_its_python_and_torch(built: dict[str, Path], source: Path) -> None:
    names = {python: wheel.name for python, wheel in built.items()}
    assert names == {
        python: f"classic-1.0+torch2.13-{python}-{python}-manylinux_2_35_x86_64.whl" for python in ("cp311", "cp312")
    }
    keys = {json.loads(path.read_text())["key"] for path in (source / "dist/receipts").glob("classic-1.0*.json")}
    assert len(keys) == len(BATCH)


@pytest.fixture(scope="module", params=["pip", "uv"])
def installer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str | Path]]:
    """An environment of this Python, and the command that installs into it."""
    home = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python = home / "bin/python"
    if request.param == "uv":
        return home, [UV, "pip", "install", "--python", python]
    return home, [sys.executable, "-m", "pip", "--python", python, "install"]


def install(command: list[str | Path], *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}  # no place but those named
    return subprocess.run([*command, "--no-index", *words], check=False, capture_output=True, text=True, env=env)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="imports the wheel of Python 3.11")
def test_a_wheel_is_installed_and_runs_beside_its_torch_and_is_refused_beside_another(
    built: dict[str, Path], installer: tuple[Path, list[str | Path]], tmp_path: Path
) -> None:
    home, command = installer
    for version in ("2.12.1", "2.13.0"):
        make(tmp_path / version, f"torch-{version}-py3-none-any.whl")
    assert install(command, next((tmp_path / "2.12.1").glob("*.whl"))).returncode == 0
    beside = install(command, "--find-links", tmp_path / "2.12.1", built["cp311"])
    assert (beside.returncode != 0, "torch" in beside.stderr and "2.13" in beside.stderr) == (True, True), beside.stderr
    right = install(command, "--find-links", tmp_path / "2.13.0", built["cp311"])
    assert right.returncode == 0, right.stderr
    packages = next(home.glob("lib/python*/site-packages"))
    for found in packages.glob("torch*"):
        shutil.rmtree(found)
    code = "import torch, classic; print(classic.__file__, classic.scale(torch.ones(2), 3.0).tolist())"
    ran = run_prepared(["-c", code], env={**os.environ, "PYTHONPATH": str(packages)}, program=TORCH)
    assert ran.stdout == f"{packages / 'classic/__init__.py'} [3.0, 3.0]\n", ran.stderr


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="installs the wheel of Python 3.12 into 3.11")
def test_the_other_wheel_of_the_batch_is_refused_by_this_python(
    built: dict[str, Path], installer: tuple[Path, list[str | Path]]
) -> None:
    refused = install(installer[1], "--no-deps", built["cp312"])
    assert refused.returncode != 0
    assert "cp312" in refused.stderr
