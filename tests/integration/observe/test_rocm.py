"""A ROCm platform from its config to its job: what takes longer."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from ci_tools.model.plan import Plan
from ci_tools.observe import inside
from ci_tools.plan.contradictions import NO_OWNER
from tests.builders.setuptools_projects import only
from tests.builders.sources import evidence_of, plan_of, write
from tests.unit.observe.test_rocm import ASKED, reason, rocm_job, written

pytestmark = pytest.mark.slow


HEAD = """\
import glob, os
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME, ROCM_HOME
"""


SETUP = (
    "setup(name='demo', version='1.0', packages=['demo'], ext_modules={}, cmdclass={{'build_ext': BuildExtension}})\n"
)


EITHER = "[CUDAExtension('demo._C', ['a.cpp', 'k.cu'])] if CUDA_HOME or ROCM_HOME else []"


SOURCES = {"demo/__init__.py": "", "a.cpp": "#include <torch/extension.h>\n", "k.cu": "__global__ void k() {}\n"}


OWN_HIPIFY = """\
from torch.utils.hipify import hipify_python
if torch.version.hip:
    here = os.path.dirname(os.path.abspath(__file__))
    said = dict(includes='csrc/cuda/*', is_pytorch_extension=True)
    hipify_python.hipify(project_directory=here, output_directory=here, **said)
"""


CHOSEN = "glob.glob(f\"csrc/{'hip' if torch.version.hip else 'cuda'}/*\")"


def seen(folder: Path, script: str, rocm: str = ASKED, **files: str) -> Plan:
    return plan_of(written(folder, rocm, {**SOURCES, **files, "setup.py": script}))


def images(plan: Plan) -> dict[str, set[str]]:
    return {library.member.partition(".")[0]: set(library.images) for library in rocm_job(plan).libraries or ()}


@pytest.mark.parametrize(("guard", "is_refused"), [("{}", True), ("#ifdef USE_ROCM\n{}#endif\n", False)])
def test_a_kernel_that_includes_a_header_of_rocm_is_none_for_cuda(
    guard: str, *, is_refused: bool, tmp_path: Path
) -> None:
    kernel = guard.format("#include <hip/hip_runtime.h>\n")
    files = {**SOURCES, "k.cu": kernel, "setup.py": HEAD + SETUP.format(EITHER), "fatwheel.yml": only("linux-cuda")}
    shown = evidence_of(write(tmp_path / "a", files)).platforms[0].shown
    expected = "k.cu:1: it includes a header that only ROCm has" if is_refused else None
    assert (shown.unsupported or None) == expected


def test_sources_that_torch_translates_bring_the_rocm_job_with_their_place(tmp_path: Path) -> None:
    plan = seen(tmp_path, HEAD + SETUP.format(EITHER))
    job = rocm_job(plan)
    assert job.wheel == "demo-1.0+rocm7.1torch2.10-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert "compiles 2 files into demo/_C, k.cu translated by hipify (setup.py:5); one fatbinary for" in reason(plan)
    assert images(plan) == {"demo/_C": {"gfx90a", "gfx942:xnack+"}}
    assert plan.warnings == ()


def test_without_an_owner_the_plan_has_a_warning(tmp_path: Path) -> None:
    plan = seen(tmp_path, HEAD + SETUP.format(EITHER), ASKED.replace('owner: "@demo/rocm", ', ""))
    assert rocm_job(plan).owner is None
    assert f"linux-rocm: {NO_OWNER}" in plan.warnings


def test_sources_for_rocm_alone_need_no_translation(tmp_path: Path) -> None:
    alone = "[CUDAExtension('demo._C', ['k.hip'])] if torch.version.hip else []"
    plan = seen(tmp_path, HEAD + SETUP.format(alone), **{"k.hip": ""})
    assert [job.name for job in plan.jobs] == ["pure", "linux-rocm-rocm7.1-cp312"]
    assert ("hipify" in reason(plan), images(plan)) == (False, {"demo/_C": {"gfx90a", "gfx942:xnack+"}})


def test_a_project_may_translate_its_sources_itself(tmp_path: Path) -> None:
    extension = f"[CUDAExtension('demo._C', {CHOSEN})] if CUDA_HOME or ROCM_HOME else []"
    stable = "#define TORCH_TARGET_VERSION 0x020a000000000000\n#include <torch/csrc/stable/library.h>\n"
    plan = seen(tmp_path, HEAD + OWN_HIPIFY + SETUP.format(extension), **{"csrc/cuda/cuda_k.cu": stable})
    assert "csrc/hip/hip_k.hip translated by hipify (setup.py:9)" in reason(plan)
    assert "one for every torch" in reason(plan), reason(plan)
    assert images(plan) == {"demo/_C": {"gfx90a", "gfx942:xnack+"}}


def test_translating_in_another_way_is_not_known_and_collapses_nothing(tmp_path: Path) -> None:
    script = OWN_HIPIFY.replace("output_directory=here", "output_directory=here + '/out'")
    plan = seen(tmp_path, HEAD + script + SETUP.format(EITHER))
    assert "setup.py:9: it translates sources into another folder" in reason(plan)
    assert any("which is not simulated, so the platform counts as native" in warning for warning in plan.warnings)
    assert rocm_job(plan).wheel.startswith("demo-1.0+rocm7.1torch2.10-cp312-cp312-")


@pytest.mark.parametrize(
    ("flags", "expected", "warned"),
    [
        pytest.param("['--offload-arch=gfx90a']", {"gfx90a"}, "no library is for gfx942:xnack+, which the request",
                     id="fewer"),
        pytest.param("['--offload-arch=gfx90a,gfx1100']", {"gfx90a", "gfx1100"}, "the project chooses gfx1100"
                     " gfx90a", id="others"),
        pytest.param("['--offload-arch=native']", None, "its compiler decides", id="the-builder-s-own"),
        pytest.param("['-O3']", {"gfx90a", "gfx942:xnack+"}, "", id="those-asked-for"),
    ],
)  # fmt: skip
def test_architectures_of_the_project_s_own_choice(
    tmp_path: Path, flags: str, expected: set[str] | None, warned: str
) -> None:
    extension = f"[CUDAExtension('demo._C', ['k.cu'], extra_compile_args={{'nvcc': {flags}}})]"
    plan = seen(tmp_path, HEAD + SETUP.format(f"{extension} if ROCM_HOME else []"))
    assert images(plan) == ({"demo/_C": expected} if expected else {})
    of_rocm = [warning for warning in plan.warnings if not warning.startswith("linux-cuda: no kernel is compiled")]
    assert [warned in warning for warning in of_rocm] == ([True] if warned else [])


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        pytest.param("PYTORCH_ROCM_ARCH", "gfx90a gfx1100", {"gfx90a", "gfx1100"}, id="by-blanks"),
        pytest.param("PYTORCH_ROCM_ARCH", "native", None, id="what-torch-alone-understands"),
    ],
)
def test_the_config_s_own_variable_has_the_last_word(
    tmp_path: Path, variable: str, value: str, expected: set[str] | None
) -> None:
    plan = seen(tmp_path, HEAD + SETUP.format(EITHER), f'{ASKED}, env: {{{variable}: "{value}"}}')
    assert images(plan) == ({"demo/_C": expected} if expected else {})


def test_members_are_not_foretold_where_a_translation_may_be_one(tmp_path: Path) -> None:
    script = HEAD + SETUP.format(EITHER).replace("packages=", "package_data={'demo': ['*.h']}, packages=")
    assert rocm_job(seen(tmp_path / "one", script)).members
    assert rocm_job(seen(tmp_path / "other", script, **{"demo/k.h": ""})).members is None


def test_what_hipcc_is_told_is_the_same_in_the_build(tmp_path: Path) -> None:
    asked = "if torch.version.hip and (os.environ['HIP_PLATFORM'] != 'amd' or not os.environ['PYTORCH_ROCM_ARCH']):\n"
    plan = seen(tmp_path, HEAD + asked + "    raise SystemExit('not for AMD')\n" + SETUP.format(EITHER))
    assert rocm_job(plan).archs == ("gfx90a", "gfx942:xnack+")


TREE = {
    "csrc/cuda/k.cu": '#include <cuda_runtime.h>\n#include "cuda_util.cuh"\n__global__ void k() {}\n',
    "csrc/cuda/cuda_util.cuh": "#include <cuda_runtime.h>\n",
    "csrc/plain.cpp": "int plain() { return 1; }\n",
    "csrc/launch.cpp": "#include <ATen/cuda/CUDAContext.h>\n",
    "csrc/CUDAThings.cc": "#include <c10/cuda/CUDAStream.h>\n",
    "k.cu": "__global__ void k() {}\n",
    "empty.cu": "int nothing;\n",
}


def simulated() -> ModuleType:
    path = Path(inside.__file__).parent / "fakes/torch/utils/hipify/hipify_python.py"
    spec = importlib.util.spec_from_file_location("simulated_hipify", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def translated(module: ModuleType, folder: Path) -> tuple[set[str], dict[str, str]]:
    """Return the files that there are once a module has translated a tree, and where each source went."""
    root = str(write(folder, TREE).resolve())
    sources = [f"{root}/{name}" for name in TREE]
    found = module.hipify(
        project_directory=root, output_directory=root, includes=[f"{root}/*"], extra_files=sources,
        hipify_extra_files_only=True, is_pytorch_extension=True, show_detailed=False, show_progress=False,
    )  # fmt: skip
    went = {os.path.relpath(name, root): os.path.relpath(found[name].hipified_path, root) for name in sources}
    return {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}, went


def real(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return torch's own translator: it needs nothing else of torch, whose import takes seconds."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("there is no torch here to compare with")
    monkeypatch.syspath_prepend(Path(torch.origin).parent / "utils")
    return importlib.import_module("hipify.hipify_python")


def test_files_are_translated_under_the_names_that_torch_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert translated(simulated(), tmp_path / "ours") == translated(real(monkeypatch), tmp_path / "theirs")
