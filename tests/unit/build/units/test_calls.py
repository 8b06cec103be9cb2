"""A compiler call is one unit, a call that is compiled as it is, or none that compiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.build.units.calls import CompilerCall, read_call
from tests.builders.sources import write

HERE = Path("/project")
ARCH = "-gencode=arch=compute_90,code=sm_90"


def read(command: str, folder: Path = HERE, **environ: str) -> CompilerCall | None:
    program, *words = command.split()
    return read_call(Path("/usr/bin") / program, words, folder, environ)


UNITS: Mapping[str, tuple[str, str, str, tuple[str, ...]]] = {
    "setuptools": ("gcc -g0 -fPIC -Iinc -DA=1 -c a.c -o b/a.o", "c", "b/a.o", ("-g0", "-fPIC")),
    "c-by-the-compiler-of-c++": ("g++ -c a.c -o a.o", "c++", "a.o", ()),
    "cmake": (
        "c++ -I/i -isystem /j -O3 -std=gnu++20 -MD -MT a.o -MF a.o.d -o a.o -c /s/a.cpp",
        "c++", "a.o", ("-O3", "-std=gnu++20"),
    ),
    "meson": ("c++ -Ip -Wall -MD -MQ a.o -MF a.o.d -o a.o -c ../a.cc", "c++", "a.o", ("-Wall",)),
    "joined-language": ("gcc -xc++ -c a.txt -o a.o", "c++", "a.o", ()),
    "buildextension": (
        (f"nvcc --generate-dependencies-with-compile --dependency-output a.d -c a.cu -o a.o {ARCH} -std=c++17 "
         "--compiler-options -fPIC"),
        "cu", "a.o", ("-gencode", "arch=compute_90,code=sm_90", "-std", "c++17", "-Xcompiler", "-fPIC"),
    ),
    "cmake-of-cuda": (
        "nvcc -O3 --generate-code=arch=compute_90,code=[sm_90] -MD -MT a.o -MF a.d -x cu -rdc=true -c a.cpp -o a.o",
        "cu", "a.o", ("-O3", "-gencode", "arch=compute_90,code=[sm_90]", "-rdc", "true"),
    ),
    "threads-make-no-other-object": ("nvcc --threads 4 -t=2 -dc a.cu -o a.o", "cu", "a.o", ("-dc",)),
    "a-disk-in-memory": ("gcc -c a.c -o /dev/shm/a.o", "c", "/dev/shm/a.o", ()),  # noqa: S108 - no file
    "a-host-file-by-nvcc": ("nvcc -x c++ -c a.cpp -o a.o", "c++", "a.o", ()),
}  # fmt: skip
PLAIN = {
    "one-step": ("nvcc -shared a.cu -o a.so", "compiled and linked in one step"),
    "several": ("g++ -c a.cpp b.cpp", "several sources in one call"),
    "no-name": ("g++ -c a.cpp", "no file for the object"),
    "a-device": ("g++ -c a.cpp -o /dev/null", "no file for the object"),
    "a-list-without-a-name": ("nvcc -MD -c a.cu -o a.o", "no name for the list of headers"),
    "macros-in-debug-information": ("g++ -g3 -c a.cpp -o a.o", "-g3"),
    "another-language": ("g++ -x objective-c++ -c a.cpp -o a.o", "a source of the language objective-c++"),
    "assembler": ("gcc -c a.S -o a.o", "a source of the language .S"),
    "ptx": ("nvcc -ptx -c a.cu -o a.ptx", "-ptx"),
    "link-time-for-devices": ("nvcc -dlto -c a.cu -o a.o", "-dlto"),
    "long-link-time-for-devices": ("nvcc --dlink-time-opt -c a.cu -o a.o", "-dlto"),
    "code-for-link-time": ("nvcc -gencode arch=compute_90,code=lto_90 -c a.cu -o a.o", "code=lto_90"),
    "this-machine's-gpu": ("nvcc -arch=native -c a.cu -o a.o", "native"),
    "this-machine's-processor": ("g++ -march=native -c a.cpp -o a.o", "-march=native"),
    "the-processor-by-nvcc": ("nvcc -Xcompiler -O3,-march=native -c a.cu -o a.o", "-march=native"),
    "plug-in": ("g++ -fplugin=p.so -c a.cpp -o a.o", "-fplugin=p.so"),
    "profile": ("g++ -fprofile-use=p -c a.cpp -o a.o", "-fprofile-use=p"),
    "coverage": ("g++ --coverage -c a.cpp -o a.o", "--coverage"),
    "split-debug-information": ("g++ -gsplit-dwarf -c a.cpp -o a.o", "-gsplit-dwarf"),
    "kept-files": ("nvcc --keep -c a.cu -o a.o", "--keep"),
    "trace": ("nvcc --fdevice-time-trace t.json -c a.cu -o a.o", "-fdevice-time-trace"),
    "a-report-beside": ("g++ -fopt-info-vec=list -c a.cpp -o a.o", "-fopt-info-vec=list"),
    "dumps": ("nvcc -Xcompiler -O2,-da -c a.cu -o a.o", "-da"),
    "words-for-the-assembler": ("g++ -Wa,-a=list -c a.cpp -o a.o", "-Wa"),
    "dependencies-of-the-old-kind": ("g++ -Wp,-MD,a.d -c a.cpp -o a.o", "-MD"),
}
NONE = ("g++ --version", "g++ a.o b.o -o p", "g++ -E a.cpp", "nvcc --dryrun -c a.cu -o a.o", "nvcc -M a.cu",
        "gcc -print-prog-name=as", "g++ -dumpversion", "g++ -o CMakeFiles/cmTC_1f.dir/t.cxx.o -c t.cxx",
        "nvcc -dlink a.o -o b.o", "gcc -xc -c - -o a.o")  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_read(name: str) -> None:
    command, language, output, flags = UNITS[name]
    call = read(command)
    assert call is not None
    assert (call.plain, call.language, call.output, call.flags) == ("", language, output, flags)


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_not_understood_is_compiled_as_it_is(name: str) -> None:
    command, why = PLAIN[name]
    call = read(command)
    assert call is not None
    assert call.plain == why


@pytest.mark.parametrize("command", NONE)
def test_a_call_that_makes_no_object_is_no_unit(command: str) -> None:
    assert read(command) is None


def test_words_in_a_file_are_read_as_words(tmp_path: Path) -> None:
    write(tmp_path, {"one.rsp": '-DA="x y" @two.rsp', "two.rsp": "-O2 -o a.o", "n.rsp": "-I one -arch sm_90"})
    host, cuda = read("g++ @one.rsp -c a.cpp", tmp_path), read("nvcc --options-file n.rsp -c a.cu -o a.o", tmp_path)
    assert host is not None
    assert cuda is not None
    assert (host.macros, host.flags, host.output, host.plain) == (("-DA=x y",), ("-O2",), "a.o", "")
    assert (cuda.folders, cuda.flags, cuda.plain) == (("-I", "one"), ("-arch", "sm_90"), "")


def test_a_file_of_words_that_is_missing_is_left_to_the_compiler() -> None:
    call = read("nvcc --options-file none.rsp -c a.cu -o a.o")
    assert call is not None
    assert call.plain == "a response file that cannot be read"


def test_what_a_variable_adds_for_nvcc_counts() -> None:
    call = read("nvcc -c a.cu -o a.o", NVCC_APPEND_FLAGS="-lineinfo", NVCC_PREPEND_FLAGS="-G")
    assert call is not None
    assert (call.flags, call.has_lines) == (("-G", "-lineinfo"), True)


@pytest.mark.parametrize(("option", "has_lines"), [("-g", True), ("-g0", False), ("-ggdb", True), ("-flto=auto", True),
                                                   ("-fsanitize=address", True), ("-O3", False)])  # fmt: skip
def test_debug_information_names_lines(option: str, has_lines: bool) -> None:  # noqa: FBT001 - a table
    call = read(f"g++ {option} -c a.cpp -o a.o")
    assert call is not None
    assert call.has_lines is has_lines
