"""What the compilers that are made out of zig are called, and what they call: a program in zig's place prints it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.zig import compilers
from ci_tools.build.zig.compilers import ZIG, ZigCompilers
from ci_tools.machine.python import Environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="zig compiles wheels for Linux on Linux")
SHOWS = '#!/bin/sh\necho "$ZIG_GLOBAL_CACHE_DIR" "$ZIG_LOCAL_CACHE_DIR" "$@"\n'


@pytest.fixture
def zig(tmp_path: Path) -> ZigCompilers:
    program = tmp_path / "tools" / ZIG.program
    program.parent.mkdir(parents=True)
    program.write_text(SHOWS)
    program.chmod(0o755)
    return ZigCompilers(program=program, kept=tmp_path / "kept", target="x86_64-linux-gnu.2.17")


def prepare(zig: ZigCompilers, folder: Path, *, is_cross: bool = False) -> dict[str, str]:
    isolated = Environment(path=folder / "env", variables={"PATH": "/usr/bin:/bin"}, log=folder / "log")
    return zig.prepare_environment(isolated, folder, is_cross=is_cross)


def call(told: dict[str, str], program: str, *arguments: str) -> str:
    folder = told["PATH"].partition(":")[0]
    return subprocess.run(
        [f"{folder}/{program}", *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_compiler_is_told_its_target_and_checks_nothing_unasked(zig: ZigCompilers, tmp_path: Path) -> None:
    told = prepare(zig, tmp_path)
    said = call(told, "c++", "-c", "a b.cpp", "-O3")
    assert said.startswith(
        f"{tmp_path}/kept {tmp_path}/zig/kept c++ -target x86_64-linux-gnu.2.17 -fno-sanitize=undefined"
    )
    assert said.endswith("-c a b.cpp -O3")
    assert (told["CC"], told["CXX"], told["AR"]) == ("cc", "c++", "ar")
    assert call(told, "x86_64-linux-gnu-gcc", "-E", "x.c").split()[2:4] == ["cc", "-target"]
    assert call(told, "ar", "rcs", "x.a", "x.o").endswith("/kept ar rcs x.a x.o")


def test_a_generation_of_processors_has_zigs_name(zig: ZigCompilers, tmp_path: Path) -> None:
    said = call(prepare(zig, tmp_path), "cc", "-march=x86-64-v3", "-mtune=generic", '-DNAME="a b"', "-c", "a-b.c")
    assert said.endswith('-march=x86_64_v3 -DNAME="a b" -c a-b.c')


def test_openmp_which_zig_does_not_have_is_an_error(zig: ZigCompilers, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        call(prepare(zig, tmp_path), "cc", "-c", "x.c", "-fopenmp")
    assert failed.value.stderr == "zig has no OpenMP (-fopenmp)\n"


def test_what_is_linked_has_no_debug_information(zig: ZigCompilers, tmp_path: Path) -> None:
    said = call(prepare(zig, tmp_path), "g++", "-shared", "a.o", "-o", "a.so")
    assert said.endswith("-O2 -shared a.o -o a.so -Wl,--strip-debug")


def test_a_compiler_for_another_machine_is_none_of_this_ones(zig: ZigCompilers, tmp_path: Path) -> None:
    told = prepare(zig, tmp_path, is_cross=True)
    folder = tmp_path / "zig" / "bin"
    assert all(path.name.startswith("x86_64-linux-gnu-") for path in folder.iterdir())
    assert told == {"PATH": f"{folder}:/usr/bin:/bin"}
    assert call(told, "x86_64-linux-gnu-strip", "of another machine") == ""


def test_the_half_of_debians_headers_is_found(
    zig: ZigCompilers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usr/x86_64-linux-gnu/python3.11").mkdir(parents=True)
    (tmp_path / "usr/x86_64-linux-gnu/python3.11/pyconfig.h").write_text("#define SIZEOF_LONG 8\n")
    monkeypatch.setattr(compilers, "MULTIARCH", tmp_path / "usr")
    said = call(prepare(zig, tmp_path), "cc", "-c", "x.c")
    include = tmp_path / "zig" / "include"
    assert f"-idirafter {include}" in said
    assert (include / "x86_64-linux-gnu/python3.11/pyconfig.h").is_file()


def test_the_bytes_depend_on_the_target_and_on_zigs_own_files(zig: ZigCompilers) -> None:
    assert zig.identity == "zig-0.17.0 tools x86_64-linux-gnu.2.17"
    assert zig.describe("clang version 22.1.8") == "zig 0.17.0 (clang version 22.1.8)"
