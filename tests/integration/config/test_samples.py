"""Projects of every kind, each from `fatwheel init` to a wheel that is installed and imported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.symbols import missing
from ci_tools.model.versions import Minor
from tests.integration.conftest import CommandLine, own_python
from tests.proof.cuda_builds import torch_symbols_of
from tests.servers.package_index import index_of

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "samples"
ALL = ["linux-cpu", "linux-aarch64", "macos-arm64", "windows"]
CUDA = ["linux-cuda"]
FIRST = ["3.11", "3.12", "3.13", "3.14", "3.15"]  # the Pythons of the newest torch
SIX = ["3.10", *FIRST]


def start(fatwheel: CommandLine, sample: str, folder: Path, *options: str) -> Path:
    """Copy a sample, let `init` write its config, and return its folder."""
    project = folder / sample
    shutil.copytree(SAMPLES / sample, project)
    ran = fatwheel("init", *options, cwd=project)
    assert (ran.status, ran.stdout) == (0, "fatwheel.yml\n"), ran.stderr
    assert "next: look through fatwheel.yml, then run `fatwheel plan`" in ran.stderr
    return project


@pytest.mark.parametrize(
    ("sample", "options", "name", "platforms", "pythons", "torch", "wheels"),
    [
        pytest.param("pure-hatchling", (), "tidy-text", ALL, [*SIX, "3.13t", "3.14t", "3.15t"], None, 1, id="pure"),
        pytest.param("cpp-extension", (), "torch-clip", ALL, FIRST, ["2.15"], 20, id="CppExtension"),
        pytest.param("cuda-aten", (), "fast-norm", CUDA, FIRST, ["2.15"], 5, id="CUDAExtension"),
        pytest.param("cuda-cmake", (), "fast-scan", CUDA, FIRST, ["2.15"], 5, id="find_package(Torch)"),
        pytest.param("nanobind", (), "quick-hash", ALL, SIX, None, 12, id="nanobind"),
        pytest.param("cython", (), "edit-distance-fast", ALL, SIX, None, 24, id="Cython"),
        pytest.param("maturin", (), "bit-count", ALL, [*SIX, "3.13t", "3.14t", "3.15t"], None, 4, id="maturin"),
        pytest.param("meson-python", (), "line-count", ALL, SIX, None, 24, id="meson-python"),
        pytest.param("two-packages", ("--package", "acme-core"), "acme-core", ALL,
                     [*FIRST, "3.13t", "3.14t", "3.15t"], None, 1, id="one-of-two"),
        pytest.param("two-packages", ("--package", "packages/speed"), "acme-speed", ALL, FIRST, None, 20,
                     id="the-other"),
    ],
)  # fmt: skip
def test_what_init_writes_is_what_plan_plans(  # noqa: PLR0913, PLR0917 - a table
    fatwheel: CommandLine, tmp_path: Path, sample: str, options: tuple[str, ...], name: str, platforms: list[str],
    pythons: list[str], torch: list[str] | None, wheels: int,
) -> None:  # fmt: skip
    project = start(fatwheel, sample, tmp_path, *options)
    ran = fatwheel("plan", "--format", "json", cwd=project)
    assert ran.status == 0, ran.stderr
    plan = json.loads(ran.stdout)
    asked = plan["request"]
    assert (asked["name"], [one["platform"] for one in asked["platforms"]]) == (name, platforms)
    assert sorted(asked["pythons"]) == sorted(pythons)
    assert (asked["torch"] and asked["torch"]["versions"]) == torch
    assert (len(plan["jobs"]), plan["skipped"], plan["warnings"]) == (wheels, [], [])


def test_of_two_packages_a_person_names_one(fatwheel: CommandLine, tmp_path: Path) -> None:
    project = tmp_path / "two"
    shutil.copytree(SAMPLES / "two-packages", project)
    ran = fatwheel("init", cwd=project)
    assert ran.status == 2
    assert "the source has 2 packages: acme-core (packages/core), acme-speed (packages/speed)" in ran.stderr
    assert not (project / "fatwheel.yml").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("sample", "options"),
    [
        ("pure-hatchling", ()),
        ("cpp-extension", ("--torch", "2.13")),
        ("nanobind", ()),
        ("cython", ()),
        pytest.param("maturin", (), marks=pytest.mark.skipif(not shutil.which("cargo"), reason="needs Rust's cargo")),
        ("meson-python", ()),
        ("two-packages", ("--package", "acme-speed")),
    ],
)
def test_a_project_is_released_with_what_init_wrote(
    fatwheel: CommandLine, tmp_path: Path, sample: str, options: tuple[str, ...]
) -> None:
    """One Python and this machine's own level in place of those of the starter; all else as it was written."""
    project = start(fatwheel, sample, tmp_path, *options)
    config = project / "fatwheel.yml"
    text = re.sub(r"^python: .*", f"python: [{own_python()}]", config.read_text(), flags=re.MULTILINE)
    config.write_text(text.replace("  linux-cpu:", "  linux-cpu:\n    wheel-platform: linux", 1))
    ran = fatwheel("release", "--to", "dir:dist/index", "--here", cwd=project)
    assert ran.status == 0, ran.stderr
    assert "pip install --extra-index-url" in ran.stdout


@pytest.mark.long
def test_an_sdist_on_the_index_is_released_with_what_init_wrote(fatwheel: CommandLine, tmp_path: Path) -> None:
    project = shutil.copytree(SAMPLES / "cython", tmp_path / "project")  # Cython writes into it
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(project)]
    subprocess.run(command, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    config, cache = tmp_path / "house" / "fatwheel.yml", str(tmp_path / "cache")
    with index_of("edit-distance-fast", {sdist.name: sdist.read_bytes()}, hashes=True) as index:
        command = ["init", "house", "--sdist", "edit-distance-fast"]
        ran = fatwheel(*command, cwd=tmp_path, PIP_INDEX_URL=index.url, FATWHEEL_CACHE=cache)
    assert (ran.status, ran.stdout) == (0, "house/fatwheel.yml\n"), ran.stderr
    text = re.sub(r"^python: .*", f"python: [{own_python()}]", config.read_text(), flags=re.MULTILINE)
    config.write_text(text.replace("  linux-cpu:", "  linux-cpu:\n    wheel-platform: linux", 1))
    ran = fatwheel("release", "--to", "dir:index", "--here", cwd=config.parent, FATWHEEL_CACHE=cache)
    assert ran.status == 0, ran.stderr
    assert "pip install --extra-index-url" in ran.stdout
    assert [path.name for path in config.parent.rglob("*.tar.gz")] == []  # the package index has the sdist


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="CUDA wheels are built on Linux")
@pytest.mark.parametrize("sample", ["cuda-aten", "cuda-cmake"])
def test_a_cuda_project_is_built_and_audited_with_what_init_wrote(
    fatwheel: CommandLine, tmp_path: Path, sample: str
) -> None:
    """One Python, one chip and a compiler of the package index, without torch; only a CUDA torch could load it."""
    project = start(fatwheel, sample, tmp_path, "--torch", "2.13")
    config = project / "fatwheel.yml"
    text = re.sub(r"^python: .*", f"python: [{own_python()}]", config.read_text(), flags=re.MULTILINE)
    one = '    cuda: ["13.0"]\n    archs: ["9.0"]\n    toolchain: pypi\n    wheel-platform: linux\n'
    config.write_text(re.sub(r"    cuda: .*\n    archs: .*\n", one, text))
    (job,) = json.loads(fatwheel("plan", "--format", "json", cwd=project).stdout)["jobs"]
    ran = fatwheel("build", "--job", job["name"], "--out", "dist", cwd=project)
    assert ran.status == 0, ran.stderr
    assert "builds with the parts of torch 2.13.0+cu130, without its libraries" in ran.stderr
    ran = fatwheel("audit", "--plan", "dist/plan.json", cwd=project)
    assert (ran.status, ran.stdout.startswith("1 wheel, 0 errors, ")) == (0, True), ran.stdout
    asked = torch_symbols_of(project / "dist" / job["wheel"])
    assert any("3c104cuda" in name for name in asked)
    assert not missing(asked, Minor(2, 13), NVIDIA)
