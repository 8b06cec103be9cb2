"""Nightlies and candidates of real projects, from plan to wheel and sdist, each by its own backend."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path

import pytest

from ci_tools.build import jobs
from ci_tools.build.jobs import Made
from ci_tools.errors import Rejected
from ci_tools.machine.storage import sha256_of
from ci_tools.model.edition import nightly
from ci_tools.model.plan import SDIST
from ci_tools.model.request import Channel, Edition
from ci_tools.plan import make
from ci_tools.verify import files
from tests.builders.sources import world_with_uv, write

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("builds_beside_tests")]

NIGHTLY = nightly("20261121")
DEV = "1.2.0.dev20261121"
CONFIG = f"""\
package: tiny
python: ["{sys.version_info.major}.{sys.version_info.minor}"]
platforms:
  linux-cpu:
"""
MODULE = {"tiny/__init__.py": '"""Tiny."""\n'}
SETUPTOOLS = '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
STATIC = '[project]\nname = "tiny"\nversion = "1.2.0"\nrequires-python = ">=3.10"\n'
DYNAMIC = '[project]\nname = "tiny"\ndynamic = ["version"]\nrequires-python = ">=3.10"\n'
HATCH = '[build-system]\nrequires = ["hatchling{}"]\nbuild-backend = "hatchling.build"\n'
ASKED = """\
import os
from setuptools import setup
with open("version.txt") as file:
    version = os.environ.get("BUILD_VERSION") or file.read().strip()
setup(name="tiny", version=version, packages=["tiny"], python_requires=">=3.10")
"""
USUAL = frozenset({"hatchling, a file", "scikit-build-core", "setuptools"})  # in every run of the tests
PROJECTS: dict[str, dict[str, str]] = {
    "hatchling": {"pyproject.toml": HATCH.format("") + STATIC},
    "hatchling, a file": {
        "pyproject.toml": HATCH.format("") + DYNAMIC + '[tool.hatch.version]\npath = "tiny/about.py"\n',
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "tiny/about.py": '__version__ = "1.2.0"\n',
    },
    "hatch-vcs": {
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "pyproject.toml": '[build-system]\nrequires = ["hatchling", "hatch-vcs"]\nbuild-backend = "hatchling.build"\n'
        f'{DYNAMIC}[tool.hatch.version]\nsource = "vcs"\n',
    },
    "setuptools": {"pyproject.toml": SETUPTOOLS + STATIC + '[tool.setuptools]\npackages = ["tiny"]\n'},
    "setuptools, an attribute": {
        "pyproject.toml": f'{SETUPTOOLS}{DYNAMIC}[tool.setuptools]\npackages = ["tiny"]\n'
        '[tool.setuptools.dynamic]\nversion = {attr = "tiny.about.__version__"}\n',
        "fatwheel.yml": f'{CONFIG}version: "1.2.0a0"\n',
        "tiny/about.py": '__version__ = "1.2.0a0"\n',
    },
    "setup.cfg": {
        "pyproject.toml": SETUPTOOLS,
        "setup.cfg": "[metadata]\nname = tiny\nversion = 1.2.0\n[options]\npackages = tiny\npython_requires = >=3.10\n",
    },
    "setup.py": {
        "pyproject.toml": SETUPTOOLS,
        "setup.py": ASKED,
        "version.txt": "1.2.0a0\n",
        "MANIFEST.in": "include version.txt\n",
    },
    "setuptools-scm": {
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "pyproject.toml": '[build-system]\nrequires = ["setuptools>=77", "setuptools-scm>=8"]\n'
        'build-backend = "setuptools.build_meta"\n'
        f'{DYNAMIC}[tool.setuptools]\npackages = ["tiny"]\n[tool.setuptools_scm]\n',
    },
    "scikit-build-core": {
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "pyproject.toml": '[build-system]\nrequires = ["scikit-build-core"]\n'
        f'build-backend = "scikit_build_core.build"\n{DYNAMIC}'
        '[tool.scikit-build]\nwheel.cmake = false\nwheel.py-api = "py3"\nwheel.packages = ["tiny"]\n'
        'metadata.version.provider = "scikit_build_core.metadata.regex"\nmetadata.version.input = "tiny/about.py"\n',
        "tiny/about.py": '__version__ = "1.2.0"\n',
    },
    "flit": {
        "pyproject.toml": '[build-system]\nrequires = ["flit_core>=3.9"]\nbuild-backend = "flit_core.buildapi"\n'
        + DYNAMIC.replace('["version"]', '["version", "description"]'),
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "tiny/__init__.py": '"""Tiny."""\n\n__version__ = "1.2.0"\n',
    },
    "pdm": {
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
        "pyproject.toml": '[build-system]\nrequires = ["pdm-backend"]\nbuild-backend = "pdm.backend"\n'
        f'{DYNAMIC}[tool.pdm.version]\nsource = "scm"\n',
    },
    "poetry": {
        "pyproject.toml": '[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n'
        '[tool.poetry]\nname = "tiny"\nversion = "1.2.0"\ndescription = "Tiny."\nauthors = []\n'
        '[tool.poetry.dependencies]\npython = ">=3.10"\n',
        "fatwheel.yml": f'{CONFIG}version: "1.2.0"\n',
    },
}  # fmt: skip


def project(folder: Path, files: Mapping[str, str]) -> Path:
    return write(folder, {"fatwheel.yml": CONFIG, **MODULE, **files})


def build(folder: Path, out: Path, edition: Edition = NIGHTLY) -> tuple[Made, ...]:
    """Build the sdist and the pure wheel of an edition."""
    outside = world_with_uv(out.parent)
    planned = make.make_plan(folder / "fatwheel.yml", outside, edition=edition)
    return jobs.build(planned, [SDIST, "pure"], out, outside, files.CHECKS)


def said(path: Path) -> str:
    """Return the version that the metadata of a finished file says."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            text = wheel.read(name).decode()
    else:
        with tarfile.open(path) as sdist:
            file = sdist.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
            text = file.read().decode() if file else ""
    return str(HeaderParser().parsestr(text)["Version"])


def from_sdist(sdist: Path, folder: Path) -> str:
    """Return the version of the wheel that a user builds from an sdist, who sets no variable."""
    names = (
        "PATH",
        "HOME",
        *(name for name in os.environ if name.startswith(("PIP_", "SSL_", "http", "HTTP", "no_proxy"))),
    )
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(sdist)]
    subprocess.run(command, env={name: os.environ[name] for name in names}, check=True, capture_output=True)
    return said(next(folder.iterdir()))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.long) for name in PROJECTS]
)
def test_a_nightly_says_its_version_everywhere_and_the_source_stays_as_it_is(name: str, tmp_path: Path) -> None:
    folder = project(tmp_path / "tiny", PROJECTS[name])
    before = {path: sha256_of(path) for path in folder.rglob("*") if path.is_file()}
    made = build(folder, tmp_path / "out")
    assert [file.path.name for file in made] == [f"tiny-{DEV}.tar.gz", f"tiny-{DEV}-py3-none-any.whl"]
    assert [said(file.path) for file in made] == [DEV, DEV]
    assert {path: sha256_of(path) for path in folder.rglob("*") if path.is_file()} == before
    if name == "hatchling, a file":  # what a project says of itself in code is the nightly's, too
        with zipfile.ZipFile(made[1].path) as archive:
            assert archive.read("tiny/about.py").decode() == f'__version__ = "{DEV}"\n'


@pytest.mark.long
@pytest.mark.parametrize("name", ["hatch-vcs", "setup.py", "setuptools-scm"])
def test_the_sdist_of_a_nightly_is_one_to_whoever_builds_it(name: str, tmp_path: Path) -> None:
    sdist, _ = build(project(tmp_path / "tiny", PROJECTS[name]), tmp_path / "out")
    assert from_sdist(sdist.path, tmp_path / "user") == DEV


@pytest.mark.long
@pytest.mark.parametrize("name", ["hatchling", "setup.py", "pdm"])
def test_a_nightly_has_the_same_bytes_wherever_it_is_built(name: str, tmp_path: Path) -> None:
    folder = project(tmp_path / "tiny", PROJECTS[name])
    made = [build(folder, tmp_path / out) for out in ("one", "two")]
    assert len({tuple(file.receipt.sha256 for file in files) for files in made}) == 1


@pytest.mark.parametrize("name", ["hatchling", pytest.param("setup.py", marks=pytest.mark.long)])
def test_a_candidate_has_the_bytes_of_the_release(name: str, tmp_path: Path) -> None:
    files = {path: text.replace("1.2.0a0", "1.2.0") for path, text in PROJECTS[name].items()}
    folder = project(tmp_path / "tiny", files)
    stable = build(folder, tmp_path / "stable", Edition())
    candidate = build(folder, tmp_path / "test", Edition(Channel.TEST, 3))
    assert [(file.path.name, file.receipt.sha256) for file in candidate] == [
        (file.path.name, file.receipt.sha256) for file in stable
    ]
    assert candidate[1].receipt.key != stable[1].receipt.key


@pytest.mark.long
def test_a_second_night_builds_again_and_the_same_night_does_not(tmp_path: Path) -> None:
    folder = project(tmp_path / "tiny", PROJECTS["hatchling"])
    build(folder, tmp_path / "out")
    assert [file.built for file in build(folder, tmp_path / "out")] == [False, False]
    assert [file.built for file in build(folder, tmp_path / "out", nightly("20261122"))] == [True, True]


def test_a_project_that_takes_no_other_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    stubborn = 'from setuptools import setup\nsetup(name="tiny", version=".".join("120"), packages=["tiny"])\n'
    files = {"pyproject.toml": SETUPTOOLS, "setup.py": stubborn}
    with pytest.raises(Rejected) as refused:
        build(project(tmp_path / "tiny", files), tmp_path / "out")
    assert refused.value.message == (
        f"the build made tiny-1.2.0.tar.gz, expected {DEV} of a nightly: it takes no version from outside"
    )
    assert "pyproject.toml, or let the build read BUILD_VERSION" in refused.value.hint
    assert not list((tmp_path / "out").glob("*.tar.gz"))


def test_a_version_of_the_config_gives_way_to_that_of_the_nightly(tmp_path: Path) -> None:
    files = {**PROJECTS["setup.py"], "fatwheel.yml": f"{CONFIG}build:\n  env: {{BUILD_VERSION: 1.2.0}}\n"}
    assert [said(file.path) for file in build(project(tmp_path / "tiny", files), tmp_path / "out")] == [DEV, DEV]


def test_a_plugin_that_would_ask_the_repository_is_told_the_version_of_the_config(tmp_path: Path) -> None:
    made = build(project(tmp_path / "tiny", PROJECTS["setuptools-scm"]), tmp_path / "out", Edition())
    assert [said(file.path) for file in made] == ["1.2.0", "1.2.0"]
