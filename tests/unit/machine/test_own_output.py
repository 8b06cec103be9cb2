"""The files that a run's own output goes to: by redirections, and by the programs that read it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.machine.own_output import FileIdentity

ROOT = Path(__file__).parents[3]
LOOK = """import ci_tools.machine.own_output as own
open({!r}, 'w').write(repr([tuple(one) for one in own.find_output_files()]))"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who reads a pipe")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{run} > log", id="stdout"),
        pytest.param("{run} 2> log", id="stderr"),
        pytest.param("{run} | tee log >/dev/null", id="tee", marks=on_linux),
        pytest.param("{run} 2>&1 >/dev/null | cat | tee log", id="behind-another-program", marks=on_linux),
        pytest.param("{run} | cat > log", id="redirected-behind-a-pipe", marks=on_linux),
        pytest.param("script -qc {quoted} log", id="a-terminal-that-logs", marks=on_linux),
    ],
)
def test_a_file_that_the_output_goes_to_is_found(line: str, tmp_path: Path) -> None:
    if line.startswith("script") and not shutil.which("script"):
        pytest.skip("needs script (Debian: bsdutils)")
    (tmp_path / "other").write_text("")
    run = shlex.join([sys.executable, "-c", LOOK.format(str(tmp_path / "found"))])
    command = ["sh", "-c", line.format(run=run, quoted=shlex.quote(run))]
    subprocess.run(command, check=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True)
    found = (tmp_path / "found").read_text()
    names = {name: (tmp_path / name).stat() for name in ("log", "other")}
    known = {name: str(tuple(FileIdentity(state.st_dev, state.st_ino))) in found for name, state in names.items()}
    assert known == {"log": True, "other": False}, found
