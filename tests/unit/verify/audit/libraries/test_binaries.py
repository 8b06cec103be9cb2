"""What the audit finds in Windows wheels: the DLLs that they import, and Python's among them."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.model.files import Level
from ci_tools.model.platforms import Platform
from tests.builders.audited import findings, planned, seen
from tests.builders.wheels import PTX, SASS, edited, entry, make, unit
from tests.builders.windows import dll

ONE, EVERY = (f"demo-1.0-{tag}-win_amd64.whl" for tag in ("cp312-cp312", "py3-none"))
FREE, LIMITED = (f"demo-1.0-{tag}-win_amd64.whl" for tag in ("cp314-cp314t", "cp310-abi3"))
TORCH = "Requires-Dist: torch\n"
OTHERS = "Requires-Dist: numpy\n"
ERROR, WARNING = Level.ERROR, Level.WARNING


def wheel(folder: Path, *libraries: str, name: str = ONE, fields: str = "", **made: dict[str, tuple[str, ...]]) -> Path:
    """Return a wheel whose extension imports these libraries."""
    content = dll(dict.fromkeys(libraries, ("f",)), exports=("PyInit__C",), **made)
    return make(folder, name, {"demo/__init__.py": b"", "demo/_C.pyd": content}, fields)


@pytest.mark.parametrize(
    ("libraries", "name", "fields"),
    [
        pytest.param(("KERNEL32.dll", "api-ms-win-crt-heap-l1-1-0.dll", "UCRTBASE.dll"), ONE, "", id="of-windows"),
        pytest.param(("python312.dll", "VCRUNTIME140_1.dll"), ONE, "", id="of-python"),
        pytest.param(("python3.dll",), ONE, "", id="limited-api-for-one-python"),
        pytest.param(("python314t.dll",), FREE, "", id="free-threaded"),
        pytest.param(("torch_cpu.dll", "c10.dll", "MSVCP140.dll", "VCOMP140.DLL"), ONE, TORCH, id="of-torch"),
        pytest.param(("cudart64_13.dll", "cublasLt64_13.dll", "nvcuda.dll"), ONE, TORCH, id="cuda-by-torch"),
        pytest.param(("cudart64_13.dll",), ONE, "Requires-Dist: nvidia-cuda-runtime\n", id="cuda-by-nvidia"),
        pytest.param(("_C.PYD",), ONE, "", id="of-the-wheel"),
        pytest.param(("python3.dll",), LIMITED, "", id="abi3", marks=pytest.mark.slow),
    ],
)
def test_libraries_that_users_have_are_good(libraries: tuple[str, ...], name: str, fields: str, tmp_path: Path) -> None:
    assert findings(wheel(tmp_path, *libraries, name=name, fields=fields)) == ()


@pytest.mark.parametrize(
    ("library", "fields", "level"),
    [
        pytest.param("libstdc++-6.dll", "", ERROR, id="of-mingw"),
        pytest.param("zlib1.dll", OTHERS, WARNING, id="perhaps-of-another-package"),
        pytest.param("MSVCR100.dll", "", ERROR, id="of-an-older-compiler"),
        pytest.param("MSVCP140.dll", OTHERS, WARNING, id="redistributable"),
        pytest.param("cudart64_13.dll", "", ERROR, id="cuda-of-nobody"),
        pytest.param("cudart64_13.dll", OTHERS, WARNING, id="cuda-perhaps-of-another-package"),
        pytest.param("VCRUNTIME140D.dll", TORCH, ERROR, id="debug-runtime"),
        pytest.param("python312_d.dll", TORCH, ERROR, id="debug-python"),
    ],
)
def test_a_library_that_users_may_not_have_is_found(library: str, fields: str, level: Level, tmp_path: Path) -> None:
    assert seen(findings(wheel(tmp_path, library, fields=fields))) == {("imports", library, level)}


def test_a_wheel_of_the_plan_relies_on_no_other_package(tmp_path: Path) -> None:
    made = wheel(tmp_path, "zlib1.dll", fields=OTHERS)
    assert ("imports", "zlib1.dll", ERROR) in seen(findings(made, planned(ONE)))


def test_a_library_that_is_loaded_when_it_is_called_is_a_warning(tmp_path: Path) -> None:
    made = wheel(tmp_path, delayed={"zlib1.dll": ("inflate",)})
    assert seen(findings(made)) == {("imports", "zlib1.dll", WARNING)}


def test_libraries_with_one_gap_are_named_together(tmp_path: Path) -> None:
    contents = {f"demo/{name}.dll": dll({"zlib1.dll": ("inflate",)}, exports=(name,)) for name in ("a", "b")}
    made = edited(wheel(tmp_path), contents)
    assert [each.message for each in findings(made)] == [
        "demo/a.dll, demo/b.dll import a DLL that users may not have",
    ]


@pytest.mark.parametrize(
    ("library", "name", "expected"),
    [
        pytest.param("python311.dll", ONE, "python312.dll", id="another-python"),
        pytest.param("python314.dll", FREE, "python314t.dll", id="with-the-lock"),
        pytest.param("python312.dll", LIMITED, "python3.dll", id="abi3-by-its-name-only", marks=pytest.mark.slow),
    ],
)
def test_the_dll_of_another_python_is_found(library: str, name: str, expected: str, tmp_path: Path) -> None:
    found = [each for each in findings(wheel(tmp_path, library, name=name)) if each.rule == "python-library"]
    assert [(each.found, each.expected, each.level) for each in found] == [(library, expected, ERROR)]


def test_a_python_symbol_in_a_wheel_for_every_python_is_found(tmp_path: Path) -> None:
    content = dll({"python312.dll": ("PyLong_FromLong",)})
    made = make(tmp_path, EVERY, {"demo/__init__.py": b"", "demo/c.dll": content})
    assert seen(findings(made)) == {("python-symbols", "PyLong_FromLong", ERROR)}


def test_torch_is_to_be_required_where_its_dll_is_imported(tmp_path: Path) -> None:
    assert seen(findings(wheel(tmp_path, "torch_cpu.dll"))) == {("torch-requirement", "none", WARNING)}


def test_a_library_whose_tables_are_damaged_is_found(tmp_path: Path) -> None:
    content = dll({"KERNEL32.dll": ("f",)}).replace(b"KERNEL32.dll\0", b"K" * 13)
    broken = content[: content.index(b"K" * 13) + 13]
    made = make(tmp_path, ONE, {"demo/__init__.py": b"", "demo/_C.pyd": broken})
    assert ("imports", "unreadable", ERROR) in seen(findings(made))


def test_the_images_of_a_windows_library_are_those_of_the_plan(tmp_path: Path) -> None:
    job = replace(planned(ONE, "9.0", "10.0+PTX"), platform=Platform.WINDOWS_CUDA)
    content = dll(
        exports=("PyInit__C",), sections={".nv_fatbin": unit(entry(SASS, 90), entry(SASS, 100), entry(PTX, 100))}
    )
    made = make(tmp_path, ONE, {"demo/__init__.py": b"", "demo/_C.pyd": content})
    assert findings(made, job) == ()
    other = replace(job, archs=("9.0",))
    assert [(each.rule, each.expected) for each in findings(made, other)] == [("fatbinary", "sm_90")]


def test_windows_gives_every_file_the_same_mode(tmp_path: Path) -> None:
    made = wheel(tmp_path, "KERNEL32.dll")
    with zipfile.ZipFile(made) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(made, "w") as archive:
        for info, content in members:
            info.external_attr = 0o100666 << 16
            archive.writestr(info, content)
    assert findings(made) == ()
