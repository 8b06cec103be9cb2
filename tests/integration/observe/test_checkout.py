"""An observed build, or a configure step, asks git and looks at `.git` as the real one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import starter
from ci_tools.errors import InputError
from ci_tools.model.evidence import Evidence, Extensions
from tests.builders.sources import SCIKIT, committed, evidence_of, git, world_with_tools, write

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
platforms:
  linux-cpu: {owner: x}
"""
ASKS = """\
import subprocess
from pathlib import Path
from setuptools import Extension, setup
def ask(*words):
    return subprocess.run(['git', *words], capture_output=True, text=True).stdout.strip()
assert ask('status', '--porcelain') == ''
sources = ['a.c'] if Path('.git').is_dir() and ask('describe', '--tags', '--dirty').startswith('v1') else []
setup(name='demo', version='1.0', packages=['demo'], ext_modules=[Extension('demo.a', sources + ['b.c'])])
"""
LOOKS = """\
from pathlib import Path
from setuptools import Extension, setup
sources = ['a.c'] if Path('.git').is_dir() else []
setup(name='demo', version='1.0', packages=['demo'], ext_modules=[Extension('demo.a', sources + ['b.c'])])
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
find_package(Git REQUIRED)
execute_process(COMMAND ${GIT_EXECUTABLE} describe --tags WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
                OUTPUT_VARIABLE early OUTPUT_STRIP_TRAILING_WHITESPACE)
project(demo LANGUAGES CXX)
execute_process(COMMAND git describe --tags WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} RESULT_VARIABLE failed
                OUTPUT_VARIABLE late OUTPUT_STRIP_TRAILING_WHITESPACE)
if(early STREQUAL "v1" AND late STREQUAL "v1" AND NOT failed AND EXISTS ${PROJECT_SOURCE_DIR}/.git/HEAD)
  add_library(tagged MODULE a.cpp)
else()
  add_library(other MODULE a.cpp)
endif()
"""
BACKEND = SCIKIT.replace('core"]', 'core", "torch"]')
FILES = {"fatwheel.yml": CONFIG, "demo/__init__.py": "", "a.c": "", "b.c": ""}


def tagged(folder: Path, files: dict[str, str]) -> Path:
    committed(write(folder, {**FILES, **files}))
    git(folder, "tag", "v1")
    return folder


def sources(evidence: Evidence) -> set[str]:
    return {one.source for library in evidence.platforms[0].shown.built for one in library.compiles}


def test_a_build_that_asks_git_gets_the_answer_of_the_checkout(tmp_path: Path) -> None:
    folder = tagged(tmp_path / "a", {"setup.py": ASKS})
    assert sources(evidence_of(folder)) == {"a.c", "b.c"}


def test_a_build_below_its_repository_gets_the_same_answer(tmp_path: Path) -> None:
    write(tmp_path / "whole/python", {**FILES, "setup.py": ASKS.replace("Path('.git')", "Path('../.git')")})
    tagged(tmp_path / "whole", {"README": "x"})
    assert sources(evidence_of(tmp_path / "whole/python")) == {"a.c", "b.c"}


def test_another_tag_is_another_answer(tmp_path: Path) -> None:
    folder = tagged(tmp_path / "a", {"setup.py": ASKS})
    evidence_of(folder)
    git(folder, "tag", "--delete", "v1")
    assert sources(evidence_of(folder)) == {"b.c"}


@pytest.mark.parametrize(
    ("script", "again"), [pytest.param(ASKS, True, id="asks"), pytest.param(LOOKS, False, id="looks")]
)
def test_a_new_commit_observes_again_only_what_asked_git(tmp_path: Path, script: str, *, again: bool) -> None:
    folder = tagged(tmp_path / "a", {"setup.py": script})
    first = evidence_of(folder).platforms
    kept = next((tmp_path / "cache/observations").glob("*.json"))
    before = kept.stat().st_mtime_ns
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "y")
    assert evidence_of(folder).platforms == first
    assert (kept.stat().st_mtime_ns != before) is again


QUOTES = """\
import subprocess, sys
from setuptools import setup
git, any_ = ("git.exe", "\\\\*") if sys.platform == "win32" else ("git", "*")
found = subprocess.run([git, "describe", "--match", "v" + any_, "--tags"], capture_output=True, text=True, check=True)
setup(name="demo", version=found.stdout.strip(), packages=["demo"])
"""


def test_a_star_that_windows_would_expand_is_quoted_there(tmp_path: Path) -> None:
    config = CONFIG.replace("platforms:", "platforms:\n  windows: {owner: x}")
    folder = tagged(tmp_path / "a", {"setup.py": QUOTES, "fatwheel.yml": config})
    found = evidence_of(folder).platforms
    assert {one.shown.unsupported for one in found} == {None}


def test_without_git_a_build_finds_no_repository(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {**FILES, "setup.py": LOOKS})
    assert sources(evidence_of(folder)) == {"b.c"}
    committed(folder)
    assert sources(evidence_of(folder)) == {"a.c", "b.c"}


def test_a_build_may_update_submodules_that_are_there(tmp_path: Path) -> None:
    committed(write(tmp_path / "part", {"part.h": ""}))
    script = ASKS.replace(
        "assert ask(", "subprocess.check_call(['git', 'submodule', 'update', '--init', 'part'])\nassert ask("
    )
    folder = tagged(tmp_path / "a", {"setup.py": script})
    git(folder, "submodule", "--quiet", "add", str(tmp_path / "part"), "part")
    git(folder, "commit", "--quiet", "--message", "part")
    (tmp_path / "part").rename(tmp_path / "gone")
    assert sources(evidence_of(folder)) == {"a.c", "b.c"}


LABELS = """\
import subprocess
from setuptools import setup
said = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True).stdout.strip()
setup(name='demo', version='1.0' + ('+' + said if said else ''), packages=['demo'])
"""


READ = """\
from setuptools import setup
try: said = '+' + open('.git/HEAD').read()[-8:].strip()
except OSError: said = ''
setup(name='demo', version='1.0' + said.replace('/', ''), packages=['demo'])
"""


@pytest.mark.parametrize("script", [pytest.param(LABELS, id="asked"), pytest.param(READ, id="read")])
def test_a_repository_that_makes_a_label_is_hidden_from_builds(tmp_path: Path, script: str) -> None:
    config = CONFIG.replace('version: "1.0"\n', "")
    folder = tagged(tmp_path / "a", {"setup.py": script, "fatwheel.yml": config})
    project = evidence_of(folder).project
    assert (project.version, project.hides_git) == ("1.0", True)
    assert "each wheel gets its own, so builds see no repository" in project.told
    (folder / "fatwheel.yml").unlink()
    starter.write(folder, catalog.load(), world_with_tools(tmp_path))
    assert "git: false" not in (folder / "fatwheel.yml").read_text()
    assert evidence_of(folder).project == project


def test_a_variable_that_stands_in_for_git_s_label_is_named(tmp_path: Path) -> None:
    script = LABELS.replace("('+' + said if said else '')", "__import__('os').environ.get('SUFFIX', '+' + said)")
    folder = tagged(tmp_path / "a", {"setup.py": script, "fatwheel.yml": CONFIG.replace('version: "1.0"\n', "")})
    with pytest.raises(InputError, match=r"setup\.py:4: SUFFIX, which is not set, makes the version 1\.0\+\w+"):
        evidence_of(folder)


SCM = """\
[build-system]
requires = ["setuptools>=77", "setuptools_scm>=8"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1.0"
[tool.setuptools]
packages = ["demo"]
"""


def test_what_git_tracks_in_a_package_is_package_data_for_setuptools_scm(tmp_path: Path) -> None:
    files = {"pyproject.toml": SCM, "demo/table.json": "{}", "demo/lib.so": b"\x7fELF", ".gitignore": "*.json\n"}
    folder = write(tmp_path / "a", {**FILES, **files})
    assert evidence_of(folder).platforms[0].shown.extensions is Extensions.NONE
    committed(folder)
    assert "ships demo/lib.so" in str(evidence_of(folder))


def test_a_repository_that_borrows_its_objects_lends_none(tmp_path: Path) -> None:
    tagged(tmp_path / "a", {"setup.py": ASKS})
    git(tmp_path, "clone", "--quiet", "--shared", "a", "b")
    assert sources(evidence_of(tmp_path / "b")) == {"a.c", "b.c"}


def test_a_configure_step_gets_the_answers_of_the_checkout(tmp_path: Path) -> None:
    files = {"CMakeLists.txt": CMAKE, "pyproject.toml": BACKEND, "a.cpp": "#include <torch/torch.h>\n"}
    config = CONFIG.replace("platforms", 'torch: ["2.12"]\nplatforms')
    shown = evidence_of(tagged(tmp_path / "a", {**files, "fatwheel.yml": config})).platforms[0].shown
    assert [library.member for library in shown.built] == ["libtagged.so"]
