"""What a wheel for macOS promises: each library breaks one thing alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.formats.binaries.macho import Needed, read_macho
from ci_tools.model.files import Level
from tests.builders.audited import findings, planned, seen
from tests.builders.mach_o import X86_64, dylib, universal
from tests.builders.wheels import make

ERROR, WARNING = Level.ERROR, Level.WARNING
ARM = "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl"
BOTH = "demo-1.0-cp311-cp311-macosx_10_9_universal2.whl"
SYSTEM = "/usr/lib/libSystem.B.dylib"
HOMEBREW = "/opt/homebrew/opt/libomp/lib/libomp.dylib"
OF_ALL = "/tmp/lib"  # noqa: S108 - a name


def of_macos(folder: Path, content: bytes, name: str = ARM, **more: bytes) -> Path:
    others = {f"demo/{file}.dylib": data for file, data in more.items()}
    return make(folder, name, {"demo/__init__.py": b"", "demo/_c.cpython-311-darwin.so": content, **others})


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(dylib([SYSTEM]), ARM, id="of-the-system"),
        pytest.param(dylib(["@loader_path/ours.dylib"]), ARM, id="beside-itself"),
        pytest.param(dylib(["@rpath/ours.dylib"], paths=["@loader_path/."]), ARM, id="by-run-path"),
        pytest.param(dylib(["@rpath/libtorch_cpu.dylib"]), ARM, id="of-torch"),
        pytest.param(dylib(weak=["/opt/gone.dylib"]), ARM, id="weak"),
        pytest.param(universal(dylib(), dylib(machine=X86_64, minimum=(10, 9))), BOTH, id="universal"),
    ],
)
def test_a_library_that_keeps_to_its_tag_is_good(content: bytes, name: str, tmp_path: Path) -> None:
    ours = universal(dylib(exports=["a"]), dylib(exports=["a"], machine=X86_64, minimum=(10, 9)))
    assert seen(findings(of_macos(tmp_path, content, name, ours=ours))) == set()


@pytest.mark.parametrize(
    ("content", "rule", "found", "level"),
    [
        pytest.param(dylib(minimum=(13, 0)), "macos", "macOS 13.0", ERROR, id="newer-system"),
        pytest.param(dylib(minimum=(11, 3)), "macos", "macOS 11.3", WARNING, id="newer-in-its-minor"),
        pytest.param(dylib([HOMEBREW]), "macos", HOMEBREW, ERROR, id="homebrew"),
        pytest.param(dylib(["libours.dylib"]), "macos", "libours.dylib", ERROR, id="no-place"),
        pytest.param(
            dylib(["@rpath/gone.dylib"], paths=["@loader_path"]), "macos", "@rpath/gone.dylib", ERROR, id="gone"
        ),
        pytest.param(dylib(paths=["/opt/homebrew/lib"]), "macos", "/opt/homebrew/lib", WARNING, id="run-path"),
        pytest.param(dylib(["@rpath/libtorch.dylib"], paths=[OF_ALL]), "macos", OF_ALL, ERROR, id="run-path-of-all"),
        pytest.param(dylib(paths=[OF_ALL]), "macos", OF_ALL, WARNING, id="run-path-that-nothing-asks"),
        pytest.param(dylib(exports=["PyInit_other"]), "init", "PyInit_other", ERROR, id="init-of-another"),
        pytest.param(dylib(asked=["PyLong_AsInt"]), "python-versions", "PyLong_AsInt", ERROR, id="newer-python"),
        pytest.param(dylib()[:60], "macos", "unreadable", ERROR, id="cut"),
    ],
)
def test_a_library_beyond_its_tag_found(content: bytes, rule: str, found: str, level: Level, tmp_path: Path) -> None:
    assert seen(findings(of_macos(tmp_path, content))) == {(rule, found, level)}


@pytest.mark.parametrize(("name", "found"), [("other", set()), ("another", {("init", "PyInit_other", ERROR)})])
def test_a_module_may_be_loaded_by_the_name_that_it_has(
    name: str, found: set[tuple[str, str, Level]], tmp_path: Path
) -> None:
    code = f"from importlib.util import spec_from_file_location\nspec_from_file_location('{name}', '_c.so')\n"
    files = {"demo/__init__.py": code.encode(), "demo/_c.cpython-311-darwin.so": dylib(exports=["PyInit_other"])}
    assert seen(findings(make(tmp_path, ARM, files))) == found


def test_a_library_may_be_that_of_the_user(tmp_path: Path) -> None:
    wheel = of_macos(tmp_path, dylib(["@rpath/gone.dylib"], paths=["/opt/homebrew/lib"]))
    assert {one.level for one in findings(wheel)} == {WARNING}


def test_what_is_wrong_in_each_part_is_said_once(tmp_path: Path) -> None:
    both = universal(dylib([HOMEBREW]), dylib([HOMEBREW], machine=X86_64, minimum=(10, 9)))
    assert [one.found for one in findings(of_macos(tmp_path, both, BOTH))] == [HOMEBREW]


def test_our_own_build_leaves_no_absolute_run_path(tmp_path: Path) -> None:
    wheel = of_macos(tmp_path, dylib(paths=["/opt/homebrew/lib"]))
    assert ("macos", "/opt/homebrew/lib", ERROR) in seen(findings(wheel, planned(ARM)))


def test_each_part_of_a_universal_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(universal(dylib([SYSTEM], paths=["@loader_path"]), dylib(machine=X86_64, minimum=(10, 9))))
    with path.open("rb") as file:
        arm, intel = read_macho(file)
    assert (arm.machine, arm.minimum, arm.needed, arm.run_paths) == (
        "arm64", (11, 0), (Needed(SYSTEM, is_weak=False),), ("@loader_path",)
    )  # fmt: skip
    assert (intel.machine, intel.minimum, intel.defined) == ("x86_64", (10, 9), {"PyInit__c"})
