"""How Microsoft's compiler is found for a CUDA: by programs that answer as Windows' own do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.build.sdk.msvc import Bounds, Msvc, choose_msvc, explain_missing, find_msvc, msvc_variables, read_bounds
from ci_tools.errors import MachineError
from tests.builders.sources import write
from tests.builders.visual_studio import HOST_CONFIG, VSWHERE, VisualStudio, program

if TYPE_CHECKING:
    from pathlib import Path

CUDA_13 = Bounds(1920, 1950)
BUILD_TOOLS = "Visual Studio Build Tools 2022"


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
