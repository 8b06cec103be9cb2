from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.build import repair
from ci_tools.build.bench.shell import search_path
from ci_tools.catalog.accelerators import list_compilers
from ci_tools.formats.binaries.elf import linking
from ci_tools.formats.relabel import relabel
from tests.builders.wheels import LINUX, linked, make, members_of

NEWER = "#include <threads.h>\nint f(void) { return thrd_equal(thrd_current(), thrd_current()); }"  # glibc 2.28


def run_paths(library: Path) -> tuple[str, ...]:
    with library.open("rb") as file:
        return linking(file).run_paths


def wheel_with(folder: Path, *paths: str) -> Path:
    """Return a wheel whose library looks for others in these folders."""
    data = linked("int f(void) { return 1; }", *(f"-Wl,-rpath,{path}" for path in paths))
    return make(folder, LINUX, {"demo/__init__.py": b"", "demo/a.so": data})


@pytest.mark.parametrize("kept", [("$ORIGIN/../demo.libs",), ()], ids=["one-of-two", "all"])
def test_a_folder_of_this_machine_is_taken_out_of_a_library(kept: tuple[str, ...], tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "/opt/python/lib", *kept)
    cleaned = repair.strip_own_rpaths(wheel, tmp_path / "scratch", tmp_path / "log")
    assert {member: run_paths(file) for member, file in cleaned.items()} == {"demo/a.so": kept}
    assert b"/opt/python" not in cleaned["demo/a.so"].read_bytes()


def test_a_library_that_names_no_folder_of_its_own_is_left_alone(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "$ORIGIN")
    assert repair.strip_own_rpaths(wheel, tmp_path / "scratch", tmp_path / "log") == {}


def test_a_relabelled_wheel_holds_the_library_that_was_cleaned(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "/opt/python/lib")
    cleaned = repair.strip_own_rpaths(wheel, tmp_path / "scratch", tmp_path / "log")
    relabel(wheel, tmp_path / "out" / LINUX, replaced=cleaned)
    assert members_of(tmp_path / "out" / LINUX)["demo/a.so"] == cleaned["demo/a.so"].read_bytes()


def test_the_level_of_a_wheel_is_the_oldest_with_all_its_symbols(tmp_path: Path) -> None:
    later = '#include <stdio.h>\n__asm__(".symver puts,puts@GLIBC_2.2.5");\nint f(void) { return puts(""); }'
    old = make(tmp_path / "old", LINUX, {"demo/a.so": linked(later)})
    assert repair.judge_level(old, "manylinux_2_4_x86_64")[1] == "manylinux_2_5_x86_64"
    assert repair.judge_level(old, "linux_x86_64")[1] == ""
    both = make(tmp_path / "both", LINUX, {"demo/a.so": linked(later), "demo/b.so": linked(NEWER)})
    assert repair.judge_level(both, "manylinux_2_17_x86_64")[1] == "manylinux_2_28_x86_64"


def test_a_library_that_a_repair_copies_counts_for_the_level(tmp_path: Path) -> None:
    (tmp_path / "libnew.so").write_bytes(linked(NEWER, "-Wl,-soname,libnew.so"))
    needs = ("-Wl,--no-as-needed", f"-L{tmp_path}", "-lnew", f"-Wl,-rpath,{tmp_path}")
    wheel = make(tmp_path, LINUX, {"demo/a.so": linked("int g(void) { return 1; }", *needs)})
    assert repair.judge_level(wheel, "manylinux_2_17_x86_64")[1] == "manylinux_2_28_x86_64"
    assert repair.judge_level(wheel, "manylinux_2_17_x86_64")[0].endswith(", but to manylinux_2_28_x86_64")


def test_a_wheel_that_keeps_to_its_level_is_not_said_to_miss_it(tmp_path: Path) -> None:
    old = make(tmp_path, LINUX, {"demo/a.so": linked("int f(void) { return 1; }")})
    assert repair.judge_level(old, "manylinux_2_28_x86_64")[1] == ""
    assert "not repair the wheel, which keeps to" in repair.judge_level(old, "manylinux_2_28_x86_64")[0]


def test_a_wheel_without_a_library_is_not_said_to_miss_a_level(tmp_path: Path) -> None:
    hollow = make(tmp_path, LINUX, {"demo/__init__.py": b""})
    assert repair.judge_level(hollow, "manylinux_2_28_x86_64")[1] == ""
    assert repair.judge_level(hollow, "manylinux_2_28_x86_64")[0] == "the wheel is not the planned one"


def test_a_build_does_not_find_the_compiler_of_an_accelerator_that_is_not_its_own(tmp_path: Path) -> None:
    for folder, names in {"plain": ["cc"], "mixed": ["nvcc", "cmake"]}.items():
        for name in names:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).touch()
    shown = search_path(
        f"{tmp_path / 'plain'}{os.pathsep}{tmp_path / 'mixed'}", tmp_path / "shadows", list_compilers()
    ).split(os.pathsep)
    assert shown[0] == str(tmp_path / "plain")
    assert os.listdir(shown[1]) == ["cmake"]  # noqa: PTH208 - names are what matters
