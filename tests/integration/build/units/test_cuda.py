"""nvcc's units: each pass counts, for the host and for each architecture, and the bytes are the same each time."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ci_tools.build.units.forecast import keep_job, read_made
from ci_tools.build.units.store import UnitStore
from ci_tools.model.plan import Plan
from ci_tools.source.files import Tree
from tests.builders.sources import write
from tests.builders.units import Units, open_units

pytestmark = pytest.mark.long

ARCHS = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=sm_100")
KERNEL = "__global__ void k(int* x) { *x = %s; }\n"
NEWER = '#if __CUDA_ARCH__ >= 1000\n#include "n.h"\n#else\n#define N 1\n#endif\n' + KERNEL % "N"
ON_HOST = '#ifndef __CUDA_ARCH__\n#include "n.h"\n#else\n#define N 1\n#endif\n' + KERNEL % "1" + "int n = N;\n"
ASKS = '#if __has_include("n.h")\n#include "n.h"\n#else\n#define N 1\n#endif\n' + KERNEL % "N"
EMBEDS = '#ifndef __CUDA_ARCH__\nasm(".incbin \\"b\\"");\n#endif\n' + KERNEL % "1"
PLACES = "__global__ void k(int* x) {\n#if __CUDA_ARCH__ == %d\n  *x = %d;\n#else\n  *x = %d;\n#endif\n}\n"
TWO, THREE = {"n.h": "#define N 2\n"}, {"n.h": "#define N 3\n"}
CHANGES = {
    "read-for-the-newer-architecture": ({"a.cu": NEWER, **TWO}, THREE, ARCHS, "compiled"),
    "read-by-the-host": ({"a.cu": ON_HOST, **TWO}, THREE, ARCHS[:1], "compiled"),
    "asked-for-and-appears": ({"a.cu": ASKS}, TWO, ARCHS[:1], "compiled"),
    "a-comment": ({"a.cu": KERNEL % "1"}, {"a.cu": f"// one\n{KERNEL % '1'}"}, ARCHS[:1], "same text"),
    "lines-of-the-device": ({"a.cu": KERNEL % "1"}, {"a.cu": f"// one\n{KERNEL % '1'}"}, ("-lineinfo",), "compiled"),
    "a-comment-behind-lines-of-the-device": (
        {"a.cu": KERNEL % "1"},
        {"a.cu": f"{KERNEL % '1'}// one\n"},
        ("-lineinfo",),
        "compiled",
    ),
    "a-header-that-comes-first": (
        {"a.cu": '#include "n.h"\n' + KERNEL % "N", "one/n.h": TWO["n.h"]},
        {"none/n.h": THREE["n.h"]},
        ("-Inone", "-Ione", *ARCHS[:1]),
        "compiled",
    ),
    "architectures-that-change-places": (
        {"a.cu": PLACES % (900, 1, 2)},
        {"a.cu": PLACES % (900, 2, 1)},
        ARCHS,
        "compiled",
    ),
    "nothing": ({"a.cu": KERNEL % "1"}, {}, (*ARCHS, "--threads=2"), "unchanged"),
    "embedded-for-the-device": ({"a.cu": KERNEL % "1", "b": "1"}, {"b": "2"}, ("-ptx",), "plain"),
    "read-by-the-assembler": ({"a.cu": EMBEDS, "b": "1"}, {"b": "2"}, ARCHS[:1], "plain"),
    "counter-that-counts": (
        {"a.cu": '#include "n.h"\n' + KERNEL % "__COUNTER__", "n.h": "\n"},
        {"n.h": "#if __COUNTER__\n#endif\n"},
        ARCHS[:1],
        "compiled",
    ),
}


@pytest.fixture(scope="module")
def units(store: UnitStore, cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    with open_units(tmp_path_factory.mktemp("build"), store, cuda_home) as units:
        yield units


@pytest.mark.parametrize("name", CHANGES)
def test_an_object_of_nvcc_is_what_it_makes_now(
    name: str, units: Units, store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, then, options, how = CHANGES[name]
    write(units.folder / name, first)
    time.sleep(0.02)
    units.compile("nvcc", *options, "a.cu", at=name)
    write(units.folder / name, then)
    second = units.compile("nvcc", *options, "a.cu", at=name)
    monkeypatch.setattr(store, "folder", tmp_path)
    assert second == (units.compile("nvcc", *options, "a.cu", at=name)[0], how)


def test_sources_of_equal_text_have_objects_of_their_own(units: Units) -> None:
    write(units.folder / "equal", dict.fromkeys(("one.cu", "two.cu"), NAMELESS))
    found = [units.compile("nvcc", "-arch=sm_90", name, at="equal") for name in ("one.cu", "two.cu")]
    assert [how for _, how in found] == ["compiled", "compiled"]
    assert found[0] != found[1]


def test_options_that_a_variable_has_for_a_program_of_nvcc_count(units: Units) -> None:
    write(units.folder / "told", {"a.cu": KERNEL % "1"})
    found = [units.compile("nvcc", "-arch=sm_90", "a.cu", at="told", PTXAS_FLAGS=f"-O{level}") for level in "03"]
    assert ([how for _, how in found], found[0] != found[1]) == (["compiled", "compiled"], True)


@pytest.mark.parametrize(("program", "options"), [("ptxas", ("-O0", "-O3")), ("nvlink", ("", "--verbose"))])
def test_a_program_of_nvcc_that_is_replaced_under_its_name_is_another(
    program: str, options: tuple[str, str], cuda_home: Path, store: UnitStore, tmp_path: Path
) -> None:
    own, found = tmp_path / "own", []
    (own / "bin").mkdir(parents=True)
    for path in cuda_home.iterdir():
        if path.name != "bin":
            (own / path.name).symlink_to(path)
    for path in (cuda_home / "bin").iterdir():
        if path.name.startswith("nvcc"):  # it looks for the others beside the file that it is
            shutil.copy2(path, own / "bin" / path.name)
        elif path.name != program:
            (own / "bin" / path.name).symlink_to(path)
    write(tmp_path, {"source/r.cu": KERNEL % "1"})
    for option in options:
        write(own, {f"bin/{program}": f'#!/bin/sh\nexec {cuda_home}/bin/{program} "$@" {option}\n'})
        (own / "bin" / program).chmod(0o755)
        with open_units(tmp_path, store, own) as replaced:
            is_link, words = program == "nvlink", ("nvcc", "-arch=sm_90", "r.cu")
            found.append(link(replaced, ".", DEVICES) if is_link else replaced.compile(*words))
    assert [how for _, how in found] == ["compiled", "compiled"]
    assert is_link or found[0] != found[1]


USES = "__device__ int of(); __global__ void k(int* x) { *x = of(); }\nint beside(); int a() { return beside(); }\n"
LIBRARY = ("nvcc", "-arch=sm_90", "-shared", "a.o", "of.o", "-L.", "-lbeside")
DEVICES = ("nvcc", "-arch=sm_90", "-Xcompiler", "-fPIC", "-dlink", "a.o", "of.o")
ONCE, OTHER = ("1", "1"), {"NVCC_APPEND_FLAGS": "-Xlinker -znow"}
LINKS: dict[str, tuple[tuple[str, ...], tuple[str, str], dict[str, str], str]] = {  # then: what is linked, with what
    "nothing": (LIBRARY, ONCE, {}, "unchanged"),
    "nothing-for-devices": ((*DEVICES, "-g"), ONCE, {}, "unchanged"),
    "device-code": (LIBRARY, ("2", "1"), {}, "compiled"),
    "device-code-for-devices": (DEVICES, ("2", "1"), {}, "compiled"),
    "a-library": (LIBRARY, ("1", "2"), {}, "compiled"),
    "a-variable": (LIBRARY, ONCE, OTHER, "compiled"),
    "a-map-beside": ((*LIBRARY, "-Xlinker=-Map=x.map"), ONCE, {}, "plain"),
    "link-time-code": ((*LIBRARY, "-Xcompiler", "-O2,-flto"), ONCE, {}, "plain"),
}


@pytest.mark.parametrize("name", LINKS)
def test_what_nvcc_links_is_what_it_links_now(
    name: str, units: Units, store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, numbers, variables, how = LINKS[name]
    link(units, name, words)
    then = link(units, name, words, numbers, **variables)
    monkeypatch.setattr(store, "folder", tmp_path)
    assert then == (link(units, name, words, numbers, **variables)[0], how)


def test_a_library_counts_that_a_compiler_reads_which_nvcc_finds_by_a_variable(units: Units) -> None:
    host = {"NVCC_CCBIN": f"{units.environ['PATH'].split(':')[1]}/g++"}
    found = [link(units, "by-a-variable", LIBRARY, ("1", number), **host) for number in "12"]
    assert ([how for _, how in found], found[0] != found[1]) == (["compiled", "compiled"], True)


def link(
    units: Units, at: str, words: tuple[str, ...], numbers: tuple[str, str] = ONCE, **variables: str
) -> tuple[bytes, str]:
    """Compile device code and a library with these numbers, link them, and return that, and where it is from."""
    device, host = f"__device__ int of() {{ return {numbers[0]}; }}\n", f"int beside() {{ return {numbers[1]}; }}\n"
    write(units.folder / at, {"a.cu": USES, "of.cu": device, "beside.cpp": host})
    relocatable = ("nvcc", "-arch=sm_90", "-rdc=true", "-Xcompiler", "-fPIC", "-c")
    commands = [(*relocatable, f"{name}.cu", "-o", f"{name}.o") for name in ("a", "of")]
    commands += [("g++", "-fPIC", "-c", "beside.cpp", "-o", "beside.o"), ("ar", "rcsD", "libbeside.a", "beside.o")]
    for command in (*commands, (*words, "-o", "x.so")):
        time.sleep(0.02)  # a file that changes while it is read is not relied on
        done = units.run(*command, at=at, **(variables if command[-1] == "x.so" else {}))
        assert done.returncode == 0, done.stderr
    return (units.folder / at / "x.so").read_bytes(), units.report.links[-1].how


HIDDEN = "namespace { __device__ int hidden; template<class T> __global__ void k(T* x) { *x = hidden + N; } }\n"
LAUNCH = "#define JOIN(a, b) a##b\n#define NAME(n) JOIN(launch, n)\nvoid NAME(N)(int* x) { k<int><<<1, 1>>>(x); }\n"


def test_one_source_compiled_twice_links_with_relocatable_device_code(units: Units) -> None:
    write(units.folder, {"t.cu": HIDDEN + LAUNCH, "main.cu": "int main() { return 0; }\n"})
    for number in (1, 2):
        made = units.run("nvcc", "-arch=sm_90", "-dc", f"-DN={number}", "t.cu", "-o", f"t{number}.o")
        assert made.returncode == 0, made.stderr
    linked = units.run("nvcc", "-arch=sm_90", "-rdc=true", "main.cu", "t1.o", "t2.o", "-o", "t")
    assert (linked.returncode, linked.stderr) == (0, "")


# Without a function that other files see, nvcc names what it registers after its process (cases/same-bytes).
NAMELESS = (
    "static __device__ int hidden;\ntemplate<class T> __global__ void k(T* x) { *x = hidden; }\n"
    "template<class T> void launch(T* x) { k<T><<<1, 1>>>(x); }\ntemplate void launch<float>(float*);\n"
)


def link_in_one_step(units: Units) -> bytes:
    command = ("nvcc", "-arch=sm_90", "-Xcompiler", "-fPIC", "-shared", "o.cu", "-o", "o.so")
    assert units.run(*command).returncode == 0
    return (units.folder / "o.so").read_bytes()


def test_a_library_linked_in_one_step_is_the_same_twice_and_is_told(units: Units) -> None:
    write(units.folder, {"o.cu": NAMELESS})
    assert link_in_one_step(units) == link_in_one_step(units)
    assert units.report.units[-1][1:3] == ("plain", "compiled and linked in one step")


def test_options_in_a_file_are_understood(units: Units) -> None:
    write(units.folder, {"f.cu": KERNEL % "N", "with.rsp": '-DN=1 -arch=sm_90 "-I."\n'})
    time.sleep(0.02)  # what was written in this tick of the clock may change in it unseen, and is not kept
    found = [units.compile("nvcc", "--options-file", "with.rsp", "-x", "cu", "f.cu") for _ in range(2)]
    assert found == [(found[0][0], "compiled"), (found[0][0], "unchanged")]


PLAN = cast("Plan", SimpleNamespace(project=SimpleNamespace(name="demo")))


def test_what_an_include_costs_and_changes_is_read_from_the_store(cuda_home: Path, tmp_path: Path) -> None:
    store, found = UnitStore(folder=tmp_path / "store"), []
    python = f'#include "{sysconfig.get_path("include")}/pyport.h"\n'
    for text in (f"{python}{KERNEL % '1'}", KERNEL % "1", KERNEL % "2"):
        with open_units(tmp_path / "build", store, cuda_home) as own:
            write(own.folder, {"i.cu": text})
            time.sleep(0.02)
            own.compile("nvcc", "-arch=sm_90", "i.cu")
            keep_job("demo", "job", own.report, store)
            found.append(read_made(PLAN, "job", Tree(own.folder, ("i.cu",)), store)["i.cu"])
    assert [one.is_of_python for one in found] == [True, False, False]
    assert list(found[0].images) == ["sm_90", "compute_90"]
    assert (found[0].images == found[1].images, found[1].images == found[2].images) == (True, False)
    assert all(one.seconds > 0.1 for one in found)


def test_objects_are_the_same_without_a_store(cuda_home: Path, tmp_path: Path) -> None:
    made: list[bytes] = []
    for store in (UnitStore(folder=tmp_path / "store"), None):
        with open_units(tmp_path / "build", store, cuda_home) as own:
            write(own.folder, {"w.cu": NAMELESS})
            made.append(own.compile("nvcc", "-arch=sm_90", "w.cu")[0] + link(own, ".", (*DEVICES, "-g"))[0])
    assert made[0] == made[1]


def test_an_object_that_was_made_at_another_path_is_not_taken(cuda_home: Path, tmp_path: Path) -> None:
    store, made = UnitStore(folder=tmp_path / "store"), []
    for place, one in (("one", store), ("two", store), ("two", None)):
        with open_units(tmp_path / place, one, cuda_home) as own:
            write(own.folder, {"w.cu": NAMELESS})
            made.append(own.compile("nvcc", "-arch=sm_90", "-rdc=true", "w.cu"))
    assert made[0] != made[1] == made[2]


def test_an_object_with_lines_does_not_tell_when_its_source_was_written(cuda_home: Path, tmp_path: Path) -> None:
    made: list[bytes] = []
    for date in (1_000_000_000, 1_500_000_000):
        source = write(tmp_path / str(date), {"w.cu": KERNEL % "1"})
        os.utime(source / "w.cu", (date, date))
        with open_units(tmp_path / "build", None, cuda_home) as own:
            Tree(source, ("w.cu",)).copy_to(own.folder)
            made.append(own.compile("nvcc", "-arch=sm_90", "-lineinfo", "w.cu")[0])
    assert made[0] == made[1]
