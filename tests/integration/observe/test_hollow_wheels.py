"""Wheels with the kernels that they are to have: architectures, and sources behind a switch or a condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from tests.builders.setuptools_projects import STABLE, TORCH, jobs_of, only, planned, setup

pytestmark = pytest.mark.slow  # many real processes


# ---------------------------------------------------------------- the architectures


def test_each_library_of_a_wheel_is_held_to_its_own_architectures(tmp_path: Path) -> None:
    def cuda(name: str, *codes: str) -> str:
        flags = ", ".join(f"'-gencode=arch=compute_{code.split('_')[1]},code={code}'" for code in codes)
        return f"CUDAExtension('demo.{name}', ['{name}.cu'], extra_compile_args={{'nvcc': [{flags}]}})"

    extensions = f"[{cuda('hopper', 'sm_90a')}, {cuda('blackwell', 'sm_100', 'compute_120')}, {cuda('asked')}]"
    script = setup(
        f"ext_modules={extensions} if os.getenv('CUDA_HOME') else [], cmdclass={{'build_ext': BuildExtension}}", TORCH
    )
    plan = planned(
        tmp_path, {"setup.py": script, **{f"{name}.cu": STABLE for name in ("hopper", "blackwell", "asked")}}
    )
    job = next(job for job in plan.jobs if job.platform == "linux-cuda" and str(job.python) == "3.10")
    assert {library.member.partition(".")[0]: set(library.images) for library in job.libraries} == {
        "demo/hopper": {"sm_90a"},
        "demo/blackwell": {"sm_100", "compute_120"},
        "demo/asked": {"sm_90", "sm_100", "compute_100"},
    }


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        pytest.param(["80"], "no library is for 9.0 10.0+PTX, which the request names: the project chooses sm_80",
                     id="others"),
        pytest.param(["80", "90", "100", "100,code=compute_100"], "it compiles for more than the request names, which "
                     "takes longer: the project chooses compute_100 sm_100 sm_80 sm_90", id="more"),
        pytest.param(["80", "90a"], "no library is for 10.0+PTX, which the request names: the project chooses sm_80 "
                     "sm_90a", id="for-one-chip"),
        pytest.param(["70", "90"], 'it compiles for sm_70, which nvcc of CUDA 13.0 refuses, expected `cuda: ["12.9"]`',
                     id="that-its-compiler-does-not-know"),
    ],
)  # fmt: skip
def test_architectures_that_the_project_chooses_by_itself_are_named(
    archs: list[str], said: str, tmp_path: Path
) -> None:
    codes = [f"arch=compute_{arch}" + ("" if "code" in arch else f",code=sm_{arch}") for arch in archs]
    flags = f"extra_compile_args={{'nvcc': {[f'-gencode={code}' for code in codes]}}}"
    extension = f"ext_modules=[CUDAExtension('demo.a', ['a.cu'], {flags})] if os.getenv('CUDA_HOME') else []"
    script = setup(f"{extension}, cmdclass={{'build_ext': BuildExtension}}", TORCH)
    warnings = planned(tmp_path, {"setup.py": script, "a.cu": ""}, only("linux-cuda")).warnings
    assert [warning for warning in warnings if warning.endswith(said)]


def test_kernels_that_a_doubted_build_is_not_seen_to_compile_are_named(tmp_path: Path) -> None:
    script = setup("ext_modules=[Extension('demo.a', ['a.c'])]", "KIND = 'CUDA'\nsubprocess.getoutput('x')\n")
    warnings = planned(tmp_path, {"setup.py": script, "a.c": "", "a.cu": ""}, only("linux-cuda")).warnings
    assert any("no kernel is compiled for it, though the source has a.cu" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("flag", "setting"),
    [
        # As fused-ssim and FlashAttention have it, and one whose variable is in torch's notation.
        pytest.param("f'-gencode=arch=compute_{a},code=sm_{a}'", '"{number}"', id="numbers"),
        pytest.param("'-arch=sm_' + a.split('.')[0] + a.split('.')[1]", '"{version}"', id="versions"),
        pytest.param("'-gencode=arch=compute_75,code=sm_75'", "", id="of-no-effect"),
    ],
)
def test_the_variable_that_chooses_the_architectures_is_named(flag: str, setting: str, tmp_path: Path) -> None:
    flags = f"[{flag} for a in os.getenv('DEMO_CUDA_ARCHS', '7.5' if 'split' in {flag!r} else '75').split(';')]"
    extension = f"[CUDAExtension('demo.a', ['a.cu'], extra_compile_args={{'nvcc': {flags}}})]"
    online = (
        "import urllib.request\nif os.getenv('CUDA_HOME') and os.getenv('DEMO_FORCE_BUILD', 'FALSE') == 'FALSE':\n"
        "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n"
    )
    script = setup(
        f"ext_modules={extension} if os.getenv('CUDA_HOME') else [], cmdclass={{'build_ext': BuildExtension}}",
        TORCH + online,
    )
    plan = planned(tmp_path, {"setup.py": script, "a.cu": ""}, only("linux-cuda"))
    (said,) = {one for one in plan.warnings if "chooses" in one}
    expected = f"; `arch-env: {{DEMO_CUDA_ARCHS: {setting}}}` in the config chooses them"
    assert said.endswith(expected) if setting else "arch-env" not in said


OWN_NVCC = """
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class CUDA(build_ext):
    def build_extension(self, ext):
        self.compiler.spawn(["nvcc", "-c", "a.cu", *FLAGS, "-o", "a.o"])
        ext.extra_objects = ["a.o"]
        super().build_extension(ext)

setup(name="demo", version="1.0", packages=["demo"], cmdclass={"build_ext": CUDA},
      ext_modules=[Extension("demo.a", ["b.c"])])
"""


@pytest.mark.parametrize(
    ("flags", "images"),
    [
        pytest.param([], None, id="by-its-compiler"),
        pytest.param(["-gencode=arch=compute_90,code=sm_90"], {"sm_90"}, id="by-a-flag"),
    ],
)
def test_the_images_of_what_the_project_compiles_by_a_command_of_its_own_are_those_of_the_command(
    flags: list[str], images: set[str] | None, tmp_path: Path
) -> None:
    script = OWN_NVCC.replace("*FLAGS", repr(flags).strip("[]") or "'-O2'")
    files = {"setup.py": script, "a.cu": "#include <torch/extension.h>\n", "b.c": ""}
    plan = planned(tmp_path, files, only("linux-cuda"))
    jobs = [job for job in plan.jobs if job.platform == "linux-cuda"]
    assert {job.libraries and frozenset(job.libraries[0].images) for job in jobs} == {images and frozenset(images)}
    assert all(job.requires_torch for job in jobs)  # its header was read


# ---------------------------------------------------------------- hollow wheels, and builds that are not to be


HOLLOW = setup(
    "ext_modules=[CUDAExtension('demo.a', ['a.cu']) if gpu else CppExtension('demo.a', ['a.cpp'])], "
    "cmdclass={'build_ext': BuildExtension}",
    f"import torch\n{TORCH}gpu = torch.cuda.is_available() or os.getenv('FORCE_CUDA', '0') == '1'\n",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asks", "value"),
    [
        pytest.param("os.environ.get('DEMO_BACKEND', 'cpu') in ('gpu', 'cpu+gpu')", "gpu", id="in-a-tuple"),
        pytest.param("backend.lower() in ['rocm', 'cuda']", "cuda", id="by-a-name-in-a-list"),
        pytest.param("backend == 'nvidia'", "nvidia", id="by-a-name"),
    ],
)
def test_a_variable_gets_the_word_for_the_hardware_that_it_is_compared_with(
    asks: str, value: str, tmp_path: Path
) -> None:
    extension = f"[CUDAExtension('demo.a', ['a.cu'])] if {asks} else []"
    script = setup(
        f"ext_modules={extension}, cmdclass={{'build_ext': BuildExtension}}",
        f"{TORCH}backend = os.getenv('DEMO_BACKEND', 'cpu')\n",
    )
    plan = planned(tmp_path, {"setup.py": script, "a.cu": ""}, only("linux-cuda"))
    assert {dict(job.env).get("DEMO_BACKEND", "") for job in plan.jobs if job.platform == "linux-cuda"} == {value}


def test_the_switch_that_kernels_need_is_set_for_their_cells_alone(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"setup.py": HOLLOW, "a.cu": "", "a.cpp": ""})
    by_platform = {job.platform: dict(job.env).get("FORCE_CUDA") for job in plan.jobs}
    assert by_platform == {"linux-cuda": "1", "linux-cpu": None, "windows": None}
    assert "built with FORCE_CUDA=1, without which it would leave kernels out (setup.py:5)" in plan.covered[0].reason


# As mamba-ssm 2.3.2: kernels are off by default, and once they are on, it looks for a wheel online before it compiles.
KEPT = setup(
    "ext_modules=[CUDAExtension('demo.a', ['a.cu'])] if keep else [], cmdclass={'build_ext': BuildExtension}",
    f"import urllib.request\n{TORCH}keep = os.getenv('DEMO_KEEP_CUDA', 'FALSE') == 'TRUE'\n"
    "if keep and os.getenv('DEMO_FORCE_BUILD', 'FALSE') != 'TRUE':\n"
    "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n",
)


@pytest.mark.slow
def test_a_switch_that_leads_to_the_network_is_set_with_the_one_that_leads_back(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"setup.py": KEPT, "a.cu": ""})
    (env,) = {job.env for job in plan.jobs if job.platform == "linux-cuda"}
    assert {("DEMO_KEEP_CUDA", "TRUE"), ("DEMO_FORCE_BUILD", "TRUE")} <= {*env}
    assert "built with DEMO_KEEP_CUDA=TRUE and DEMO_FORCE_BUILD=TRUE, without which it would" in plan.covered[0].reason
    assert not any(dict(job.env).keys() & {"DEMO_KEEP_CUDA"} for job in plan.jobs if job.platform != "linux-cuda")


HIDDEN = HOLLOW.replace(" or os.getenv('FORCE_CUDA', '0') == '1'", "")
OPTIONAL = setup(
    "ext_modules=[CppExtension('demo.a', ['a.cpp'])] + more, cmdclass={'build_ext': BuildExtension}",
    f"{TORCH}more = [CUDAExtension('demo.b', ['b.cu'])] if os.getenv('DEMO_EXTRAS') == '1' else []\n",
)
LATER = OPTIONAL.replace("if os", "if torch.__version__ >= '2.13' or os").replace(TORCH, f"import torch; {TORCH}")


def for_cuda(native: str) -> str:
    """Return a config for CUDA only, with a key."""
    archs = 'archs: ["9.0", "10.0+PTX"]'
    return only("linux-cuda").replace(f'{archs}, env: {{ON_CUDA: "1"}}', f"{native} {archs}")


@pytest.mark.parametrize(
    ("script", "native", "said"),
    [
        pytest.param(HIDDEN, "", "setup.py:5: a.cu is compiled only where the build finds a GPU, "
                     "so every wheel of linux-cuda would lack it", id="a-gpu"),
        pytest.param(OPTIONAL, 'native: ["*.cu"],', "setup.py:4: b.cu is compiled only with DEMO_EXTRAS=1, "
                     "which no cell sets, so every wheel of linux-cuda would lack it", id="a-variable"),
    ],
)  # fmt: skip
def test_sources_behind_a_condition_that_no_cell_meets_end_the_plan(
    script: str, native: str, said: str, tmp_path: Path
) -> None:
    config = for_cuda(native)
    files = {"fatwheel.yml": config, "setup.py": script, "a.cu": "", "a.cpp": "", "b.cu": ""}
    with pytest.raises(InputError) as caught:
        planned(tmp_path, files)
    assert caught.value.message == said
    assert "`native: {exclude: [" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "native"),
    [
        pytest.param(HIDDEN, 'native: {include: ["*.cpp"], exclude: [a.cu]},', id="they-are-excluded"),
        pytest.param(OPTIONAL, "", id="the-config-names-none-and-the-switch-is-no-hardware"),
        pytest.param(OPTIONAL, 'native: ["*.cu"], env: {DEMO_EXTRAS: "1"},', id="the-config-sets-the-switch"),
        pytest.param(LATER, 'native: ["*.cu"],', id="a-newer-torch-of-the-plan-has-them"),
    ],
)
def test_an_optional_extension_is_no_hollow_wheel(script: str, native: str, tmp_path: Path) -> None:
    config = for_cuda(native)
    files = {"fatwheel.yml": config, "setup.py": script, "a.cu": "", "a.cpp": "#include <torch/torch.h>\n", "b.cu": ""}
    assert jobs_of(planned(tmp_path, files), "linux-cuda")


OFF = "linux-cuda: no kernel is compiled for it, though the source has a.cu; off by default: DEMO_EXTRAS (setup.py:4)"


@pytest.mark.parametrize(
    ("native", "said"),
    [
        pytest.param("", [OFF], id="of-the-source"),
        pytest.param('native: {include: ["*.cpp"], exclude: ["*.cu"]},', [], id="but-of-those-that-are-excluded"),
    ],
)
def test_a_wheel_for_cuda_without_any_kernel_is_told(native: str, said: list[str], tmp_path: Path) -> None:
    config = for_cuda(native)
    plan = planned(tmp_path, {"fatwheel.yml": config, "setup.py": OPTIONAL, "a.cu": "", "a.cpp": "", "b.cu": ""})
    assert [one for one in plan.warnings if "kernel" in one] == said


def test_a_wheel_without_kernels_is_told_where_a_gpu_would_do_what_is_not_simulated(tmp_path: Path) -> None:
    script = HIDDEN.replace("gpu = ", "torch.cuda.is_available() and torch.ones(2).cuda()\ngpu = ")
    plan = planned(tmp_path, {"fatwheel.yml": for_cuda(""), "setup.py": script, "a.cu": "", "a.cpp": ""})
    assert [one.partition(";")[0] for one in plan.warnings if "kernel" in one] == [OFF.partition(";")[0]]


def test_the_host_s_compiler_is_no_switch(tmp_path: Path) -> None:
    script = HOLLOW.replace("FORCE_CUDA", "CUDAHOSTCXX").replace("== '1'", "!= '0'")
    with pytest.raises(InputError, match="is compiled only where the build finds a GPU"):
        planned(tmp_path, {"fatwheel.yml": for_cuda(""), "setup.py": script, "a.cu": "", "a.cpp": ""})


def test_a_wheel_from_the_network_is_not_taken_for_a_build(tmp_path: Path) -> None:
    before = (
        "import urllib.request\nif os.getenv('DEMO_FORCE_BUILD', 'FALSE') == 'FALSE':\n"
        "    urllib.request.urlretrieve('http://127.0.0.1:9/x.whl', 'x.whl')\n"
    )
    plan = planned(tmp_path, {"setup.py": setup("ext_modules=[Extension('demo.a', ['a.c'])]", before), "a.c": ""})
    switches = {job.env for job in plan.jobs if job.platform == "linux-cpu"}
    assert switches == {(("SHARED", "1"), ("DEMO_FORCE_BUILD", "1"))}


def test_a_cell_whose_build_would_fail_is_skipped_with_the_project_s_own_reason(tmp_path: Path) -> None:
    before = f"{TORCH}from torch.utils.cpp_extension import CUDA_HOME\n"
    before += "if CUDA_HOME is None:\n    sys.exit('demo needs CUDA')\n"
    script = setup("ext_modules=[CUDAExtension('demo.a', ['a.cu'])], cmdclass={'build_ext': BuildExtension}", before)
    plan = planned(tmp_path, {"setup.py": script, "a.cu": ""})
    assert jobs_of(plan, "linux-cuda")
    skipped = {item.reason for item in plan.skipped if item.cell.platform == "linux-cpu"}
    assert skipped == {"the project does not build there: SystemExit: demo needs CUDA (setup.py:6)"}
