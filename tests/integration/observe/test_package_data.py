"""Package data that a build only copies is in the wheel as the source has it, and takes no time."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import CellEvidence
from ci_tools.observe.setup_py import run
from tests.builders.setuptools_projects import only, setup
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # many real processes

DATA = {f"demo/data/{name}.bin": f"{name}" for name in range(6)}
LOOKS = "from setuptools.command.{module} import {module}\nclass B({module}):\n  def run(self):\n{body}"
PACKED = "package_data={'demo': ['data/*']}"
COUNTS = "    super().run()\n    open('demo/n', 'w').write(str(len(glob.glob('build/**/*.bin', recursive=True))))\n"
REMOVES = "    super().run()\n    os.remove(glob.glob('build/**/0.bin', recursive=True)[0])\n"


def shown(folder: Path, script: str) -> CellEvidence:
    """Return the evidence of a project with data."""
    files = {"fatwheel.yml": only("linux-cpu"), "demo/__init__.py": "", "setup.py": script, **DATA}
    return evidence_of(write(folder / "a", files)).platforms[0].shown


@pytest.mark.parametrize(("listed", "is_warned"), [("lib/a.so", True), ("lib/*.so", False), ("data/1.bin", False)])
def test_a_library_that_nobody_makes_is_said_to_be_missing(listed: str, *, is_warned: bool, tmp_path: Path) -> None:
    found = shown(tmp_path, setup(f"package_data={{'demo': ['{listed}']}}"))
    assert [f"package_data lists {listed}: the source does not have it" in one for one in found.warnings] == (
        [True] * is_warned
    )


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(setup(PACKED), id="nobody-looks"),
        pytest.param(setup(f"{PACKED}, cmdclass={{'build_py': B}}",
                     "import glob\n" + LOOKS.format(module="build_py", body=COUNTS)), id="a-command-counts-it"),
        pytest.param(setup(f"{PACKED}, cmdclass={{'build_py': B}}",
                     "import glob\n" + LOOKS.format(module="build_py", body=REMOVES)), id="a-command-removes-some"),
        pytest.param(setup(f"{PACKED}, cmdclass={{'install_lib': B}}",
                     "import glob\n" + LOOKS.format(module="install_lib", body=COUNTS + REMOVES.partition("\n")[2])),
                     id="when-it-is-installed"),
    ],
)  # fmt: skip
def test_data_that_is_left_where_it_is_makes_the_same_wheel(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = shown(tmp_path / "copied", script)
    monkeypatch.setattr(run, "MIN_DATA", 0)
    left = shown(tmp_path / "left", script)
    assert (left.contents, left.members, left.extensions) == (copied.contents, copied.members, copied.extensions)
    assert any("data/1.bin" in one for one in left.contents)
