"""PyPI's own rules: a wheel and an sdist that keep them all, and one small file that breaks each."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from ci_tools.errors import Rejected
from ci_tools.formats import pypi_rules
from ci_tools.formats.pypi_rules import Held, UploadRelease, identity, pypi_problems, strangers
from ci_tools.publish.targets.pypi import archive_of
from tests.builders.wheels import PURE, edited, make, members_of, pack
from tests.servers.uploads import sdist

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)
DEMO = UploadRelease("demo", "1.0", (), NOW)
NEW = UploadRelease("demo", "1.0", None, NOW)
MODULES = ("json", "email", "_thread")


def said(*paths: Path, release: UploadRelease = DEMO) -> list[str]:
    files = [archive_of(path) for path in paths]
    return [str(problem) for problem in (*strangers(files, release), *pypi_problems(files, release, MODULES))]


def test_what_keeps_every_rule_is_taken(tmp_path: Path) -> None:
    platforms = ("manylinux_2_28_x86_64", "musllinux_1_2_aarch64", "macosx_11_0_arm64", "win_amd64")
    names = (f"demo-1.0-cp310-abi3-{platform}.whl" for platform in platforms)
    fields = (
        "Requires-Dist: numpy>=2\nClassifier: Typing :: Typed\nProject-URL: Home, https://localhost/\n"
        "Description-Content-Type: text/markdown\n"
    )
    files = [make(tmp_path, name, fields=fields) for name in (PURE, *names)]
    assert said(*files, sdist(tmp_path, fields=fields)) == []
    assert said(*files, release=NEW) == []


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("demo-1.0+cu130-py3-none-any.whl", "PyPI takes no local version, it has +cu130", id="local"),
        pytest.param("demo-1.0-cp310-abi3-linux_x86_64.whl", "no wheel for linux_x86_64, expected a many", id="linux"),
        pytest.param("demo-1.0-cp310-abi3-macosx_14_2_arm64.whl", "for macosx_14_2_arm64, expected a pl", id="macos"),
        pytest.param("demo-1.0-cp310-abi3-manylinux_2_28_mips.whl", "no wheel for manylinux_2_28_mips", id="machine"),
        pytest.param("Demo-1.0-py3-none-any.whl", "has a name that begins with demo- (PEP 427)", id="not-normalised"),
        pytest.param("other-1.0-py3-none-any.whl", "it is named as other 1.0, expected demo 1.0", id="other-project"),
        pytest.param("demo-2.0-py3-none-any.whl", "it is named as demo 2.0, expected demo 1.0", id="other-version"),
    ],
)
def test_a_wheel_is_refused_for_its_name(name: str, expected: str, tmp_path: Path) -> None:
    problems = said(make(tmp_path, name))
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"{name}: ")
    assert expected in problems[0]


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    wheel = make(tmp_path).rename(tmp_path / "demo-one-py3-none-any.whl")
    assert "it is not the name of a wheel or an sdist" in said(wheel)[0]
    with pytest.raises(ValueError, match=r"\.egg"):
        identity("demo-1.0.egg")


def test_an_sdist_is_named_as_pep_625_says(tmp_path: Path) -> None:
    problems = said(sdist(tmp_path, "de-mo-1.0.tar.gz"), release=UploadRelease("de-mo", "1.0", (), NOW))
    assert problems == ["de-mo-1.0.tar.gz: an sdist of this release is named de_mo-1.0.tar.gz (PEP 625)"]


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        pytest.param("json", "PyPI lets nobody take this name", id="a-module-of-python"),
        pytest.param("requirements.txt", "PyPI lets nobody take this name", id="a-requirements-file"),
        pytest.param("-demo", "a project's name begins and ends with", id="no-name"),
        pytest.param("dé", "a project's name begins and ends with", id="not-ascii"),
    ],
)
def test_a_project_s_name_may_be_one_that_nobody_gets(project: str, expected: str) -> None:
    found = [str(problem) for problem in pypi_problems([], NEW._replace(project=project), MODULES)]
    assert [expected in problem for problem in found] == [True]


def test_who_has_the_name_of_a_module_keeps_it() -> None:
    assert pypi_problems([], DEMO._replace(project="json"), MODULES) == ()


# ---------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("Requires-Dist: x @ https://localhost/x.whl\n", "Requires-Dist names an address", id="address"),
        pytest.param("Classifier: Private :: Do Not Upload\n", "says that this project is not for PyPI", id="private"),
        pytest.param("Classifier: Typing :: Type\n", 'did you mean "Typing :: Typed"?', id="unknown-classifier"),
        pytest.param("Classifier: Natural Language :: Ukranian\n", "is not in use any more", id="old-classifier"),
        pytest.param(f"Summary: {'x' * 513}\n", "Summary has 513 characters, PyPI takes 512", id="summary"),
        pytest.param(f"Project-URL: {'x' * 33}, https://localhost\n", "needs a label of 1 to 32", id="long-label"),
        pytest.param("Project-URL: x, javascript:alert(1)\n", "the address of 'x' is not a web address", id="link"),
        pytest.param("Home-page: there\n", "the address of 'Home-page' is not a web address", id="home-page"),
        pytest.param("License-Expression: MIT\n", "its metadata is not valid", id="field-of-a-later-version"),
        pytest.param("Requires-Python: three\n", "its metadata is not valid", id="requires-python"),
        pytest.param("Description-Content-Type: text/html\n", "its metadata is not valid", id="content-type"),
        pytest.param("Description: `a\n", "its metadata is not valid", id="two-descriptions"),
    ],
)
@pytest.mark.parametrize("make_file", [pytest.param(make, id="wheel"), pytest.param(sdist, id="sdist")])
def test_a_file_is_refused_for_its_metadata(
    make_file: Callable[..., Path], fields: str, expected: str, tmp_path: Path
) -> None:
    path = make_file(tmp_path, fields=fields)
    problems = said(path)
    assert len(problems) == 1, problems
    assert problems[0].startswith(f"{path.name}: ")
    assert expected in problems[0]


def test_metadata_says_what_the_name_says(tmp_path: Path) -> None:
    wheel = make(tmp_path)
    other = members_of(wheel)["demo-1.0.dist-info/METADATA"].replace(b"Version: 1.0", b"Version: 1.1")
    other_wheel = edited(wheel, {"demo-1.0.dist-info/METADATA": other})
    assert said(other_wheel) == [f"{PURE}: its metadata is of demo 1.1, its name says demo 1.0"]


RST = "A title\n=======\n\n.. code-block::\n\n   x\n\n`a <b>`__ and *emphasis"


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param("", "reStructuredText: 8: (WARNING/2) Inline emphasis", id="default"),
        pytest.param("Description-Content-Type: text/x-rst\n", "is not valid reStructuredText", id="rst"),
        pytest.param("Description-Content-Type: text/markdown\n", "", id="markdown"),
        pytest.param("Description-Content-Type: text/plain\n", "", id="plain"),
    ],
)
def test_a_description_can_be_shown(content_type: str, expected: str, tmp_path: Path) -> None:
    problems = said(make(tmp_path, fields=f"{content_type}\n{RST}\n"))
    assert [expected in problem for problem in problems] == ([True] if expected else [])


# ---------------------------------------------------------------- archives


@pytest.mark.parametrize("member", ["METADATA", "WHEEL", "RECORD"])
def test_a_wheel_has_what_every_wheel_has(member: str, tmp_path: Path) -> None:
    wheel = make(tmp_path)
    members = {name: data for name, data in members_of(wheel).items() if not name.endswith(member)}
    missing = {"METADATA": "it has no metadata"}.get(member, f"it has no demo-1.0.dist-info/{member}")
    assert said(pack(wheel, members)) == [f"{PURE}: {missing}"]


def test_licence_files_are_where_they_are_read(tmp_path: Path) -> None:
    metadata = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nLicense-File: LICENSE\n\n"
    wheel = edited(make(tmp_path), {"demo-1.0.dist-info/METADATA": metadata.encode()})
    assert said(wheel) == [f"{PURE}: it has no demo-1.0.dist-info/licenses/LICENSE"]
    assert said(sdist(tmp_path, metadata=metadata)) == ["demo-1.0.tar.gz: it has no demo-1.0/LICENSE"]
    assert said(edited(wheel, {"demo-1.0.dist-info/licenses/LICENSE": b"MIT"})) == []


def zipped(wheel: Path, change: Callable[[zipfile.ZipFile], object]) -> Path:
    """Add to a wheel what a change writes into it."""
    with zipfile.ZipFile(wheel, "a") as archive:
        change(archive)
    return wheel


def commented(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("demo/a.py")
    info.comment = b"hello"
    archive.writestr(info, b"")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda archive: archive.writestr("demo/run.sh", b""), "more than once", id="twice"),
        pytest.param(lambda archive: archive.writestr("demo/\n.py", b""), "cannot be printed", id="control"),
        pytest.param(
            lambda archive: archive.writestr("demo/a.py", b"x", zipfile.ZIP_LZMA), "neither stored nor", id="lzma"
        ),
        pytest.param(commented, "'demo/a.py' has a comment", id="comment"),
    ],
)
def test_a_zip_file_that_readers_may_read_in_two_ways_is_refused(
    change: Callable[[zipfile.ZipFile], object], expected: str, tmp_path: Path
) -> None:
    problems = said(zipped(make(tmp_path), change))
    assert [expected in problem for problem in problems] == [True], problems


class Unseekable(io.BytesIO):
    """A file that zipfile can only write on and on."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise OSError

    def tell(self) -> int:
        raise OSError


def test_a_streamed_wheel_is_refused(tmp_path: Path) -> None:
    wheel, stream = make(tmp_path), Unseekable()
    members = members_of(wheel)
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    wheel.write_bytes(stream.getvalue())
    problems = said(wheel)
    assert [
        f"{name!r} gives its size only after its content" in problem
        for name, problem in zip(members, problems, strict=True)
    ] == [True] * len(members)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(b"#!/bin/sh\n", b"", "it begins with bytes before its zip file", id="before"),
        pytest.param(b"", b"more", "it has bytes after the end of its zip file", id="after"),
    ],
)
def test_a_wheel_is_its_zip_file_and_nothing_else(before: bytes, after: bytes, expected: str, tmp_path: Path) -> None:
    wheel = make(tmp_path)
    wheel.write_bytes(before + wheel.read_bytes() + after)
    assert said(wheel) == [f"{PURE}: {expected}"]


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    file = archive_of(make(tmp_path))
    assert pypi_problems([file._replace(unpacked=pypi_rules.FREE_UNPACKED)], DEMO, MODULES) == ()
    found = pypi_problems([file._replace(unpacked=pypi_rules.FREE_UNPACKED + 1)], DEMO, MODULES)
    assert ["over 50 times its size" in problem.what for problem in found] == [True]


def test_a_file_has_a_hundred_mebibytes_at_most(tmp_path: Path) -> None:
    file = archive_of(make(tmp_path))
    assert pypi_problems([file._replace(size=100 << 20)], DEMO, MODULES) == ()
    found = pypi_problems([file._replace(size=(100 << 20) + 1)], DEMO, MODULES)
    assert ["it has 100.0 MiB, PyPI takes 100" in problem.what for problem in found] == [True]


@pytest.mark.parametrize("name", [PURE, "demo-1.0.tar.gz"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\5\6"])
def test_a_file_that_is_no_archive_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Rejected):
        archive_of(tmp_path / name)


def test_an_sdist_has_its_metadata_in_a_file(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "demo-1.0.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("demo-1.0/PKG-INFO")
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    assert said(tmp_path / "demo-1.0.tar.gz") == ["demo-1.0.tar.gz: it has no metadata"]


# ---------------------------------------------------------------- what the release holds already


def held(files: Mapping[str, int]) -> UploadRelease:
    """Return the release with files that are so many days old."""
    return DEMO._replace(held=tuple(Held(name, "", "", NOW - timedelta(days=days)) for name, days in files.items()))


def test_a_release_has_one_sdist(tmp_path: Path) -> None:
    problems = said(sdist(tmp_path), release=held({"demo-1.0.zip": 1, "demo-0.9.tar.gz": 40}))
    assert problems == ["demo: a release has one sdist, 1.0 would have demo-1.0.tar.gz, demo-1.0.zip"]


def test_a_name_of_somebody_else_s_moves_no_cursor(tmp_path: Path) -> None:
    problems = said(sdist(tmp_path), release=held({"demo\x1b[2J-1.0.zip": 1}))
    assert ["\x1b" in problem for problem in problems] == [False], problems


def test_a_release_takes_no_new_file_after_two_weeks(tmp_path: Path) -> None:
    wheel = make(tmp_path)
    assert said(wheel, release=held({"demo-1.0.tar.gz": 14, "demo-0.9.tar.gz": 40, "no name": 50})) == []
    problems = said(wheel, release=held({"demo-1.0.tar.gz": 15}))
    assert problems == [
        "demo: 1.0 has been on PyPI since 2026-11-06, and a release takes no new file after 14 days: raise the version"
    ]
    assert pypi_problems([], held({"demo-1.0.tar.gz": 15}), MODULES) == ()


def test_an_index_that_gives_no_times_is_believed(tmp_path: Path) -> None:
    assert said(make(tmp_path), release=DEMO._replace(held=(Held("demo-1.0.tar.gz", ""),))) == []


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    wheels = [make(tmp_path, name) for name in ("demo-1.0-py3-none-linux_x86_64.whl", "demo-1.0+cpu-py3-none-any.whl")]
    assert len(said(*wheels, sdist(tmp_path, fields="Summary: " + "x" * 600 + "\n"))) == 3
