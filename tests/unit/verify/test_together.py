"""What files of one version have to say alike, and where two builds of one wheel differ."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ci_tools.verify.fingerprint import are_libraries, describe_difference
from ci_tools.verify.together import find_disagreements
from tests.builders.compiled import compiled
from tests.builders.wheels import LINUX, PURE, make

FLAGS = ("-Wl,--build-id=none", "-x", "c", "-")
POINTS = "demo-1.0.dist-info/entry_points.txt"


def sdist(folder: Path, fields: str, version: str = "2.2") -> Path:
    """Write an sdist whose PKG-INFO has these fields."""
    content = f"Metadata-Version: {version}\nName: demo\nVersion: 1.0\n{fields}".encode()
    member = tarfile.TarInfo("demo-1.0/PKG-INFO")
    member.size = len(content)
    with tarfile.open(folder / "demo-1.0.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(content))
    return folder / "demo-1.0.tar.gz"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param("Requires-Dist: numpy>=2\n", "Requires-Dist differs from that of", id="a-requirement-more"),
        pytest.param("Requires-Python: >=3.11\n", "it has >=3.11", id="another-python"),
        pytest.param("Provides-Extra: Fast_Er\n", "it has fast-er", id="an-extra-more"),
    ],
)
def test_wheels_of_one_version_that_say_another_thing_are_named(fields: str, words: str, tmp_path: Path) -> None:
    found = list(find_disagreements([make(tmp_path, PURE), make(tmp_path, LINUX), make(tmp_path / "3", fields=fields)]))
    assert [(one.wheel, words in one.message, "lock" in one.effect) for one in found] == [(PURE, True, True)]


def test_entry_points_that_only_one_wheel_has_are_named(tmp_path: Path) -> None:
    points = {"demo/__init__.py": b"", POINTS: b"[console_scripts]\ndemo = demo:main\n"}
    (found,) = find_disagreements([make(tmp_path, PURE), make(tmp_path, LINUX, points)])
    assert "entry points" in found.message
    assert "console_scripts: demo = demo:main" in f"{found.found} {found.expected}"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param("demo-1.0+cu130-py3-none-any.whl", "Requires-Dist: numpy\n", id="another-local-version"),
        pytest.param(LINUX, "Requires-Dist: torch>=2.10,<2.11\n", id="the-torch-of-its-plan"),
        pytest.param(LINUX, "", id="the-same"),
    ],
)
def test_what_installers_keep_apart_is_no_disagreement(name: str, fields: str, tmp_path: Path) -> None:
    assert not list(find_disagreements([make(tmp_path, PURE), make(tmp_path, name, fields=fields)]))


@pytest.mark.parametrize(
    ("fields", "version", "count"),
    [
        pytest.param("Requires-Dist: numpy\n", "2.2", 1, id="stated"),
        pytest.param("Requires-Dist: numpy\nDynamic: Requires-Dist\n", "2.2", 0, id="dynamic"),
        pytest.param("Requires-Dist: numpy\n", "2.1", 0, id="before-it-had-to"),
    ],
)
def test_an_sdist_says_what_its_wheels_say(fields: str, version: str, count: int, tmp_path: Path) -> None:
    assert len(list(find_disagreements([make(tmp_path), sdist(tmp_path, fields, version)]))) == count


def test_a_difference_is_the_line_or_the_section_where_it_is(tmp_path: Path) -> None:
    def wheel(at: str, number: int) -> Path:
        library = compiled(f'const char mark[] = "tmpxft_{number:08}"; const char *get(void) {{ return mark; }}', FLAGS)
        return make(tmp_path / at, LINUX, {"demo/a.py": f"x\ny\n{number}\n".encode(), "demo/l.so": library})

    one, two = wheel("one", 1), wheel("two", 2)
    assert describe_difference(one, two, "demo/a.py") == "demo/a.py differs first in line 3"
    said = describe_difference(one, two, "demo/l.so")
    assert said.startswith("demo/l.so differs in the sections ")
    assert "tmpxft_00000001 and tmpxft_00000002" in said
    assert [are_libraries(one, ["demo/l.so"]), are_libraries(one, ["demo/l.so", "demo/a.py"])] == [True, False]


def test_a_difference_in_debug_information_only_is_called_so(tmp_path: Path) -> None:
    code = "int get(void) {{ int local_{0} = 1; return local_{0}; }}"
    libraries = {name: compiled(code.format(name), (*FLAGS, "-g")) for name in ("a", "b")}
    one, two = (make(tmp_path / name, LINUX, {"demo/l.so": found}) for name, found in libraries.items())
    assert describe_difference(one, two, "demo/l.so").endswith(
        "debug information only, which `-g0` or `strip` leaves out"
    )
