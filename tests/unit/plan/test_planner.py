from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.errors import InputError
from ci_tools.model.evidence import Evidence, Extensions, Project
from ci_tools.model.plan import JobKind, Plan
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import Enabled, PlatformRequest, Torch
from ci_tools.model.versions import Minor
from ci_tools.plan import planner
from ci_tools.plan.contradictions import NO_OWNER
from tests.builders.planned import ABIS, APIS, CUDA, CUDAS, asked, planned, pythons, shown
from tests.builders.sources import PROJECT, demo, plan_of, shared_world, write

ROOT = Path(__file__).parents[3]
PLANS = Path(__file__).parent / "plans"


# ---------------------------------------------------------------- plans as text


TORCH_CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.10", "2.14", "2.15"]
platforms:
"""
EXCLUDED = "the project requires torch {} (pyproject.toml:7)"


def text(plan: Plan) -> str:
    """Return a plan as lines to compare: its jobs, then what became of the cells, those of a kind together."""
    covered = Counter((_kind(cell), job, reason) for cell, job, reason in plan.covered)
    skipped = Counter((_kind(cell), reason) for cell, reason in plan.skipped)
    lines = [
        f"{plan.cells} cells",
        *(f"job {job.name}: {job.wheel} by Python {job.python} for {job.owner or 'nobody'}" for job in plan.jobs),
        *(f"{count} of {kind}: {job}, {reason}" for (kind, job, reason), count in covered.items()),
        *(f"{count} of {kind} skipped: {reason}" for (kind, reason), count in skipped.items()),
        *(f"warning: {warning}" for warning in plan.warnings),
    ]
    return "\n".join(lines) + "\n"


def _kind(cell: object) -> str:
    """Return a cell without its torch and Python."""
    return re.sub(r" / (torch[\d.]+|cp\w+)", "", str(cell))


def assert_golden(lines: str, name: str) -> None:
    """Compare with a text in plans/, written anew where FATWHEEL_GOLDEN is set."""
    golden = PLANS / f"{name}.txt"
    if "FATWHEEL_GOLDEN" in os.environ:
        golden.write_text(lines, encoding="utf-8")
    assert lines == golden.read_text(encoding="utf-8")


def test_the_reference_request_needs_one_pure_wheel_and_one_for_each_cuda() -> None:
    plan = plan_of(ROOT / "package")
    assert [job.name for job in plan.jobs] == ["pure", "linux-cuda-cu129", "linux-cuda-cu130"]
    assert [job.kind for job in plan.jobs] == [JobKind.PURE, JobKind.NATIVE, JobKind.NATIVE]
    assert plan.warnings == ()
    assert_golden(re.sub(r"(\.(toml|txt|yml)):\d+", r"\1:LINE", text(plan)), "reference")


REQUEST = """\
package: demo
python: ["3.10", "3.13", "3.13t", "3.14t", "3.15", "3.15t"]
platforms:
"""
LINUX_CPU = '  linux-cpu: {owner: "@demo/cpu", native: ["*.cpp"]}\n'


# ---------------------------------------------------------------- the reference package, changed


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Copy what the plan of the reference package depends on."""
    files = [path for folder in ("package", "kernels") for path in (ROOT / folder).rglob("*") if path.is_file()]
    content = {str(path.relative_to(ROOT)): path.read_bytes() for path in files if "__pycache__" not in path.parts}
    return write(tmp_path / "copy", content)


def test_one_hip_file_makes_the_rocm_job_appear_with_its_owner(package: Path) -> None:
    config = package / "package/fatwheel.yml"
    config.write_text(config.read_text().replace("linux-rocm:", 'linux-rocm:\n    owner: "@fatwheel/rocm"'))
    write(package, {"kernels/deep/down/x.hip": ""})
    plan = plan_of(package / "package", shared_world())
    job = next(job for job in plan.jobs if job.platform is Platform.LINUX_ROCM)
    assert (job.name, job.owner) == ("linux-rocm-rocm7.1", "@fatwheel/rocm")
    assert job.wheel == "ao_kernels-0.1.0+rocm7.1-py3-none-manylinux_2_28_x86_64.whl"
    assert plan.warnings[0].startswith("linux-rocm: native code (kernels/deep/down/x.hip), but nothing is compiled (")


def test_one_sycl_file_makes_the_xpu_job_appear_with_its_owner(package: Path) -> None:
    config = package / "package/fatwheel.yml"
    config.write_text(config.read_text().replace("linux-xpu:", 'linux-xpu:\n    owner: "@fatwheel/xpu"'))
    write(package, {"kernels/deep/down/x.sycl": ""})
    plan = plan_of(package / "package", shared_world())
    job = next(job for job in plan.jobs if job.platform is Platform.LINUX_XPU)
    assert (job.owner, job.accelerator) == ("@fatwheel/xpu", Accelerator(XPU))
    assert "+xpu" in job.wheel


def test_native_code_without_an_owner_is_built_with_a_warning(package: Path) -> None:
    write(package, {"kernels/deep/down/x.hip": ""})
    plan = plan_of(package / "package", shared_world())
    (job,) = (job for job in plan.jobs if job.platform is Platform.LINUX_ROCM)
    assert (job.owner, f"linux-rocm: {NO_OWNER}" in plan.warnings) == (None, True)


def test_an_owner_of_all_looks_after_the_platforms_without_one(package: Path) -> None:
    config = package / "package/fatwheel.yml"
    config.write_text(config.read_text().replace("package: ao-kernels", 'package: ao-kernels\nowner: "@me"'))
    write(package, {"kernels/deep/down/x.hip": ""})
    plan = plan_of(package / "package", shared_world())
    assert {(job.platform, job.owner) for job in plan.jobs if job.platform} == {
        (Platform.LINUX_CUDA, "@fatwheel/cuda"),
        (Platform.LINUX_ROCM, "@me"),
    }
    assert [warning for warning in plan.warnings if NO_OWNER in warning] == []


def test_one_unstable_include_ends_the_collapse(package: Path) -> None:
    write(package, {"kernels/other/binding.cpp": "#include <torch/extension.h>\n"})
    plan = plan_of(package / "package", shared_world())
    assert {job.torch for job in plan.jobs if job.platform is Platform.LINUX_CUDA} > {Minor(2, 10), Minor(2, 13)}
    assert len(plan.jobs) > 50


# ---------------------------------------------------------------- the rules, one at a time


@pytest.mark.parametrize(
    ("platform", "fields", "evidence", "wheel"),
    [
        pytest.param(asked(accelerators=CUDAS[2:]), {"torch": None}, {}, "demo-1.0+cu130-py3-none-linux_x86_64.whl",
                     id="cuda"),
        pytest.param(asked(accelerators=CUDAS[2:]), {"torch": Torch(versions=(Minor(2, 10),))}, {"abi": ABIS[1]},
                     "demo-1.0+cu130torch2.10-py3-none-linux_x86_64.whl", id="cuda-and-torch"),
        pytest.param(asked(Platform.LINUX_CPU, wheel_platform="manylinux_2_28"), {"torch": None}, {},
                     "demo-1.0-py3-none-manylinux_2_28_x86_64.whl", id="cpu"),
        pytest.param(asked(Platform.LINUX_CPU, wheel_platform="manylinux_2_17"), {"torch": None}, {},
                     "demo-1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", id="level-of-two-names"),
        pytest.param(asked(Platform.LINUX_CPU), {"torch": Torch(versions=(Minor(2, 14),))}, {"abi": ABIS[1]},
                     "demo-1.0+torch2.14-py3-none-linux_x86_64.whl", id="cpu-and-torch"),
        pytest.param(asked(Platform.LINUX_AARCH64), {"torch": None}, {}, "demo-1.0-py3-none-linux_aarch64.whl",
                     id="arm"),
        pytest.param(asked(Platform.MACOS_ARM64, wheel_platform="macosx_11_0"), {"torch": None}, {},
                     "demo-1.0-py3-none-macosx_11_0_arm64.whl", id="macos"),
        pytest.param(asked(Platform.WINDOWS, wheel_platform="win"), {"torch": None}, {},
                     "demo-1.0-py3-none-win_amd64.whl", id="windows"),
        pytest.param(asked(Platform.LINUX_XPU, accelerators=(Accelerator(XPU),)), {"torch": None}, {},
                     "demo-1.0+xpu-py3-none-linux_x86_64.whl", id="xpu"),
        pytest.param(asked(Platform.LINUX_CPU), {"torch": None, "pythons": pythons("3.14t")}, {"api": APIS[1]},
                     "demo-1.0-cp314-cp314t-linux_x86_64.whl", id="free-threaded"),
    ],
)  # fmt: skip
def test_a_native_wheel_is_named_by_the_axes_that_stay(
    platform: PlatformRequest, fields: dict[str, object], evidence: dict[str, object], wheel: str
) -> None:
    assert [job.wheel for job in planned([platform], **evidence, **fields).jobs] == [wheel]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requires", "served"),
    [
        pytest.param("", "3.10 3.12 3.14 3.14t 3.15 3.15t", id="nothing-said"),
        pytest.param(">=3.10.4", "3.10 3.12 3.14 3.14t 3.15 3.15t", id="from-a-patch-release-on"),
        pytest.param("==3.12.7", "3.12", id="one-patch-release"),
        pytest.param(">3.12.1,<3.12.3", "3.12", id="between-two-patch-releases"),
        pytest.param("<3.14", "3.10 3.12", id="below"),
        pytest.param("!=3.12.*", "3.10 3.14 3.14t 3.15 3.15t", id="all-but-one"),
    ],
)
def test_a_python_is_served_where_some_patch_release_is(requires: str, served: str) -> None:
    plan = planned([asked(Platform.LINUX_CPU)], torch=None)
    evidence = Evidence(
        project=Project("demo", "1.0", requires, "x", "p:1"),
        source_sha256="",
        commit=None,
        platforms=(shown(plan.request.platforms[0], APIS[0], ABIS[0], Extensions.SOME),),
    )
    plan = planner.make_plan(plan.request, evidence, catalog.load())
    assert [item.cell.python for item in plan.covered] == list(pythons(served))
    assert all(item.reason == f"the project requires Python {requires} (p:1)" for item in plan.skipped)


@pytest.mark.parametrize(
    ("requires", "served"),
    [
        pytest.param(">=2.14,!=2.14.0", ["2.14", "2.15"], id="from-a-patch-release-on"),
        pytest.param("<2.14", ["2.10"], id="below"),
        pytest.param("==2.15.*", ["2.15"], id="one"),
    ],
)
@pytest.mark.parametrize("native", ["*.cu", "*.hip"], ids=["native", "pure"])
def test_a_torch_the_project_excludes_is_skipped(tmp_path: Path, requires: str, served: list[str], native: str) -> None:
    config = f'{TORCH_CONFIG}  linux-cpu: {{owner: x, native: ["{native}"]}}\n'
    project = f'{PROJECT}dependencies = ["torch{requires}"]\n'
    plan = plan_of(demo(tmp_path / "a", {"fatwheel.yml": config, "pyproject.toml": project, "a.cu": "int x;"}))
    assert [str(item.cell.torch) for item in plan.covered] == served
    assert {item.reason for item in plan.skipped} == {EXCLUDED.format(",".join(sorted(requires.split(","))))}


@pytest.mark.parametrize(
    ("accelerator", "torch", "python", "reason"),
    [
        pytest.param(CUDAS[1], "2.14", "3.12", "the catalog has no such torch for this accelerator", id="cuda"),
        pytest.param(CUDAS[2], "2.15", "3.10", "the catalog has no such torch for this Python", id="python"),
    ],
)
def test_what_upstream_does_not_ship_is_skipped(accelerator: Accelerator, torch: str, python: str, reason: str) -> None:
    versions = Torch(versions=(Minor.parse(torch),))
    plan = planned([asked(accelerators=(accelerator,))], torch=versions, pythons=pythons(python))
    assert ([item.reason for item in plan.skipped], plan.jobs) == ([reason], ())


@pytest.mark.parametrize(
    ("platform", "evidence", "fields", "message"),
    [
        pytest.param(asked(enabled=Enabled.TRUE), {"extensions": Extensions.NONE}, {},
                     "linux-cuda is enabled, but its native globs match no file: *.cu", id="nothing-to-build"),
        pytest.param(asked(), {"abi": ABIS[3]}, {"torch": Torch(lowest=Minor(2, 9))},
                     "linux-cuda is asked to serve torch 2.9, but the source needs 2.10 (t:1)", id="torch-too-old"),
        pytest.param(asked(), {"abi": ABIS[1]}, {"torch": None},
                     'linux-cuda uses torch (t:1), expected `torch: {lowest: "2.10"}` or a list',
                     id="torch-not-named"),
        pytest.param(asked(), {"abi": ABIS[3]}, {"torch": None},
                     "linux-cuda uses torch (t:1), expected `torch:", id="stable-torch-not-named"),
    ],
)  # fmt: skip
def test_a_source_that_contradicts_the_request_is_refused(
    platform: PlatformRequest, evidence: dict[str, object], fields: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        planned([platform], **evidence, **fields)  # type: ignore[arg-type]
    assert caught.value.message.startswith(f"fatwheel.yml:4:1: {message}")


def test_a_platform_that_is_switched_off_contradicts_nothing() -> None:
    plan = planned([asked(owner=None, enabled=Enabled.FALSE)], abi=ABIS[3], torch=Torch(lowest=Minor(2, 9)))
    assert (plan.jobs, {item.reason for item in plan.skipped}) == (
        (), {"switched off by `enabled: false` (fatwheel.yml:4)"}
    )  # fmt: skip


def test_two_jobs_of_one_file_name_are_refused() -> None:
    twins = (Accelerator(CUDA, Minor(1, 30)), Accelerator(CUDA, Minor(13, 0)))
    with pytest.raises(InputError, match=r"would both make demo-1\.0\+cu130-py3-none-linux_x86_64.whl"):
        planned([asked(accelerators=twins)], torch=None)


def test_a_specifier_that_is_none_is_refused() -> None:
    plan = planned([asked()])
    project = Project("demo", "1.0", "3.10 or so", "x", "p:3")
    with pytest.raises(
        InputError, match=r'p:3: requires-python is "3\.10 or so", expected a specifier such as >=3\.10'
    ):
        planner.make_plan(
            plan.request, Evidence(project=project, source_sha256="", commit=None, platforms=()), catalog.load()
        )


def test_the_oldest_cuda_of_a_major_serves_those_after_it() -> None:
    plan = planned([asked(one_per_major=True)], torch=None)
    built = {job.name: {cell.accelerator and cell.accelerator.label for cell in job.covers} for job in plan.jobs}
    assert built == {"linux-cuda-cu126": {"cu126", "cu129"}, "linux-cuda-cu130": {"cu130"}}
    assert [(job.folder, job.also) for job in plan.jobs] == [("cu126", ("cu129",)), ("cu130", ())]


def test_the_oldest_cuda_that_knows_every_arch_serves_its_major() -> None:
    minors = tuple(Accelerator(CUDA, version) for version in (Minor(12, 6), Minor(12, 8), Minor(12, 9)))
    plan = planned([asked(one_per_major=True, accelerators=minors, archs=("10.0",))], torch=None)
    assert [job.name for job in plan.jobs] == ["linux-cuda-cu128"]


def test_a_platform_without_native_code_shares_the_pure_wheel() -> None:
    plan = planned([asked(), asked(Platform.LINUX_CPU)], extensions=Extensions.NONE)
    assert ([job.name for job in plan.jobs], plan.jobs[0].covers) == (
        ["pure"],
        tuple(item.cell for item in plan.covered),
    )


def test_two_checkouts_make_the_same_plan(tmp_path: Path) -> None:
    one, other = (plan_of(demo(tmp_path / name / "a")) for name in ("here", "there/deeper"))
    assert one == other
    assert replace(one, pins=other.pins) == other


def test_a_wheel_that_is_tagged_by_its_builder_is_built_by_the_oldest_python(tmp_path: Path) -> None:
    files = {
        "fatwheel.yml": f"{REQUEST}{LINUX_CPU}",
        "pyproject.toml": "[build-system]\nbuild-backend = 'mesonpy'\n[project]\nname = 'demo'\nversion = '1.0'\n"
        "requires-python = '>=3.13'\n[tool.meson-python]\nlimited-api = true\n",
        "meson.build": "project('demo', 'c')\npy = import('python').find_installation()\n"
        "py.extension_module('demo', 'a.c', limited_api: '3.8', install: true)\n",
        "a.c": "#include <Python.h>\n",
    }
    job = plan_of(write(tmp_path / "a", files)).jobs[0]
    assert (str(job.python), job.python_stays) == ("3.13", True)
    assert job.wheel.startswith("demo-1.0-cp313-abi3-")
