"""What a GPU would add to a build: a wheel that would lack its kernels is never planned as known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import CellEvidence
from tests.builders.sources import evidence_of, plan_of, write

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.11"]
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: [ARCHS]}
"""
SETUP = """\
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
sources = ['a.cu']
if torch.cuda.is_available():
    try:
        asked = ASKED
    except Exception:
        asked = 0
    if asked >= LEAST:
        sources.append('hopper.cu')
setup(name='demo', version='1.0', packages=['demo'], ext_modules=[CUDAExtension('demo.a', sources)],
      cmdclass={'build_ext': BuildExtension})
"""
CAPABILITY, PROPERTIES = "torch.cuda.get_device_capability(0)[0]", "torch.cuda.get_device_properties(0)"
LACKS = "without a GPU its build leaves hopper.cu out, and no switch for that is known (setup.py:5)"


def shown(folder: Path, archs: str, asked: str, least: int = 9) -> CellEvidence:
    """Return the evidence of a project that adds a source where a GPU answers at least that."""
    files = {
        "fatwheel.yml": CONFIG.replace("ARCHS", ", ".join(f'"{arch}"' for arch in archs.split())),
        "setup.py": SETUP.replace("ASKED", asked).replace("LEAST", str(least)),
        "demo/__init__.py": "",
        "a.cu": "",
        "hopper.cu": "",
    }
    return evidence_of(write(folder / "a", files)).platforms[0].shown


@pytest.mark.parametrize("archs", ["9.0", "8.0 9.0", "8.0 9.0+PTX", "9.0 8.0"])
@pytest.mark.parametrize("asked", [CAPABILITY, f"{PROPERTIES}.major"])
def test_kernels_of_any_gpu_that_is_asked_for_are_missed(archs: str, asked: str, tmp_path: Path) -> None:
    assert shown(tmp_path, archs, asked).unsupported == LACKS


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ("torch.cuda.current_device()", "RuntimeError: No CUDA GPUs are available, WITHOUT"),
        (
            "torch.cuda.is_available() or int('of a GPU')",
            "ValueError: invalid literal for int() with base 10: 'of a GPU', WITHOUT",
        ),
        ("raise OSError(f'{torch.cuda.is_available()} it is')", "OSError: False it is"),  # it fails with one, too
    ],
)
def test_a_build_that_needs_a_gpu_fails_on_a_builder_without_one(asked: str, error: str, tmp_path: Path) -> None:
    script = (
        f"import torch\nfrom setuptools import setup\n{asked}\nsetup(name='demo', version='1.0', packages=['demo'])\n"
    )
    config = CONFIG.replace("ARCHS", '"9.0"').replace("package: demo", 'package: demo\nversion: "1.0"')
    files = {"fatwheel.yml": config, "setup.py": script, "demo/__init__.py": ""}
    found = evidence_of(write(tmp_path, files)).platforms[0].shown
    said = error.replace("WITHOUT", "as it finds no GPU, which no builder has")
    assert found.unsupported == f"{said} (setup.py:3)"


def test_kernels_of_no_gpu_that_is_asked_for_are_not_missed(tmp_path: Path) -> None:
    found = shown(tmp_path, "8.0 8.6", CAPABILITY)
    assert (found.unsupported, len(found.built)) == (None, 1)


@pytest.mark.parametrize(
    "asked",
    [f"{PROPERTIES}.total_memory", f"{PROPERTIES}.multi_processor_count", "len(torch.cuda.get_device_name(0))"],
)
def test_what_is_not_known_of_a_gpu_is_a_doubt_though_no_builder_has_one(asked: str, tmp_path: Path) -> None:
    found = shown(tmp_path, "9.0", asked)
    assert found.extensions_where.startswith("setup.py:7: with a GPU, it asks for torch.cuda.get_device_")
    assert (found.built, found.unsupported) == ((), "")


@pytest.mark.parametrize(
    ("flags", "archs"),
    [
        pytest.param("['-gencode=arch=compute_80,code=sm_80']", ("8.0",), id="one-that-nobody-asked-for"),
        pytest.param("[]", (), id="those-that-are-asked-for"),
    ],
)
def test_the_architectures_that_a_setup_py_chooses_are_those_of_its_wheel(
    flags: str, archs: tuple[str, ...], tmp_path: Path
) -> None:
    script = (
        "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CUDAExtension\n"
        f"setup(name='demo', version='1.0', packages=['demo'], cmdclass={{'build_ext': BuildExtension}}, "
        f"ext_modules=[CUDAExtension('demo.a', ['a.cu'], extra_compile_args={{'cxx': [], 'nvcc': {flags}}})])\n"
    )
    files = {"fatwheel.yml": CONFIG.replace("ARCHS", '"9.0"'), "setup.py": script, "demo/__init__.py": "", "a.cu": ""}
    folder = write(tmp_path / "a", files)
    assert evidence_of(folder).platforms[0].shown.archs == archs
    (job,) = plan_of(folder).jobs
    assert job.archs == (archs or ("9.0",))
