"""The level of wheels that a new Linux compiles: a folder's release takes what they need, one for others ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.build.toolchain import libc, libc_doubt
from ci_tools.formats import receipts
from tests.builders import own_backend
from tests.builders.sources import write
from tests.integration.conftest import CommandLine, own_python

USUAL = "manylinux_2_28"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("builds_beside_tests"),
    pytest.mark.skipif(not libc_doubt(f"{USUAL}_x86_64", libc()), reason="this machine's glibc is not newer"),
]
CODE = f"""\
#include <vector>
{own_backend.CODE}
std::vector<int> grown(int by) {{ std::vector<int> all; for (int i = 0; i < by; i++) all.push_back(i); return all; }}
"""
CONFIG = (
    f"package: tiny\nowner: us\npython: [{own_python()}]\nplatforms:\n  linux-cpu:\nvalidate: {{imports: [tiny]}}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {**own_backend.FILES, "fast.cpp": CODE, "fatwheel.yml": CONFIG, "tiny/__init__.py": ""}
    return write(tmp_path / "tiny", files)


def needed(wheel: Path) -> str:
    """Return the level that auditwheel's own command finds for a wheel."""
    shown = subprocess.check_output([sys.executable, "-m", "auditwheel", "show", wheel], text=True)
    return re.findall(r'"(manylinux_\d+_\d+)_', shown)[-1]


def test_a_release_into_a_folder_takes_the_level_that_its_wheel_needs(fatwheel: CommandLine, project: Path) -> None:
    foretold = f"linux-cpu: planned as {USUAL}; if the wheel needs more, `release --here` takes the oldest"
    assert foretold in fatwheel("plan", cwd=project).stderr
    ran = fatwheel("release", "--to", "dir:dist/index", "--here", cwd=project)
    assert ran.status == 0, ran.stderr
    assert ran.stderr.index(foretold) < ran.stderr.index("build ")
    (wheel,) = (project / "dist").glob("*.whl")
    assert f"linux-cpu: its wheels are tagged {(level := needed(wheel))}, not {USUAL}: " in ran.stderr
    assert f"-{level}_" in wheel.name
    assert not [*(project / "dist/logs").glob("*.whl")]
    receipt = receipts.load(wheel)
    own = re.search(r"the project's own build ([\d.]+) s", ran.stderr)
    assert receipt
    assert own
    assert receipt.seconds >= float(own[1])  # its compiling counts, though the level came later
    assert "2 of 2 files built" in ran.stdout  # the sdist too, though it was kept when the level came
    again = fatwheel("release", "--to", "dir:dist/index", "--here", cwd=project)
    assert (again.status, f"keep {wheel.name}: " in again.stderr) == (0, True), again.stderr


def test_a_level_that_the_config_names_stays(fatwheel: CommandLine, project: Path) -> None:
    write(project, {"fatwheel.yml": CONFIG.replace("linux-cpu:", "linux-cpu: {wheel-platform: manylinux_2_27}")})
    ran = fatwheel("release", "--to", "dir:dist/index", "--here", cwd=project)
    assert (ran.status, "the wheel does not keep to manylinux_2_27_x86_64, but to" in ran.stderr) == (1, True)
    assert "planned as" not in ran.stderr


def test_without_here_a_release_ends_before_anything_is_compiled(fatwheel: CommandLine, tmp_path: Path) -> None:
    setup = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('tiny.fast', ['fast.cpp'])])\n"
    pyproject = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "tiny"\nversion = "1.0"\n'
    files = {"fast.cpp": CODE, "fatwheel.yml": CONFIG, "tiny/__init__.py": "", "setup.py": setup}
    write(tmp_path, {**files, "pyproject.toml": pyproject})
    ran = fatwheel("release", "--to", "dir:dist/index", cwd=tmp_path)
    assert (ran.status, "fast.cpp:1: includes vector, and what this machine compiles of it" in ran.stderr) == (3, True)
    assert not [*(tmp_path / "dist").glob("*")]
