"""Which compiler of oneAPI a job for XPU takes from a machine that has some, and what it says where none serves."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build.sdk.installed import (
    Bounds,
    InstalledCompilers,
    Msvc,
    choose_msvc,
    explain_missing,
    find_msvc,
    msvc_variables,
    read_bounds,
)
from ci_tools.build.toolchain import Toolchains
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.errors import InputError, MachineError
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Platform
from tests.builders.sources import PROJECT, plan_of, request_of, world, write
from tests.builders.visual_studio import HOST_CONFIG, VSWHERE, VisualStudio, program

KNOWN = catalog.load()
CONFIG = """\
package: demo
version: "1.0"
python: ["{python}"]
{torch}
platforms:
  linux-xpu: {{owner: "@demo/xpu", native: ["*.sycl"]{more}}}
"""
SAID = "Intel(R) oneAPI DPC++/C++ Compiler {version} ({version}.20260101)"
CUDA_13 = Bounds(1920, 1950)
BUILD_TOOLS = "Visual Studio Build Tools 2022"


def written(folder: Path, torch: str = "", more: str = "") -> Path:
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    asked = f'torch: ["{torch}"]' if torch else ""
    config = CONFIG.format(python=python, torch=asked, more=more)
    return write(folder / "demo", {"fatwheel.yml": config, "pyproject.toml": PROJECT, "demo.py": "", "k.sycl": ""})


def xpu_job(folder: Path, torch: str = "", more: str = "") -> Job:
    (job,) = (job for job in plan_of(written(folder, torch, more)).jobs if job.platform is Platform.LINUX_XPU)
    return job


def machine(folder: Path, *versions: str) -> Path:
    """Write a folder of oneAPI with an icpx of each version, and `latest`, a link to the last; return it."""
    for version in versions:
        icpx = folder / "oneapi/compiler" / version.rpartition(".")[0] / "bin/icpx"
        icpx.parent.mkdir(parents=True)
        icpx.write_text(f"#!/bin/sh\necho '{SAID.format(version=version)}'\n")
        icpx.chmod(0o755)
        latest = folder / "oneapi/compiler/latest"
        latest.unlink(missing_ok=True)
        latest.symlink_to(icpx.parents[1])
    return folder / "oneapi"


def compilers(folder: Path, **environ: str) -> InstalledCompilers:
    """Return the compilers of a machine without those that the real one has."""
    return InstalledCompilers(XPU, KNOWN, {"PATH": "/nowhere", **environ}, folder / "nothing")


def chosen(folder: Path, torch: str, *versions: str) -> str:
    """Return the version of the compiler that a job for a torch takes."""
    found = compilers(folder, ONEAPI_ROOT=str(machine(folder, *versions)))
    home = found.choose(xpu_job(folder, torch))
    return home.name if home else ""


@pytest.mark.parametrize(
    ("torch", "versions", "expected"),
    [
        pytest.param("2.10", ["2025.3.1"], "2025.3", id="the-very-one"),
        pytest.param("2.10", ["2025.1.0", "2025.2.1", "2026.0.0"], "2025.2", id="the-newest-that-is-older"),
        pytest.param("2.9", ["2025.3.1"], "", id="newer"),
        pytest.param("2.13", ["2025.3.1"], "", id="another-runtime"),
        pytest.param("2.14", ["2026.0.0", "2026.1.2"], "2026.1", id="two-of-one-runtime"),
        pytest.param("", ["2025.3.1", "2026.2.0"], "2026.2", id="without-torch"),
    ],
)
def test_a_job_takes_the_newest_compiler_that_its_torch_runs_with(
    torch: str, versions: list[str], expected: str, tmp_path: Path
) -> None:
    assert chosen(tmp_path, torch, *versions) == expected


@pytest.mark.parametrize("where", ["CMPLR_ROOT", "ONEAPI_ROOT", "HOME", "PATH"])
def test_it_is_found_wherever_it_is_named_and_only_once(where: str, tmp_path: Path) -> None:
    root = machine(tmp_path / "intel", "2025.3.1")
    home = root / "compiler/2025.3"
    named = {"CMPLR_ROOT": home, "ONEAPI_ROOT": root, "HOME": tmp_path, "PATH": root / "compiler/latest/bin"}
    assert compilers(tmp_path, **{where: str(named[where])}).find() == {home: catalog.Minor(2025, 3)}


def test_what_is_no_icpx_of_intel_is_not_found(tmp_path: Path) -> None:
    icpx = machine(tmp_path, "2025.3.1") / "compiler/2025.3/bin/icpx"
    icpx.write_text("#!/bin/sh\necho clang version 22.0.0\n")
    assert compilers(tmp_path, ONEAPI_ROOT=str(tmp_path / "oneapi")).find() == {}


PLACES = "no icpx that serves is installed (CMPLR_ROOT, ONEAPI_ROOT, /opt/intel/oneapi, ~/intel/oneapi, icpx on PATH)"


def test_another_version_is_named_with_its_place_and_what_to_install(tmp_path: Path) -> None:
    root = machine(tmp_path, "2026.0.0")
    said = compilers(tmp_path, ONEAPI_ROOT=str(root)).explain_missing(xpu_job(tmp_path, "2.10"))
    assert said == (
        f"{PLACES}; found 2026.0 in {root / 'compiler/2026.0'}; torch 2.10 runs with libsycl.so.8 of oneAPI 2025.3: "
        "expected Intel's Deep Learning Essentials 2025.3, or an older release with libsycl.so.8, or an image that has "
        "them as `container`"
    )


def test_none_is_named_by_where_it_was_looked_for(tmp_path: Path) -> None:
    said = compilers(tmp_path).explain_missing(xpu_job(tmp_path))
    assert said == f"{PLACES}; expected Intel's Deep Learning Essentials, or an image that has them as `container`"


def test_no_compiler_can_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        request_of(written(tmp_path, more=", toolchain: pypi"))
    why = "the package index has oneAPI's runtime, but not icpx, its compiler"
    assert refused.value.message.partition(" ")[2] == f"{why}: expected `toolchain: system` or no such key"


def test_a_gpu_that_the_catalog_lacks_is_a_mistake_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        request_of(written(tmp_path, more=", archs: [pvd, bmg]"))
    assert refused.value.message.partition(" ")[2] == 'there is no Intel GPU "pvd" in the catalog, did you mean "pvc"?'


def test_a_torch_of_an_oneapi_that_the_catalog_lacks_is_refused_with_both(tmp_path: Path) -> None:
    release = KNOWN.torch[catalog.Minor(2, 14)]._replace(oneapi=catalog.Minor(2027, 0))
    later = InstalledCompilers(
        XPU, KNOWN.__class__(**{**fields(), "torch": {release.version: release}}), {"PATH": "/nowhere"}
    )
    said = later.explain_missing(xpu_job(tmp_path, "2.14"))
    assert said == "the catalog has no oneAPI 2027.0, which torch 2.14 is built with"


def fields() -> dict[str, object]:
    return {name: getattr(KNOWN, name) for name in KNOWN.__dataclass_fields__}


def test_the_build_gets_the_folder_and_an_identity_of_its_compiler(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("c++", "sh"):
        (programs / name).symlink_to(shutil.which(name) or "")
    environ = {"PATH": str(programs), "ONEAPI_ROOT": str(machine(tmp_path, "2025.3.1"))}
    toolchain = Toolchains(KNOWN, world(tmp_path, **environ)).prepare(xpu_job(tmp_path, more=", wheel-platform: linux"))
    ((variable, home),) = toolchain.folders
    assert (variable, (home / "bin/icpx").is_file(), toolchain.identity[:5]) == ("CMPLR_ROOT", True, "icpx-")


def test_every_oneapi_that_a_torch_names_has_its_row() -> None:
    assert {torch.oneapi for torch in KNOWN.torch.values() if torch.oneapi} <= KNOWN.stacks[XPU].keys()
    assert {torch.version for torch in KNOWN.torch.values() if not torch.oneapi} == {catalog.Minor(2, 15)}


def test_vswhere_is_asked_for_every_installation_with_the_compiler(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    home = studio.install(BUILD_TOOLS, "14.29.30133", "14.44.35207")
    newest, older = find_msvc(studio.environ())
    assert newest == Msvc(BUILD_TOOLS, home, "14.44.35207")
    assert (newest.number, older.number) == (1944, 1929)
    assert newest.programs == home / "VC/Tools/MSVC/14.44.35207/bin/Hostx64/x64"
    asked = "-products * -requires Microsoft.VisualStudio.Component.VC.Tools.x86.x64 -sort -format json -utf8 -nologo"
    assert studio.called("vswhere") == asked.split()


def test_a_toolset_of_which_only_the_folder_is_left_does_not_count(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    home = studio.install(BUILD_TOOLS, "14.44.35207")
    (home / "VC/Tools/MSVC/14.50.35717/lib").mkdir(parents=True)
    assert [each.toolset for each in find_msvc(studio.environ())] == ["14.44.35207"]


def test_the_newest_that_the_cuda_takes_is_chosen(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    studio.install("Visual Studio Enterprise 2026", "14.50.35717", "14.43.34808")
    studio.install(BUILD_TOOLS, "14.44.35207", "14.29.30133")
    environ = studio.environ()
    assert choose_msvc(environ, "13.0", CUDA_13).toolset == "14.44.35207"
    assert choose_msvc(environ).toolset == "14.50.35717"


@pytest.mark.parametrize(
    ("toolset", "sentence"),
    [
        pytest.param(
            "14.50.35717",
            "Visual C++ 14.50.35717 of Visual Studio Build Tools 2022 is newer than CUDA 13.0 takes, "
            "expected a toolset 14.20 to 14.49",
            id="too-new",
        ),
        pytest.param(
            "14.16.27023",
            "Visual C++ 14.16.27023 of Visual Studio Build Tools 2022 is not what CUDA 13.0 takes, "
            "expected a toolset 14.20 to 14.49",
            id="too-old",
        ),
    ],
)
def test_a_compiler_that_the_cuda_does_not_take_is_refused(toolset: str, sentence: str, tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    studio.install(BUILD_TOOLS, toolset)
    with pytest.raises(MachineError) as raised:
        choose_msvc(studio.environ(), "13.0", CUDA_13)
    assert raised.value.message == sentence
    assert "Desktop development with C++" in raised.value.hint


def test_a_machine_without_visual_studio_is_told_what_to_install(tmp_path: Path) -> None:
    why = explain_missing({"PROGRAMFILES": str(tmp_path)})
    assert why.startswith("there is no Visual C++: no vswhere.exe (PROGRAMFILES(X86)\\Microsoft Visual Studio\\")
    assert why.endswith('the workload "Desktop development with C++"')
    with pytest.raises(MachineError, match=r"no vswhere\.exe"):
        choose_msvc({})


def test_a_visual_studio_without_the_compiler_is_said(tmp_path: Path) -> None:
    assert "vswhere finds no installation with Microsoft.VisualStudio" in explain_missing(
        VisualStudio(tmp_path).environ()
    )


@pytest.mark.parametrize("answer", ["echo 'Error 0x57'", "exit 87", "echo '[{}]'"])
def test_an_answer_that_cannot_be_read_is_said(answer: str, tmp_path: Path) -> None:
    program(tmp_path / VSWHERE, answer)
    with pytest.raises(MachineError, match=r"vswhere\.exe does not list the installations of Visual Studio"):
        find_msvc({"PROGRAMFILES(X86)": str(tmp_path)})


def test_the_bounds_are_read_in_the_toolkit_s_header(tmp_path: Path) -> None:
    assert read_bounds(tmp_path) is None
    write(tmp_path, {"include/crt/host_config.h": HOST_CONFIG.format(1920, 1950)})
    assert read_bounds(tmp_path) == CUDA_13
    assert str(CUDA_13) == "14.20 to 14.49"


def test_the_environment_is_that_of_vcvars_for_the_toolset(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    home = studio.install(BUILD_TOOLS, "14.44.35207")
    environ = studio.environ(LIB="old")
    msvc = choose_msvc(environ)
    scratch = tmp_path / "a folder"
    scratch.mkdir()
    found = msvc_variables(msvc, environ, scratch)
    assert studio.called("cmd") == ["/d", "/c", str(scratch / "msvc.bat")]
    assert studio.called("script") == [
        "@chcp 65001 >nul",
        f'@call "{home}/VC/Auxiliary/Build/vcvars64.bat" -vcvars_ver=14.44.35207 >nul',
        "@if errorlevel 1 exit /b 1",
        "@set",
    ]
    assert found == {
        "INCLUDE": r"C:\VC\include;C:\Kits\include",
        "LIB": r"C:\VC\lib\x64;C:\Kits\lib\x64",
        "PATH": r"C:\VC\bin;C:\Windows",
        "VSCMD_ARG_TGT_ARCH": "x64",
        "DISTUTILS_USE_SDK": "1",
        "MSSdk": "1",
        "NVCC_CCBIN": str(msvc.programs),
        "CUDAHOSTCXX": str(msvc.programs / "cl.exe"),
        "CMAKE_GENERATOR": "Ninja",
    }


def test_a_script_that_fails_is_said(tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path)
    studio.install(BUILD_TOOLS, "14.44.35207")
    environ = studio.environ()
    failing = program(tmp_path / "failing", "exit 1")
    with pytest.raises(MachineError, match=r"vcvars64\.bat sets no environment of Visual C\+\+ 14\.44"):
        msvc_variables(choose_msvc(environ), {**environ, "COMSPEC": str(failing)}, tmp_path)
