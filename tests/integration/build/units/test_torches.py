"""BuildExtension of each torch calls the launchers, with ninja and without, and the next build takes all it made."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ci_tools import catalog
from ci_tools.build.sdk.lending import open_answers
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.build.units.store import UnitStore
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.errors import MachineError
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, sha256_of
from ci_tools.model.platforms import Accelerator
from ci_tools.model.versions import Minor
from tests.builders.sources import write
from tests.builders.units import open_units

pytestmark = pytest.mark.long

SETUP = """\
import sys
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
command = BuildExtension.with_options(use_ninja=sys.argv.pop() == "ninja")
setup(name="demo", ext_modules=[CUDAExtension("demo", ["a.cu", "b.cpp"])], cmdclass={"build_ext": command})
"""
SOURCES = {"setup.py": SETUP, "a.cu": "__global__ void k(int* x) { *x = 1; }\n", "b.cpp": "int b() { return 1; }\n"}


@pytest.mark.parametrize("by", ["ninja", "itself"])
@pytest.mark.parametrize("version", ["2.9", "2.10", "2.15"])
def test_a_second_checkout_takes_all_from_the_store(version: str, by: str, cuda_home: Path, tmp_path: Path) -> None:
    """The package index has these torches for CUDA 12.8 and 13.2: each answers as one for the compiler's 13.0."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    wanted = Wanted(SpecifierSet(f"=={version}.*"), "", f"cp{sys.version_info.major}{sys.version_info.minor}")
    try:
        torch = find_torch(wanted, catalog.load(), outside, os.environ)
    except MachineError as error:
        pytest.skip(f"needs the package index: {error.message}")
    for part in (torch.site, *open_answers(torch, Accelerator(CUDA, Minor(13, 0)), outside)):
        shutil.copytree(part, tmp_path / "torch", dirs_exist_ok=True)
    store, found, made = UnitStore(folder=tmp_path / "store"), [], []
    for _ in range(2):
        with open_units(tmp_path / "build", store, cuda_home) as units:
            shutil.rmtree(units.folder)
            write(units.folder, SOURCES)
            environ = {"PYTHONPATH": str(tmp_path / "torch"), "TORCH_CUDA_ARCH_LIST": "9.0"}
            environ["PATH"] = f"{units.environ['PATH']}:{Path(sys.executable).parent}"
            done = units.run(sys.executable, "setup.py", "build_ext", "--inplace", by, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        made.append(sha256_of(next(units.folder.glob("demo*.so"))))
        found.append([one.how for one in (*units.report.units, *units.report.links)])
    assert found == [["compiled"] * 3, ["unchanged"] * 3]
    assert made[0] == made[1]
