"""Every rule has a wheel that breaks it alone, a good one but for a single edit."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci_tools.model.files import Level
from ci_tools.model.plan import Library
from tests.builders.wheels import LINUX, MACHINE, PURE, edited, linked, make
from tests.unit.verify.audit.test_audit import INFO, PE, SBOM, audit, findings, planned, raw, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_tools.model.files import Finding

MANYLINUX = f"demo-1.0-py3-none-manylinux2014_{MACHINE}.manylinux_2_17_{MACHINE}.whl"
WINDOWS = "demo-1.0-cp312-cp312-win_amd64.whl"
MACOS = "demo-1.0-cp312-cp312-macosx_11_0_universal2.whl"
OLD = "int getpid(void); int ours(void) { return getpid(); }"
NEWER = "int getrandom(void *, unsigned long, unsigned); int ours(void) { return getrandom(0, 0, 0); }"  # glibc 2.25
PLAIN = linked(OLD)
OTHER = "aarch64" if MACHINE == "x86_64" else "x86_64"
ELF_MACHINE = {"x86_64": 62, "aarch64": 183}
MACH_O_PART = b"\xcf\xfa\xed\xfe\x0c\0\0\x01" + bytes(24)  # for arm64
TORCH_FIELD = "Requires-Dist: torch\n"
ERROR, WARNING = Level.ERROR, Level.WARNING


def native(folder: Path, library: bytes, name: str = LINUX, file: str = "demo/_C.so") -> Path:
    return make(folder, name, {"demo/__init__.py": b"", file: library})


def for_machine(name: str) -> bytes:
    return PLAIN[:18] + ELF_MACHINE[name].to_bytes(2, "little") + PLAIN[20:]


def seen(found: tuple[Finding, ...]) -> set[tuple[str, str, Level]]:
    return {(finding.rule, finding.found, finding.level) for finding in found}


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
    assert {(one.rule, one.level) for one in found if one.rule != "startup"} == {("build-paths", level)}


def test_documentation_may_name_a_home_folder(tmp_path: Path) -> None:
    assert findings(edited(make(tmp_path), {"demo/a.py": b'"""Reads /home/ann/data."""\n'})) == ()


# ---------------------------------------------------------------- members and text


@pytest.mark.parametrize(
    ("spoil", "level"),
    [
        pytest.param(lambda w: raw(w, "demo/a", mode=0o104755), ERROR, id="setuid"),
        pytest.param(lambda w: raw(w, "demo/a", mode=0o010644), ERROR, id="pipe"),
        pytest.param(lambda w: raw(w, "demo/a", mode=0o020644), ERROR, id="device"),
        pytest.param(lambda w: raw(w, "demo/a", mode=0o100666), WARNING, id="writable-by-all"),
        pytest.param(lambda w: raw(w, "demo/a", mode=0o100244), WARNING, id="unreadable"),
        pytest.param(lambda w: edited(w, {"demo/__pycache__/a.cpython-312.pyc": b"x"}), WARNING, id="bytecode"),
        pytest.param(lambda w: edited(w, {"demo/.DS_Store": b"x"}), WARNING, id="finder"),
        pytest.param(lambda w: edited(w, {"demo/.git/config": b"x"}), WARNING, id="git"),
        pytest.param(lambda w: edited(w, {"demo/a.py.orig": b"x"}), WARNING, id="merge"),
        pytest.param(lambda w: edited(w, {"demo/a.o": b"x"}), WARNING, id="object"),
        pytest.param(lambda w: edited(w, {"tests/test_a.py": b""}), WARNING, id="tests-beside-others"),
        pytest.param(lambda w: edited(w, {"setup.py": b""}), WARNING, id="setup-beside-others"),
        pytest.param(lambda w: edited(w, {"demo/aux.py": b""}), WARNING, id="reserved-by-windows"),
        pytest.param(lambda w: edited(w, {"demo/a?.txt": b""}), WARNING, id="not-on-windows"),
        pytest.param(lambda w: with_folder(w, "demo/empty/"), WARNING, id="empty-folder"),
    ],
)
def test_odd_members_are_found(spoil: Callable[[Path], Path], level: Level, tmp_path: Path) -> None:
    found = findings(spoil(make(tmp_path)))
    assert {(finding.rule, finding.level) for finding in found} == {("members", level)}


def with_folder(wheel: Path, name: str) -> Path:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.mkdir(name) if hasattr(archive, "mkdir") else archive.writestr(name, b"")
    return wheel


def test_a_name_windows_refuses_is_an_error_where_the_wheel_is_for_windows(tmp_path: Path) -> None:
    wheel = make(tmp_path, WINDOWS, {"demo/_C.pyd": PE, "demo/nul.txt": b""})
    assert seen(findings(wheel)) == {("members", "demo/nul.txt", ERROR)}


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        pytest.param("demo/__init__.py", b"def f(:\n", ERROR, id="package-that-cannot-be-imported"),
        pytest.param("demo/templates/a.py", b"print 'x'\n", WARNING, id="python-2"),
        pytest.param("demo/a.py", b"x = '\xff'\n", WARNING, id="no-utf-8"),
        pytest.param("demo/a.py", b"# coding: klingon\n", WARNING, id="no-encoding"),
        pytest.param("demo/a.py", b"x = 1\0\n", WARNING, id="zero-byte"),
        pytest.param("demo/run.sh", b"#!/bin/sh\r\necho\r\n", ERROR, id="carriage-return"),
    ],
)
def test_what_is_no_text_is_found(name: str, content: bytes, level: Level, tmp_path: Path) -> None:
    found = findings(edited(make(tmp_path), {name: content}))
    assert {(finding.rule, finding.level) for finding in found} == {("text", level)}


@pytest.mark.parametrize("content", [b"# coding: latin-1\nx = '\xe9'\n", b"\xef\xbb\xbfx = 1\n", b"x = '\\d'\r\n", b""])
def test_python_in_another_encoding_is_good(content: bytes, tmp_path: Path) -> None:
    assert findings(edited(make(tmp_path), {"demo/a.py": content})) == ()


def test_code_for_a_later_python_is_not_judged_by_this_one(tmp_path: Path) -> None:
    files = {"demo/__init__.py": b"def f(:\n"}
    assert findings(make(tmp_path, files=files, fields="Requires-Python: >=3.99\n")) == ()


# ---------------------------------------------------------------- metadata and licence


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda w: rewritten(w, "METADATA", "Metadata-Version: 2.1\n", ""), id="no-metadata-version"),
        pytest.param(lambda w: rewritten(w, "METADATA", "License:", "Requires-Dist: ???\nLicense:"), id="requirement"),
        pytest.param(lambda w: rewritten(w, "METADATA", "License:", "Keywords: a\0b\nLicense:"), id="zero-byte"),
        pytest.param(lambda w: rewritten(w, "WHEEL", "Wheel-Version: 1.0", "Wheel-Version: 2.0"), id="wheel-version"),
        pytest.param(lambda w: rewritten(w, "WHEEL", "Wheel-Version: 1.0\n", ""), id="no-wheel-version"),
        pytest.param(lambda w: edited(w, {f"{INFO}/top_level.txt": b"d\xe9mo\n"}), id="no-utf-8"),
    ],
)
def test_metadata_that_installers_or_an_index_refuse_is_found(spoil: Callable[[Path], Path], tmp_path: Path) -> None:
    found = findings(spoil(make(tmp_path)))
    assert {(finding.rule, finding.level) for finding in found} == {("metadata", ERROR)}


NEW = ("Metadata-Version: 2.1", "Metadata-Version: 2.4")


@pytest.mark.parametrize(
    ("old", "new", "level"),
    [
        pytest.param("License: MIT\n", "", WARNING, id="none"),
        pytest.param("License: MIT", "License-File: LICENSE", ERROR, id="file-that-is-not-there"),
        pytest.param("License: MIT", "License-Expression: Mine", ERROR, id="no-expression"),
    ],
)
def test_a_licence_that_is_not_told_is_found(old: str, new: str, level: Level, tmp_path: Path) -> None:
    wheel = rewritten(rewritten(make(tmp_path), "METADATA", *NEW), "METADATA", old, new)
    assert {(finding.rule, finding.level) for finding in findings(wheel)} == {("licence", level)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"It has parts of libtheirs, under MIT.", set(), id="named"),
        pytest.param(b"MIT", {("licence", "libtheirs-1a2b.so.1", WARNING)}, id="not-named"),
    ],
)
def test_the_licence_of_what_was_put_into_the_wheel_is_told(
    text: bytes, expected: set[tuple[str, str, Level]], tmp_path: Path
) -> None:
    files = {"demo/_C.so": PLAIN, "demo.libs/libtheirs-1a2b.so.1": PLAIN, f"{INFO}/licenses/LICENSE": text}
    assert seen(findings(make(tmp_path, LINUX, files))) == expected


# ---------------------------------------------------------------- the SBOM

ELSEWHERE = f"{INFO}/sboms/auditwheel.cdx.json"
OTHER_PROJECT = b'{"bomFormat": "CycloneDX", "metadata": {"component": {"name": "other", "version": "1.0"}}}'
OTHER_VERSION = b'{"bomFormat": "CycloneDX", "metadata": {"component": {"name": "demo", "version": "1.1"}}}'


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        pytest.param(SBOM, None, "no such member", id="none"),
        pytest.param(SBOM, b"{", "unreadable", id="no-json"),
        pytest.param(SBOM, b"\xff", "unreadable", id="no-text"),
        pytest.param(SBOM, b"[" * 100_000, "unreadable", id="deep"),
        pytest.param(SBOM, b"[]", "list", id="a-list"),
        pytest.param(SBOM, b"{}", "dict", id="another-format"),
        pytest.param(SBOM, b'{"bomFormat": "CycloneDX"}', "no metadata.component", id="of-nothing"),
        pytest.param(SBOM, b'{"bomFormat": "CycloneDX", "metadata": []}', "no metadata.component", id="odd-metadata"),
        pytest.param(SBOM, OTHER_PROJECT, "other", id="of-another-project"),
        pytest.param(SBOM, OTHER_VERSION, "1.1", id="of-another-version"),
        pytest.param(ELSEWHERE, OTHER_PROJECT, "other", id="another-tools-of-another-project"),
        pytest.param(ELSEWHERE, b"{", "unreadable", id="another-tools-that-is-no-json"),
    ],
)
def test_an_sbom_that_does_not_name_its_wheel_is_found(
    name: str, content: bytes | None, found: str, tmp_path: Path
) -> None:
    wheel = edited(make(tmp_path), {name: content})
    assert seen(findings(wheel, planned(PURE))) == {("sbom", found, ERROR)}
    assert seen(findings(wheel)) == (set() if content is None else {("sbom", found, WARNING)})


def test_an_sbom_that_record_does_not_list_is_found(tmp_path: Path) -> None:
    wheel = edited(edited(make(tmp_path), {SBOM: None}), {SBOM: OTHER_VERSION.replace(b"1.1", b"1.0")}, record=False)
    assert seen(findings(wheel, planned(PURE))) == {("record", "no row", ERROR)}


def test_an_sbom_of_another_tool_need_not_know_the_local_version(tmp_path: Path) -> None:
    name = PURE.replace("1.0", "1.0+cu130")
    info = INFO.replace("1.0", "1.0+cu130")
    of_public = OTHER_VERSION.replace(b"1.1", b"1.0")
    wheel = edited(make(tmp_path, name), {f"{info}/sboms/auditwheel.cdx.json": of_public})
    assert seen(findings(wheel, planned(name))) == set()
    ours = edited(wheel, {f"{info}/sboms/fatwheel.cdx.json": of_public})
    assert seen(findings(ours, planned(name))) == {("sbom", "1.0", ERROR)}


# ---------------------------------------------------------------- what was planned


@pytest.mark.parametrize(
    ("members", "libraries", "found"),
    [
        pytest.param((), (), set(), id="not-known"),
        pytest.param(("demo/__init__.py", "demo/_C.so"), (), set(), id="as-planned"),
        pytest.param(("demo/__init__.py",), (Library("demo/_C.so"),), set(), id="a-library-is-a-member"),
        pytest.param(("demo/__init__.py",), (), {"demo/_C.so"}, id="one-more"),
        pytest.param(("demo/__init__.py", "demo/_C.so", "demo/a.py"), (), {"no such member"}, id="one-missing"),
        pytest.param((), (Library("demo/_C.so"),), set(), id="libraries-alone"),
        pytest.param((), (Library("demo/_D.so"),), {"no such member", "demo/_C.so"}, id="another-library"),
    ],
)
def test_members_are_the_planned_ones(
    members: tuple[str, ...], libraries: tuple[Library, ...], found: set[str], tmp_path: Path
) -> None:
    job = replace(planned(LINUX), members=members, libraries=libraries)
    assert seen(findings(native(tmp_path, PLAIN), job)) == {("prediction", what, ERROR) for what in found}


def test_libraries_that_auditwheel_adds_need_no_plan(tmp_path: Path) -> None:
    licence = f"{INFO}/licenses/LICENSE"
    files = {"demo/_C.so": PLAIN, "demo.libs/libtheirs-1a2b.so.1": PLAIN, licence: b"libtheirs: MIT"}
    job = replace(planned(LINUX), members=("demo/_C.so",))
    assert findings(make(tmp_path, LINUX, files), job) == ()


# ---------------------------------------------------------------- a launcher


def test_a_platform_wheel_of_others_may_say_that_it_is_pure(tmp_path: Path) -> None:
    wheel = rewritten(native(tmp_path, PLAIN), "WHEEL", "Purelib: false", "Purelib: true")
    assert seen(findings(wheel)) == {("tags", "true", WARNING)}
    assert ("tags", "true", ERROR) in seen(findings(wheel, planned(LINUX)))


def test_a_launcher_in_a_foreign_pure_wheel_is_a_warning(tmp_path: Path) -> None:
    wheel = edited(make(tmp_path), {"demo/cli.exe": PE})
    assert seen(findings(wheel)) == {("pure", "PE", WARNING)}
    assert seen(findings(wheel, planned(PURE))) == {("pure", "PE", ERROR)}


# ---------------------------------------------------------------- what belongs to others


@pytest.mark.parametrize(
    ("file", "fields", "found"),
    [
        pytest.param("demo/lib/libtorch.so", "", True, id="torch"),
        pytest.param("demo.libs/libtorch_cpu-0123abcd.so", "", True, id="torch-vendored"),
        pytest.param("demo.libs/libc10-9f3e21ab.so", "", True, id="c10-vendored"),
        pytest.param("demo.libs/libcuda-0123abcd.so.1", "", True, id="driver"),
        pytest.param("demo.libs/libcudart-0123abcd.so.13.0.48", TORCH_FIELD, True, id="cuda-vendored"),
        pytest.param("demo/libcudart.so.13", TORCH_FIELD, True, id="cuda"),
        pytest.param("demo.libs/libcudart.60cfec8e.so.12", TORCH_FIELD, True, id="cuda-as-torchvision-names-it"),
        pytest.param(
            "demo/libcudart.so.13", "Requires-Dist: nvidia-cuda-runtime\n", True, id="cuda-beside-its-package"
        ),
        pytest.param("demo/libcudart.so.13", "", False, id="cuda-for-itself"),
        pytest.param("demo/libtorch_scatter.so", TORCH_FIELD, False, id="a-name-like-torch-s"),
        pytest.param("demo.libs/libgomp-0123abcd.so.1", TORCH_FIELD, False, id="a-library-of-the-system"),
    ],
)
def test_a_copy_of_what_others_bring_is_found(file: str, fields: str, found: bool, tmp_path: Path) -> None:  # noqa: FBT001
    files = {"demo/__init__.py": b"", file: PLAIN, f"{INFO}/licenses/LICENSE": b"torch c10 gomp cudart cuda"}
    expected = {("bundled", file.rpartition("/")[2], ERROR)} if found else set()
    assert seen(findings(make(tmp_path, LINUX, files, fields))) == expected


def test_torch_itself_may_bring_torch(tmp_path: Path) -> None:
    files = {"torch/__init__.py": b"", "torch/lib/libtorch_cpu.so": PLAIN}
    assert findings(make(tmp_path, LINUX.replace("demo", "torch"), files)) == ()


@pytest.mark.parametrize(
    ("file", "fields", "level"),
    [
        pytest.param("torch/nn/functional.py", "", ERROR, id="torch"),
        pytest.param("demo-1.0.data/purelib/torch/a.py", "", ERROR, id="torch-by-way-of-data"),
        pytest.param("numpy/__init__.py", "", ERROR, id="numpy"),
        pytest.param("numpy/demo.py", "", WARNING, id="beside-numpy"),
        pytest.param("theirs/__init__.py", "Requires-Dist: Theirs>=1\n", ERROR, id="a-required-package"),
        pytest.param("theirs.py", "Requires-Dist: theirs\n", ERROR, id="a-required-module"),
        pytest.param("theirs/plugins/demo.py", "Requires-Dist: theirs\n", WARNING, id="beside-a-required-package"),
        pytest.param("theirs/__init__.py", "", None, id="a-name-of-its-own"),
    ],
)
def test_the_packages_of_others_are_left_alone(file: str, fields: str, level: Level | None, tmp_path: Path) -> None:
    found = findings(make(tmp_path, files={"demo/__init__.py": b"", file: b""}, fields=fields))
    assert {(finding.rule, finding.level) for finding in found} == ({("overwritten", level)} if level else set())


# ---------------------------------------------------------------- what nobody looks for

KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\n" * 3


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        pytest.param(".pypirc", b"[pypi]\n", ERROR, id="pypirc"),
        pytest.param("demo/.netrc", b"machine x\n", ERROR, id="netrc"),
        pytest.param("demo/server.pem", KEY, ERROR, id="key"),
        pytest.param("demo/server.pem", KEY.replace(b"PRIVATE", b"OPENSSH PRIVATE"), ERROR, id="key-of-ssh"),
        pytest.param(
            "demo/server.pem", KEY.replace(b"PRIVATE", b"ENCRYPTED PRIVATE"), WARNING, id="key-with-a-password"
        ),
        pytest.param("demo/tests/server.pem", KEY, WARNING, id="key-of-a-test"),
        pytest.param("demo/a.pem", KEY.replace(b"PRIVATE KEY", b"CERTIFICATE"), None, id="certificate"),
        pytest.param("demo/keys.txt", b"-----BEGIN PRIVATE KEY-----\n...\n", None, id="no-key-in-it"),
    ],
)
def test_secrets_are_found(name: str, content: bytes, level: Level | None, tmp_path: Path) -> None:
    found = findings(edited(make(tmp_path), {name: content}))
    assert {(finding.rule, finding.level) for finding in found} == ({("secrets", level)} if level else set())


@pytest.mark.parametrize(
    ("name", "content", "level"),
    [
        pytest.param("demo.pth", b"import demo\n", WARNING, id="import"),
        pytest.param("demo-1.0.data/purelib/demo.pth", b"demo\n", WARNING, id="by-way-of-data"),
        pytest.param("demo.pth", b"import base64; exec(base64.b64decode('cHJpbnQoKQ=='))\n", ERROR, id="veiled"),
        pytest.param("demo/weights.pth", b"\x80\x02}q\x00.", None, id="weights-of-a-model"),
    ],
)
def test_what_runs_at_every_start_is_found(name: str, content: bytes, level: Level | None, tmp_path: Path) -> None:
    found = findings(edited(make(tmp_path), {name: content}))
    assert {(finding.rule, finding.level) for finding in found} == ({("startup", level)} if level else set())


def nested(**files: bytes) -> bytes:
    """Return a zip file with these members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "level"),
    [
        pytest.param(bytes(4096) + PLAIN, ERROR, id="behind-padding"),
        pytest.param(b" " * 3_000_000 + PLAIN, ERROR, id="behind-much-padding"),
        pytest.param(nested(library=PLAIN), WARNING, id="in-an-archive"),
        pytest.param(nested(inner=nested(library=PLAIN)), WARNING, id="in-an-archive-of-an-archive"),
        pytest.param(nested(text=b"text"), None, id="an-archive-of-text"),
        pytest.param(b"PK\x03\x04 and no more", None, id="no-archive"),
        pytest.param(bytes(4096), None, id="zeros"),
    ],
)
def test_libraries_within_other_files_are_found(content: bytes, level: Level | None, tmp_path: Path) -> None:
    wheel = edited(make(tmp_path), {"demo/data.bin": content})
    found = audit(wheel, job=None, limits={"pypi": 1 << 30, "github": 1 << 30}, work=tmp_path / "work")
    assert {(finding.rule, finding.level) for finding in found} == ({("hidden", level)} if level else set())


def test_our_own_build_hides_no_library_in_an_archive(tmp_path: Path) -> None:
    wheel = edited(make(tmp_path), {"demo/data.zip": nested(library=PLAIN)})
    assert seen(findings(wheel, planned(PURE))) == {("hidden", "library", ERROR)}


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c"])
def test_marks_that_turn_the_direction_of_a_name_are_found(mark: str, tmp_path: Path) -> None:
    found = findings(raw(make(tmp_path), f"demo/a{mark}yp.exe"))
    assert {(finding.rule, finding.found) for finding in found} == {("paths", ascii(f"demo/a{mark}yp.exe"))}


# ---------------------------------------------------------------- what an index shows

CLASSIFIED = "Classifier: Programming Language :: Python :: 3\n"


@pytest.mark.parametrize(
    ("name", "fields", "level"),
    [
        pytest.param(PURE, CLASSIFIED, None, id="good"),
        pytest.param(PURE, "Classifier: Programming Language :: Phyton\n", WARNING, id="classifier"),
        pytest.param(PURE, "Requires-Dist: theirs @ file:///home/ann/theirs.whl\n", ERROR, id="file"),
        pytest.param(PURE, "Requires-Dist: theirs @ https://localhost/theirs.whl\n", ERROR, id="address"),
        pytest.param(
            PURE.replace("1.0", "1.0+cpu"),
            "Requires-Dist: theirs @ https://localhost/theirs.whl\n",
            WARNING,
            id="local",
        ),
        pytest.param(
            PURE.replace("1.0", "1.0+cpu"),
            "Requires-Dist: theirs @ file:///home/ann/theirs.whl\n",
            ERROR,
            id="local-file",
        ),
    ],
)
def test_what_an_index_refuses_is_found(name: str, fields: str, level: Level | None, tmp_path: Path) -> None:
    found = findings(make(tmp_path, name, fields=fields))
    assert {(finding.rule, finding.level) for finding in found} == ({("index", level)} if level else set())


@pytest.mark.parametrize(
    ("kind", "rule"), [("text/x-rst", "index"), ("text/markdown", ""), ("text/plain", "")], ids=lambda text: text or "-"
)
def test_a_description_that_does_not_render_is_found(kind: str, rule: str, tmp_path: Path) -> None:
    fields = f"Description-Content-Type: {kind}\n"
    wheel = rewritten(make(tmp_path, fields=fields), "METADATA", "What it is.", "Title\n==\n\n.. nothing::\n\n`x")
    assert {(one.rule, one.level) for one in findings(wheel)} == ({(rule, ERROR)} if rule else set())


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        pytest.param("[console_scripts]\ndemo = demo.cli:main", "", None, id="good"),
        pytest.param("[console_scripts]\ndemo = demo.cli:App.run", "", None, id="a-method"),
        pytest.param("[console_scripts]\ndemo = demo.lazy:anything", "", None, id="names-made-as-it-runs"),
        pytest.param("[console_scripts]\ndemo = demo:cli", "", None, id="a-module-as-object"),
        pytest.param("[console_scripts]\ndemo = demo.gone:main", "", ERROR, id="no-module"),
        pytest.param("[console_scripts]\ndemo = demo.cli:gone", "", ERROR, id="no-object"),
        pytest.param("[console_scripts]\ndemo = demo.cli", "", ERROR, id="a-command-without-object"),
        pytest.param("[console_scripts]\ndemo = demo main", "", ERROR, id="no-reference"),
        pytest.param("[console_scripts]\ndemo = theirs:main", "", ERROR, id="of-nobody"),
        pytest.param("[console_scripts]\ndemo = theirs:main", "Requires-Dist: x\n", WARNING, id="of-another-project"),
        pytest.param("[pytest11]\ndemo = demo.gone", "", WARNING, id="no-module-of-a-plugin"),
        pytest.param("demo = demo.cli:main", "", ERROR, id="no-section"),
    ],
)
def test_entry_points_name_what_is_there(text: str, fields: str, expected: Level | None, tmp_path: Path) -> None:
    files = {
        "demo/__init__.py": b"",
        "demo/cli.py": b"class App:\n    def run(self): pass\nif 1:\n    from os import getpid as main\n",
        "demo/lazy.py": b"def __getattr__(name): return print\n",
        f"{INFO}/entry_points.txt": f"{text}\n".encode(),
    }
    found = findings(make(tmp_path, files=files, fields=fields))
    assert {(one.rule, one.level) for one in found} == ({("entry-points", expected)} if expected else set())


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


# ---------------------------------------------------------------- the zip file


def hidden(wheel: Path, before: bytes) -> Path:
    """Put bytes before the wheel's first member, every offset moved so that Python's zipfile reads it as it was."""
    data = wheel.read_bytes()
    directory = data.rindex(b"PK\x05\x06")
    start = int.from_bytes(data[directory + 16 : directory + 20], "little")
    moved = bytearray(before + data)
    at = start + len(before)
    while moved[at : at + 4] == b"PK\x01\x02":
        offset = int.from_bytes(moved[at + 42 : at + 46], "little") + len(before)
        moved[at + 42 : at + 46] = offset.to_bytes(4, "little")
        lengths = [int.from_bytes(moved[at + place : at + place + 2], "little") for place in (28, 30, 32)]
        at += 46 + sum(lengths)
    end = directory + len(before)
    moved[end + 16 : end + 20] = (start + len(before)).to_bytes(4, "little")
    wheel.write_bytes(bytes(moved))
    return wheel


def test_bytes_that_no_member_owns_are_found(tmp_path: Path) -> None:
    good = make(tmp_path / "good", PURE)
    smuggled = make(tmp_path / "other", PURE, {"demo/evil.py": b"import os\n"}).read_bytes()
    first = smuggled[: smuggled.index(b"PK\x03\x04", 4)]
    wheel = hidden(good, first)
    with zipfile.ZipFile(wheel) as archive:
        assert "demo/evil.py" not in archive.namelist()
    assert {(finding.rule, finding.level) for finding in findings(wheel)} == {("container", ERROR)}


def test_a_header_that_says_another_method_is_found(tmp_path: Path) -> None:
    wheel = make(tmp_path, PURE)
    data = bytearray(wheel.read_bytes())
    data[8:10] = (14).to_bytes(2, "little")
    wheel.write_bytes(bytes(data))
    assert "container" in {finding.rule for finding in findings(wheel)}
