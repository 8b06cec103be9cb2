"""An sdist of the package index is chosen by name, or by name and version, and `init` writes a starter for it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import starter
from ci_tools.config.starter.sdist_choice import choose_sdist
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.model.names import Sha256
from ci_tools.model.request import SdistSource
from ci_tools.plan.make import make_plan
from tests.builders.sources import world
from tests.servers.package_index import index_of

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "my-demo"
version = "{version}"
requires-python = ">=3.12"
"""


def pack(version: str) -> bytes:
    """Return an sdist of my-demo."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in {"pyproject.toml": PYPROJECT.format(version=version), "my_demo/__init__.py": ""}.items():
            member = tarfile.TarInfo(f"my_demo-{version}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


FILES = {f"my_demo-{version}.tar.gz": pack(version) for version in ("1.0", "1.1", "1.2", "2.0rc1")}
FILES["my_demo-3.0.zip"] = b"an sdist as it was before PEP 625"
FILES["my_demo-3.0-py3-none-any.whl"] = b"no sdist"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with index_of("my-demo", FILES, hashes=True, yanked=("my_demo-1.2.tar.gz",)) as index:
        yield world(tmp_path, PIP_INDEX_URL=index.url)


@pytest.mark.parametrize(
    ("named", "version"),
    [
        pytest.param("my-demo", "1.1", id="the-newest-that-is-final-and-not-yanked"),
        pytest.param("my-demo==1.0", "1.0", id="one-version"),
        pytest.param("my-demo==2.0rc1", "2.0rc1", id="a-pre-release-by-its-name"),
        pytest.param("my-demo==1.2", "1.2", id="a-yanked-one-by-its-name"),
    ],
)
def test_an_sdist_is_named_with_or_without_its_version(named: str, version: str, outside: Outside) -> None:
    digest = hashlib.sha256(FILES[f"my_demo-{version}.tar.gz"]).hexdigest()
    assert choose_sdist(named, outside) == SdistSource(name="my-demo", version=version, sha256=Sha256(digest))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        pytest.param("my-demo==9", "the package index has no sdist of my-demo 9", id="a-version-it-lacks"),
        pytest.param("my-demo>=1", '"my-demo>=1" names no sdist, expected NAME or NAME==VERSION', id="a-range"),
        pytest.param("my-demo==one", '"my-demo==one" names no sdist, expected NAME or NAME==VERSION', id="no-version"),
        pytest.param("others", 'the package index has no project "others"', id="no-project"),
    ],
)
def test_what_the_index_lacks_is_said(named: str, said: str, outside: Outside) -> None:
    with pytest.raises(InputError) as error:
        choose_sdist(named, outside)
    assert error.value.message == said


def test_a_version_that_is_missing_is_told_the_newest_ones(outside: Outside) -> None:
    with pytest.raises(InputError) as error:
        choose_sdist("my-demo==9", outside)
    assert error.value.hint == "the newest it has: 2.0rc1, 1.2, 1.1, 1.0"


def test_a_starter_for_an_sdist_is_planned_as_it_is_written(outside: Outside, tmp_path: Path) -> None:
    sdist = choose_sdist("my-demo", outside)
    written = starter.write(tmp_path / "new", catalog.load(), outside, sdist=sdist)
    plan = make_plan(written.path, outside).plan
    assert (plan.project.version, [job.wheel for job in plan.jobs]) == ("1.1", ["my_demo-1.1-py3-none-any.whl"])
    assert (plan.sdist, plan.request.source) == (None, sdist)
