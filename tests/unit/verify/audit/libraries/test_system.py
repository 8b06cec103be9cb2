"""What a wheel promises of its system, machine and compiled code: each rule has a wheel that breaks it alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.files import Level
from tests.builders.audited import (
    INFO,
    MACOS,
    MANYLINUX,
    NEWER,
    OLD,
    PE,
    TORCH_FIELD,
    WINDOWS,
    findings,
    native,
    planned,
    seen,
)
from tests.builders.wheels import LINUX, MACHINE, edited, linked, make

PLAIN = linked(OLD)
ERROR, WARNING = Level.ERROR, Level.WARNING


OTHER = "aarch64" if MACHINE == "x86_64" else "x86_64"
ELF_MACHINE = {"x86_64": 62, "aarch64": 183}
MACH_O_PART = b"\xcf\xfa\xed\xfe\x0c\0\0\x01" + bytes(24)  # for arm64


def for_machine(name: str) -> bytes:
    return PLAIN[:18] + ELF_MACHINE[name].to_bytes(2, "little") + PLAIN[20:]


# ---------------------------------------------------------------- the system and the machine


@pytest.mark.parametrize(
    ("library", "name", "file"),
    [
        pytest.param(PLAIN, MANYLINUX, "demo/_C.so", id="old-symbols"),
        pytest.param(linked(OLD, needs="libtorch_cpu.so"), MANYLINUX, "demo/_C.so", id="torch-brings-it"),
        pytest.param(linked(OLD, needs="libcudart.so.13"), MANYLINUX, "demo/_C.so", id="cuda-brings-it"),
        pytest.param(linked(NEWER), LINUX, "demo/_C.so", id="no-promise"),
        pytest.param(linked(NEWER), MANYLINUX.replace("2014", "_2_28").replace("2_17", "2_27"), "demo/_C.so", id="27"),
        pytest.param(PE, WINDOWS, "demo/_C.pyd", id="windows"),
        pytest.param(MACH_O_PART, MACOS.replace("universal2", "arm64"), "demo/_C.so", id="macos"),
    ],
)
def test_a_library_that_keeps_to_its_tag_is_good(library: bytes, name: str, file: str, tmp_path: Path) -> None:
    wheel = make(tmp_path, name, {"demo/__init__.py": b"", file: library}, TORCH_FIELD)
    assert seen(findings(wheel)) == set()


def test_a_library_may_need_another_one_of_the_wheel(tmp_path: Path) -> None:
    files = {"demo/_C.so": linked(OLD, needs="libtheirs.so.1"), "demo/libtheirs.so.1": PLAIN}
    assert seen(findings(make(tmp_path, MANYLINUX, files))) == set()


@pytest.mark.parametrize(
    ("library", "name", "file", "found"),
    [
        pytest.param(linked(NEWER), MANYLINUX, "demo/_C.so", "GLIBC_2.25", id="newer-symbol"),
        pytest.param(
            linked(OLD, needs="libtheirs.so.1"), MANYLINUX, "demo/_C.so", "libtheirs.so.1", id="library-of-nobody"
        ),
        pytest.param(PLAIN, "demo-1.0-py3-none-musllinux_1_2_x86_64.whl", "demo/_C.so", "libc.so.6", id="another-libc"),
        pytest.param(for_machine(OTHER), LINUX, "demo/_C.so", OTHER, id="another-machine"),
        pytest.param(PLAIN, WINDOWS, "demo/_C.pyd", "ELF", id="elf-on-windows"),
        pytest.param(PE, LINUX, "demo/_C.so", "PE", id="pe-on-linux"),
        pytest.param(PE, WINDOWS.replace("amd64", "arm64"), "demo/_C.pyd", "amd64", id="another-windows-machine"),
        pytest.param(MACH_O_PART, MACOS, "demo/_C.so", "arm64", id="half-of-a-universal-library"),
    ],
)
def test_a_library_beyond_its_tag_is_found(library: bytes, name: str, file: str, found: str, tmp_path: Path) -> None:
    if "musl" in name and MACHINE != "x86_64":
        name = name.replace("x86_64", MACHINE)
    assert seen(findings(native(tmp_path, library, name, file))) == {("platform", found, ERROR)}


def test_a_library_that_is_cut_is_found(tmp_path: Path) -> None:
    assert ("platform", "unreadable", ERROR) in seen(findings(native(tmp_path, PLAIN[:300])))


def test_a_library_that_another_package_may_bring_is_a_warning(tmp_path: Path) -> None:
    files = {"demo/_C.so": linked(OLD, needs="libtheirs.so.1")}
    wheel = make(tmp_path, MANYLINUX, files, fields="Requires-Dist: theirs\n")
    assert seen(findings(wheel)) == {("platform", "libtheirs.so.1", WARNING)}
    assert seen(findings(wheel, planned(MANYLINUX))) == {("platform", "libtheirs.so.1", ERROR)}


@pytest.mark.parametrize(
    ("path", "found", "level"),
    [
        pytest.param("$ORIGIN", "", ERROR, id="beside-itself"),
        pytest.param("$ORIGIN/../torch/lib:${ORIGIN}/../nvidia/cu13/lib", "", ERROR, id="within-site-packages"),
        pytest.param("$ORIGIN/../..", "$ORIGIN/../..", ERROR, id="outside"),
        pytest.param("$ORIGIN:", "nothing", ERROR, id="empty"),
        pytest.param("lib", "lib", ERROR, id="where-it-runs"),
        pytest.param("/tmp/build/lib", "/tmp/build/lib", ERROR, id="where-everybody-writes"),  # noqa: S108 - a name
        pytest.param("/opt/cuda/lib64", "/opt/cuda/lib64", WARNING, id="absolute"),
        pytest.param("$ORIGINAL", "$ORIGINAL", ERROR, id="another-variable"),
    ],
)
@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"])
def test_run_paths_stay_within_site_packages(kind: str, path: str, found: str, level: Level, tmp_path: Path) -> None:
    library = linked(OLD, f"-Wl,{kind},-rpath,{path}")
    assert seen(findings(native(tmp_path, library))) == ({("rpath", found, level)} if found else set())


def test_our_own_build_leaves_no_absolute_run_path(tmp_path: Path) -> None:
    wheel = native(tmp_path, linked(OLD, "-Wl,-rpath,/opt/cuda/lib64"))
    assert seen(findings(wheel, planned(LINUX))) == {("rpath", "/opt/cuda/lib64", ERROR)}


def test_an_executable_stack_is_found(tmp_path: Path) -> None:
    wheel = native(tmp_path, linked(OLD, "-Wl,-z,execstack"))
    assert seen(findings(wheel)) == {("stack", "PT_GNU_STACK with X", ERROR)}


# ---------------------------------------------------------------- paths of the builder


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("/home/ann/demo/csrc/a.cu", "/home/ann/", id="home"),
        pytest.param("/root/demo/a.cu", "/root/demo/", id="root"),
        pytest.param("/tmp/pip-req-build-x1/a.cu", "/tmp/pip-req-build-x1/", id="a-folder-of-one-build"),  # noqa: S108 - a name
        pytest.param(r"C:\\Users\\ann\\demo\\a.cu", r"C:\Users\ann", id="windows"),
        pytest.param("/tmp/fatwheel-demo-1.0-job/a.cu", "", id="our-own-folder"),  # noqa: S108 - a name
        pytest.param("/opt/rh/toolset/root/usr/include", "", id="root-of-a-toolset"),
        pytest.param("/root/.cargo/registry/src/a.rs", "", id="packages-of-rust"),
        pytest.param("/Users/runner/work/demo/demo/a.mm", "", id="folder-of-githubs-macs"),
        pytest.param("/Users/runner2/demo/a.mm", "/Users/runner2/", id="like-githubs"),
        pytest.param(r"D:\\a\\demo\\demo\\a.cu", "", id="folder-of-githubs-windows"),
        pytest.param("/usr/share/zoneinfo", "", id="system"),
        pytest.param("csrc/a.cu", "", id="relative"),
    ],
)
def test_paths_of_the_builder_in_compiled_files_are_found(path: str, found: str, tmp_path: Path) -> None:
    wheel = native(tmp_path, linked(f'const char *where = "{path}"; {OLD}'))
    assert {(rule, what.rstrip("\\"), level) for rule, what, level in seen(findings(wheel))} == (
        {("build-paths", found, WARNING)} if found else set()
    )


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        pytest.param("demo.pth", b"/home/ann/demo/src\n", ERROR, id="pth"),
        pytest.param(f"{INFO}/direct_url.json", b'{"url": "file:///home/ann/demo"}', ERROR, id="direct-url"),
        pytest.param("demo/lib/demo.pc", b"prefix=/builds/demo/install\n", WARNING, id="pkg-config"),
    ],
)
def test_files_that_lead_to_the_builder_are_found(name: str, content: bytes, level: Level, tmp_path: Path) -> None:
    found = findings(edited(make(tmp_path), {name: content}))
    assert {(one.rule, one.level) for one in found if one.rule not in {"startup", "members"}} == {
        ("build-paths", level)
    }


def test_documentation_may_name_a_home_folder(tmp_path: Path) -> None:
    assert findings(edited(make(tmp_path), {"demo/a.py": b'"""Reads /home/ann/data."""\n'})) == ()


# ---------------------------------------------------------------- what is compiled

TEXTREL = '__asm__(".text\\nours: .quad ours\\n.globl ours");'
LOOP = "void add(float *a, float *b, int n) { for (int i = 0; i < n; i++) a[i] += b[i]; }"
LOOPS = "".join(LOOP.replace("add", f"add{number}") for number in range(8))
V3 = ("-O3", "-march=x86-64-v3")
ON_X86 = pytest.mark.skipif(MACHINE != "x86_64", reason="instructions of x86-64")


@ON_X86
def test_text_relocations_are_found(tmp_path: Path) -> None:
    wheel = native(tmp_path, linked(TEXTREL, "-Wl,-z,notext", "-w"))
    assert seen(findings(wheel)) == {("text-relocations", "DT_TEXTREL", ERROR)}


@ON_X86
@pytest.mark.parametrize(
    ("library", "expected"),
    [
        pytest.param(linked(LOOPS, "-O3"), set(), id="baseline"),
        pytest.param(linked(LOOPS, *V3), {("instructions", "AVX", WARNING)}, id="avx"),
        pytest.param(
            linked(LOOPS, *V3, "-mneeded"), {("instructions", "x86-64-v3", ERROR)}, id="avx-that-the-loader-knows-of"
        ),
        pytest.param(
            linked(f'{LOOPS} int has(void) {{ return __builtin_cpu_supports("avx2"); }}', *V3), set(), id="it-asks"
        ),
    ],
)
def test_code_that_not_every_cpu_runs_is_found(
    library: bytes, expected: set[tuple[str, str, Level]], tmp_path: Path
) -> None:
    assert seen(findings(native(tmp_path, library))) == expected


@pytest.mark.parametrize(
    ("library", "fields", "found"),
    [
        pytest.param(linked(OLD, needs="libtorch_cpu.so"), "", True, id="needs-its-library"),
        pytest.param(linked("extern void aoti_torch_x(void); void f(void) { aoti_torch_x(); }"), "", True, id="symbol"),
        pytest.param(linked(OLD, needs="libtorch_cpu.so"), TORCH_FIELD, False, id="required"),
        pytest.param(
            linked(OLD, needs="libc10.so"), "Requires-Dist: torch; extra == 'gpu'\n", False, id="required-in-an-extra"
        ),
        pytest.param(PLAIN, "", False, id="does-not-use-it"),
    ],
)
def test_what_uses_torch_requires_it(library: bytes, fields: str, found: bool, tmp_path: Path) -> None:  # noqa: FBT001
    wheel = make(tmp_path, LINUX, {"demo/__init__.py": b"", "demo/_C.so": library}, fields)
    assert seen(findings(wheel)) == ({("torch-requirement", "none" if not fields else "", WARNING)} if found else set())
