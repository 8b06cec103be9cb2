"""`plan --prove` on real builds: it confirms what is so, and is not taken in by evidence that is wrong."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from ci_tools.machine.python import find
from ci_tools.model.evidence import Binding, CellEvidence, Extensions, PythonApi, TorchAbi
from ci_tools.model.versions import Minor, Python
from ci_tools.verify.fingerprint import ClaimVerdict, Proof
from ci_tools.verify.prover import prove
from tests.builders.sources import demo, world_with_uv
from tests.integration.conftest import CommandLine
from tests.unit.verify.test_prover import HERE, PURE, planned_as

slow = pytest.mark.slow
pytestmark = [
    slow,
    pytest.mark.usefixtures("builds_beside_tests"),
    pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="builds on x86-64 Linux"),
]
SETUPTOOLS = '[build-system]\nrequires = ["setuptools==80.9.0"]\nbuild-backend = "setuptools.build_meta"\n'
FLIT = """\
[build-system]
requires = ["flit_core==3.12.0"]
build-backend = "flit_core.buildapi"
[project]
name = "demo"
version = "1.0"
description = "A demo."
requires-python = ">=3.10"
"""
CONFIG = """\
package: demo
python: ["{HERE}", "{other}"]
platforms:
  linux-cpu:
    owner: us
    wheel-platform: {system}
"""
ABI3 = CellEvidence(
    extensions=Extensions.SOME,
    extensions_where="setup.py:2",
    python_api=PythonApi(Binding.STABLE, "setup.py:2", Minor(3, 10)),
    torch_abi=TorchAbi(Binding.NONE, "no file includes a torch header"),
)
EXTENSION = """\
import setuptools
setuptools.setup(
    name="demo", version="1.0", py_modules=[],
    ext_modules=[setuptools.Extension("_demo", ["demo.c"], py_limited_api=True)],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
"""
CODE = """\
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
PyObject *PyErr_GetRaisedException(void);
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_demo", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__demo(void) {
  USED;
  return PyModule_Create(&module);
}
"""


@pytest.fixture(scope="module")
def other() -> Python:
    """Another Python of this machine, an older one if there is any: the job's `python` is the oldest it serves."""
    pythons = (Python(Minor(3, minor)) for minor in (10, 12, 13, 11) if f"3.{minor}" != HERE)
    found = next((python for python in pythons if find(python, os.environ)), None)
    if found is None:
        pytest.skip("needs a second Python")
    return found


def proven(
    folder: Path, shown: CellEvidence, other: Python, env: str = "", system: str = "linux", **files: str
) -> dict[Python, Proof]:
    """Return the proofs of a project, each cell of which is said to show this, by Python."""
    texts = {"fatwheel.yml": CONFIG.format(HERE=HERE, other=other, system=system) + env, **files}
    root = demo(folder / "demo", {name.replace("__", "."): text for name, text in texts.items()})
    outside = world_with_uv(folder, PYENV_ROOT=os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv"))
    return {cell.python: proof for proof in prove(planned_as(root, shown), outside) for cell in proof.cells}


@pytest.mark.long
def test_a_pure_wheel_is_the_same_from_another_python(tmp_path: Path, other: Python) -> None:
    found = proven(tmp_path, PURE, other, pyproject__toml=FLIT, demo__py='"""A demo."""\n')
    assert {python: (proof.verdict, proof.compared) for python, proof in found.items()} == {
        Python.parse(HERE): (ClaimVerdict.SAME_INPUT, ""),
        other: (ClaimVerdict.SAME_BYTES, "bytes"),
    }


@pytest.mark.long
def test_a_file_that_holds_the_python_version_is_found(tmp_path: Path, other: Python) -> None:
    setup = (
        "import sys, setuptools\nopen('built.py', 'w').write(f'BY = {sys.version_info[:2]}\\n')\n"
        "setuptools.setup(name='demo', version='1.0', py_modules=['demo', 'built'])\n"
    )
    found = proven(tmp_path, PURE, other, pyproject__toml=SETUPTOOLS, setup__py=setup)
    assert (found[other].verdict, found[other].detail) == (ClaimVerdict.DIFFERS, "built.py")


@pytest.mark.long
def test_what_one_platform_sets_is_in_the_wheel_that_is_proven(tmp_path: Path, other: Python) -> None:
    setup = (
        "import os, setuptools\nneeds = [os.environ['NEEDS']] if 'NEEDS' in os.environ else []\n"
        "setuptools.setup(name='demo', version='1.0', py_modules=['demo'], install_requires=needs)\n"
    )
    found = proven(tmp_path, PURE, other, "    env: {NEEDS: numpy}\n", pyproject__toml=SETUPTOOLS, setup__py=setup)
    assert {proof.verdict for proof in found.values()} == {ClaimVerdict.SAME_BYTES, ClaimVerdict.SAME_INPUT}


def test_a_build_that_makes_another_wheel_is_found(tmp_path: Path, other: Python) -> None:
    setup = (
        f"import sys, setuptools\nis_other = sys.version_info[:2] == {other.version[:2]}\n"
        "made = [setuptools.Extension('_demo', ['demo.c'])] if is_other else []\n"
        "setuptools.setup(name='demo', version='1.0', py_modules=[], ext_modules=made)\n"
    )
    code = CODE.replace("USED", "(void)0")
    found = proven(tmp_path, PURE, other, pyproject__toml=SETUPTOOLS, setup__py=setup, demo__c=code)
    assert (found[other].verdict, f"{other.abi_tag}-linux" in found[other].detail) == (ClaimVerdict.REJECTED, True)


@pytest.mark.long
def test_a_library_of_the_limited_api_asks_for_the_same_symbols(tmp_path: Path, other: Python) -> None:
    code = CODE.replace("USED", "(void)0")
    found = proven(tmp_path, ABI3, other, pyproject__toml=SETUPTOOLS, setup__py=EXTENSION, demo__c=code)
    assert found[other].verdict in {ClaimVerdict.SAME_BYTES, ClaimVerdict.SERVES}, found


@pytest.mark.long
def test_a_library_that_asks_a_newer_python_for_more_is_found(tmp_path: Path, other: Python) -> None:
    version = f"{max(other.version, sys.version_info[:2])[1]:02x}"
    code = CODE.replace("  USED;", f"#if PY_VERSION_HEX >= 0x03{version}0000\n  PyErr_GetRaisedException();\n#endif")
    found = proven(tmp_path, ABI3, other, pyproject__toml=SETUPTOOLS, setup__py=EXTENSION, demo__c=code)
    assert (found[other].verdict, "PyErr_GetRaisedException" in found[other].detail) == (ClaimVerdict.DIFFERS, True)


@pytest.mark.long
def test_a_build_for_which_this_machine_is_too_new_proves_nothing(tmp_path: Path, other: Python) -> None:
    used = f"#if PY_MINOR_VERSION == {other.version.minor}\n  char random[1]; getentropy(random, 1);\n#endif"
    code = "#include <unistd.h>\n" + CODE.replace("  USED;", used)  # glibc has it from 2.25 on
    files = {"pyproject__toml": SETUPTOOLS, "setup__py": EXTENSION, "demo__c": code}
    found = proven(tmp_path, ABI3, other, system="manylinux_2_17", **files)
    assert (found[other].verdict, found[other].compared) == (ClaimVerdict.NOT_EXERCISED, "")
    assert found[other].detail.startswith("the wheel does not keep to manylinux_2_17_x86_64")


def test_a_run_that_was_ended_goes_on_where_it_stopped(tmp_path: Path, other: Python) -> None:
    files = {"pyproject__toml": FLIT, "demo__py": '"""A demo."""\n'}
    first = proven(tmp_path, PURE, other, **files)
    kept, lost = sorted((tmp_path / "cache/proofs").glob("*.json"))
    before = kept.stat().st_mtime_ns
    lost.unlink()
    assert proven(tmp_path, PURE, other, **files) == first
    assert (kept.stat().st_mtime_ns, lost.is_file()) == (before, True)


def test_a_network_that_fails_is_no_proof(tmp_path: Path, other: Python) -> None:
    found = proven(tmp_path, PURE, other, pyproject__toml=FLIT.replace("flit_core", "no-such-project-of-ours"))
    assert (found[other].verdict, found[other].compared) == (ClaimVerdict.BROKEN, "")
    assert found[other].detail.startswith("at the job's own build: uv cannot install")


# ---------------------------------------------------------------- the command line


@pytest.mark.long
def test_the_plan_and_its_proof_are_one_json_object(fatwheel: CommandLine, tmp_path: Path, other: Python) -> None:
    config = CONFIG.format(HERE=HERE, other=other, system="linux")
    root = demo(tmp_path / "demo", {"pyproject.toml": FLIT, "demo.py": '"""A demo."""\n', "fatwheel.yml": config})
    ran = fatwheel("plan", "--prove", "--format", "json", cwd=root, FATWHEEL_CACHE=str(tmp_path / "cache"))
    outcomes = sorted(proof["outcome"] for proof in json.loads(ran.stdout)["proof"])
    assert (ran.status, outcomes) == (0, ["same bytes", "same input"]), ran.stderr
    assert "2 builds to compare" in ran.stderr


def test_a_matrix_with_a_proof_is_refused(fatwheel: CommandLine, project: Path) -> None:
    ran = fatwheel("plan", "--prove", "--format", "github", cwd=project)
    assert (ran.status, ran.stdout, "expected --format table or json" in ran.stderr) == (2, "", True)
