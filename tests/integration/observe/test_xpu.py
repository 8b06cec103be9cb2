"""An XPU platform from its config to its job: SYCL code brings the job, and nothing in the config changes."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from ci_tools.model.plan import Job, Plan
from ci_tools.model.platforms import Platform
from ci_tools.observe.images import read_images
from ci_tools.plan.contradictions import NO_OWNER
from tests.builders.sources import PROJECT, plan_of, write
from tests.servers.prepared import TORCH, run_prepared

pytestmark = pytest.mark.slow

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: [{torch}]
platforms:
  linux-xpu: {{{xpu}}}
  linux-cpu: {{owner: "@demo/cpu"}}
"""
HEAD = """\
import os, subprocess
import torch
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, SyclExtension
"""
SETUP = (
    "setup(name='demo', version='1.0', packages=['demo'], ext_modules={}, cmdclass={{'build_ext': BuildExtension}})\n"
)
ON_XPU = "[SyclExtension('demo._C', ['a.cpp', 'k.sycl']{})] if torch.version.xpu is not None else []"
STABLE = "#define TORCH_TARGET_VERSION 0x020a000000000000\n#include <torch/csrc/stable/library.h>\n"
FULL = "#include <torch/extension.h>\n"
KERNEL = "#include <sycl/sycl.hpp>\nvoid k(sycl::queue &q) { q.single_task([] {}); }\n"


def seen(folder: Path, extension: str, torch: str = '"2.10"', xpu: str = "", abi: str = FULL, head: str = HEAD) -> Plan:
    return plan_of(
        write(
            folder / "demo",
            {
                "fatwheel.yml": CONFIG.format(torch=torch, xpu=xpu),
                "setup.py": head + SETUP.format(extension),
                "demo/__init__.py": "",
                "a.cpp": abi,
                "k.sycl": KERNEL + abi,
            },
        )
    )


def xpu_jobs(plan: Plan) -> list[Job]:
    return [job for job in plan.jobs if job.platform is Platform.LINUX_XPU]


def images(plan: Plan) -> set[str] | None:
    """Return the images of the only library of the only job; None if they are not known."""
    (job,) = xpu_jobs(plan)
    return set(job.libraries[0].images) if job.libraries else None


def test_a_sycl_extension_brings_the_job_and_only_its_owner_is_missing(tmp_path: Path) -> None:
    plan = seen(tmp_path, ON_XPU.format(""))
    (job,) = xpu_jobs(plan)
    assert job.wheel == "demo-1.0+xputorch2.10-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert [warning for warning in plan.warnings if warning.startswith("linux-xpu")] == [f"linux-xpu: {NO_OWNER}"]
    (reason,) = {item.reason for item in plan.covered if item.job == job.name}
    assert "compiles 2 files into demo/_C" in reason


def test_without_sycl_code_there_is_no_job(tmp_path: Path) -> None:
    assert xpu_jobs(seen(tmp_path, "[]")) == []


def test_by_default_the_code_is_spirv_for_every_gpu(tmp_path: Path) -> None:
    assert images(seen(tmp_path, ON_XPU.format(""))) == {"spir64"}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param("", {"spir64", "spir64_gen:pvc", "spir64_gen:bmg"}, id="torch-s-own"),
        pytest.param(", extra_compile_args={'cxx': ['-O3'], 'sycl': ['-O3']}",
                     {"spir64", "spir64_gen:pvc", "spir64_gen:bmg"}, id="by-language"),
        pytest.param(", extra_compile_args={'sycl': ['-fsycl-targets=spir64_gen']}",
                     {"spir64_gen:pvc", "spir64_gen:bmg"}, id="machine-code-only"),
        pytest.param(", extra_compile_args={'sycl': ['-fsycl-targets=intel_gpu_mtl_h']}", {"spir64_gen:mtl-h"},
                     id="a-gpu-of-its-own"),
    ],
)  # fmt: skip
def test_archs_ask_for_machine_code_as_torch_does(args: str, expected: set[str], tmp_path: Path) -> None:
    plan = seen(tmp_path, ON_XPU.format(args), xpu='owner: "@demo/xpu", archs: [pvc, bmg]')
    assert images(plan) == expected


ASKS = """\
import json
from torch.utils import cpp_extension
flags = []
cpp_extension._append_sycl_targets_if_missing(flags)
print(json.dumps(["-fsycl", *flags, *cpp_extension._get_sycl_device_flags(flags)]))
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("gpus", ["", "pvc,bmg"])
def test_the_real_torch_gives_the_flags_that_the_images_are_read_from(gpus: str, tmp_path: Path) -> None:
    said = run_prepared(["-c", ASKS], env={**os.environ, "TORCH_XPU_ARCH_LIST": gpus}, program=TORCH)
    assert said.returncode == 0, said.stderr
    archs = f", archs: [{gpus}]" if gpus else ""
    assert set(read_images(json.loads(said.stdout)) or ()) == images(
        seen(tmp_path, ON_XPU.format(""), xpu=f"owner: me{archs}")
    )


def test_another_gpu_than_the_request_s_is_a_warning(tmp_path: Path) -> None:
    args = ", extra_compile_args={'sycl': ['-fsycl-targets=intel_gpu_mtl_h']}"
    plan = seen(tmp_path, ON_XPU.format(args), xpu='owner: "@demo/xpu", archs: [pvc]')
    assert any("no library is for pvc, which the request names: the project chooses spir64_gen:mtl-h" in one
               for one in plan.warnings)  # fmt: skip


def test_the_config_s_own_variable_has_the_last_word(tmp_path: Path) -> None:
    plan = seen(tmp_path, ON_XPU.format(""), xpu='owner: "@demo/xpu", env: {TORCH_XPU_ARCH_LIST: "lnl-m,ptl-h"}')
    assert images(plan) == {"spir64", "spir64_gen:lnl-m", "spir64_gen:ptl-h"}


def test_plain_cpp_that_icpx_compiles_holds_sycl_code(tmp_path: Path) -> None:
    script = "os.environ['CXX'] = 'icpx'\n"
    extension = (
        "[Extension('demo._C', ['b.cpp'], extra_compile_args=['-fsycl'])] if torch.version.xpu is not None else []"
    )
    source = write(
        tmp_path / "demo",
        {
            "fatwheel.yml": CONFIG.format(torch='"2.10"', xpu='owner: "@demo/xpu"'),
            "setup.py": HEAD
            + script
            + f"setup(name='demo', version='1.0', packages=['demo'], ext_modules={extension})\n",
            "demo/__init__.py": "",
            "b.cpp": KERNEL,
        },
    )
    assert images(plan_of(source)) == {"spir64"}


def test_one_wheel_of_the_stable_abi_serves_every_torch_of_one_runtime_of_sycl(tmp_path: Path) -> None:
    plan = seen(tmp_path, ON_XPU.format(", py_limited_api=False"), torch='"2.10", "2.11", "2.12"', abi=STABLE)
    (job,) = xpu_jobs(plan)
    assert (job.wheel.partition("-cp")[0], len(job.covers)) == ("demo-1.0+xpu", 3)


def test_torches_of_two_runtimes_of_sycl_never_share_a_wheel(tmp_path: Path) -> None:
    plan = seen(tmp_path, ON_XPU.format(""), torch='"2.12", "2.13"', abi=STABLE)
    assert [job.wheel.partition("-cp")[0] for job in xpu_jobs(plan)] == [
        "demo-1.0+xputorch2.12",
        "demo-1.0+xputorch2.13",
    ]
    why = "libsycl.so.8 from torch 2.12 on, libsycl.so.9 from torch 2.13 on"
    assert all(why in item.reason for item in plan.covered if "xpu" in item.job)


def test_what_icpx_says_is_the_oneapi_of_each_torch(tmp_path: Path) -> None:
    asked = """\
if torch.version.xpu is not None:
    said = subprocess.check_output(['icpx', '--version'], text=True)
    extra = ['-DOLD'] if ' 2025.' in said else ['-DNEW']
else:
    extra = []
"""
    extension = ON_XPU.format(", extra_compile_args={'cxx': extra, 'sycl': extra}")
    plan = seen(tmp_path, extension, torch='"2.12", "2.13"', head=HEAD + asked)
    assert len(xpu_jobs(plan)) == 2


def test_a_file_for_sycl_that_a_pattern_names_brings_the_job_without_a_torch(tmp_path: Path) -> None:
    config = 'package: demo\nversion: "1.0"\npython: ["3.12"]\nplatforms:\n  linux-xpu: {native: ["*.sycl"]}\n'
    source = {"fatwheel.yml": config, "pyproject.toml": PROJECT, "demo.py": ""}
    assert [job.name for job in plan_of(write(tmp_path / "before", source)).jobs] == ["pure"]
    (job,) = plan_of(write(tmp_path / "after", {**source, "k.sycl": KERNEL})).jobs
    assert (job.name, job.wheel.partition("-cp")[0]) == ("linux-xpu-cp312", "demo-1.0+xpu")
