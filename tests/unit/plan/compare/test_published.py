"""A plan beside the wheels that a project has published: who is served, who is not, and how many builds fewer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ci_tools import catalog
from ci_tools.cli.tables.layout import draw
from ci_tools.cli.tables.published import published_tables
from ci_tools.model.names import FileName
from ci_tools.model.published import Inside, PublishedWheel, Release, Symbols
from ci_tools.plan.compare.published import Beside, Counterpart, Verdict, compare_published
from ci_tools.plan.compare.published_sentences import sentences, to_json
from tests.builders.sources import demo, plan_of, shared_world

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_tools.model.plan import Plan

CATALOG = catalog.load()
CONFIG = """\
package: demo
python: ["3.11", "3.12", "3.13"]
torch: ["2.10", "2.11"]
owner: "@team"
platforms:
  linux-cuda: {native: ["*.cu"], cuda: ["12.9", "13.0"], archs: ["9.0"], env: {CUDA: "1"}}
  linux-cpu:
  macos-arm64:
"""
PROJECT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
requires-python = ">=3.10"
[tool.scikit-build]
wheel.py-api = "py3"
wheel.cmake = false
[[tool.scikit-build.overrides]]
if.env.CUDA = true
wheel.cmake = true
"""
CMAKE = "project(demo)\nadd_library(k k.cu)\n"
FILES = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "CMakeLists.txt": CMAKE, "k.cu": "int x;\n"}
NO_TORCH = CONFIG.replace('torch: ["2.10", "2.11"]\n', "")
RELEASE = Release(canonicalize_name("demo"), Version("1.0"))
X86, ARM_MAC = "manylinux_2_28_x86_64", "macosx_11_0_arm64"
SERVED, PARTLY, UNSERVED = Verdict


def wheel(tags: str, label: str = "", *members: str, **facts: Any) -> PublishedWheel:  # noqa: ANN401 - fields
    name = f"demo-1.0{f'+{label}' if label else ''}-{tags}.whl"
    _, version, _, found = parse_wheel_filename(name)
    inside = Inside(dict.fromkeys(members, 1)) if members else None
    known = {"requires_python": ">=3.10", "requires": (), "inside": inside, **facts}
    return PublishedWheel(FileName(name), version.local or "", found, **known)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """One wheel for each CUDA, and a pure one."""
    return plan_of(demo(tmp_path_factory.mktemp("demo"), FILES), shared_world())


def beside(plan: Plan, *wheels: PublishedWheel, **given: Any) -> Beside:  # noqa: ANN401 - see `compare_published`
    return compare_published(plan, CATALOG, RELEASE, wheels, **given)


def one(plan: Plan, *arguments: str, **facts: Any) -> Counterpart:  # noqa: ANN401 - see `wheel`
    return beside(plan, wheel(*arguments, **facts)).wheels[0]


# ---------------------------------------------------------------- whom a wheel serves


def test_wheels_for_each_python_torch_and_cuda_are_served_by_one_for_each_cuda(plan: Plan) -> None:
    labels = [f"{cuda}torch{torch}" for cuda in ("cu129", "cu130") for torch in ("2.10", "2.11")]
    pythons = ("cp311-cp311", "cp312-cp312", "cp313-cp313")
    found = beside(plan, *(wheel(f"{python}-{X86}", label) for label in labels for python in pythons))
    assert {(one.verdict, one.jobs, one.cells) for one in found.wheels} == {
        (SERVED, ("linux-cuda-cu129",), 1),
        (SERVED, ("linux-cuda-cu130",), 1),
    }
    assert list(sentences(found)) == [
        "12 wheels published, 3 in this plan.",
        "2 wheels in this plan for 12 published: 10 builds fewer.",
        "12 cells in this plan without a published wheel.",
    ]
    assert [job for job, _ in found.additions] == ["pure"]


@pytest.mark.parametrize(
    ("tags", "label", "jobs", "cells"),
    [
        pytest.param("py3-none-any", "", ("linux-cuda-cu129", "linux-cuda-cu130", "pure"), 24, id="everywhere"),
        pytest.param(f"py3-none-{X86}", "cu13", ("linux-cuda-cu130",), 6, id="a major version"),
        pytest.param(f"cp312-cp312-{X86}", "cpu", ("pure",), 2, id="the CPU"),
        pytest.param(f"cp311-abi3-{ARM_MAC}", "", ("pure",), 6, id="a limited API"),
        pytest.param(
            f"cp311-cp311-{X86}", "", ("linux-cuda-cu129", "linux-cuda-cu130", "pure"), 6, id="no accelerator named"
        ),
    ],
)
def test_a_wheel_has_the_jobs_of_its_cells(
    plan: Plan, tags: str, label: str, jobs: tuple[str, ...], cells: int
) -> None:
    found = one(plan, tags, label)
    assert (found.verdict, found.jobs, found.cells, found.losses) == (SERVED, jobs, cells, ())


def test_the_wheel_with_the_better_tag_is_the_one_that_counts(plan: Plan) -> None:
    pure, abi3, exact = wheel("py3-none-any"), wheel(f"cp311-abi3-{X86}"), wheel(f"cp312-cp312-{X86}")
    assert [found.cells for found in beside(plan, pure, abi3, exact).wheels] == [6, 12, 6]
    assert [found.cells for found in beside(plan, wheel(f"py3-none-{ARM_MAC}"), pure).wheels] == [6, 18]


def test_a_wheel_that_is_never_the_best_has_all_of_its_cells(plan: Plan) -> None:
    every = [wheel(f"cp3{minor}-cp3{minor}-{X86}") for minor in (11, 12, 13)]
    assert [found.cells for found in beside(plan, *every, wheel(f"py3-none-{X86}")).wheels] == [6, 6, 6, 18]


def test_a_requirement_of_torch_narrows_the_cells(plan: Plan) -> None:
    found = one(plan, f"cp312-cp312-{X86}", "cu130", requires=("torch==2.11.*",))
    assert (found.jobs, found.cells) == (("linux-cuda-cu130",), 1)


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("tags", "label", "why"),
    [
        pytest.param("cp312-cp312-musllinux_1_2_x86_64", "", "Fatwheel has no such platform", id="another C library"),
        pytest.param("cp312-cp312-win_amd64", "", "the config asks for no platform on windows amd64", id="Windows"),
        pytest.param(f"cp39-cp39-{X86}", "", "the config does not ask for Python 3.9", id="an older Python"),
        pytest.param(f"pp311-pypy311_pp73-{X86}", "", "no Python of Fatwheel takes pp311-pypy311_pp73", id="PyPy"),
        pytest.param(f"cp312-cp312-{X86}", "cu128", "the config does not ask for CUDA 12.8", id="another CUDA"),
        pytest.param(f"cp312-cp312-{X86}", "rocm6.3", "the config does not ask for ROCM 6.3", id="another accelerator"),
        pytest.param(f"cp312-cp312-{X86}", "torch2.8", "the config does not ask for torch 2.8", id="another torch"),
    ],
)
def test_a_wheel_for_nobody_whom_the_config_asks_for_says_why(plan: Plan, tags: str, label: str, why: str) -> None:
    found = one(plan, tags, label, requires_python=">=3.8")
    assert (found.verdict, found.jobs, found.losses) == (UNSERVED, (), (why,))


def test_a_wheel_for_a_torch_that_nobody_asks_for_says_why(plan: Plan) -> None:
    found = one(plan, f"cp312-cp312-{X86}", requires=("torch==1.13.1",))
    assert found.losses == ("the config does not ask for a torch that it requires",)


def test_what_a_wheel_serves_beyond_the_request_is_lost(tmp_path: Path) -> None:
    plan = plan_of(demo(tmp_path / "demo", {**FILES, "fatwheel.yml": NO_TORCH}), shared_world())
    old = one(plan, "cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64", "cu130", requires_python=">=3.9")
    assert (old.verdict, old.jobs) == (PARTLY, ("linux-cuda-cu130",))
    assert old.losses == (
        "Python 3.9: the config does not ask for it",
        "glibc from 2.17 on: this plan's wheel is for 2.28 and later (`wheel-platform`)",
    )
    mac = one(plan, "py3-none-macosx_10_9_universal2")
    assert (mac.verdict, mac.losses) == (PARTLY, ("macos x86_64: Fatwheel has no such platform",))


def test_a_system_that_is_too_old_for_torch_is_no_loss(plan: Plan) -> None:
    assert one(plan, "py3-none-manylinux_2_17_x86_64", "cu130").verdict is SERVED


def test_a_python_that_the_wheel_s_tag_admits_is_no_loss(plan: Plan) -> None:
    assert one(plan, f"cp310-abi3-{X86}", "cu130").verdict is SERVED
    assert one(plan, f"py3-none-{X86}", "cu130", requires_python=">=3.8").losses == (
        "Python 3.8, 3.9: the config does not ask for it",
    )


def test_cells_that_the_plan_skips_are_lost(tmp_path: Path) -> None:
    config = CONFIG.replace('native: ["*.cu"],', 'native: ["*.cu"], enabled: false,')
    found = one(plan_of(demo(tmp_path / "demo", {**FILES, "fatwheel.yml": config}), shared_world()), f"py3-none-{X86}")
    assert (found.verdict, found.jobs) == (PARTLY, ("pure",))
    (why,) = found.losses
    assert why.startswith("linux-cuda (cu129, cu130) / torch 2.10, 2.11 / Python 3.11 to 3.13: switched off by")


def test_cells_without_a_torch_to_install_are_no_loss(tmp_path: Path) -> None:
    config = CONFIG.replace('"3.13"]', '"3.15"]')
    found = one(
        plan_of(demo(tmp_path / "demo", {**FILES, "fatwheel.yml": config}), shared_world()), f"py3-none-{X86}", "cu130"
    )
    assert (found.verdict, found.cells) == (SERVED, 4)


# ---------------------------------------------------------------- contents


def test_extension_modules_that_no_wheel_in_its_place_has_are_a_loss(plan: Plan) -> None:
    found = beside(plan, wheel(f"cp312-cp312-{ARM_MAC}", "", "demo/_C.cpython-312-darwin.so", "demo/__init__.py"))
    (only,) = found.wheels
    assert (only.verdict, only.losses) == (PARTLY, ("no wheel in its place has the extension modules demo/_C",))
    (contents,) = found.contents
    assert (contents.jobs, contents.members[0].published_only) == (("pure",), ("demo/_C",))


def test_finished_wheels_are_compared_as_they_are(plan: Plan) -> None:
    names = [f"demo/_C.cpython-3{minor}-x86_64-linux-gnu.so" for minor in (11, 12)]
    theirs = [wheel(f"cp3{minor}-cp3{minor}-{X86}", "cu130", name) for minor, name in zip((11, 12), names, strict=True)]
    read = [
        found._replace(inside=found.inside and found.inside._replace(symbols={name: symbols("old", "malloc")}))
        for found, name in zip(theirs, names, strict=True)
    ]
    ours = Inside({"demo/_C.abi3.so": 1, "demo/x.py": 1}, {"demo/_C.abi3.so": symbols("new", "malloc")})
    found = beside(plan, *read, finished={"linux-cuda-cu130": ours}, notes=("a note",))
    (contents,) = found.contents
    assert (contents.jobs, len(contents.files)) == (("linux-cuda-cu130",), 2)
    assert [(one.kind, one.both) for one in contents.members if one.both] == [("extension module", 1)]
    assert contents.symbols == (("demo/_C", ("old",), ("new",), (), ()),)
    assert found.notes[-1] == "a note"


def symbols(exported: str, required: str) -> Symbols:
    return Symbols(frozenset({exported}), frozenset({required}))


# ---------------------------------------------------------------- notes, and the forms of the outcome


@pytest.mark.parametrize(
    ("release", "facts", "note"),
    [
        pytest.param("other 1.0", {}, "the published project is other, and the plan's is demo", id="another project"),
        pytest.param("demo 1.1", {}, "the source is demo 1.0: what differs may be new", id="another version"),
        pytest.param("demo 1.0", {"is_yanked": True}, "1 of the published wheels are yanked", id="yanked"),
        pytest.param("demo 1.0", {"unread": "no parts"}, f"demo-1.0-cp312-cp312-{X86}.whl: no parts", id="not read"),
        pytest.param(
            "demo 1.0",
            {"requires_python": ">=3.11"},
            "Requires-Python is >=3.11 in published wheels, and >=3.10 in the source",
            id="another range",
        ),
    ],
)
def test_facts_that_weaken_the_comparison_are_said(
    plan: Plan, release: str, facts: Mapping[str, Any], note: str
) -> None:
    name, version = release.split()
    found = compare_published(
        plan,
        CATALOG,
        Release(canonicalize_name(name), Version(version)),
        [wheel(f"cp312-cp312-{X86}", **facts)],
    )
    assert [text[: len(note)] for text in found.notes] == [note]


def test_a_range_that_is_spelt_otherwise_is_the_same(plan: Plan) -> None:
    assert beside(plan, wheel(f"cp312-cp312-{X86}", requires_python=" >= 3.10")).notes == ()


WHEELS = (
    wheel(f"cp311-cp311-{X86}", "cu130", "demo/_C.so", "demo/a.py"),
    wheel(f"cp312-cp312-{X86}", "cu130", "demo/_C.so", "demo/a.py"),
    wheel(f"cp39-cp39-{X86}", "cu130", requires_python=">=3.9"),
    wheel("cp312-cp312-win_amd64"),
)


def test_the_tables_have_a_row_for_the_wheels_of_one_kind(plan: Plan) -> None:
    text = "\n".join(
        line for table in published_tables(beside(plan, *WHEELS), plan, explain=False) for line in draw(table)
    )
    assert " 1   cp39          linux x86_64    cu130           none               not served   1" in text
    assert " 2   cp311 cp312   linux x86_64    cu130           linux-cuda-cu130   served" in text
    assert "1   the config does not ask for Python 3.9" in text
    assert "1 extension module published, in this plan not known before a build: demo/_C" in text
    assert "linux-cuda (cu129)       2.10, 2.11   3.11 to 3.13   linux-cuda-cu129" in text


def test_the_tables_have_each_wheel_if_asked(plan: Plan) -> None:
    tables = list(published_tables(beside(plan, *WHEELS), plan, explain=True))
    rows = next(table.rows for table in tables if table.title == "published wheels")
    assert [row[0] for row in rows] == [found.file for found in WHEELS]


def test_the_json_has_all_of_it(plan: Plan) -> None:
    found = json.loads(json.dumps(to_json(beside(plan, *WHEELS))))
    assert [(one["file"], one["verdict"], one["jobs"]) for one in found["wheels"]][1:3] == [
        (WHEELS[1].file, "served", ["linux-cuda-cu130"]),
        (WHEELS[2].file, "not served", []),
    ]
    assert found["contents"][0]["members"][0] == {
        "kind": "extension module",
        "both": 0,
        "published_only": ["demo/_C"],
        "planned_only": None,
    }
    assert [*found["additions"]] == ["pure", "linux-cuda-cu129", "linux-cuda-cu130"]
    assert found["sentences"][1] == "1 wheel in this plan for 2 published: 1 build fewer."


def test_a_published_wheel_for_which_the_plan_has_several_is_told(plan: Plan) -> None:
    found = beside(plan, wheel(f"cp311-abi3-{X86}"), wheel(f"cp311-abi3-{ARM_MAC}"))
    assert "1 published wheel for which this plan has several wheels, at most 3." in sentences(found)


@pytest.mark.parametrize(("number", "said"), [(1, "2 builds more."), (3, "as many builds."), (4, "1 build fewer.")])
def test_a_plan_may_need_more_builds(plan: Plan, number: int, said: str) -> None:
    pythons = ("cp311-cp311", "cp312-cp312", "cp313-cp313", "py3-none")[:number]
    found = beside(plan, *(wheel(f"{python}-{X86}") for python in pythons))
    assert list(sentences(found))[1].endswith(said)
