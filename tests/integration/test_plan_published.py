"""`fatwheel plan --published`, with an index on this machine that sends parts of real wheels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders import wheels
from tests.servers.package_index import Sent, index_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import CommandLine, Ran

pytestmark = pytest.mark.slow

OLD, NEWEST = (f"tiny-1.0-{tags}-linux_x86_64.whl" for tags in ("cp39-cp39", "cp310-abi3"))
PURE = "tiny-1.0-py3-none-any.whl"
MEMBERS = {"tiny/__init__.py": b"", "tiny/old.py": b"", "large.bin": wheels.library("int x = 1;") * 50}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """Wheels for any machine, for a limited API, and for a Python of old."""
    native = {**MEMBERS, "tiny/_C.abi3.so": wheels.library("void PyInit__C(void) {}")}
    members = {PURE: MEMBERS, NEWEST: native, OLD: native}
    fields = "Requires-Python: >=3.9\n"
    return {name: wheels.make(tmp_path / "up", name, held, fields).read_bytes() for name, held in members.items()}


def test_the_second_witness_contradicts_the_plan(project: Path, files: dict[str, bytes], fatwheel: CommandLine) -> None:
    sent: list[Sent] = []
    with index_of("tiny", files, sent=sent) as index:
        ran = fatwheel("plan", "--published", "tiny==1.0", cwd=project, PIP_INDEX_URL=index.url)
    assert ran.status == 0, ran.stderr
    assert " 3 wheels published, 1 in this plan." in ran.stdout
    assert " 1 wheel in this plan for 2 published (2 in part): 1 build fewer." in ran.stdout
    assert "no wheel in its place has the extension modules tiny/_C" in ran.stdout
    assert "the config does not ask for Python 3.9" in ran.stdout
    assert "3 wheels, " in ran.stderr
    assert all(one.range for one in sent if one.path.endswith(".whl"))


def test_finished_wheels_are_compared(project: Path, files: dict[str, bytes], fatwheel: CommandLine) -> None:
    built = fatwheel("build", "--job", "pure", "--out", "dist", cwd=project, FATWHEEL_INSTALLER="uv")
    assert built.status == 0, built.stderr
    with index_of("tiny", files) as index:
        asked = ("plan", "--published", "tiny==1.0", "--dist", "dist", "--format", "json")
        whole = json.loads(fatwheel(*asked, cwd=project, PIP_INDEX_URL=index.url).stdout)
    assert [job["name"] for job in whole["jobs"]] == ["pure"]
    (first, *_) = whole["published"]["contents"]
    assert {found["kind"]: found["published_only"] for found in first["members"]} == {
        "extension module": [],
        "grafted library": [],
        "Python file": ["tiny/old.py"],
        "other file": ["large.bin"],
    }


def refused(fatwheel: CommandLine, project: Path, *options: str, **env: str) -> Ran:
    return fatwheel("plan", *options, cwd=project, **env)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(
            ("--published", "tiny"), '"tiny" is not a release, expected one such as demo==1.0', id="no version"
        ),
        pytest.param(("--published", "tiny>=1"), '"tiny>=1" is not a release', id="a range"),
        pytest.param(("--published", PURE), f'"{PURE}" is not a release', id="a file"),
        pytest.param(("--dist", "."), "--dist is compared with published wheels, expected --published", id="only dist"),
        pytest.param(
            ("--published", "tiny==1.0", "--only", "linux-cpu"), "--published compares whole plans", id="a part"
        ),
        pytest.param(
            ("--published", "tiny==1.0", "--format", "github"), "holds no comparison, expected --format", id="a matrix"
        ),
        pytest.param(("--published", "tiny==1.0", "--against", "main"), "expected one of them", id="two comparisons"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    fatwheel: CommandLine, project: Path, options: tuple[str, ...], sentence: str
) -> None:
    ran = refused(fatwheel, project, *options)
    assert (ran.status, ran.stdout) == (2, "")
    assert sentence in ran.stderr


def test_wrong_names_and_a_dead_index_have_a_sentence_each(
    project: Path, files: dict[str, bytes], fatwheel: CommandLine
) -> None:
    with index_of("tiny", files) as index:
        wrong = [
            refused(fatwheel, project, "--published", release, PIP_INDEX_URL=index.url)
            for release in ("tiny==2.0", "tinny==1.0")
        ]
    dead = refused(fatwheel, project, "--published", "tiny==1.0", PIP_INDEX_URL=index.url)
    assert [ran.status for ran in (*wrong, dead)] == [2, 2, 3]
    assert "the package index has no wheel of tiny 2.0, there are wheels of 1.0" in wrong[0].stderr
    assert 'the package index has no project "tinny"\n  hint: the config names "tiny"' in wrong[1].stderr
    assert "tiny cannot be read from the package index: " in dead.stderr


def test_each_wheel_has_a_row_if_asked(project: Path, files: dict[str, bytes], fatwheel: CommandLine) -> None:
    with index_of("tiny", files) as index:
        ran = fatwheel("plan", "--published", "tiny==1.0", "--explain", cwd=project, PIP_INDEX_URL=index.url)
    assert [name for name in files if f" {name} " not in ran.stdout] == []
