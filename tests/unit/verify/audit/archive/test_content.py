"""What is in a wheel that should not be: each rule has a wheel that breaks it alone."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.model.files import Level
from ci_tools.verify.audit import audit
from tests.builders.audited import INFO, OLD, PE, TORCH_FIELD, WINDOWS, findings, planned, raw, seen
from tests.builders.wheels import LINUX, PURE, edited, linked, make

PLAIN = linked(OLD)
ERROR, WARNING = Level.ERROR, Level.WARNING


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


def test_a_pointer_of_git_lfs_is_an_error(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    wheel = edited(make(tmp_path), {"demo/table.bin": pointer, "demo/long.bin": pointer + b"x" * 1024})
    assert [(one.rule, one.message) for one in findings(wheel)] == [
        ("pointers", "demo/table.bin is a pointer of Git LFS")
    ]


@pytest.mark.parametrize("content", [b"# coding: latin-1\nx = '\xe9'\n", b"\xef\xbb\xbfx = 1\n", b"x = '\\d'\r\n", b""])
def test_python_in_another_encoding_is_good(content: bytes, tmp_path: Path) -> None:
    assert findings(edited(make(tmp_path), {"demo/a.py": content})) == ()


def test_code_for_a_later_python_is_not_judged_by_this_one(tmp_path: Path) -> None:
    files = {"demo/__init__.py": b"def f(:\n"}
    assert findings(make(tmp_path, files=files, fields="Requires-Python: >=3.99\n")) == ()


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
        # what runs at every start of Python
        pytest.param("demo.pth", b"import demo\n", WARNING, id="import"),
        pytest.param("demo-1.0.data/purelib/demo.pth", b"demo\n", WARNING, id="by-way-of-data"),
        pytest.param("demo.pth", b"import base64; exec(base64.b64decode('cHJpbnQoKQ=='))\n", ERROR, id="veiled"),
        pytest.param("demo/weights.pth", b"\x80\x02}q\x00.", None, id="weights-of-a-model"),
    ],
)
def test_secrets_and_what_runs_at_every_start_are_found(
    name: str, content: bytes, level: Level | None, tmp_path: Path
) -> None:
    rule = "startup" if name.endswith(".pth") else "secrets"
    found = findings(edited(make(tmp_path), {name: content}))
    assert {(finding.rule, finding.level) for finding in found} == ({(rule, level)} if level else set())


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
