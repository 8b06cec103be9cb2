"""What a plan would shrink to, what stands in its way, and what that saves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.files import Receipt
from ci_tools.plan.advise import advice as advise
from tests.builders.advised import (
    BEYOND,
    C_EXTENSION,
    CPU,
    CYTHON,
    FORTRAN,
    FREE_THREADED,
    GLOBS,
    MESON,
    MINORS,
    NEEDLESS,
    NEWER,
    OBSERVED,
    ONE_PER_MAJOR,
    PYBIND,
    PYTHONS,
    RUST,
    SCIKIT_MODULE,
    SETUPTOOLS,
    UNSTABLE,
    UNTARGETED,
    consult,
    planned_of,
)
from tests.builders.sources import demo

pytestmark = OBSERVED

UNDECLARED = "the limited API of Python 3.10 is not declared, which keeps the Python axis"
UNSTATED = "no C++ standard is stated, so that builds for older and newer torches share no compile unit"
UNBOUND = "nothing that is compiled includes Python.h, but the wheel's tag keeps the Python axis"


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        pytest.param(C_EXTENSION, {
            "python-limited-api": f"{UNDECLARED}: 4 wheels become 1",
        }, id="a-c-extension-without-the-limited-api"),
        pytest.param(FREE_THREADED, {
            "python-limited-api": f"{UNDECLARED}: 5 wheels become 2",
        }, id="free-threaded-python-stays-apart"),
        pytest.param(PYBIND, {
            "python-bindings": "1 include of pybind11 or the like keeps the Python axis: 4 wheels become 3",
        }, id="pybind11"),
        pytest.param(UNSTABLE, {
            "python-limited-api": f"{UNBOUND}: 8 wheels become 2",
            "torch-stable-abi": "3 includes keep the torch axis: 8 wheels become 4",
            "cxx-standard": UNSTATED,
        }, id="three-unstable-includes"),
        pytest.param(UNTARGETED, {
            "python-limited-api": f"{UNBOUND}: 8 wheels become 2",
            "torch-target-version": "only stable torch headers are included, but the missing TORCH_TARGET_VERSION "
                                    "keeps the torch axis: 8 wheels become 4",
            "cxx-standard": UNSTATED,
        }, id="stable-includes-without-a-target"),
        pytest.param(SCIKIT_MODULE, {
            "python-limited-api": f"{UNDECLARED}: 4 wheels become 1",
        }, id="scikit-build-core-without-py-api"),
        pytest.param(MESON, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="meson-python"),
        pytest.param(CYTHON, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="cython"),
        pytest.param(RUST, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="rust"),
        pytest.param(FORTRAN, {}, id="what-no-text-shows"),
        pytest.param(NEWER, {
            "requires-python": "the limited API starts at 3.12, so Python 3.10 and 3.11 need their own wheels; "
                               "without them: 3 wheels become 1",
        }, id="pythons-below-the-limited-api"),
        pytest.param(MINORS, {
            "one-per-major": "CUDA 12.6 and 12.9 have one wheel each on linux-cuda, not one for each major: "
                             "3 wheels become 2",
        }, id="two-minors-of-one-cuda-major"),
        pytest.param(NEEDLESS, {
            "enabled": "`enabled: true` gives linux-cpu a wheel of its own, though nothing is compiled for it: "
                       "2 wheels become 1",
        }, id="a-platform-enabled-for-nothing"),
        pytest.param({}, {}, id="a-plan-that-is-as-small-as-can-be"),
        pytest.param(ONE_PER_MAJOR, {}, id="one-for-each-major"),
        pytest.param(GLOBS, {
            "native-globs": "the native globs of linux-cpu match k.cu, but nothing is compiled: 4 wheels become 1",
        }, id="native-globs-for-nothing"),
    ],
)  # fmt: skip
def test_advice_says_what_a_plan_would_shrink_to(tmp_path: Path, files: dict[str, str], advice: dict[str, str]) -> None:
    _, advised, _ = consult(demo(tmp_path / "a", files))
    assert {one.option.name: one.sentence for one in advised.advice} == advice


@pytest.mark.parametrize(
    ("files", "name", "places"),
    [
        pytest.param(C_EXTENSION, "python-limited-api", [
            "observed by running setup.py: its wheel is tagged for the Python that builds it",
            "setup.py:7: an extension without py_limited_api",
        ], id="the-extension"),
        pytest.param(PYBIND, "python-bindings", ["demo.c:1: includes pybind11/pybind11.h"], id="pybind11"),
        pytest.param(UNSTABLE, "torch-stable-abi", [
            "a.cpp:1: includes torch/library.h",
            "a.cpp:2: includes ATen/ATen.h",
            "b.h:1: includes c10/core/Device.h",
        ], id="every-unstable-include"),
        pytest.param(UNTARGETED, "torch-target-version", [
            "a.cpp:1: includes torch/csrc/stable/library.h, but nothing sets TORCH_TARGET_VERSION",
        ], id="the-missing-target"),
        pytest.param(BEYOND, "python-limited-api", ["demo.c:4: PyTuple_GET_SIZE"], id="what-the-limited-api-lacks"),
        pytest.param(MINORS, "one-per-major", ["fatwheel.yml:4: no `one-per-major`"], id="the-platform"),
    ],
)  # fmt: skip
def test_advice_names_every_place_that_stands_in_its_way(
    tmp_path: Path, files: dict[str, str], name: str, places: list[str]
) -> None:
    _, advised, _ = consult(demo(tmp_path / "a", files))
    assert [list(one.option.places) for one in advised.advice if one.option.name == name] == [places]


def test_torch_before_the_stable_abi_is_left_out_of_both_counts(tmp_path: Path) -> None:
    config = f'{PYTHONS}torch: ["2.9", "2.12", "2.13"]\n{CPU}'
    _, advised, _ = consult(demo(tmp_path / "a", {**UNSTABLE, "fatwheel.yml": config}))
    found = next(one for one in advised.advice if one.option.name == "torch-stable-abi")
    assert found.sentence == ("asked for only from torch 2.12 up, 3 includes keep the torch axis: 8 wheels become 4")
    assert (advised.limits, advised.before, advised.after) == (" that gives up no cell", 12, 3)


def test_a_torch_that_the_project_refuses_changes_nothing_of_the_advice(tmp_path: Path) -> None:
    project = f'{SETUPTOOLS}[project]\nname = "demo"\nversion = "1.0"\ndependencies = ["torch>=2.13"]\n'
    config = f'{PYTHONS}torch: ["2.12", "2.13", "2.14"]\n{CPU}'
    _, advised, _ = consult(demo(tmp_path / "a", {**UNSTABLE, "pyproject.toml": project, "fatwheel.yml": config}))
    assert "3 includes keep the torch axis: 8 wheels become 4" in [one.sentence for one in advised.advice]


def test_all_advice_together_is_planned_together(tmp_path: Path) -> None:
    _, advised, _ = consult(demo(tmp_path / "a", UNTARGETED))
    assert (advised.before, advised.after) == (8, 1)


# ---------------------------------------------------------------- what it saves


def receipt(wheel: str, seconds: float, size: int) -> Receipt:
    return Receipt(
        file=wheel, sha256="", size=size, project="demo", version="1.0", job="", source="", key="", seconds=seconds
    )


@pytest.mark.parametrize(
    ("seconds", "saved"),
    [
        pytest.param([60, 60, 60, 120], (3.0, 3.0), id="all-were-built"),
        pytest.param([60, 60, 60], (None, None), id="one-was-never-built"),
        pytest.param([], (None, None), id="none-was-built"),
    ],
)
def test_minutes_and_megabytes_are_said_where_they_were_measured(
    tmp_path: Path, seconds: list[float], saved: tuple[float | None, float | None]
) -> None:
    planned = planned_of(demo(tmp_path / "a", C_EXTENSION))
    wheels = zip(planned.plan.jobs, seconds, strict=False)
    known = {job.wheel: receipt(job.wheel, took, 1_000_000) for job, took in wheels}
    found = advise.advise(planned, known).advice[0]
    assert (found.minutes, found.megabytes) == saved
