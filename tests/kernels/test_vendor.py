"""A device's own kernel takes the generic body's place: the page for vendors, followed step by step."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from markdown_it import MarkdownIt

from ci_tools.doctor.documents import needed_to_publish
from ci_tools.model.plan import JobKind
from ci_tools.model.platforms import Platform
from tests.builders.compilers import CACHED, build_library, has_compiler
from tests.builders.sources import plan_of, write
from tests.kernels.exactness import SQNR_BAR
from tests.servers.prepared import TORCH, Called, run_prepared

HERE = Path(__file__).parent / "vendor"
REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/how-to/add-an-accelerator.md").read_text(encoding="utf-8")
INCLUDE = Path(torch.__file__).parent / "include"
NAME = r"`([\w./]+\.(?:cpp|py|toml|txt|yml))`"


def files_of_the_page() -> dict[str, str]:
    """Every block that is a file, by the first name in the paragraph before it."""
    blocks = [block for block in MarkdownIt().parse(PAGE) if block.type in {"inline", "fence"}]
    pairs = [(before, block) for before, block in pairwise(blocks) if block.type == "fence" and block.info != "console"]
    return {name[1]: block.content for before, block in pairs if (name := re.search(NAME, before.content))}


def test_the_page_has_every_file_of_the_repository() -> None:
    assert sorted(files_of_the_page()) == [
        ".github/workflows/acme.yml",
        "CMakeLists.txt",
        "check.py",
        "ci/acme.yml",
        "csrc/manylinux.cpp",
        "csrc/rowwise.cpp",
        "fatwheel.yml",
        "pyproject.toml",
        "src/acme_ao/__init__.py",
    ]


def test_the_plan_is_one_wheel_for_all_and_names_its_owner(tmp_path: Path) -> None:
    plan = plan_of(write(tmp_path, files_of_the_page()))
    (job,) = plan.jobs
    assert (job.kind, job.platform, job.owner) == (JobKind.NATIVE, Platform.LINUX_CPU, "@acme/kernels")


def test_the_workflow_calls_ours_with_inputs_and_grants_that_it_has() -> None:
    (job,) = yaml.safe_load(files_of_the_page()[".github/workflows/acme.yml"])["jobs"].values()
    called = yaml.safe_load((REPOSITORY / ".github/workflows/platform.yml").read_text(encoding="utf-8"))
    assert "/.github/workflows/platform.yml@" in job["uses"]
    assert set(job["with"]) <= set(called[True]["workflow_call"]["inputs"])  # YAML reads "on" as true
    granted = [grant for inner in called["jobs"].values() for grant in inner.get("permissions", {}).items()]
    granted += needed_to_publish({}, ["github:acme/ao"]).items()
    assert {name for name, _ in granted} == set(job["permissions"])
    assert {name for name, access in granted if access == "write"} == {
        name for name, access in job["permissions"].items() if access == "write"
    }


def distribution(site: Path, name: str) -> None:
    """What an installer leaves of a package whose entry point torch calls."""
    info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}
    info["entry_points.txt"] = f"[torch.backends]\n{name} = {name}:load\n"
    write(site / f"{name}-1.0.dist-info", info)


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the device as if it were installed."""
    if not has_compiler():
        pytest.skip("no C++ compiler: install g++ or set CXX")
    site = tmp_path_factory.mktemp("device")
    options = ("-std=c++20", "-O0", f"-I{INCLUDE}")
    link = [f"-L{INCLUDE.parent / 'lib'}", "-ltorch_cpu", "-lc10"]
    build_library(HERE / "device/device.cpp", site / "libacme_device.so", *options, link=link)
    shutil.copy(HERE / "device/acme_device.py", site)
    distribution(site, "acme_device")
    return site


@pytest.fixture(scope="session")
def with_kernel(device: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder with the wheel of the page."""
    project = write(tmp_path_factory.mktemp("project"), files_of_the_page())
    command = [sys.executable, "-m", "build", "--installer", "uv", "-Cbuild-dir=build", "--wheel", str(project)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | CACHED
    (project / "headers").symlink_to(INCLUDE)  # whose own name is another in each checkout
    beside = {"CCACHE_BASEDIR": str(project), "FATWHEEL_TORCH_INCLUDE": str(project / "headers")}
    subprocess.run(command, check=True, env=environment | beside)
    site = tmp_path_factory.mktemp("with-kernel")
    shutil.copytree(device, site, dirs_exist_ok=True)
    (wheel,) = (project / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def run(site: Path, *arguments: str) -> str:
    """Run Python with what is in a folder installed: a process knows but one device of this kind."""
    done = attempted(site, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def attempted(site: Path, *arguments: str) -> Called:
    path = os.pathsep.join([str(site), str(REPOSITORY / "package/src")])
    return run_prepared(arguments, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": path}, program=TORCH)


def said_by_the_page(start: str) -> str:
    """The line of a console block that starts so."""
    (line,) = re.findall(rf"^{start}.*\n", PAGE, re.MULTILINE)
    return str(line)


def table() -> list[tuple[str, ...]]:
    return re.findall(r"^\| (generic body|with the kernel above) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)


@pytest.mark.slow
def test_the_generic_body_serves_a_device_that_has_no_kernel(device: Path) -> None:
    assert said_by_the_page("generic body: ") == run(device, "-m", "ao_kernels", "--device", "acme")
    found = json.loads(run(device, str(HERE / "count.py")))
    for modes in found.values():
        for count, decibels in modes.values():
            assert count > 0
            assert decibels >= SQNR_BAR
    counts = found["bf16i4bf16_rowwise"]
    assert table()[0] == ("generic body", str(counts["eager"][0]), str(counts["compiled"][0]))


@pytest.mark.slow
def test_the_kernel_of_the_page_takes_over(with_kernel: Path) -> None:
    found = json.loads(run(with_kernel, str(HERE / "count.py")))
    counts = found.pop("bf16i4bf16_rowwise")
    assert [count for count, _ in counts.values()] == [0, 0]
    assert all(decibels >= SQNR_BAR for _, decibels in counts.values())
    assert all(count > 0 for modes in found.values() for count, _ in modes.values())  # they go on as before
    assert table()[1] == ("with the kernel above", "0", "0")


@pytest.mark.long
def test_what_was_compiled_before_calls_the_kernel_too(device: Path, with_kernel: Path) -> None:
    library = with_kernel / "acme_ao/libacme_ao.so"
    found = json.loads(run(device, str(HERE / "take_over.py"), str(library)))
    assert all(count > 0 for count in found["before"])
    assert found["after"] == [0, 0]


@pytest.mark.long
def test_the_check_of_the_page_passes(with_kernel: Path, tmp_path: Path) -> None:
    check = write(tmp_path, files_of_the_page()) / "check.py"
    run(with_kernel, str(check))
    assert said_by_the_page("kernels registered") == run(with_kernel, "-m", "ao_kernels", "--device", "acme")


@pytest.mark.slow
def test_the_check_of_the_page_fails_where_there_is_no_kernel(device: Path, tmp_path: Path) -> None:
    done = attempted(device, str(write(tmp_path, files_of_the_page()) / "check.py"))
    assert done.returncode == 1
    assert done.stderr.endswith("generic body: no kernel is registered for acme devices\n")


@pytest.mark.long
@pytest.mark.parametrize("site", ["device", "with_kernel"])
def test_the_list_of_the_page_holds_on_the_device(site: str, request: pytest.FixtureRequest) -> None:
    arguments = shlex.split(said_by_the_page(r"\$ python -m pytest").removeprefix("$ python"))
    done = run(request.getfixturevalue(site), *arguments, "-q", "-p", "no:cacheprovider")
    assert "on-acme" not in done  # nothing is skipped or failed
    assert re.search(r"^\d+ passed in", done, re.MULTILINE)


@pytest.mark.slow
def test_the_wheel_of_the_page_is_for_every_linux(with_kernel: Path) -> None:
    asked = versions_asked_for(with_kernel / "acme_ao/libacme_ao.so")
    assert asked["GLIBC"] <= (2, 28)
    assert asked["GLIBCXX"] <= (3, 4, 25)


def versions_asked_for(library: Path) -> dict[str, tuple[int, ...]]:
    """The newest version that a library needs of each kind of symbol."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_r")
        assert isinstance(section, GNUVerNeedSection)
        named = [version.name.rpartition("_") for _, versions in section.iter_versions() for version in versions]
    numbered = sorted((kind, tuple(map(int, number.split(".")))) for kind, _, number in named)
    return dict(numbered)  # the last of a kind stays


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operands", "message"),
    [
        pytest.param("x.cpu(), w, s, s", "on one acme device, got another for input", id="device"),
        pytest.param("x, w.cpu(), s, s", "on one acme device, got another for", id="weight-device"),
        pytest.param("x, w, s.cpu(), s", "on one acme device, got another for scale", id="scale-device"),
        pytest.param("x.float(), w, s, s", "input must be bfloat16, got Float", id="dtype"),
        pytest.param("x[:, :62], w, s, s", "input's last dimension must be K = 64, got 62", id="depth"),
        pytest.param("x, w, s[:, :7], s", "scale must have N = 8 columns, got 7", id="columns"),
    ],
)
def test_the_kernel_of_the_page_names_what_does_not_fit(with_kernel: Path, operands: str, message: str) -> None:
    program = f"""
import torch, ao_kernels
x, w, s = (t.to("acme") for t in (torch.ones(2, 64).bfloat16(), torch.ones(8, 32).char(), torch.ones(2, 8)))
try:
    ao_kernels.bf16i4bf16_rowwise({operands})
except RuntimeError as error:
    print(error)
"""
    assert message in run(with_kernel, "-c", program)
