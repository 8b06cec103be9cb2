"""What a proof compares, which cells share one build, and what it says of those that this machine cannot build."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.model.evidence import (
    Binding,
    CellEvidence,
    Evidence,
    Extensions,
    PlatformEvidence,
    Project,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.versions import Minor
from ci_tools.plan import planner
from ci_tools.plan.make import Planned
from ci_tools.source import files as source
from ci_tools.verify.fingerprint import ClaimVerdict, Proof, WheelClaim, compare, fingerprint, read_record, write_record
from ci_tools.verify.prover import prove, status, to_json
from tests.builders.sources import PROJECT, demo, world
from tests.builders.wheels import LINUX, PACKAGE, edited, entry, library, make, unit, with_section

LIBRARY, TEXT = "demo/_C.abi3.so", "demo/built.txt"
METADATA, WHEEL = "demo-1.0.dist-info/METADATA", "demo-1.0.dist-info/WHEEL"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
NO_SUCH_PYTHON = "3.15t" if HERE != "3.15" else "3.14t"
PURE = CellEvidence(
    extensions=Extensions.NONE,
    extensions_where="pyproject.toml:2",
    python_api=PythonApi(Binding.NONE, "pyproject.toml:2"),
    torch_abi=TorchAbi(Binding.NONE, "no file includes a torch header"),
)
ON_LINUX = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="builds on x86-64 Linux"
)


def planned_as(folder: Path, shown: CellEvidence) -> Planned:
    """Return the plan of a folder whose every cell would show this, whether it is true or not."""
    facts, outside = catalog.load(), world(folder.parent)
    request = loader.load(folder / "fatwheel.yml", facts)
    tree = source.open_tree(request, folder, outside)
    evidence = Evidence(
        project=Project("demo", "1.0", ">=3.10", "flit_core.buildapi", "pyproject.toml:1"),
        source_sha256=tree.sha256,
        commit=tree.commit,
        platforms=tuple(
            PlatformEvidence(platform=asked.platform, native_files=(), shown=shown) for asked in request.platforms
        ),
    )
    return Planned(planner.make_plan(request, evidence, facts), tree, facts, evidence)


# ---------------------------------------------------------------- what is compared


def files(version: str, symbol: str = "puts") -> dict[str, bytes]:
    """Return the members of a wheel with a library that asks for a symbol, and what it was built with."""
    code = f"int {symbol}(const char *); int demo_{version}(void) {{ return {symbol}(0); }}"
    return {LIBRARY: library(code), TEXT: version.encode()}


def pair(folder: Path, changes: Mapping[str, bytes | None], claim: WheelClaim) -> tuple[str, ClaimVerdict, str]:
    """Compare a good wheel with one that has other members."""
    labels = {WHEEL: LABEL.replace(b"others", b"tests"), METADATA: FIELDS.replace(b"Requires-Dist: x\n", b"")}
    own = edited(make(folder, LINUX, {**PACKAGE, **files("one")}), labels)
    return compare(fingerprint(own), fingerprint(edited(own, changes, name=f"other-{LINUX}")), claim)


def test_a_wheel_equals_itself_in_bytes(tmp_path: Path) -> None:
    assert pair(tmp_path, {}, WheelClaim.MEMBERS) == ("bytes", ClaimVerdict.SAME_BYTES, "")


FIELDS = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: x\n\nWhat it is.\n"
LABEL = b"Wheel-Version: 1.0\nGenerator: others\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
MEMBERS, INTERFACE, LOADS = WheelClaim
DIFFERS, SERVES = ClaimVerdict.DIFFERS, ClaimVerdict.SERVES
CODE, SYMBOL = ({LIBRARY: content[LIBRARY]} for content in (files("two"), files("one", "perror")))


@pytest.mark.parametrize(
    ("claim", "changes", "verdict", "detail"),
    [
        pytest.param(MEMBERS, {WHEEL: LABEL}, ClaimVerdict.SAME_MEMBERS, "made by tests and others", id="generator"),
        pytest.param(MEMBERS, {WHEEL: LABEL.replace(b"false", b"true")}, DIFFERS, WHEEL, id="purelib"),
        pytest.param(INTERFACE, {METADATA: FIELDS}, DIFFERS, "METADATA (+Requires-Dist: x)", id="requirement"),
        pytest.param(MEMBERS, {TEXT: b"two"}, DIFFERS, TEXT, id="text"),
        pytest.param(INTERFACE, {TEXT: b"two"}, DIFFERS, TEXT, id="text-beside-a-library"),
        pytest.param(LOADS, {TEXT: b"two"}, SERVES, f"the content differs of {TEXT}", id="text-of-another-cuda"),
        pytest.param(LOADS, {"demo/a.py": b""}, DIFFERS, "demo/a.py (only in the cell's wheel)", id="one-more"),
        pytest.param(LOADS, {"demo/run.sh": None}, DIFFERS, "demo/run.sh (only in the job's wheel)", id="one-less"),
        # a library is held to what it asks for
        pytest.param(MEMBERS, CODE, DIFFERS, LIBRARY, id="other-code-in-a-pure-wheel"),
        pytest.param(INTERFACE, CODE, SERVES, f"the content differs of {LIBRARY}", id="other-code"),
        pytest.param(INTERFACE, SYMBOL, DIFFERS, f"{LIBRARY} (symbols: -puts, +perror)", id="other-symbol"),
        pytest.param(INTERFACE, {LIBRARY: b"no library"}, DIFFERS, LIBRARY, id="no-library-any-more"),
    ],
)
def test_what_differs_is_named(
    tmp_path: Path, claim: WheelClaim, changes: dict[str, bytes | None], verdict: ClaimVerdict, detail: str
) -> None:
    assert pair(tmp_path, changes, claim)[1:] == (verdict, detail)


def test_a_library_that_the_package_does_without_is_not_compared(tmp_path: Path) -> None:
    own = make(tmp_path, LINUX, {**PACKAGE, **files("one")})
    other = fingerprint(edited(own, {LIBRARY: None}, name=f"other-{LINUX}"))
    assert compare(fingerprint(own), other, INTERFACE)[1:] == (DIFFERS, f"{LIBRARY} (only in the job's wheel)")
    assert compare(fingerprint(own).without({LIBRARY}), other, INTERFACE)[1] is ClaimVerdict.SAME_MEMBERS


def test_symbols_that_were_found_in_the_torch_of_the_cell_are_no_difference(tmp_path: Path) -> None:
    wheel = make(tmp_path, LINUX, {**PACKAGE, **files("one")})
    changed = edited(wheel, {LIBRARY: files("one", "perror")[LIBRARY]}, name=f"other-{LINUX}")
    own, other = map(fingerprint, (wheel, changed))
    assert compare(own, other, INTERFACE)[1] is DIFFERS
    found = compare(own, other, INTERFACE, is_loaded=True)
    what = f"{LIBRARY} asks for other symbols, all of which are there: -puts, +perror"
    assert found[1:] == (SERVES, f"the content differs of {LIBRARY}; {what}")


def test_a_missing_device_image_is_a_difference(tmp_path: Path) -> None:
    both, one = (with_section(".nv_fatbin", unit(*(entry(2, arch) for arch in archs))) for archs in ((90, 100), (90,)))
    wheels = [make(tmp_path / str(number), LINUX, {"demo/_C.so": data}) for number, data in enumerate((both, one))]
    found = compare(*map(fingerprint, wheels), WheelClaim.LOADS)
    assert found[1:] == (ClaimVerdict.DIFFERS, "demo/_C.so (images: -sm_100)")


def test_permission_to_run_is_a_part_of_a_member(tmp_path: Path) -> None:
    wheels = [make(tmp_path / name, LINUX, {name: b"#!/bin/sh\n"}) for name in ("run.sh", "run.py")]
    executable, plain = (fingerprint(wheel).members for wheel in wheels)
    assert (executable["run.sh"], plain["run.py"]) == (
        f"100755 {executable['run.sh'][7:]}",
        f"100644 {plain['run.py'][7:]}",
    )


# ---------------------------------------------------------------- which cells are built


def settled(folder: Path, text: str, shown: CellEvidence = PURE, **files: str) -> dict[str, tuple[ClaimVerdict, str]]:
    """Return what is said of every cell of a plan that takes no build."""
    root = demo(folder / "demo", {"fatwheel.yml": text, **files})
    proofs = prove(planned_as(root, shown), world(folder))
    return {str(cell): (proof.verdict, proof.detail) for proof in proofs for cell in proof.cells}


def request(pythons: str, platforms: str, torch: str = "") -> str:
    return f"package: demo\npython: [{pythons}]\n{torch}platforms:\n{platforms}"


@ON_LINUX
def test_a_cell_that_is_built_as_the_job_is_needs_no_build(tmp_path: Path) -> None:
    found = settled(tmp_path, request(f'"{HERE}"', "  linux-cpu:\n"))
    same = (ClaimVerdict.SAME_INPUT, "the job's own build sees nothing else")
    assert found == {f"linux-cpu / cp{HERE.replace('.', '')}": same}


@ON_LINUX
def test_a_torch_that_no_build_sees_is_the_same_input_and_why_is_said(tmp_path: Path) -> None:
    found = settled(tmp_path, request(f'"{HERE}"', "  linux-cpu:\n", 'torch: ["2.12", "2.13"]\n'))
    assert len(found) == 2
    assert {verdict for verdict, _ in found.values()} == {ClaimVerdict.SAME_INPUT}
    assert all(
        detail.endswith("its build sees no torch: nothing is compiled (pyproject.toml:2)")
        for _, detail in found.values()
    )


@ON_LINUX
@pytest.mark.parametrize(
    ("pythons", "platform", "why"),
    [
        pytest.param(f'"{HERE}", "{NO_SUCH_PYTHON}"', "linux-cpu", f"Python {NO_SUCH_PYTHON} is not", id="python"),
        pytest.param(f'"{HERE}"', "macos-arm64", "are built on macos-arm64, this machine is", id="machine"),
        pytest.param(f'"{HERE}"', "linux-xpu", "no icpx that serves is installed", id="compiler"),
    ],
)
def test_what_the_machine_lacks_is_said(tmp_path: Path, pythons: str, platform: str, why: str) -> None:
    found = settled(tmp_path, request(pythons, f"  {platform}:\n"))
    verdict, detail = list(found.values())[-1]
    assert (verdict, why in detail) == (ClaimVerdict.NOT_EXERCISED, True)


FATBINARY = CellEvidence(
    extensions=Extensions.SOME,
    extensions_where="CMakeLists.txt:1",
    python_api=PythonApi(Binding.NONE, "pyproject.toml:3"),
    torch_abi=TorchAbi(Binding.STABLE, "CMakeLists.txt:2", Minor(2, 12), uses_torch=True),
)
ONE_PER_MAJOR = """\
  linux-cuda: {owner: us, cuda: ["13.0", "13.2"], one-per-major: true, archs: ["9.0"], toolchain: pypi}
"""


@ON_LINUX
def test_two_differences_at_once_are_not_built_where_something_is_compiled(tmp_path: Path) -> None:
    text = request(f'"{HERE}"', ONE_PER_MAJOR, 'torch: ["2.12", "2.13"]\n')
    planned = planned_as(demo(tmp_path / "demo", {"fatwheel.yml": text}), FATBINARY)
    last = planned.plan.covered[-1:]
    (proof,) = prove(planned._replace(plan=replace(planned.plan, covered=last)), world(tmp_path))
    said = (ClaimVerdict.NOT_EXERCISED, "torch and accelerator are compared each by itself, not together")
    assert (len(planned.plan.jobs), proof.verdict, proof.detail) == (1, *said)


@ON_LINUX
@pytest.mark.parametrize(
    ("project", "shown"),
    [
        pytest.param('[build-system]\nrequires = ["torch>=2.9"]\n', PURE, id="required"),
        pytest.param("# if.env.FATWHEEL_TORCH_INCLUDE = true\n", PURE, id="headers"),
        pytest.param(PROJECT, replace(PURE, build_requires=("torch",)), id="imported"),
        pytest.param(PROJECT, replace(PURE, asked=(("the version of torch", "setup.py:3"),)), id="asked"),
    ],
)
def test_a_torch_that_a_build_may_see_is_not_taken_for_the_same(
    tmp_path: Path, project: str, shown: CellEvidence
) -> None:
    text = request(f'"{HERE}"', "  linux-aarch64:\n", 'torch: ["2.12", "2.13"]\n')
    root = demo(tmp_path / "demo", {"fatwheel.yml": text, "pyproject.toml": project})
    proofs = prove(planned_as(root, shown), world(tmp_path))
    assert [len(proof.cells) for proof in proofs] == [1, 1]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param(["same input", "same bytes", "same members", "serves", "not exercised"], 0, id="good"),
        pytest.param(["same bytes", "machine failed"], 3, id="machine"),
        pytest.param(["machine failed", "differs"], 1, id="difference"),
        pytest.param(["build rejected", "same bytes"], 1, id="no-such-wheel"),
    ],
)
def test_the_exit_status_is_that_of_the_worst(verdicts: list[str], expected: int) -> None:
    assert status([Proof("pure", (), "", ClaimVerdict(verdict)) for verdict in verdicts]) == expected


def test_a_proof_is_one_json_object(tmp_path: Path) -> None:
    root = demo(tmp_path / "demo", {"pyproject.toml": PROJECT})
    cell = planned_as(root, PURE).plan.covered[0].cell
    written = json.loads(json.dumps(to_json([Proof("pure", (cell,), "bytes", ClaimVerdict.SAME_BYTES)])))
    expected = {
        "job": "pure",
        "cells": ["linux-cpu / cp312"],
        "compared": "bytes",
        "outcome": "same bytes",
        "detail": "",
    }
    assert written == [expected]


def test_a_recorded_fingerprint_is_read_as_it_was_written_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    found = fingerprint(make(tmp_path, name=LINUX))
    write_record(tmp_path / "a.json", found)
    assert read_record(tmp_path / "a.json") == found
    (tmp_path / "a.json").write_text((tmp_path / "a.json").read_text().replace('"members"', '"member"'))
    assert read_record(tmp_path / "a.json") is None


@pytest.mark.slow
def test_what_a_library_asks_of_the_system_is_left_to_its_platform_tag(tmp_path: Path) -> None:
    asked = fingerprint(make(tmp_path, LINUX, {LIBRARY: linked("int puts(const char *); int ours(int);")}))
    interface = asked.libraries[LIBRARY]
    assert ("ours" in interface.symbols, "puts" in interface.symbols, "puts" in interface.system) == (True, False, True)
    less = asked.libraries[LIBRARY]._replace(system=())
    other = asked._replace(sha256="x", members={**asked.members, LIBRARY: "x"}, libraries={LIBRARY: less})
    assert compare(asked, other, INTERFACE)[1:] == (
        SERVES,
        f"the content differs of {LIBRARY}; {LIBRARY} asks the system for other symbols: -puts",
    )


def linked(declared: str) -> bytes:
    """Return a library that is linked with libc, and asks for what is declared."""
    code = f'{declared} int demo(void) {{ return ours(puts("")); }}'
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "library.so"
        command = ["gcc", "-shared", "-fPIC", "-nostartfiles", "-x", "c", "-", "-o", str(out)]
        subprocess.run(command, input=code.encode(), check=True)
        return out.read_bytes()
