"""What a run leaves that was killed is gone after the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ci_tools.machine import workplace

HELD = """\
import sys, time
from ci_tools.machine.workplace import scratch
with scratch() as folder:
    (folder / "source").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_the_temporary_folder_of_a_killed_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", HELD], env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        assert (folder / "source").is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with workplace.scratch():
        assert not folder.exists()
