"""The CUDA toolkit of a Windows job: found or fetched on a machine whose facts are given."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build.cuda_toolkits import CudaToolkits, link_variables
from ci_tools.build.sdk.cuda_libraries import write_import_libraries
from ci_tools.build.sdk.cuda_windows import LAYOUT, WINDOWS, import_names, refuse_incomplete
from ci_tools.build.toolchain import Toolchains
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.providers import cuda_parts
from ci_tools.errors import MachineError
from ci_tools.formats.binaries.elf import Extent
from ci_tools.formats.binaries.pe import read_pe
from ci_tools.machine.context import Outside
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders.plans import job_of
from tests.builders.sources import world, write
from tests.builders.visual_studio import HOST_CONFIG, VisualStudio, program

CUDA = Accelerator(NVIDIA, Minor(13, 0))
SAYS = "echo 'Cuda compilation tools, release 13.0, V13.0.88'"
DLLTOOL, GCC = (shutil.which(f"x86_64-w64-mingw32-{name}") for name in ("dlltool", "gcc"))
# What Microsoft's lib.exe does with these options, by MinGW's program.
LIB = """\
for word in "$@"; do
  case "$word" in
    /def:*) definition="${{word#/def:}}" ;;
    /out:*) out="${{word#/out:}}" ;;
  esac
done
exec {dlltool} -d "$definition" -l "$out"
"""


def job(**fields: object) -> Job:
    fields = {"platform": Platform.WINDOWS_CUDA, "accelerator": CUDA, "toolchain": ToolchainKind.AUTO, **fields}
    plain = job_of("demo-1.0-cp312-cp312-win_amd64.whl", Platform.WINDOWS)
    return replace(plain, torch=None, wheel_platform="win_amd64", **fields)  # type: ignore[arg-type]  # those of a job


def windows(folder: Path, **environ: str) -> Outside:
    outside = world(folder)
    return replace(outside, host=WINDOWS, environ={"PATH": outside.environ["PATH"], **environ})


def toolkit(folder: Path) -> Path:
    """Write an installed toolkit whose compiler says that it is of CUDA 13.0."""
    program(folder / "bin/nvcc.exe", SAYS)
    return write(folder, {"include/crt/host_config.h": HOST_CONFIG.format(1920, 1950), "lib/x64/cuda.lib": ""})


def test_an_installed_toolkit_is_found_where_nvidia_puts_it(tmp_path: Path) -> None:
    home = toolkit(tmp_path / "NVIDIA GPU Computing Toolkit/CUDA/v13.0")
    found = CudaToolkits(catalog.load(), windows(tmp_path, PROGRAMFILES=str(tmp_path))).find_home(job())
    assert found == home


def test_the_index_has_a_compiler_for_windows(tmp_path: Path) -> None:
    toolkits = CudaToolkits(catalog.load(), windows(tmp_path))
    assert toolkits.missing(job()) == ""
    older = job(accelerator=Accelerator(NVIDIA, Minor(12, 6)), toolchain=ToolchainKind.PYPI)
    assert toolkits.missing(older) == "the package index has no compiler of CUDA 12.6 for windows-amd64"


def test_a_windows_job_is_built_on_windows(tmp_path: Path) -> None:
    here = replace(windows(tmp_path), host="linux-x86_64")
    why = "windows-cuda wheels are built on windows-amd64, this machine is linux-x86_64"
    assert Toolchains(catalog.load(), here).missing(job()) == why


def test_a_machine_without_visual_c_is_told_so(tmp_path: Path) -> None:
    assert Toolchains(catalog.load(), windows(tmp_path)).missing(job()).startswith("there is no Visual C++: ")


def test_a_job_gets_its_toolkit_and_the_compiler_that_it_takes(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path / "studio")
    studio.install("Visual Studio Enterprise 2026", "14.50.35717")
    home = studio.install("Visual Studio Build Tools 2022", "14.44.35207")
    outside = windows(tmp_path, CUDA_PATH=str(toolkit(tmp_path / "cuda")), **studio.environ())
    tools = Toolchains(catalog.load(), outside).prepare(job())
    assert tools.folders == (("CUDA_HOME", tmp_path / "cuda"),)
    assert tools.identity.split() == ["nvcc-V13.0.88", "msvc-14.44.35207"]
    assert tools.variables["NVCC_CCBIN"] == str(home / "VC/Tools/MSVC/14.44.35207/bin/Hostx64/x64")
    assert (tools.variables["DISTUTILS_USE_SDK"], tools.variables["PATH"]) == ("1", r"C:\VC\bin;C:\Windows")
    assert tools.is_cross is False


def test_a_job_without_cuda_gets_the_newest_compiler(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path / "studio")
    studio.install("Visual Studio Enterprise 2026", "14.50.35717")
    tools = Toolchains(catalog.load(), windows(tmp_path, **studio.environ())).prepare(
        job(platform=Platform.WINDOWS, accelerator=None)
    )
    assert tools.identity == "msvc-14.50.35717"
    assert tools.folders == ()


def test_a_toolkit_of_windows_has_the_driver_s_library_among_its_own(tmp_path: Path) -> None:
    assert link_variables({"CUDA_HOME": str(toolkit(tmp_path))}) == {}


def test_a_toolkit_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(LAYOUT, ""))
    refuse_incomplete(tmp_path, "13.0.3.0")
    (tmp_path / "nvvm/bin/cicc.exe").unlink()
    with pytest.raises(MachineError, match=r"cuda-toolkit 13\.0\.3\.0 for Windows have no nvvm/bin/cicc\.exe"):
        refuse_incomplete(tmp_path, "13.0.3.0")


def test_the_libraries_of_wheels_have_the_names_that_linkers_know() -> None:
    names = {
        "bin/x86_64/cublas64_13.dll": "cublas",
        "bin/x86_64/cublasLt64_13.dll": "cublasLt",
        "bin/cupti64_2025.3.1.dll": "cupti",
        "bin/x86_64/nvrtc64_130_0.dll": "nvrtc",
    }
    others = ["bin/x86_64/nvrtc64_130_0.alt.dll", "bin/x86_64/nvrtc-builtins64_130.dll", "include/cublas.h"]
    assert import_names([*names, *others]) == {name.rpartition("/")[2]: stem for name, stem in names.items()}
    assert import_names(["bin/cudart64_13.dll", "lib/x64/cudart.lib"]) == {}


@pytest.mark.skipif(not (DLLTOOL and GCC), reason="needs x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64)")
def test_what_is_linked_with_an_import_library_imports_the_dll(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path / "studio")
    tools = studio.install("Visual Studio Build Tools 2022", "14.44.35207") / "VC/Tools/MSVC/14.44.35207"
    program(tools / "bin/Hostx64/x64/lib.exe", LIB.format(dlltool=DLLTOOL))
    cublas = next(part for part in cuda_parts() if part.name == "cuBLAS")
    header = "int cublasCreate_v2(void *);\nint cublasLtCreate(void *);\n"
    home = write(tmp_path / "home", {"include/cublas_api.h": header})
    members = ["include/cublas_api.h", "bin/x86_64/cublas64_13.dll", "bin/x86_64/cublasLt64_13.dll"]
    write_import_libraries(home, members, cublas, windows(tmp_path, **studio.environ()))
    assert {path.name for path in (home / "lib/x64").iterdir()} == {"cublas.lib", "cublasLt.lib"}
    source = tmp_path / "a.c"
    source.write_text(f"{header}int f(void) {{ return cublasCreate_v2(0) + cublasLtCreate(0); }}\n")
    libraries = sorted((home / "lib/x64").iterdir())
    subprocess.run([str(GCC), "-shared", source, *libraries, "-o", tmp_path / "a.dll"], check=True)
    with (tmp_path / "a.dll").open("rb") as file:
        found = {each.library: each.symbols for each in read_pe(Extent.whole(file)).imports()}
    assert found["cublas64_13.dll"] == ("cublasCreate_v2",)
    assert found["cublasLt64_13.dll"] == ("cublasLtCreate",)
