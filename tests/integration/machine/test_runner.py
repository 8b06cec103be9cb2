from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.machine import runner
from tests.builders.sources import demo, plan_of

BACKEND = """\
import zipfile
INFO = "demo-1.0.dist-info"
def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(f"{folder}/demo-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{INFO}/RECORD", "")
    return "demo-1.0-py3-none-any.whl"
"""
OWN_BACKEND = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "demo"
version = "1.0"
"""
TELLING = """\
package: demo
python: ["{}.{}"]
platforms:
  linux-cpu: {{ enabled: true, owner: me, job-memory-gib: 1024 }}
build:
  before: ["sh -c 'echo MAX_JOBS is $MAX_JOBS; exit 1'"]
"""


@pytest.mark.slow
def test_a_build_is_told_how_many_compilers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TELLING.format(*sys.version_info[:2])
    folder = demo(tmp_path / "a", {"fatwheel.yml": text, "pyproject.toml": OWN_BACKEND, "backend.py": BACKEND})
    monkeypatch.setenv("FATWHEEL_CACHE", str(tmp_path / "cache"))
    job = plan_of(folder).jobs[0].name
    assert main(["build", str(folder / "fatwheel.yml"), "--job", job, "--out", str(tmp_path / "out")]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert f"{job}: warning: " in told
    assert "less than the 1024 GiB that one compiler takes (`job-memory-gib`): one runs at a time" in told
    assert "MAX_JOBS is 1" in told


@pytest.mark.slow
def test_with_rights_a_command_says_why_it_failed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's sudo may ask for a password")
    call = runner.make_root_call(tmp_path / "log")
    assert (call(["true"]), call(["false"])) == ("", "status 1")
    assert call(["sh", "-c", "echo no >&2; exit 3"]) == "no"
