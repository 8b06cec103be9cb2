"""What a wheel says of itself, and the plan of it: each rule has a wheel that breaks it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.model.files import Level
from ci_tools.model.plan import Library
from tests.builders.audited import INFO, OLD, PE, SBOM, findings, native, planned, rewritten, seen
from tests.builders.mach_o import dylib
from tests.builders.wheels import LINUX, PURE, edited, linked, make

THEIRS = linked(OLD, "-Wl,-soname,libtheirs-1a2b.so.1")
PLAIN = linked(OLD)
ERROR, WARNING = Level.ERROR, Level.WARNING


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
    files = {"demo/_C.so": PLAIN, "demo.libs/libtheirs-1a2b.so.1": THEIRS, f"{INFO}/licenses/LICENSE": text}
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
    files = {"demo/_C.so": PLAIN, "demo.libs/libtheirs-1a2b.so.1": THEIRS, licence: b"libtheirs: MIT"}
    job = replace(planned(LINUX), members=("demo/_C.so",))
    assert findings(make(tmp_path, LINUX, files), job) == ()


# ---------------------------------------------------------------- a launcher


def test_a_platform_wheel_of_others_may_say_that_it_is_pure(tmp_path: Path) -> None:
    wheel = rewritten(native(tmp_path, PLAIN), "WHEEL", "Purelib: false", "Purelib: true")
    assert seen(findings(wheel)) == {("tags", "true", WARNING)}
    assert ("tags", "true", ERROR) in seen(findings(wheel, planned(LINUX)))


def test_a_launcher_in_a_pure_wheel_is_a_warning(tmp_path: Path) -> None:
    wheel = edited(make(tmp_path), {"demo/cli.exe": PE})
    assert seen(findings(wheel)) == {("pure", "PE", WARNING)}
    assert seen(findings(wheel, planned(PURE))) == {("pure", "PE", WARNING)}


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


# ---------------------------------------------------------------- what a package imports of itself


@pytest.mark.parametrize(
    ("code", "found"),
    [
        pytest.param(b"from .a import *\nfrom .a import x\nfrom . import a\n", set(), id="all-there"),
        pytest.param(b"try:\n    from . import _c\nexcept ImportError:\n    _c = None\n", set(), id="guarded"),
        pytest.param(b"from . import _c\n", {("own-imports", "no such module", ERROR)}, id="no-such-part"),
        pytest.param(b"from ._c import f\n", {("own-imports", "no such module", ERROR)}, id="no-such-module"),
        pytest.param(b"from .six.moves import range\n", set(), id="of-a-module-that-makes-modules"),
        pytest.param(b"from .a.b import c\n", {("own-imports", "no such module", ERROR)}, id="of-one-that-makes-none"),
    ],
)
def test_a_package_has_what_it_imports_of_itself(
    code: bytes, found: set[tuple[str, str, Level]], tmp_path: Path
) -> None:
    six = b"import sys\nsys.modules[f'{__name__}.moves'] = sys\n"
    files = {"demo/__init__.py": code, "demo/a.py": b"x = 1\n", "demo/six.py": six}
    assert seen(findings(make(tmp_path, files=files))) == found


def test_an_extension_may_have_submodules(tmp_path: Path) -> None:
    library = dylib(exports=["PyInit__c"])
    files = {"demo/__init__.py": b"import demo._c.fft\nfrom ._c.linalg import f\n", "demo/_c.abi3.so": library}
    assert seen(findings(make(tmp_path, "demo-1.0-cp311-abi3-macosx_11_0_arm64.whl", files))) == set()
