"""A build is held against what its plan foretold: a script that behaves while it is watched gains nothing by it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.builders.sources import write
from tests.integration.conftest import CommandLine, own_python

CONFIG = f"""\
package: demo
python: [{own_python()}]
platforms:
  linux-cpu: {{owner: x, wheel-platform: linux}}
"""
WATCHED = "import sys\nwatched = any(name.startswith('ci_tools.observe.inside') for name in sys.modules)\n"
EXTENSION = "Extension('demo.fast', ['fast.c'])"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("builds_beside_tests")]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        pytest.param("package_data={'demo': [] if watched else ['more.txt']}", "demo/more.txt", id="one-more-member"),
        pytest.param("package_data={'demo': ['more.txt'] if watched else []}", "demo/more.txt", id="one-member-less"),
        pytest.param(f"ext_modules=[] if watched else [{EXTENSION}]", "expected demo-1.0-py3-none-any.whl",
                     id="a-library-all-of-a-sudden"),
        pytest.param(f"ext_modules=[{EXTENSION}] if watched else []", "compiled nothing: it made demo-1.0-py3-none-",
                     id="no-library-at-all"),
    ],
)  # fmt: skip
def test_a_wheel_that_its_plan_did_not_foretell_is_refused(
    fatwheel: CommandLine, tmp_path: Path, keywords: str, said: str
) -> None:
    setup = f"from setuptools import *\nsetup(name='demo', version='1.0', packages=['demo'], {keywords})\n"
    files = {
        "fatwheel.yml": CONFIG,
        "setup.py": WATCHED + setup,
        "demo/__init__.py": "",
        "demo/more.txt": "",
        "fast.c": "",
    }
    project = write(tmp_path / "demo", files)
    job = f"linux-cpu-cp{sys.version_info[0]}{sys.version_info[1]}" if keywords.startswith("ext_modules=[E") else "pure"
    ran = fatwheel("build", "--job", job, "--out", "dist", cwd=project)
    assert (ran.status, said in ran.stderr) == (1, True), ran.stderr
    assert list((project / "dist").glob("*.whl")) == []


@pytest.mark.slow
def test_a_wheel_that_its_backend_tags_for_python_2_is_foretold_so(fatwheel: CommandLine, project: Path) -> None:
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('requires-python = ">=3.10"\n', ""))
    ran = fatwheel("build", "--job", "pure", "--out", "dist", cwd=project)
    assert (ran.status, [path.name for path in (project / "dist").glob("*.whl")]) == (
        0, ["tiny-1.0-py2.py3-none-any.whl"],
    ), ran.stderr  # fmt: skip
