"""`fatwheel advise` as a user runs it: the patch applies, builds, and what it builds still works."""

from __future__ import annotations

import json
import platform
import re
import sys
from pathlib import Path

import pytest

from tests.builders.advised import CMAKE, EXTENSION, SCIKIT, SETUPTOOLS
from tests.builders.sources import committed, git, write
from tests.integration.conftest import CommandLine, Ran

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("builds_beside_tests"),
    pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="builds on x86-64 Linux"),
]
# The linker's command is plain: an interpreter's own may name folders of the machine that built it.
CONFIG = """\
package: demo
python: ["3.10", "3.11", "3.12", "3.13"]
platforms:
  linux-cpu: {owner: us, wheel-platform: linux}
build:
  env: {LDSHARED: "cc -shared"}
validate:
  imports: [_demo]
  commands:
    - python -c 'import _demo; assert _demo.answer() == {answer}'
"""
MODULE = """\
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *nothing) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_demo", "", -1, methods};
PyMODINIT_FUNC PyInit__demo(void) { return PyModule_Create(&module); }
"""
# A field that no text of the source names as one: a compiler alone sees that the limited API hides it.
BEYOND = MODULE.replace("42);", "42 * ((*Py_TYPE(self)).tp_basicsize > 0));")
SETUP = {
    "fatwheel.yml": CONFIG.replace("{answer}", "42"),
    "pyproject.toml": SETUPTOOLS,
    "setup.py": EXTENSION,
    "demo.c": MODULE,
}
CMAKED = {**SETUP, "pyproject.toml": SCIKIT, "CMakeLists.txt": f"{CMAKE}install(TARGETS _demo DESTINATION .)\n"}


def advised(fatwheel: CommandLine, folder: Path, *options: str) -> Ran:
    """Run `fatwheel advise` with a cache of its own, so that nothing was built before."""
    return fatwheel("advise", *options, cwd=folder, FATWHEEL_CACHE=str(folder.parent / "cache"))


@pytest.mark.parametrize(
    "files",
    [pytest.param(SETUP, id="setuptools"), pytest.param(CMAKED, id="scikit-build-core", marks=pytest.mark.long)],
)
def test_a_patch_is_proven_by_a_wheel_that_works(tmp_path: Path, files: dict[str, str], fatwheel: CommandLine) -> None:
    ran = advised(fatwheel, write(tmp_path / "a", files), "--prove", "--format", "json")
    proof = json.loads(ran.stdout)["proof"]
    assert (ran.status, [(one["before"], one["after"], one["outcome"]) for one in proof]) == (0, [(4, 1, "passed")])
    assert re.fullmatch(
        r"demo-1\.0-cp310-abi3-linux_x86_64\.whl: built \(0\.\d+ MB in [\d.]+ s\), audited; "
        r"3 trials passed on Python 3\.\d+(, 3 trials passed on Python 3\.\d+)?",
        proof[0]["details"][0],
    )


def test_a_patch_that_does_not_build_has_failed(tmp_path: Path, fatwheel: CommandLine) -> None:
    ran = advised(fatwheel, write(tmp_path / "a", {**SETUP, "demo.c": BEYOND}), "--prove")
    assert (ran.status, "failed" in ran.stdout, "it fails too" in ran.stdout) == (1, True, False)


@pytest.mark.long
def test_a_test_that_fails_without_the_patch_too_is_said_to(tmp_path: Path, fatwheel: CommandLine) -> None:
    files = {**SETUP, "fatwheel.yml": CONFIG.replace("{answer}", "43")}
    ran = advised(fatwheel, write(tmp_path / "a", files), "--prove", "--format", "json")
    details = json.loads(ran.stdout)["proof"][0]["details"]
    assert (ran.status, len(details)) == (1, 2)
    assert details[1].startswith("without the patch it fails too: ")


def test_the_diff_is_what_git_applies_and_the_next_plan_is_smaller(tmp_path: Path, fatwheel: CommandLine) -> None:
    folder = write(tmp_path / "a", SETUP)
    committed(folder)
    patch = advised(fatwheel, folder, "--format", "diff").stdout
    assert git(folder, "status", "--porcelain") == ""
    (tmp_path / "advice.patch").write_text(patch)
    git(folder, "apply", "--check", str(tmp_path / "advice.patch"))
    git(folder, "apply", str(tmp_path / "advice.patch"))
    assert git(folder, "status", "--porcelain") == "M setup.py"
    assert advised(fatwheel, folder).stdout.strip() == "demo 1.0: nothing would make this plan smaller"


@pytest.mark.long
def test_what_earlier_builds_took_is_what_advice_saves(tmp_path: Path, fatwheel: CommandLine) -> None:
    narrow = CONFIG.replace('"3.10", "3.11", "3.12", "3.13"', '"3.10", "3.11"').replace("{answer}", "42")
    folder = write(tmp_path / "a", {**SETUP, "fatwheel.yml": narrow})
    for job in ("linux-cpu-cp310", "linux-cpu-cp311"):
        built = fatwheel("build", "--job", job, "--out", "dist", cwd=folder, FATWHEEL_CACHE=str(tmp_path / "cache"))
        assert built.status == 0, built.stderr
    advice = json.loads(advised(fatwheel, folder, "--format", "json").stdout)["advice"][0]
    receipts = [json.loads(path.read_text()) for path in (folder / "dist" / "receipts").glob("*.json")]
    assert advice["jobs"] == {"before": 2, "after": 1, "saved": 1}
    assert advice["megabytes"] == round(min(one["size"] for one in receipts) / 1e6, 3)
    assert advice["minutes"] == pytest.approx(min(one["seconds"] for one in receipts) / 60, abs=0.01)
