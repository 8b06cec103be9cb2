"""Each of our recipes as it stands, from its source to an installed wheel: only upstream's code is replaced.

tests/samples/upstreams has what upstream's builds ask for. The source is fetched from a repository of that shape, with
its submodules, or from a package index on 127.0.0.1; the compilers, torch's headers and the toolkit are real ones.
"""

from __future__ import annotations

import html
import json
import os
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from packaging.tags import parse_tag
from packaging.utils import parse_wheel_filename

from ci_tools.build.jobs import Made, build
from ci_tools.errors import FatwheelError
from ci_tools.index.units import Item
from ci_tools.machine import python as interpreter
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from ci_tools.model.files import Level
from ci_tools.model.request import STABLE
from ci_tools.model.versions import Python
from ci_tools.plan.make import Planned, make_plan
from ci_tools.publish.foresight import core_of
from ci_tools.publish.notes import notes
from ci_tools.recipes.check import check_recipes
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import copy_release
from ci_tools.recipes.shelf import find_recipe
from ci_tools.verify import files
from tests.builders.sources import git
from tests.builders.upstreams import git_variables, make_repository, pack_sdist
from tests.servers.package_index import index_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("keeps_bytecode")]

PYTHON = "3.13"
VERSION = "4.11.0.92"  # of the stand-in for OpenCV
# Folders of the user's cache: what is fetched, and the objects of compile units.
SHARED = ("tools", "toolchains", "torch", "torch-parts", "units", "wheels")


class Case(NamedTuple):
    """A recipe, where its source is, the torch that is built with, and what comes out for Python 3.13 and CUDA 13.0."""

    recipe: str
    ref: str  # the tag of upstream's repository; "" for an sdist
    address: str
    torch: str  # the package index has one for CUDA 13.0; "" for wheels without torch
    tag: str
    title: str
    wheel: str
    patches: tuple[str, ...]
    later: tuple[str, ...]  # the tags of the wheels for later Pythons
    imports: str  # what a Python without torch and without a GPU can run of the wheel


CASES = (
    Case(
        "nunchaku", "v1.0.2", "https://github.com/nunchaku-tech/nunchaku", "2.13",
        "nunchaku-v1.0.2-py313-torch2.13.0-cu130",
        "Nunchaku v1.0.2 Wheel for Python 3.13 + PyTorch 2.13.0 + CUDA 13.0",
        "nunchaku-1.0.2+cu130sm89torch2.13.0-cp313-cp313-manylinux_2_28_x86_64.whl",
        ("local-version.patch", "archs.patch"), ("cp314-cp314",),
        "import nunchaku; assert nunchaku.__version__ == '1.0.2'",
    ),
    Case(
        "flash-attn", "v2.8.2", "https://github.com/Dao-AILab/flash-attention", "2.13",
        "flash-attn-v2.8.2-py313-torch2.13.0-cu130",
        "Flash Attention v2.8.2 Wheel for Python 3.13 + PyTorch 2.13.0 + CUDA 13.0",
        "flash_attn-2.8.2-cp313-cp313-manylinux_2_28_x86_64.whl",
        (), ("cp314-cp314",), "import flash_attn; assert flash_attn.__version__ == '2.8.2'",
    ),
    Case(
        "sageattention", "v2.2.0", "https://github.com/thu-ml/SageAttention", "2.12",
        "sageattention-v2.2.0-py313-torch2.12.1-cu130",
        "SageAttention v2.2.0 Wheel for Python 3.13 + PyTorch 2.12.1 + CUDA 13.0",
        "sageattention-2.2.0+cu130sm89torch2.12.1-cp313-cp313-manylinux_2_28_x86_64.whl",
        (), ("cp314-cp314",), "import sageattention; assert sageattention.KERNELS == ('fused', 'qattn')",
    ),
    Case(
        "cupy-cuda13x", "v13.6.0", "https://github.com/cupy/cupy", "",
        "cupy-cuda13x-v13.6.0-py313-torch2.10.0-cu130",
        "CuPy-CUDA13x v13.6.0 Wheel for Python 3.13 + PyTorch 2.10.0 + CUDA 13.0",
        "cupy_cuda13x-13.6.0+cu130sm89-cp313-cp313-manylinux_2_28_x86_64.whl",
        ("name.patch",), ("cp314-cp314", "cp314-cp314t"), "import cupy; assert cupy.add(1) in (0, -1)",
    ),
    Case(
        "opencv-python", "", "", "",
        "opencv-python-v4.11.0.92-cu130",
        "OpenCV-Python v4.11.0.92 Wheel for CUDA 13.0",
        "opencv_python-4.11.0.92+cu130sm89-cp37-abi3-manylinux_2_28_x86_64.whl",
        ("limited-api.patch",), ("cp314-cp314t",),
        "import cv2; assert cv2.getBuildInformation() == 'NVIDIA GPU arch: 89-real'; assert cv2.add() in (0, -1)",
    ),
)  # fmt: skip
SOURCES = [pytest.param(case, id=case.recipe) for case in CASES]
LONG = (
    "cupy-cuda13x",
    "flash-attn",
)  # of the others, one builds with torch and one by CMake


class Place(NamedTuple):
    """A folder with an upstream, the variables that let a recipe find it, and the commit of its tag."""

    folder: Path
    variables: dict[str, str]
    commit: str

    def outside(self, *, usual: bool = False, **more: str) -> Outside:
        """Return a run's context that finds the upstream; with `usual`, and the package index of this machine."""
        own = {name: value for name, value in self.variables.items() if not usual or not name.startswith("PIP_")}
        return Outside(environ={**os.environ, **own, **more}, cache=self.folder / "cache", reporter=Silent())


@pytest.fixture
def place(case: Case, tmp_path: Path) -> Iterator[Place]:
    """Yield an upstream of the shape of the case's, in a cache that has the user's toolkits and nothing else."""
    own = cache_folder(os.environ)
    for name in SHARED:
        (own / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / name).symlink_to(own / name)
    if case.ref:
        repositories = make_repository(case.recipe, case.ref, tmp_path / "upstream")
        commit = git(repositories[""], "rev-parse", "HEAD")
        if case.recipe == "cupy-cuda13x":
            add_next_series(repositories[""])
        yield Place(tmp_path, git_variables(case.address, repositories), commit)
        return
    sdist = pack_sdist(case.recipe, f"opencv_contrib_python-{VERSION}", tmp_path)
    served = {f"opencv_contrib_python-{VERSION}.tar.gz": sdist}
    with index_of("opencv-contrib-python", served, hashes=True) as index:
        yield Place(tmp_path, {"PIP_INDEX_URL": index.url, "PIP_EXTRA_INDEX_URL": ""}, "")


def add_next_series(cupy: Path) -> None:
    """Tag a version 14.1.0, which no longer needs fastrlock, as the recipe says of it."""
    for name, old, new in (("cupy/_version.py", "13.6.0", "14.1.0"), ("pyproject.toml", ', "fastrlock>=0.5"', "")):
        text = (cupy / name).read_text(encoding="utf-8")
        (cupy / name).write_text(text.replace(old, new), encoding="utf-8")
    git(cupy, "commit", "--quiet", "--all", "--message=14.1.0")
    git(cupy, "tag", "v14.1.0")


@pytest.mark.parametrize("case", SOURCES)
def test_a_recipe_as_it_stands_plans_its_upstream(case: Case, place: Place) -> None:
    choice = RecipeChoice() if case.ref else RecipeChoice(version=VERSION)
    checks = check_recipes([find_recipe(case.recipe)], choice, place.outside())
    mine, *others = checks
    assert [str(check.error) for check in checks if check.error] == []
    torch = case.torch and f"torch{case.tag.partition('torch')[2].partition('-')[0]}"
    assert mine.tag == (case.tag.replace(torch, "torch2.10.0") if torch else case.tag)
    assert mine.wheels == (case.wheel.replace(torch, "torch2.10.0") if torch else case.wheel,)
    assert mine.source == place.commit if case.ref else len(mine.source) == 64
    assert [parse_wheel_filename(wheel)[3] for one in others for wheel in one.wheels] == [
        frozenset(parse_tag(f"{tag}-manylinux_2_28_x86_64")) for tag in case.later
    ]


CUDA = ("platforms", "linux-cuda", "env")


@pytest.mark.parametrize(
    ("case", "dropped", "said"),
    [
        pytest.param(CASES[0], ("source", "patches", 0), "version is 1.0.2, but the project's is 1.0.2+torch2.10",
                     id="nunchaku-local-version"),
        pytest.param(CASES[0], ("source", "patches", 1), "it compiles for more than the request names",
                     id="nunchaku-archs"),
        pytest.param(CASES[0], (*CUDA, "NUNCHAKU_INSTALL_MODE"), "no GPU here", id="nunchaku-mode"),
        pytest.param(CASES[1], (*CUDA, "FLASH_ATTN_CUDA_ARCHS"), "no library is for 8.9", id="flash-attn-archs"),
        pytest.param(CASES[1], (*CUDA, "FLASH_ATTENTION_FORCE_BUILD"), "fetches the wheel of its release",
                     id="flash-attn-force"),
        pytest.param(CASES[3], ("platforms", "linux-cuda", "arch-env"), "CUPY_NVCC_GENERATE_CODE names none",
                     id="cupy-archs"),
    ],
)  # fmt: skip
def test_what_a_recipe_changes_is_needed(case: Case, place: Place, dropped: tuple[str | int, ...], said: str) -> None:
    config = copy_release(
        find_recipe(case.recipe), RecipeChoice("", (PYTHON,)), place.folder / "config", place.outside()
    )
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    *path, last = dropped
    del reduce(getitem, path, values)[last]
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert said in explain_plan(config, place)


def explain_plan(config: Path, place: Place) -> str:
    """Return the warnings of a plan, or the error that says why there is none."""
    try:
        return "\n".join(make_plan(config, place.outside()).plan.warnings)
    except FatwheelError as error:
        return str(error)


def find_python() -> Path:
    """Return the Python that the wheels are built for; skip the test without it."""
    found = interpreter.find(Python.parse(PYTHON), os.environ)
    return Path(found) if found else pytest.skip(f"needs Python {PYTHON}")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.recipe, marks=[pytest.mark.long] * (case.recipe in LONG)) for case in CASES]
)
def test_a_recipe_is_built_audited_described_and_installed(case: Case, place: Place, cuda_home: Path) -> None:
    python = find_python()
    planned = plan_release(case, place)
    outside = place.outside(CUDA_HOME=str(cuda_home), usual=True)
    (made,) = build(planned, [planned.plan.jobs[0].name], place.folder / "made", outside, files.CHECKS)
    findings = files.audit_files([made.path], planned.plan, outside)
    assert [found for found in findings if found.level is Level.ERROR] == []
    assert made.path.name == case.wheel.replace("manylinux_2_28", here())
    assert made.receipt.built_with.archs == "sm_89"  # upstream's own list is longer
    assert_noted(case, planned, made)
    assert_described(case, place, made.path)
    installed = place.folder / "installed"
    command = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-config", "--no-deps"]
    subprocess.run([*command, "--python", python, "--target", installed, made.path], check=True)
    subprocess.run([python, "-c", case.imports], check=True, cwd=place.folder, env={"PYTHONPATH": str(installed)})


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.14t", PYTHON])
@pytest.mark.parametrize("case", CASES[-1:], ids=["opencv-python"])
def test_opencv_is_built_without_the_limited_api_to_an_import(
    case: Case, python: str, place: Place, cuda_home: Path
) -> None:
    """For free-threaded Python; and for a usual one that its patch takes for such, as few machines have the former."""
    there = interpreter.find(Python.parse(python), os.environ) or pytest.skip(f"needs Python {python}")
    copied = copy_release(find_recipe(case.recipe), RecipeChoice(VERSION, (python,)), place.folder / "config",
                          place.outside())  # fmt: skip
    for_this_machine(copied)
    patch = copied.parent / "limited-api.patch"
    asked = 'sysconfig.get_config_var("Py_GIL_DISABLED")'
    text = patch.read_text("utf-8").replace(asked, "sys.version_info")
    named = 'options={} if sys.version_info else {"bdist_wheel": {"py_limited_api": "cp37"}}'
    assert named in text
    patch.write_text(text.replace(named, "options={}"), encoding="utf-8")
    planned = make_plan(copied, place.outside())
    outside = place.outside(CUDA_HOME=str(cuda_home), usual=True)
    (made,) = build(planned, [planned.plan.jobs[0].name], place.folder / "made", outside, files.CHECKS)
    assert [one for one in files.audit_files([made.path], planned.plan, outside) if one.level is Level.ERROR] == []
    label = Python.parse(python)
    assert made.path.name.split("-")[2:4] == [label.interpreter_tag, label.abi_tag]
    installed = place.folder / "installed"
    command = [Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", "--no-config", "--no-deps"]
    subprocess.run([*command, "--python", there, "--target", installed, made.path], check=True)
    subprocess.run([there, "-c", case.imports], check=True, cwd=place.folder, env={"PYTHONPATH": str(installed)})


def plan_release(case: Case, place: Place) -> Planned:
    """Return the plan of the release for Python 3.13, whose source is fetched from the case's upstream."""
    chosen = RecipeChoice("" if case.ref else VERSION, (PYTHON,), (case.torch,) if case.torch else ())
    copied = copy_release(find_recipe(case.recipe), chosen, place.folder / "config", place.outside())
    for_this_machine(copied)
    return make_plan(copied, place.outside())


def assert_noted(case: Case, planned: Planned, made: Made) -> None:
    """Compare the tag, the title and the notes of the release with what is expected."""
    item = Item(made.path, made.receipt.sha256, made.receipt.size, None, built_with=made.receipt.built_with)
    unit = replace(core_of(planned.plan, STABLE), items=(item,))
    page = html.unescape(notes(unit))
    assert (unit.tag, unit.title) == (case.tag, case.title)
    assert all(said in page for said in ("### Built with", "CUDA 13.0 (nvcc V13.0", "sm_89", f"CPython {PYTHON}"))


def for_this_machine(config: Path) -> None:
    """Ask for wheels of this machine's glibc: a container's is older, and a build here has newer symbols."""
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    values["platforms"]["linux-cuda"]["wheel-platform"] = here()
    config.write_text(yaml.safe_dump(values), encoding="utf-8")


def here() -> str:
    """Return the platform of wheels that are built without a container: manylinux_2_36."""
    return f"manylinux_{platform.libc_ver()[1].replace('.', '_')}"


def assert_described(case: Case, place: Place, wheel: Path) -> None:
    """Compare the SBOM in a wheel with the recipe: its source, its patches with their reasons, and the toolkit."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        sbom = json.loads(archive.read(name))
    source = find_recipe(case.recipe).read()["source"]
    reasons = {patch["file"]: patch["reason"] for patch in source.get("patches", ())}
    assert tuple(reasons) == case.patches
    described = sbom["metadata"]["component"]
    patches = described.get("pedigree", {}).get("patches", ())
    assert sorted(patch["resolves"][0]["description"] for patch in patches) == sorted(reasons.values())
    (origin,) = described["externalReferences"]
    assert origin.get("comment", "") == (f"{case.ref} at commit {place.commit}" if case.ref else "")
    assert origin["url"] == (case.address or f"pkg:pypi/opencv-contrib-python@{VERSION}")
    assert {tool["name"]: tool["version"] for tool in sbom["components"]}["CUDA"].startswith("13.0 (nvcc V13.0")
