"""Published wheels are read by parts from a real server, and finished wheels beside them to the symbol."""

from __future__ import annotations

import functools
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.model.published import Release
from ci_tools.plan import make
from ci_tools.plan.compare import upstream
from ci_tools.plan.compare.published import Verdict
from ci_tools.plan.compare.upstream import compare_with_published
from tests.builders import wheels
from tests.builders.releases import Words
from tests.builders.sources import demo, shared_world, world
from tests.servers.package_index import Sent, index_of

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.machine.package_index import Index
    from ci_tools.plan.compare.published import Beside
    from ci_tools.plan.make import Planned

CONFIG = """\
package: demo
python: ["3.11", "3.12"]
torch: ["2.10"]
owner: "@team"
platforms:
  linux-cuda: {native: ["*.cu"], cuda: ["13.0"], archs: ["9.0"], wheel-platform: linux}
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
"""
FILES = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": PROJECT,
    "CMakeLists.txt": "add_library(k k.cu)\n",
    "k.cu": "int x;\n",
}
FINISHED = "demo-1.0+cu130-py3-none-linux_x86_64.whl"
NAMES = tuple(f"demo-1.0+cu130-cp3{minor}-cp3{minor}-linux_x86_64.whl" for minor in (11, 12))
FIELDS = "Requires-Python: >=3.10\nRequires-Dist: torch>=2.10\n"
NOISE = random.Random(1).randbytes(1_000_000)  # noqa: S311 - the same bytes every time
OLD = "extern void cudaFree(void); void PyInit__C(void) { cudaFree(); } void old(void) {}"
NEW = "extern void cudaMalloc(void); void PyInit__C(void) { cudaMalloc(); }"


@functools.cache
def publish(name: str) -> bytes:
    """Return a wheel with a library for one Python, and a large file before it."""
    python = name.split("-")[2].removeprefix("cp")
    members = {
        "demo/large.bin": NOISE,
        f"demo/_C.cpython-{python}-x86_64-linux-gnu.so": wheels.library(OLD),
        "demo/__init__.py": b"",
    }
    with tempfile.TemporaryDirectory() as folder:
        return wheels.make(Path(folder), name, members, FIELDS).read_bytes()


@pytest.fixture
def files() -> dict[str, bytes]:
    """Two published wheels, an sdist, and a wheel of another version."""
    other = {"demo-0.9.tar.gz": b"", "demo-0.9-py3-none-any.whl": b"", "demo-1.1rc1-py3-none-any.whl": b""}
    return {**other, **{name: publish(name) for name in NAMES}}


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """One wheel for every Python."""
    return make.make_plan(demo(tmp_path / "demo", FILES) / "fatwheel.yml", shared_world())


def outside(folder: Path, index: Index) -> Outside:
    """Return an outside whose index is a server of the test, and that keeps what is said."""
    return replace(world(folder, PIP_INDEX_URL=index.url, PIP_CERT="none.pem"), reporter=Words())


def compared(
    planned: Planned, index: Index, folder: Path, release: str = "demo 1.0", dist: Path | None = None
) -> Beside:
    name, version = release.split()
    asked = Release(canonicalize_name(name), Version(version))
    return compare_with_published(planned, asked, dist, outside(folder, index))


# ---------------------------------------------------------------- by parts


def test_published_wheels_are_read_by_parts(planned: Planned, files: dict[str, bytes], tmp_path: Path) -> None:
    sent: list[Sent] = []
    with index_of("demo", files, sent=sent) as index:
        found = compared(planned, index, tmp_path)
    assert [(one.wheel.file, one.verdict, one.jobs) for one in found.wheels] == [
        (name, Verdict.SERVED, ("linux-cuda-cu130",)) for name in NAMES
    ]
    assert {one.wheel.requires for one in found.wheels} == {("torch>=2.10",)}
    assert [one.wheel.inside and len(one.wheel.inside.members) for one in found.wheels] == [3, 3]
    assert sorted((one.range, one.size) for one in sent if one.path.endswith(".whl")) == [("bytes=-65536", 65536)] * 2
    assert found.contents[0].members[0].published_only == ("demo/_C",)


def test_metadata_comes_from_the_index_if_it_has_it(planned: Planned, files: dict[str, bytes], tmp_path: Path) -> None:
    sent: list[Sent] = []
    offered = {NAMES[0]: b"Metadata-Version: 2.1\nRequires-Dist: torch==2.9\n"}
    with index_of("demo", files, metadata=offered, sent=sent) as index:
        found = compared(planned, index, tmp_path)
    assert [one.wheel.requires for one in found.wheels] == [("torch==2.9",), ("torch>=2.10",)]
    assert [one.verdict for one in found.wheels] == [Verdict.UNSERVED, Verdict.SERVED]
    assert [one.path for one in sent if "metadata" in one.path] == [f"/files/{NAMES[0]}.metadata"]


def test_metadata_that_the_index_offers_and_lacks_comes_from_the_wheel(
    planned: Planned, files: dict[str, bytes], tmp_path: Path
) -> None:
    class Lost(dict[str, bytes]):
        """METADATA that is offered, and not found where it is asked for."""

        def __contains__(self, name: object) -> bool:
            return False

    with index_of("demo", files, metadata=Lost({NAMES[0]: b""})) as index:
        found = compared(planned, index, tmp_path)
    assert {one.wheel.requires for one in found.wheels} == {("torch>=2.10",)}


def test_a_damaged_wheel_is_compared_by_its_name(planned: Planned, files: dict[str, bytes], tmp_path: Path) -> None:
    with index_of("demo", {**files, NAMES[0]: b"no zip file" * 99}) as index:
        found = compared(planned, index, tmp_path)
    assert [one.verdict for one in found.wheels] == [Verdict.SERVED, Verdict.SERVED]
    assert [one.wheel.inside is None for one in found.wheels] == [True, False]
    (note,) = found.notes
    assert note.startswith(f"{NAMES[0]}: it is not compared in detail: {NAMES[0]} cannot be read on the package index")


# ---------------------------------------------------------------- servers that send no parts


def test_wheels_come_whole_from_a_server_that_sends_no_parts(
    planned: Planned, files: dict[str, bytes], tmp_path: Path
) -> None:
    with index_of("demo", files, ranges="none") as index:
        context = outside(tmp_path, index)
        found = compare_with_published(planned, Release(canonicalize_name("demo"), Version("1.0")), None, context)
    assert [one.wheel.inside and len(one.wheel.inside.members) for one in found.wheels] == [3, 3]
    assert isinstance(context.reporter, Words)
    assert context.reporter.lines == [
        f"the server sends no parts of files, these were fetched whole: {', '.join(NAMES)}"
    ]


def test_no_more_wheels_come_whole_than_the_limit_allows(
    planned: Planned, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Sent] = []
    monkeypatch.setattr(upstream, "MOST_WHOLE", len(files[NAMES[0]]) + 1)
    with index_of("demo", files, ranges="none", sent=sent) as index:
        found = compared(planned, index, tmp_path)
    assert [one.wheel.inside is None for one in found.wheels] == [False, True]
    assert found.notes == (f"{NAMES[1]}: {upstream.UNSENT}",)


# ---------------------------------------------------------------- finished wheels


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with the plan's wheel and one of another plan."""
    members = {"demo/_C.abi3.so": wheels.library(NEW), "demo/__init__.py": b"", "demo/new.py": b""}
    wheels.make(tmp_path / "dist", FINISHED, members, FIELDS)
    wheels.make(tmp_path / "dist", wheels.PURE)
    return tmp_path / "dist"


def test_finished_wheels_are_compared_to_the_symbol(
    planned: Planned, files: dict[str, bytes], tmp_path: Path, dist: Path
) -> None:
    sent: list[Sent] = []
    with index_of("demo", files, sent=sent) as index:
        found = compared(planned, index, tmp_path, dist=dist)
    (contents,) = found.contents
    assert contents.files == NAMES
    assert [one[1:] for one in contents.members if one != (one.kind, (), (), 0)] == [
        ((), (), 1),
        ((), ("demo/new.py",), 1),
        (("demo/large.bin",), (), 0),
    ]
    assert contents.symbols == (("demo/_C", ("old",), (), ("cudaFree",), ("cudaMalloc",)),)
    assert found.notes == (f"{dist / wheels.PURE} is not a wheel of this plan",)
    assert {one.size for one in sent if one.path.endswith(".whl")} == {65536}


def test_symbols_of_large_libraries_are_not_fetched(
    planned: Planned, files: dict[str, bytes], tmp_path: Path, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "MOST_LIBRARIES", 100)
    with index_of("demo", files) as index:
        found = compared(planned, index, tmp_path, dist=dist)
    assert [one.symbols for one in found.contents] == [()]
    assert f"{NAMES[0]} and 1 more: {upstream.UNCOMPARED}" in found.notes


def test_symbols_come_from_a_server_that_sends_no_parts_too(
    planned: Planned, files: dict[str, bytes], tmp_path: Path, dist: Path
) -> None:
    with index_of("demo", files, ranges="none") as index:
        found = compared(planned, index, tmp_path, dist=dist)
    assert [one.symbols[0].module for one in found.contents] == ["demo/_C"]


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        pytest.param("nowhere", "--dist: there is no folder", id="no folder"),
        pytest.param("demo", f"has no wheel of this plan, expected one such as {FINISHED}", id="no wheel"),
    ],
)
def test_a_folder_without_wheels_of_the_plan_is_refused(
    planned: Planned, tmp_path: Path, folder: str, sentence: str
) -> None:
    with index_of("demo", {}) as index, pytest.raises(InputError, match=re.escape(sentence)):
        compared(planned, index, tmp_path, dist=tmp_path / folder)


def test_a_damaged_finished_wheel_is_refused(planned: Planned, tmp_path: Path, dist: Path) -> None:
    (dist / FINISHED).write_bytes(b"no zip file")
    with index_of("demo", {}) as index, pytest.raises(Rejected, match="is not a wheel"):
        compared(planned, index, tmp_path, dist=dist)


# ---------------------------------------------------------------- wrong names


@pytest.mark.parametrize(
    ("release", "sentence"),
    [
        pytest.param("dmeo 1.0", 'has no project "dmeo"\n  hint: the config names "demo"', id="no project"),
        pytest.param("demo 2.0", "has no wheel of demo 2.0, there are wheels of 0.9, 1.0", id="no version"),
        pytest.param(
            "demo 1.0+cu128", "no wheel of demo 1.0\\+cu128, there are wheels of 1.0\\+cu130", id="no local one"
        ),
    ],
)
def test_a_release_that_is_not_there_is_refused_with_those_that_are(
    planned: Planned, files: dict[str, bytes], tmp_path: Path, release: str, sentence: str
) -> None:
    with index_of("demo", files) as index, pytest.raises(InputError) as refused:
        compared(planned, index, tmp_path, release)
    assert re.search(sentence, str(refused.value))


def test_a_release_without_wheels_says_what_it_has(planned: Planned, tmp_path: Path) -> None:
    with (
        index_of("demo", {"demo-1.0.tar.gz": b""}) as index,
        pytest.raises(InputError, match=r"no wheel of demo 1.0, only demo-1.0.tar.gz, and none of any other version"),
    ):
        compared(planned, index, tmp_path)


def test_one_local_version_is_compared_by_itself(planned: Planned, files: dict[str, bytes], tmp_path: Path) -> None:
    more = "demo-1.0-py3-none-any.whl"
    with index_of("demo", {**files, more: publish(more)}) as index:
        assert len(compared(planned, index, tmp_path).wheels) == 3
        assert len(compared(planned, index, tmp_path, "demo 1.0+cu130").wheels) == 2


def test_an_index_that_does_not_answer_is_the_machine_s_fault(planned: Planned, tmp_path: Path) -> None:
    with index_of("demo", {}) as index:
        pass
    with pytest.raises(MachineError, match="demo cannot be read from the package index: "):
        compared(planned, index, tmp_path)


def test_a_connection_that_breaks_off_is_the_machine_s_fault(
    planned: Planned, files: dict[str, bytes], tmp_path: Path
) -> None:
    with (
        index_of("demo", files, most=1000) as index,
        pytest.raises(MachineError, match="demo cannot be read from the package index: "),
    ):
        compared(planned, index, tmp_path)


def test_a_connection_that_breaks_off_in_a_member_is_no_damage(planned: Planned, tmp_path: Path) -> None:
    folder = "demo-1.0.dist-info"
    members = {f"{folder}/METADATA": b"Name: demo\n", f"{folder}/RECORD": b"", "demo/large.bin": NOISE}
    content = wheels.pack(tmp_path / NAMES[0], members).read_bytes()
    with (
        index_of("demo", {NAMES[0]: content}, most=70_000) as index,
        pytest.raises(MachineError, match="demo cannot be read from the package index: "),
    ):
        compared(planned, index, tmp_path)
