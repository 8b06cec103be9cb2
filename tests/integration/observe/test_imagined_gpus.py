"""A build that asks for a GPU in whatever way is seen with one: its kernels are missed where only a GPU brings them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from tests.builders.setuptools_projects import TORCH, planned, setup

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: ["2.10"]
platforms:
"""
PLATFORMS = {
    "cuda": 'cuda: ["13.0"], archs: ["9.0"]',
    "rocm": 'rocm: ["7.1"], archs: [gfx90a]',
    "xpu": "archs: [pvc]",
}
FILES = {"a.cpp": "", "k.cu": "", "k.sycl": ""}
EXTENSION = "[{}Extension('demo.a', ['a.cpp', '{}']) if gpu else CppExtension('demo.a', ['a.cpp'])]"


def written(condition: str, before: str, kind: str) -> tuple[dict[str, str], str]:
    """Return the files of a project that compiles kernels under a condition, and its config for an accelerator."""
    imports = (
        f"import shutil, torch\n{TORCH.rstrip()}, SyclExtension\nfrom torch.utils.cpp_extension import CUDA_HOME\n"
    )
    extension = EXTENSION.format(*("Sycl", "k.sycl") if kind == "xpu" else ("CUDA", "k.cu"))
    script = setup(
        f"ext_modules={extension}, cmdclass={{'build_ext': BuildExtension}}", f"{imports}{before}gpu = {condition}\n"
    )
    config = f'{CONFIG}  linux-{kind}: {{owner: "@demo/{kind}", {PLATFORMS[kind]}}}\n'
    return {**FILES, "setup.py": script}, config


def tried(statement: str) -> str:
    """Return code that defines `found`: whether a statement raises no error."""
    return f"try:\n    {statement}\n    found = True\nexcept Exception:\n    found = False\n"


LONG = pytest.mark.long
SMI = "subprocess.run({}, capture_output=True, text=True)"


@pytest.mark.parametrize(
    ("condition", "before", "kind"),
    [
        pytest.param("found", tried("subprocess.check_call(['nvidia-smi'])"), "cuda", id="nvidia-smi"),
        pytest.param("shutil.which('nvidia-smi')", "", "cuda", id="which", marks=LONG),
        pytest.param("os.popen('nvidia-smi -L').read()", "", "cuda", id="popen", marks=LONG),
        pytest.param("os.system('nvidia-smi > /dev/null 2>&1') == 0", "", "cuda", id="a-shell", marks=LONG),
        pytest.param("os.system('command -v nvidia-smi') == 0", "", "cuda", id="command", marks=LONG),
        pytest.param("found", tried("assert float(" + SMI.format("['nvidia-smi', '--query-gpu=compute_cap', "
                     "'--format=csv,noheader']") + ".stdout) >= 9"), "cuda", id="the-capability", marks=LONG),
        pytest.param("found", tried("import pynvml; assert pynvml.nvmlDeviceGetCount()"), "cuda", id="pynvml",
                     marks=LONG),
        pytest.param("os.path.exists('/dev/nvidia0')", "", "cuda", id="a-device", marks=LONG),
        pytest.param("glob.glob('/dev/nvidia*')", "import glob\n", "cuda", id="devices"),
        pytest.param("[one for one in os.listdir('/dev') if 'nvidia' in one]", "", "cuda", id="the-folder", marks=LONG),
        pytest.param("os.path.isdir('/proc/driver/nvidia')", "", "cuda", id="the-driver", marks=LONG),
        pytest.param("found", tried("assert 'NVRM' in open('/proc/driver/nvidia/version').read()"), "cuda",
                     id="the-driver-s-version", marks=LONG),
        pytest.param("Path('/proc/driver/nvidia/version').is_file()", "from pathlib import Path\n", "cuda", id="a-path",
                     marks=LONG),
        pytest.param("found", "import ctypes\n" + tried("ctypes.CDLL('libcuda.so.1')"), "cuda", id="its-library"),
        pytest.param("found", "import ctypes\n" + tried("ctypes.CDLL('libnvidia-ml.so.1')"), "cuda", id="nvml",
                     marks=LONG),
        pytest.param("found", "import ctypes\n" + tried("ctypes.cdll.LoadLibrary('libcuda.so').cuInit(0)"), "cuda",
                     id="its-function", marks=LONG),
        pytest.param("find_library('cuda')", "from ctypes.util import find_library\n", "cuda", id="the-library-s-place",
                     marks=LONG),
        pytest.param("found", tried("subprocess.check_output(['rocm-smi'])"), "rocm", id="rocm-smi", marks=LONG),
        pytest.param("'gfx90a' in os.popen('rocminfo').read()", "", "rocm", id="rocminfo", marks=LONG),
        pytest.param("os.path.exists('/dev/kfd')", "", "rocm", id="a-device-of-amd", marks=LONG),
        pytest.param("shutil.which('xpu-smi')", "", "xpu", id="xpu-smi", marks=LONG),
        pytest.param("torch.xpu.is_available()", "", "xpu", id="torch-of-intel", marks=LONG),
    ],
)  # fmt: skip
def test_kernels_that_only_a_gpu_brings_end_the_plan(condition: str, before: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"k\.\w+ is compiled only where the build finds a GPU, so every .*-{kind}"):
        planned(tmp_path, *written(condition, before, kind))


@pytest.mark.parametrize(
    ("condition", "before", "kind"),
    [
        pytest.param("not print(found)", tried("subprocess.check_call(['nvidia-smi'])"), "cuda", id="it-only-prints"),
        pytest.param("True", "import os\nos.path.exists('/dev/nvidia0')\n", "cuda", id="it-only-looks", marks=LONG),
        pytest.param("CUDA_HOME is not None or shutil.which('nvidia-smi')", "", "cuda", id="the-toolkit", marks=LONG),
        pytest.param("torch.version.hip or shutil.which('rocminfo')", "", "rocm", id="torch-is-for-it", marks=LONG),
    ],
)
def test_a_question_for_a_gpu_that_decides_nothing_costs_nothing(
    condition: str, before: str, kind: str, tmp_path: Path
) -> None:
    (job,) = planned(tmp_path, *written(condition, before, kind)).jobs
    assert {image for library in job.libraries for image in library.images} in ({"sm_90"}, {"gfx90a"})


FORCED = "os.getenv('FORCE_CUDA', '0') == '1' or (torch.cuda.is_available() and CUDA_HOME is not None)"
OPT_IN = "# The kernels are opt-in.\n"
MISSED = "no kernel is compiled for it, though the source has k.cu"


@pytest.mark.parametrize(
    ("condition", "before", "kind", "switch", "said"),
    [
        pytest.param(FORCED, "", "rocm", "FORCE_CUDA", "", id="a-switch-of-cuda-on-rocm"),
        pytest.param("os.getenv('WITH_CUDA') or os.getenv('WITH_ROCM')", "", "rocm", "WITH_ROCM", "",
                     id="its-own-switch-first", marks=LONG),
        pytest.param("CUDA_HOME is not None", "", "rocm", "", f"{MISSED}; its build asks for the accelerator of torch",
                     id="no-home-of-cuda-on-rocm", marks=LONG),
        pytest.param("torch.version.hip is None", "", "rocm", "", MISSED, id="only-for-cuda", marks=LONG),
        pytest.param("os.getenv('WITH_CUDA') == '1'", OPT_IN, "cuda", "", f"{MISSED}; off by default: WITH_CUDA",
                     id="it-is-opt-in", marks=LONG),
        pytest.param(FORCED, "# FORCE_CUDA: explicitly request it\n", "cuda", "FORCE_CUDA", "",
                     id="a-gpu-does-it-unasked", marks=LONG),
    ],
)  # fmt: skip
def test_a_switch_is_set_where_the_source_has_it_and_offered_where_it_is_opt_in(
    condition: str, before: str, kind: str, switch: str, said: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path, *written(condition, before, kind))
    assert [name for name, _ in plan.jobs[-1].env if "ARCH" not in name] == ([switch] if switch else [])
    assert said in " ".join(plan.warnings)
    assert bool(plan.warnings) is bool(said)
