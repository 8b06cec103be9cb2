"""torch as a build sees it: what its own classes do, and what it says of an accelerator without a named version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ci_tools.model.evidence import CellEvidence, Extensions
from ci_tools.observe import inside
from tests.builders.sources import evidence_of, write
from tests.servers.prepared import TORCH, run_prepared

pytestmark = pytest.mark.slow  # many real processes

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")

SETUP = """\
import re, torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
MORE
setup(name='demo', version='1.0', packages=['demo'], ext_modules=EXTENSIONS, cmdclass={'build_ext': COMMAND})
"""
ALWAYS = "[CUDAExtension('demo.a', ['a.cu'])]"
OWN_COMMAND = """\
class Own(BuildExtension):
    def __init__(self, *args, **options):
        self.flags = options.pop('flags')
        self.again = options.pop('again', '')
        super().__init__(*args, **options)
    def build_extensions(self):
        self.extensions[0].extra_compile_args['nvcc'] += [self.flags + self.again]
        super().build_extensions()
"""


def shown(
    folder: Path, platform: str, extensions: str = ALWAYS, command: str = "BuildExtension", more: str = ""
) -> CellEvidence:
    """Return the evidence of a project for one platform, with torch 2.11."""
    config = f'package: demo\nversion: "1.0"\npython: ["3.12"]\ntorch: ["2.11"]\nplatforms:\n  {platform}\n'
    script = SETUP.replace("MORE", more).replace("EXTENSIONS", extensions).replace("COMMAND", command)
    files = {"fatwheel.yml": config, "setup.py": script, "demo/__init__.py": "", "a.cu": ""}
    return evidence_of(write(folder / "a", files)).platforms[0].shown


OPERATORS = (
    "_efficient_attention_backward",
    "_efficient_attention_forward",
    "_flash_attention_backward",
    "_flash_attention_forward",
)
CUDA = 'linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}'


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        pytest.param("Own.with_options(flags='-DONE')", "-DONE", id="once"),
        pytest.param("Own.with_options(flags='-DONE').with_options(again='_TWO')", "-DONE_TWO", id="twice"),
        pytest.param("Own.with_options(flags='-DONE').with_options(flags='-DTWO')", "-DONE", id="the-inner-one-wins"),
        pytest.param("Own.with_options(flags='-DONE', use_ninja=False)", "-DONE", id="with-one-of-torch-s"),
    ],
)
def test_a_command_gets_its_options_before_torch_s(command: str, flag: str, tmp_path: Path) -> None:
    extensions = "[CUDAExtension('demo.a', ['a.cu'], extra_compile_args={'cxx': [], 'nvcc': []})]"
    (library,) = shown(tmp_path, CUDA, extensions, command, OWN_COMMAND).built
    assert [one for one in library.compiles[0].flags if "ONE" in one or "TWO" in one] == [flag]


# ---------------------------------------------------------------- an accelerator without a version in the config


@pytest.mark.parametrize(
    "asked",
    [
        "torch.version.hip",
        "torch.version.hip is not None",
        "torch.version.hip and torch.version.hip.split('.') > ['6', '0']",
        "re.match('7', torch.version.hip or '')",
    ],
)
def test_a_torch_for_rocm_has_a_version_though_the_config_names_none(asked: str, tmp_path: Path) -> None:
    found = shown(tmp_path, 'linux-rocm: {owner: "@demo/rocm"}', f"{ALWAYS} if {asked} else []")
    assert found.extensions is Extensions.SOME


def test_a_build_that_differs_by_the_version_is_a_doubt(tmp_path: Path) -> None:
    newest = "re.match('7.2', torch.version.hip or '')"
    found = shown(tmp_path, 'linux-rocm: {owner: "@demo/rocm"}', f"{ALWAYS} if {newest} else []")
    assert found.extensions_where == "its build depends on the version of the accelerator, and the config names none"


@pytest.mark.parametrize("platform", ["linux-rocm", "linux-xpu"])
def test_a_build_that_is_the_same_for_all_of_them_is_known(platform: str, tmp_path: Path) -> None:
    found = shown(tmp_path, f'{platform}: {{owner: "@demo/gpu"}}', f"{ALWAYS} if torch.__version__ < '2.11' else []")
    assert found.extensions is Extensions.NONE


def test_the_version_of_xpu_is_that_of_the_oneapi_of_its_torch(tmp_path: Path) -> None:
    found = shown(tmp_path, 'linux-xpu: {owner: "@demo/xpu"}', f"[] if torch.version.xpu == '20250300' else {ALWAYS}")
    assert (found.extensions, found.unsupported) == (Extensions.NONE, None)


@needs_torch
def test_the_real_torch_has_operators_in_no_other_namespace() -> None:
    asks = "import torch; print(*{one.name.split('::')[0] for one in torch._C._jit_get_all_schemas()})"
    command = [sys.executable, "-c", asks]  # not the prepared torch, which has imported what adds others
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    fake = Path(inside.__file__).parent / "fakes/torch/ops.py"
    assert set(said.split()) <= set(re.findall(r"\w+", fake.read_text(encoding="utf-8"))), said


@needs_torch
def test_the_operators_whose_schemas_are_compared_are_there_in_the_real_torch() -> None:
    asks = "import sys, torch; [getattr(torch.ops.aten, name).default._schema for name in sys.argv[1:]]"
    ended = run_prepared(["-c", asks, *OPERATORS], env=os.environ, program=TORCH)
    assert ended.returncode == 0, ended.stderr


AT_RUN_TIME = """\
import torch.utils.cpp_extension as jit
from torch.utils.cpp_extension import _jit_compile, load, load_inline
if not hasattr(jit, '_get_build_directory'):
    raise RuntimeError('torch has changed')
"""


def test_a_function_for_run_time_may_be_looked_for_and_a_call_of_it_is_a_doubt(tmp_path: Path) -> None:
    assert shown(tmp_path / "looked", CUDA, more=AT_RUN_TIME).extensions_where.startswith("observed by running")
    called = f"{AT_RUN_TIME}jit._get_build_directory('demo', False)"
    where = shown(tmp_path / "called", CUDA, more=called).extensions_where
    assert where.startswith("setup.py:8: it uses torch.utils.cpp_extension._get_build_directory"), where


@pytest.mark.parametrize(("variables", "built"), [("", Extensions.NONE), ('{CUDNN_HOME: "/cudnn"}', Extensions.SOME)])
def test_cudnn_is_where_the_environment_of_the_build_says(variables: str, built: Extensions, tmp_path: Path) -> None:
    more = f"build: {{env: {variables}}}\nplatforms:" if variables else "platforms:"
    files = {
        "fatwheel.yml": f'package: demo\nversion: "1.0"\npython: ["3.12"]\ntorch: ["2.11"]\n{more}\n  {CUDA}\n',
        "setup.py": SETUP.replace("MORE", "from torch.utils.cpp_extension import CUDNN_HOME")
        .replace("EXTENSIONS", f"{ALWAYS} if CUDNN_HOME else []")
        .replace("COMMAND", "BuildExtension"),
        "demo/__init__.py": "",
        "a.cu": "",
    }
    assert evidence_of(write(tmp_path, files)).platforms[0].shown.extensions is built


COMPARES = """\
torch.ops.aten._flash_attention_forward.default._schema.is_backward_compatible_with(
    torch._C.parse_schema("aten::f(Tensor a) -> Tensor"))"""


@pytest.mark.parametrize(
    ("extensions", "where"),
    [
        pytest.param(f"[CUDAExtension('demo.a', ['a.cu', 'b.cu'][{COMPARES}:])]", "", id="decides-no-wheel"),
        pytest.param(f"{ALWAYS} if {COMPARES} else []", "whether torch's aten._flash_attention_forward", id="decides"),
        pytest.param(f"{ALWAYS} if torch.cuda.nccl.version() > (2, 28) else []", "", id="a-version-of-nccl"),
    ],
)
def test_what_only_a_real_torch_can_say_is_no_doubt_where_it_decides_nothing(
    extensions: str, where: str, tmp_path: Path
) -> None:
    found = shown(tmp_path, CUDA, extensions)
    assert where in found.extensions_where
    assert bool(where) == (found.extensions is Extensions.UNKNOWN), found.extensions_where
