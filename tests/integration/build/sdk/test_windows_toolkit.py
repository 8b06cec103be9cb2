"""What a Windows build is made with, really fetched: NVIDIA's compiler, torch's parts; and run by Wine where it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from ci_tools import catalog
from ci_tools.build.cuda_toolkits import CudaToolkits
from ci_tools.build.sdk.cuda_windows import LAYOUT, WINDOWS
from ci_tools.build.sdk.installed import Bounds, Msvc, msvc_variables, read_bounds
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.build.sdk.torch_parts import TorchParts
from ci_tools.errors import MachineError
from ci_tools.formats.binaries.fatbinary import units
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders.sources import write
from tests.builders.visual_studio import program
from tests.unit.build.sdk.test_cuda_windows import job

PROGRAM = re.compile(r'"*(?:%CICC_PATH%\\)?(cl\.exe|cudafe\+\+|cicc|ptxas|fatbinary)"? ')
WINE, GCC = shutil.which("wine"), shutil.which("x86_64-w64-mingw32-gcc")
by_wine = pytest.mark.skipif(not (WINE and GCC), reason="needs wine and x86_64-w64-mingw32-gcc")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="a machine that is not Windows")]
PTX = """\
.version 9.0
.target sm_90
.address_size 64
.visible .entry scale(.param .u64 p) {
  .reg .b64 %r<2>;
  ld.param.u64 %r1, [p];
  st.global.b32 [%r1], 1;
  ret;
}
"""
LIBRARY = """\
#define incbin(section, file) ".section " section ",\\"dr\\"\\n.incbin \\"" file "\\"\\n.text\\n"
__asm__(incbin(".nv_fatb", "k.fatbin"));
__declspec(dllexport) int ours(void) { return 1; }
"""
# What cl.exe of toolset 14.44 answers nvcc.exe, which has it preprocess a list of macros before anything else.
CL = """\
#include <stdio.h>
int main(void) { return puts("__NV_CPLUSPLUS 199711L\\n__NV_X86_64__\\n__NV_MSC_VER 1944\\n"
  "__NV_MSVC_LANG 201402L\\n__NV_MSC_FULL_VER 194435207") < 0; }
"""
# torch.utils.cpp_extension asks only sys.platform whether it is on Windows; what it imports is loaded before that.
ASKS = """\
import setuptools, shutil, subprocess, sys, sysconfig
sys.path.insert(0, {site!r})
sys.platform = "win32"
import torch
from torch.utils import cpp_extension
made = cpp_extension.CppExtension("demo._C", ["demo.cpp"])
print(torch.__version__, torch.compiled_with_cxx11_abi(), cpp_extension.LIB_EXT, *made.libraries, *made.library_dirs)
"""


@pytest.fixture(scope="module")
def outside() -> Outside:
    """The context of a Windows machine that has this one's cache: what is fetched for it is kept for the next run."""
    return Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent(), host=WINDOWS)


@pytest.fixture(scope="module")
def home(outside: Outside) -> Path:
    """The CUDA toolkit for Windows: 90 MB to fetch, once."""
    try:
        return CudaToolkits(catalog.load(), outside).find_home(job(toolchain=ToolchainKind.PYPI))
    except MachineError as error:
        pytest.skip(f"needs the package index: {error.message}")


@pytest.fixture(scope="module")
def torch(outside: Outside) -> TorchParts:
    wanted = Wanted(SpecifierSet("==2.13.*"), "cpu", "cp312")
    try:
        return find_torch(wanted, catalog.load(), outside, outside.environ)
    except MachineError as error:
        pytest.skip(f"needs the package index: {error.message}")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a Windows of its own."""
    folder = tmp_path_factory.mktemp("wine")
    return {
        **os.environ,
        "WINEPREFIX": str(folder / "prefix"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree,mshtml=",
    }


def run(command: Sequence[str | Path], wine: dict[str, str], folder: Path) -> str:
    """Run a Windows program; return what it printed."""
    ended = subprocess.run(
        [str(WINE), *command], capture_output=True, text=True, check=True, env=wine, cwd=folder, timeout=300
    )
    return ended.stdout


def test_the_toolkit_has_what_its_profile_names(home: Path) -> None:
    assert [name for name in LAYOUT if not (home / name).is_file()] == []
    profile = (home / "bin/nvcc.profile").read_text().replace("$(_WIN_PLATFORM_)", "x64")
    named = re.findall(r"\$\(TOP\)/([\w/]+)", profile)
    assert sorted(named) == ["include", "include/cccl", "lib", "lib/x64", "nvvm/bin", "nvvm/libdevice"]
    assert all((home / name).is_dir() for name in named)


def test_its_header_says_which_compilers_it_takes(home: Path) -> None:
    assert read_bounds(home) == Bounds(1920, 1950)


@by_wine
def test_its_programs_run_and_know_the_catalog_s_architectures(
    home: Path, wine: dict[str, str], tmp_path: Path
) -> None:
    assert "release 13.0, V13.0.88" in run([home / "bin/nvcc.exe", "--version"], wine, tmp_path)
    known = run([home / "bin/nvcc.exe", "--list-gpu-code"], wine, tmp_path).split()
    plain = {arch for arch in catalog.load().cuda[Minor(13, 0)].architectures if arch[-1].isdigit()}
    assert set(known) == {f"sm_{arch.replace('.', '')}" for arch in plain}


@by_wine
def test_nvcc_plans_its_commands_with_the_variables_of_a_build(
    home: Path, wine: dict[str, str], tmp_path: Path
) -> None:
    msvc = Msvc("", tmp_path / "Visual Studio", "14.44.35207")
    write(tmp_path, {"k.cu": "__global__ void k() {}\n", "cl.c": CL})
    write(msvc.setup.parent, {"vcvarsall.bat": "@exit /b 0\r\n"})  # by which nvcc.exe knows a Visual C++
    msvc.programs.mkdir(parents=True)
    subprocess.run([str(GCC), "cl.c", "-o", msvc.programs / "cl.exe"], check=True, cwd=tmp_path)
    told = {"NVCC_CCBIN": f"Z:{msvc.programs}", "WINEPATH": f"Z:{msvc.programs}", "VSCMD_VER": "17.14"}
    command = [home / "bin/nvcc.exe", "--dryrun", "-gencode=arch=compute_90,code=sm_90", "-c", "k.cu", "-o", "k.obj"]
    lines = [line.removeprefix("#$ ") for line in run(command, {**wine, **told}, tmp_path).splitlines()]
    called = [match[1] for line in lines if (match := PROGRAM.match(line))]
    assert called == ["cl.exe", "cudafe++", "cl.exe", "cicc", "ptxas", "fatbinary", "cl.exe"]
    assert all("--microsoft_version=1944" in line for line in lines if "cudafe++ -" in line or 'cicc" -' in line)
    assert any(line.startswith("LIBRARIES=") and line.endswith('cu13\\bin/../lib/x64"') for line in lines)


@by_wine
def test_device_code_that_they_compile_is_read_in_a_library(home: Path, wine: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"k.ptx": PTX, "c.c": LIBRARY})
    run([home / "bin/ptxas.exe", "-arch=sm_90", "k.ptx", "-o", "k.cubin"], wine, tmp_path)
    images = ["--image3=kind=elf,sm=90,file=k.cubin", "--image3=kind=ptx,sm=90,file=k.ptx"]
    run([home / "bin/fatbinary.exe", "--create=k.fatbin", "-64", *images], wine, tmp_path)
    subprocess.run([str(GCC), "-shared", "c.c", "-o", "c.dll"], check=True, cwd=tmp_path)
    with (tmp_path / "c.dll").open("rb") as file:
        (unit,) = units(file)
    assert {str(code.image): code.kernels for code in unit.codes} == {"sm_90": {"scale"}, "compute_90": {"scale"}}


@by_wine
def test_the_environment_is_read_by_a_shell_of_windows(wine: dict[str, str], tmp_path: Path) -> None:
    lines = ["@set INCLUDE=C:\\VC include;C:\\Kits", "@set LIB=%1", "@set Path=C:\\VC\\bin;%Path%", "@echo hello"]
    setup = write(tmp_path / "Visual Studio", {"VC/Auxiliary/Build/vcvars64.bat": "\r\n".join(lines) + "\r\n"})
    cmd = program(tmp_path / "cmd.exe", f'exec "{WINE}" cmd "$1" "$2" "$(winepath -w "$3")"')
    scratch = tmp_path / "a folder"
    scratch.mkdir()
    found = msvc_variables(Msvc("", Path(f"Z:{setup}"), "14.44.35207"), {**wine, "COMSPEC": str(cmd)}, scratch)
    assert found["INCLUDE"] == "C:\\VC include;C:\\Kits"
    assert found["LIB"].startswith("-vcvars_ver")
    assert found["PATH"].startswith("C:\\VC\\bin;")
    assert found["DISTUTILS_USE_SDK"] == "1"


def test_torch_s_import_libraries_are_fetched(torch: TorchParts) -> None:
    assert torch.version == "2.13.0+cpu"
    assert {path.name for path in (torch.site / "torch/lib").iterdir()} >= {
        "c10.lib",
        "sleef.lib",
        "torch.lib",
        "torch_cpu.lib",
        "torch_python.lib",
    }
    assert not list((torch.site / "torch/lib").glob("*.dll"))
    assert (torch.site / "torch/include/torch/extension.h").is_file()


def test_an_extension_is_told_what_it_would_be_on_windows(torch: TorchParts) -> None:
    code = ASKS.format(site=str(torch.site))
    ended = subprocess.run([sys.executable, "-I", "-B", "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    libraries = ("c10", "torch", "torch_cpu", "torch_python", "sleef")
    assert ended.stdout.split() == ["2.13.0+cpu", "False", ".pyd", *libraries, f"{torch.site}/torch/lib"]
