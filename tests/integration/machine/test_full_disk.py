"""What is said where there is no room, by disks that are full."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FULL_DISK = """
import pathlib, sys
from ci_tools.errors import MachineError
from ci_tools.machine.storage import write_atomically

try:
    with write_atomically(pathlib.Path(sys.argv[1]) / "deep" / "file") as file:
        file.write(bytes(1 << 20))
except MachineError as error:
    print(error)
"""

FILL = """
import pathlib, shutil, subprocess, sys
from ci_tools.errors import MachineError
from ci_tools.machine.storage import fill_once
root, source = map(pathlib.Path, sys.argv[1:])
ways = {
    "written": lambda folder: (folder / "file").write_bytes(bytes(1 << 20)),
    "copied": lambda folder: shutil.copytree(source, folder, dirs_exist_ok=True),
}
for size in ("64k", "4m"):
    subprocess.run(["mount", "-o", f"remount,size={size}", root], check=True)
    for name, fill in ways.items():
        try:
            print(fill_once(root / name, fill, print).name, "is filled")
        except MachineError as error:
            print(error)
            print(sorted(path.name for path in root.iterdir()))
"""


def test_a_disk_that_is_full_in_the_middle_leaves_nothing_and_a_retry_goes_on(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(bytes(1 << 20))
    root = tmp_path / "cache"
    root.mkdir()
    lines = _run_on_small_disk(root, FILL, str(root), str(tmp_path / "source")).splitlines()
    hint = "  hint: make room there and run the same command again"
    full = "cannot be written: No space left on device"
    assert lines[:3] == [f"{root}/written {full}", hint, "['written.lock']"]
    assert lines[3:6] == [f"{root}/copied {full}", hint, "['copied.lock', 'written.lock']"]
    assert lines[6:] == ["written is filled", "copied is filled"]


def _run_on_small_disk(folder: Path, script: str, *arguments: str) -> str:
    """Return what a script prints that sees a disk of 64 kB in a folder; skip where none can be mounted."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=64k none {folder}"
    if not shutil.which("unshare") or subprocess.run([*unshare, mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    command = [*unshare, f'{mount} && exec "$@"', "sh", sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_disk_that_is_full_is_said_with_the_file_that_did_not_fit(tmp_path: Path) -> None:
    said = _run_on_small_disk(tmp_path, FULL_DISK, str(tmp_path))
    assert said.startswith(f"{tmp_path}/deep/file cannot be written: No space left on device\n  hint: make room")


def test_a_file_that_may_not_be_as_large_is_named(tmp_path: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))\n{FULL_DISK}"
    done = subprocess.run([sys.executable, "-c", limited, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/deep/file cannot be written: File too large\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
