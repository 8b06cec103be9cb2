"""What a run leaves that was killed is gone after the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ci_tools.build import folders
from ci_tools.build.jobs import working_in
from ci_tools.machine import storage, workplace
from tests.builders.sources import world, write

HELD = """\
import sys, time
from ci_tools.machine.workplace import scratch
with scratch() as folder:
    (folder / "source").mkdir()
    print(folder, flush=True)
    time.sleep(60)
"""


def test_half_written_receipts_are_removed(tmp_path: Path) -> None:
    out = write(tmp_path / "dist", {"receipts/.demo.whl.json.x1.partial": "{", ".demo.whl.x2.partial": "", "a.whl": ""})
    with working_in(out, world(tmp_path)):  # what every verb does that writes there
        found = {path.name for path in out.rglob("*") if path.is_file()}
    assert found - {".fatwheel.lock", ".gitignore"} == {"a.whl"}


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


def test_the_folders_of_killed_builds_are_removed_and_others_stay(tmp_path: Path) -> None:
    locks = folders.own_locks(tmp_path)
    for name in ("fatwheel-demo-1.0-pure", "fatwheel-demo-1.1-pure", "other"):
        (tmp_path / name / "source").mkdir(parents=True)
    (locks / "fatwheel-demo-1.0-pure.lock").touch()
    with storage.hold_lock(locks / "fatwheel-demo-1.1-pure", lambda _: None):
        folders.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {locks.name, "fatwheel-demo-1.1-pure", "other"}
