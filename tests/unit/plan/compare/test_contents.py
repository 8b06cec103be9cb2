"""What two wheels have inside, by names that are the same for every Python and system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci_tools.model.plan import Library
from ci_tools.model.platforms import Platform
from ci_tools.model.published import Inside, Symbols
from ci_tools.plan.compare.contents import (
    Difference,
    Kind,
    SymbolDifference,
    compare_parts,
    compare_symbols,
    expect_parts,
    sort_members,
)
from tests.builders.plans import job_of

OURS = ("demo/_C.abi3.so", "demo/__init__.py", "demo/new.py", "demo/py.typed")
THEIRS = (
    "demo/_C.cpython-312-x86_64-linux-gnu.so",
    "demo/_D.cpython-312-x86_64-linux-gnu.so",
    "demo-1.0.data/purelib/demo/__init__.py",
    "demo.libs/libgomp-a34b3233.so.1.0.0",
    "demo/py.typed",
)


@pytest.mark.parametrize(
    ("member", "kind", "name"),
    [
        pytest.param("demo/_C.abi3.so", Kind.MODULE, "demo/_C", id="limited API"),
        pytest.param("demo/_C.cp312-win_amd64.pyd", Kind.MODULE, "demo/_C", id="Windows"),
        pytest.param("_C.cpython-313t-darwin.so", Kind.MODULE, "_C", id="at the top"),
        pytest.param("demo/lib/libk.so.1.2", Kind.MODULE, "demo/lib/libk", id="a library with a version"),
        pytest.param("demo-1.0.data/platlib/demo/_C.so", Kind.MODULE, "demo/_C", id="installed from data"),
        pytest.param("demo/.dylibs/libomp.dylib", Kind.GRAFTED, "libomp", id="copied in by delocate"),
        pytest.param("demo.libs/libz-eb09ad1d.so.1", Kind.GRAFTED, "libz", id="copied in by auditwheel"),
        pytest.param("demo/a.b.py", Kind.PYTHON, "demo/a.b.py", id="Python"),
        pytest.param("demo-1.0.data/scripts/demo", Kind.OTHER, "scripts/demo", id="a script"),
        pytest.param("d/k.dylib.dSYM/D/k.dylib", Kind.OTHER, "d/k.dylib.dSYM/D/k.dylib", id="debug information"),
        pytest.param("demo/source.so.txt", Kind.OTHER, "demo/source.so.txt", id="no library"),
    ],
)
def test_a_member_has_a_kind_and_a_common_name(member: str, kind: Kind, name: str) -> None:
    assert {one: dict(names) for one, names in sort_members([member]).items() if names} == {kind: {name: member}}


def test_members_that_one_side_has_are_found() -> None:
    found = {one.kind: one[1:] for one in compare_parts(sort_members(OURS), sort_members(THEIRS))}
    assert found == {
        Kind.MODULE: (("demo/_D",), (), 1),
        Kind.GRAFTED: (("libgomp",), (), 0),
        Kind.PYTHON: ((), ("demo/new.py",), 1),
        Kind.OTHER: ((), (), 1),
    }


def test_a_plan_may_not_know_everything() -> None:
    native = job_of("demo-1.0-cp310-abi3-linux_x86_64.whl", Platform.LINUX_CPU)
    libraries = replace(native, libraries=(Library("demo/_C.abi3.so"),))
    whole = replace(libraries, members=OURS)
    known = [list(expect_parts(job)) for job in (native, job_of("demo-1.0-py3-none-any.whl"), libraries, whole)]
    assert known == [[], [Kind.MODULE], [Kind.MODULE], [Kind.MODULE, Kind.PYTHON, Kind.OTHER]]
    published = sort_members(THEIRS)
    assert compare_parts(expect_parts(native), published)[0] == Difference(Kind.MODULE, ("demo/_C", "demo/_D"), None, 0)
    assert compare_parts(expect_parts(libraries), published)[:2] == (
        Difference(Kind.MODULE, ("demo/_D",), (), 1),
        Difference(Kind.GRAFTED, ("libgomp",), None, 0),
    )


def test_symbols_are_compared_by_module() -> None:
    ours = Inside({}, {OURS[0]: Symbols(frozenset({"PyInit__C"}), frozenset({"malloc", "PyList_New"}))})
    theirs = Inside({}, {name: Symbols(frozenset({"PyInit__C", "old"}), frozenset({"malloc"})) for name in THEIRS[:2]})
    assert list(compare_symbols(ours, theirs)) == [SymbolDifference("demo/_C", ("old",), (), (), ("PyList_New",))]
    assert list(compare_symbols(ours, ours)) == [SymbolDifference("demo/_C", (), (), (), ())]
