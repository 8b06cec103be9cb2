"""What a fetched toolkit lacks for linkers: here with a real linker."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ci_tools.build.cuda_toolkits import link_variables
from ci_tools.build.sdk.cuda_libraries import complete_links
from ci_tools.formats.binaries.elf import linking
from ci_tools.machine.process import clean_environment
from tests.builders.sources import world, write

HEADER = "int CUDAAPI cuInit(unsigned int Flags);\n"
SOURCE = "extern int cuInit(unsigned int); int f(void) { return cuInit(0); }\n"


def test_a_build_links_with_the_driver_on_a_machine_without_one(tmp_path: Path) -> None:
    home = write(tmp_path / "home", {"include/cuda.h": HEADER, "lib/libcudart.so.13": "", "a.c": SOURCE})
    complete_links(home, tmp_path / "log")
    environ = clean_environment(world(tmp_path).environ, link_variables({"CUDA_HOME": str(home)}))
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,defs", "a.c", "-lcuda", "-o", "a.so"]
    ran = subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with (home / "a.so").open("rb") as file:
        assert "libcuda.so.1" in linking(file).needed


def test_a_build_without_cuda_gets_no_library_path() -> None:
    assert link_variables({"ROCM_HOME": "/opt/rocm"}) == {}
