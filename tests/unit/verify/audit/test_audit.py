from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.model.files import Level
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Cell, Platform
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.audit import RULES, audit
from tests.builders import wheels
from tests.builders.audited import INFO, PE, SBOM, findings, native, planned, raw, rewritten
from tests.builders.wheels import LINUX, PTX, PURE, SASS, edited, entry, library, linked, make, unit

PLAIN = library("extern void *malloc(unsigned long); void *ours(void) { return malloc(1); }")
LIMITED = library(
    "extern void *PyModule_Create2(void *, int); void *PyInit__C(void) { return PyModule_Create2(0, 3); }"
)


def linux(folder: Path, content: bytes = PLAIN, name: str = LINUX) -> Path:
    return make(folder, name, {"demo/__init__.py": b"load_library", "demo/_C.abi3.so": content})


def fatbinary(*entries: bytes) -> bytes:
    return wheels.with_section(".nv_fatbin", unit(*entries))


# ---------------------------------------------------------------- good wheels


@pytest.mark.parametrize(
    ("name", "files", "archs"),
    [
        pytest.param(PURE, {"demo/a.py": b"x = 1\n", "demo/data.bin": b"MZ is a text"}, (), id="pure"),
        pytest.param("demo-1.0-py2.py3-none-any.whl", {"demo.py": b""}, (), id="pure-with-two-tags"),
        pytest.param("demo-1.0-7-py3-none-any.whl", {"demo.py": b""}, (), id="build-number"),
        pytest.param(LINUX, {"demo/_C.so": PLAIN}, (), id="every-python"),
        pytest.param("demo-1.0-cp312-cp312-win_amd64.whl", {"demo/c.pyd": PE}, (), id="one-python"),
        pytest.param(LINUX, {"demo/_C.so": fatbinary(entry(SASS, 90), entry(PTX, 90))}, ("9.0+PTX",), id="cuda"),
        pytest.param(LINUX, {"demo/_C.so": PLAIN, "demo/A.py": b"", "demo/a.py": b""}, (), id="linux-minds-case"),
    ],
)
def test_a_good_wheel_has_no_findings(
    name: str, files: dict[str, bytes], archs: tuple[str, ...], tmp_path: Path
) -> None:
    assert findings(make(tmp_path, name, files), planned(name, *archs)) == ()


# ---------------------------------------------------------------- one wrong thing each


def outside(name: str) -> tuple[str, str]:
    return name, "a relative path with forward slashes"


HASH = wheels.digest(wheels.PACKAGE["demo/run.sh"])


@pytest.mark.parametrize(
    ("spoil", "rule", "found", "expected"),
    [
        pytest.param(lambda w: raw(w, "../a.py"), "paths", *outside("../a.py"), id="path-above"),
        pytest.param(lambda w: raw(w, "demo/../../a.py"), "paths", *outside("demo/../../a.py"), id="path-above-within"),
        pytest.param(lambda w: raw(w, "/a.py"), "paths", *outside("/a.py"), id="path-absolute"),
        pytest.param(lambda w: raw(w, "demo\\a.py"), "paths", *outside("demo\\a.py"), id="path-with-backslash"),
        pytest.param(lambda w: raw(w, "C:a.py"), "paths", *outside("C:a.py"), id="path-with-drive"),
        pytest.param(
            lambda w: raw(w, "demo/\x1b.py"), "paths", r"'demo/\x1b.py'", "a name that can be shown", id="control"
        ),
        pytest.param(lambda w: raw(w, "demo/l", b"a", 0o120777), "paths", "a link", "a file", id="link"),
        pytest.param(
            lambda w: edited(w, {"demo/RUN.sh": b""}),
            "paths",
            "demo/RUN.sh, demo/run.sh",
            "one of them",
            id="case-clash",
        ),
        pytest.param(
            lambda w: edited(w, {"demo/run.sh": b"#!/bin/zz\n"}, record=False),
            "record",
            f"{wheels.digest(b'#!/bin/zz' + bytes([10]))},10",
            f"{HASH},10",
            id="changed",
        ),
        pytest.param(
            lambda w: rewritten(w, "RECORD", f"{HASH},10", f"{HASH},11"),
            "record",
            f"{HASH},10",
            f"{HASH},11",
            id="another-size",
        ),
        pytest.param(
            lambda w: rewritten(w, "RECORD", f"{HASH},10", "md5=abc,10"),
            "record",
            f"{HASH},10",
            "md5=abc,10",
            id="weak-hash",
        ),
        pytest.param(
            lambda w: edited(w, {"demo/b.py": b""}, record=False),
            "record",
            "no row",
            "its hash and size",
            id="unlisted",
        ),
        pytest.param(
            lambda w: edited(w, {"demo/run.sh": None}, record=False),
            "record",
            "no such member",
            "demo/run.sh",
            id="gone",
        ),
        pytest.param(
            lambda w: edited(w, {f"{INFO}/RECORD": None}, record=False),
            "record",
            "nothing",
            f"{INFO}/RECORD",
            id="no-record",
        ),
        pytest.param(
            lambda w: rewritten(w, "RECORD", f"{INFO}/RECORD,,\n", f"{INFO}/RECORD,,\n{INFO}/RECORD,,\n"),
            "record",
            "2",
            "1",
            id="listed-twice",
        ),
        pytest.param(
            lambda w: edited(w, {SBOM: None}, name="demo-1.1-py3-none-any.whl"),
            "names",
            "1.0",
            "1.1",
            id="another-version-twice",
        ),
        pytest.param(
            lambda w: rewritten(w, "METADATA", "Name: demo", "Name: dem"), "names", "dem", "demo", id="project"
        ),
        pytest.param(
            lambda w: rewritten(w, "METADATA", "Version: 1.0", "Version: 1.0.1"), "names", "1.0.1", "1.0", id="version"
        ),
        pytest.param(
            lambda w: rewritten(w, "METADATA", "\nVersion: 1.0", "\nVersion: ?"), "names", "?", "1.0", id="no-version"
        ),
        pytest.param(
            lambda w: rewritten(w, "WHEEL", "Tag: py3-none-any", "Tag: py2-none-any"),
            "tags",
            "py2-none-any",
            "py3-none-any",
            id="another-tag",
        ),
        pytest.param(
            lambda w: rewritten(w, "WHEEL", "Tag: py3-none-any", "Tag: py3"), "tags", "py3", "py3-none-any", id="no-tag"
        ),
        pytest.param(
            lambda w: rewritten(w, "WHEEL", "Purelib: true", "Purelib: false"), "tags", "false", "true", id="purelib"
        ),
        pytest.param(
            lambda w: edited(w, {"demo/b.py": b"\x7fELF"}),
            "pure",
            "ELF",
            "no compiled file",
            id="compiled-despite-its-name",
        ),
        pytest.param(
            lambda w: edited(w, {"demo/random.bin": os.urandom(110_000)}),
            "size",
            None,
            "at most 100,000 bytes",
            id="too-large",
        ),
    ],
)
def test_one_wrong_thing_is_one_finding(
    spoil: Callable[[Path], Path], rule: str, found: str | None, expected: str, tmp_path: Path
) -> None:
    seen = findings(spoil(make(tmp_path)))
    assert {(finding.rule, finding.found, finding.expected) for finding in seen} == {
        (rule, found or seen[0].found, expected)
    }
    assert {finding.level for finding in seen} == {Level.ERROR}


def test_a_member_that_is_there_twice_is_found(tmp_path: Path) -> None:
    wheel = make(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("demo/run.sh", wheels.PACKAGE["demo/run.sh"])
    assert ("paths", "2", "1") in {(finding.rule, finding.found, finding.expected) for finding in findings(wheel)}


def test_a_member_without_a_name_is_found(tmp_path: Path) -> None:
    wheel = make(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("x", b"content")
        archive.filelist[-1].filename = ""
    assert ("paths", "''", "a name") in {(one.rule, one.found, one.expected) for one in findings(wheel)}


def test_another_wheel_than_planned_is_found(tmp_path: Path) -> None:
    (finding,) = findings(make(tmp_path), planned("demo-1.0+cu130-py3-none-any.whl"))
    assert (finding.rule, finding.found, finding.expected) == ("tags", PURE, "demo-1.0+cu130-py3-none-any.whl")


def test_what_is_no_wheel_s_name_is_found(tmp_path: Path) -> None:
    (finding,) = findings(make(tmp_path).rename(tmp_path / "demo.whl"))
    assert (finding.rule, finding.found) == ("names", "demo.whl")


@pytest.mark.parametrize(("content", "said"), [(b"", "not a zip file"), (b"PK\3\4 and no more", "not a zip file")])
def test_what_is_no_archive_has_one_finding(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / PURE).write_bytes(content)
    (finding,) = findings(tmp_path / PURE)
    assert finding.rule == "archive"
    assert said in finding.message


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        pytest.param(PURE, "pypi", id="pure"),
        pytest.param("demo-1.0+cu130-py3-none-any.whl", "github", id="local-version"),
    ],
)
def test_the_size_limit_is_that_of_where_it_may_go(name: str, limit: str, tmp_path: Path) -> None:
    wheel = make(tmp_path, name)
    limits = {"pypi": 10**9, "github": 10**9, limit: 10}
    (finding,) = audit(wheel, job=None, limits=limits, work=tmp_path)
    assert (finding.rule, finding.found) == ("size", f"{wheel.stat().st_size:,} bytes")


@pytest.mark.parametrize("to_pypi", [True, False])
def test_the_size_limit_is_that_of_where_it_is_said_to_go(to_pypi: bool, tmp_path: Path) -> None:  # noqa: FBT001
    limits = {"pypi": 10, "github": 10**9}
    found = audit(make(tmp_path), job=planned(PURE), limits=limits, work=tmp_path, to_pypi=to_pypi)
    assert [finding.rule for finding in found] == (["size"] if to_pypi else [])


def test_a_wheel_that_nears_the_limit_says_what_each_architecture_costs(tmp_path: Path) -> None:
    wheel = linux(tmp_path, fatbinary(entry(SASS, 90), entry(PTX, 100)))
    found = audit(wheel, job=None, limits={"pypi": wheel.stat().st_size + 1}, work=tmp_path, only=["size"])
    says = "the wheel is nearly too large for pypi: sm_90 0.0 MB, compute_100 0.0 MB"
    assert [(finding.level, finding.message) for finding in found] == [(Level.WARNING, says)]


# ---------------------------------------------------------------- what it requires


def serving(requires_torch: str = "") -> Job:
    """A job whose wheel serves Python 3.10 and 3.12, and torch 2.9 and 2.10; just 2.10 where it requires that."""
    torches = [Minor(2, 10)] if requires_torch else [Minor(2, 9), Minor(2, 10)]
    pythons = [Python(Minor(3, 10)), Python(Minor(3, 12), free_threaded=True)]
    cells = tuple(Cell(Platform.LINUX_CPU, None, torch, python) for torch in torches for python in pythons)
    return replace(planned(PURE), covers=cells, requires_torch=requires_torch)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("", [], id="any"),
        pytest.param(">=3.10", [], id="the-lowest"),
        pytest.param(">=3.10.4,!=3.11.*,<3.13", [], id="some-patches"),
        pytest.param(">=3.11", ["Python 3.10 admitted"], id="one-refused"),
        pytest.param("<3.10", ["Python 3.10, 3.12 admitted"], id="all-refused"),
        pytest.param("3.10", ["one such as >=3.10 (PEP 440)"], id="no-specifier"),
    ],
)
def test_requires_python_admits_what_the_wheel_serves(said: str, expected: list[str], tmp_path: Path) -> None:
    found = findings(make(tmp_path, fields=f"Requires-Python: {said}\n" if said else ""), serving())
    assert [(finding.rule, finding.found, finding.expected) for finding in found] == [
        ("requires-python", said, sentence) for sentence in expected
    ]


@pytest.mark.parametrize(
    ("said", "narrowed", "expected"),
    [
        pytest.param([], "", [], id="no-torch"),
        pytest.param(["torch>=2.9"], "", [], id="admitted"),
        pytest.param(["torch>=2.9.1,!=2.10.0"], "", [], id="some-patches-admitted"),
        pytest.param(["torch>=2.10"], "", ["torch 2.9 admitted"], id="one-refused"),
        pytest.param(["torch>=2.10; python_version < '3'"], "", [], id="conditional"),
        pytest.param(["torch>=2.10,<2.11,!=2.10.1"], ">=2.10,<2.11", [], id="narrowed"),
        pytest.param(["torch>=2.10"], ">=2.10,<2.11", ["torch>=2.10,<2.11"], id="wider"),
        pytest.param([], ">=2.10,<2.11", ["torch>=2.10,<2.11"], id="missing"),
        pytest.param(["torch>=2.10,<2.11; extra == 'a'"], ">=2.10,<2.11", ["torch>=2.10,<2.11"], id="in-an-extra"),
        pytest.param(["torch>=2.10,<2.11,>=2.12"], ">=2.10,<2.11", ["torch 2.10 admitted"], id="none-left"),
    ],
)
def test_torch_is_required_as_the_wheel_was_built(
    said: list[str], narrowed: str, expected: list[str], tmp_path: Path
) -> None:
    found = findings(make(tmp_path, fields="".join(f"Requires-Dist: {one}\n" for one in said)), serving(narrowed))
    assert [(finding.rule, finding.expected) for finding in found] == [("requires-torch", one) for one in expected]


# ---------------------------------------------------------------- what is compiled


def test_a_wheel_for_one_platform_holds_something_compiled(tmp_path: Path) -> None:
    (finding,) = findings(make(tmp_path, LINUX))
    assert (finding.rule, finding.found, finding.expected) == ("pure", "no compiled file", "a library")


def test_a_library_for_every_python_asks_for_no_python_symbol(tmp_path: Path) -> None:
    (finding,) = findings(linux(tmp_path, LIMITED))
    assert (finding.rule, finding.found) == ("python-symbols", "PyModule_Create2")
    assert finding.message == "demo/_C.abi3.so asks for Python symbols"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(fatbinary(entry(SASS, 90)), "sm_90", id="one-missing"),
        pytest.param(fatbinary(entry(SASS, 90), entry(SASS, 100)), "sm_100, sm_90", id="no-ptx"),
        pytest.param(
            fatbinary(entry(SASS, 80), entry(SASS, 90), entry(SASS, 100), entry(PTX, 100)),
            "compute_100, sm_100, sm_80, sm_90",
            id="one-more",
        ),
        pytest.param(
            fatbinary(entry(SASS, 90, 0x100000), entry(SASS, 100), entry(PTX, 100)),
            "compute_100, sm_100, sm_90a",
            id="another-variant",
        ),
        pytest.param(PLAIN, "none", id="no-device-code"),
    ],
)
def test_device_code_is_for_the_planned_architectures(content: bytes, found: str, tmp_path: Path) -> None:
    (finding,) = findings(linux(tmp_path, content), planned(LINUX, "9.0", "10.0+PTX"))
    assert (finding.rule, finding.found, finding.expected) == ("fatbinary", found, "compute_100, sm_100, sm_90")


def test_a_malformed_fatbinary_names_its_library(tmp_path: Path) -> None:
    found = findings(linux(tmp_path, fatbinary(entry(SASS, 90)[:40])), planned(LINUX, "9.0"))
    finding = next(finding for finding in found if finding.rule == "fatbinary")
    assert finding.message.startswith("demo/_C.abi3.so cannot be read: the fatbinary ends")


# ---------------------------------------------------------------- damage


def damaged(wheel: Path, name: str) -> Path:
    """Turn over a byte of a member's content."""
    content = bytearray(wheel.read_bytes())
    content[content.index(name.encode()) + len(name) + 2] ^= 0x55
    wheel.write_bytes(content)
    return wheel


@pytest.mark.parametrize("name", ["demo/run.sh", f"{INFO}/METADATA", f"{INFO}/WHEEL", f"{INFO}/RECORD"])
def test_a_member_that_cannot_be_read_is_a_finding(name: str, tmp_path: Path) -> None:
    found = findings(damaged(make(tmp_path), name))
    assert found
    assert {(finding.found, finding.expected) for finding in found} == {("unreadable", "a whole file")}
    assert all(f"{name} cannot be read: " in finding.message for finding in found)


@pytest.mark.parametrize("file", ["METADATA", "WHEEL", "RECORD"])
def test_labels_that_are_not_utf_8_are_a_finding(file: str, tmp_path: Path) -> None:
    wheel = make(tmp_path)
    content = wheels.members_of(wheel)[f"{INFO}/{file}"] + b"\xff"
    found = findings(edited(wheel, {f"{INFO}/{file}": content}, record=False))
    assert f"{PURE}: {file} is not UTF-8" in " ".join(finding.message for finding in found)


def test_every_rule_says_what_it_checks() -> None:
    assert all(rule.check.__doc__ for rule in RULES.values())


OLD = "int getpid(void); int ours(void) { return getpid(); }"
ERROR, WARNING = Level.ERROR, Level.WARNING


@pytest.mark.slow
def test_much_debug_information_is_found(tmp_path: Path) -> None:
    source = '__asm__(".section .debug_info\\n.zero 20000000\\n");'
    wheel = native(tmp_path, linked(f"{source} {OLD}"))
    assert {(one.rule, one.level) for one in findings(wheel)} == {("debug", WARNING)}
