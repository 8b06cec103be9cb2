"""A source with its patch has the plan that was promised, or the proof fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.source.files import tree_at
from ci_tools.verify import patches
from ci_tools.verify.patches import Patched
from tests.builders.advised import (
    BEYOND,
    C_EXTENSION,
    CYTHON,
    EXTENSION,
    FREE_THREADED,
    HIDDEN,
    MESON,
    MINORS,
    NEEDLESS,
    NEWER,
    OBSERVED,
    PYBIND,
    PYTHONS,
    RUST,
    SCIKIT,
    SCIKIT_MODULE,
    TORCHES,
    UNTARGETED,
    apply_patch,
    consult,
)
from tests.builders.sources import demo, plan_of, shared_world, world

pytestmark = OBSERVED


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(PYBIND, id="pybind11"),
        pytest.param(BEYOND, id="beyond-the-limited-api"),
        pytest.param(HIDDEN, id="arguments-that-are-hidden"),
        pytest.param(CYTHON, id="cython"),
        pytest.param(RUST, id="rust"),
    ],
)  # fmt: skip
def test_what_takes_more_than_an_edit_has_no_patch(tmp_path: Path, files: dict[str, str]) -> None:
    planned, _, patched = consult(demo(tmp_path / "a", files))
    assert ([one.patch for one in patched], patches.patch_of_all(planned, patched)) == ([""], "")


@pytest.mark.parametrize(
    ("files", "jobs"),
    [
        pytest.param(C_EXTENSION, 1, id="setuptools"),
        pytest.param(FREE_THREADED, 2, id="setuptools-with-a-free-threaded-python"),
        pytest.param(UNTARGETED, 1, id="torch-target-and-limited-api"),
        pytest.param(SCIKIT_MODULE, 1, id="scikit-build-core"),
        pytest.param({**SCIKIT_MODULE, "demo.c": "", "CMakeLists.txt": "project(demo)\n"}, 1, id="py3-none"),
        pytest.param({**UNTARGETED, "pyproject.toml": f"{SCIKIT}wheel.py-api = 'py3'\n",
                      "CMakeLists.txt": "project(demo LANGUAGES CXX)\nadd_library(_C MODULE a.cpp)\n"}, 1,
                     id="torch-target-for-cmake"),
        pytest.param(MESON, 1, id="meson-python"),
        pytest.param(MINORS, 2, id="config-in-block-style"),
        pytest.param(NEEDLESS, 1, id="config-in-flow-style"),
        pytest.param({**C_EXTENSION, "setup.py": EXTENSION.replace("\n", "\r\n")}, 1, id="line-ends-of-windows"),
        pytest.param({**C_EXTENSION, "setup.py": EXTENSION.rstrip("\n")}, 1, id="a-last-line-without-an-end"),
    ],
)  # fmt: skip
def test_a_source_with_its_patch_has_the_plan_that_was_promised(
    tmp_path: Path, files: dict[str, str], jobs: int
) -> None:
    folder = demo(tmp_path / "a", files)
    planned, advised, patched = consult(folder)
    apply_patch(patches.patch_of_all(planned, patched), folder)
    assert (len(plan_of(folder, shared_world()).jobs), advised.after) == (jobs, jobs)


@pytest.mark.parametrize("files", [pytest.param(UNTARGETED, id="torch"), pytest.param(C_EXTENSION, id="c")])
def test_each_patch_by_itself_keeps_its_promise(tmp_path: Path, files: dict[str, str]) -> None:
    _, _, patched = consult(demo(tmp_path / "a", files))
    for number, (found, patch) in enumerate(each for each in patched if each.patch):
        folder = demo(tmp_path / f"b{number}", files)
        apply_patch(patch, folder)
        assert len(plan_of(folder, shared_world()).jobs) == found.after


def test_a_patch_that_gives_up_cells_is_one_by_itself(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {**NEWER, "demo.c": ""})
    planned, advised, patched = consult(folder)
    assert (patches.patch_of_all(planned, patched), advised.after, len(planned.plan.jobs)) == ("", 3, 3)
    apply_patch(patched[0].patch, folder)
    assert len(plan_of(folder, shared_world()).jobs) == 1


def test_a_patch_keeps_all_else_as_it_was_written(tmp_path: Path) -> None:
    planned, _, patched = consult(demo(tmp_path / "a", C_EXTENSION))
    assert (
        patches.patch_of_all(planned, patched)
        == patched[0].patch
        == """\
--- a/setup.py
+++ b/setup.py
@@ -7,6 +7,9 @@
         Extension(
             "_demo",
             ["demo.c"],  # all there is
+            py_limited_api=True,
+            define_macros=[("Py_LIMITED_API", "0x030A0000")],
         ),
     ],
+    options={"bdist_wheel": {"py_limited_api": "cp310"}},
 )
"""
    )


def test_a_source_is_left_alone(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", C_EXTENSION)
    before = tree_at(folder, {}).sha256
    consult(folder)
    assert tree_at(folder, {}).sha256 == before


def test_a_patch_that_does_not_do_what_it_promises_has_failed(tmp_path: Path) -> None:
    planned, _, patched = consult(demo(tmp_path / "a", NEEDLESS))
    wrong = replace_after(patched[0], 7)
    proof = patches.prove(planned, [wrong], world(tmp_path))[0]
    assert (proof.outcome, proof.details, patches.status([proof])) == (
        "failed", ("the plan has 1 jobs with it, expected 7",), 1,
    )  # fmt: skip


def replace_after(patched: Patched, after: int) -> Patched:
    return patched._replace(advice=patched.advice._replace(after=after))


def test_a_patch_that_does_not_apply_has_failed(tmp_path: Path) -> None:
    planned, _, patched = consult(demo(tmp_path / "a", C_EXTENSION))
    broken = patched[0]._replace(patch=patched[0].patch.replace("all there is", "something else"))
    proof = patches.prove(planned, [broken], world(tmp_path))[0]
    assert (proof.outcome, proof.after) == ("failed", None)
    assert proof.details[0].startswith("git does not apply the patch: error: ")


def test_each_patch_is_proven_by_itself_and_then_all_together(tmp_path: Path) -> None:
    config = f"{PYTHONS}{TORCHES}platforms:\n  windows: {{owner: us}}\n"
    planned, _, patched = consult(demo(tmp_path / "a", {**UNTARGETED, "fatwheel.yml": config}))
    proofs = patches.prove(planned, patched, world(tmp_path))
    assert [(one.name, one.before, one.after, one.outcome) for one in proofs] == [
        ("python-limited-api", 8, 2, "not exercised"),
        ("torch-target-version", 8, 4, "not exercised"),
        ("all patches together", 8, 1, "not exercised"),
    ]
    assert proofs[2].details[0].startswith("windows: not built: windows wheels are built on ")
    assert patches.status(proofs) == 0
