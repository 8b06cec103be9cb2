"""A disk that is full while a source is fetched is said, and the same command goes on once there is room."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.builders.sources import write
from tests.servers.package_index import index_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")]

CONFIG = """\
package: demo
source: {{sdist: {{name: demo, version: "1.0", sha256: {digest}}}}}
python: ["3.12"]
platforms: {{linux-cpu: {{native: ["*.cpp"]}}}}
"""
PYPROJECT = """\
[build-system]
requires = ["flit_core"]
build-backend = "flit_core.buildapi"
[project]
name = "demo"
version = "1.0"
"""
# The cache is a disk of its own: 300 kB at first, which takes the archive but not what is in it, then 3 MB.
TWICE = """\
set -e
mount -t tmpfs -o size=300k none "$FATWHEEL_CACHE"
"$@" plan || echo "status $?" >&2
ls -A "$FATWHEEL_CACHE/sources" >&2
mount -o remount,size=3m "$FATWHEEL_CACHE"
"$@" plan
"""


def pack() -> bytes:
    """Return an sdist that is small as an archive, and has a file of a megabyte."""
    made = io.BytesIO()
    files = {"pyproject.toml": PYPROJECT.encode(), "demo.py": b'"""Demo."""\n', "data.bin": bytes(1 << 20)}
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"demo-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_a_full_disk_is_said_and_the_same_command_goes_on(tmp_path: Path) -> None:
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    probe = [*unshare, f"mount -t tmpfs none {tmp_path}"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    sdist, cache = pack(), tmp_path / "cache"
    cache.mkdir()
    write(tmp_path, {"fatwheel.yml": CONFIG.format(digest=hashlib.sha256(sdist).hexdigest())})
    with index_of("demo", {"demo-1.0.tar.gz": sdist}, hashes=True) as index:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PIP_INDEX_URL": index.url,
                   "FATWHEEL_CACHE": str(cache)}  # fmt: skip
        command = [*unshare, TWICE, "sh", sys.executable, "-m", "ci_tools"]
        ran = subprocess.run(command, cwd=tmp_path, env={**environ, "PYTHONPATH": ":".join(sys.path)},
                             capture_output=True, text=True, check=False)  # fmt: skip
    place = cache / "sources" / f"sdist-{hashlib.sha256(sdist).hexdigest()}"
    assert f"fatwheel: {place} cannot be written: No space left on device" in ran.stderr
    assert f"status 3\n{place.name}.lock\n" in ran.stderr  # nothing is left but the lock
    assert (ran.returncode, "1 wheel to build" in ran.stdout) == (0, True), ran.stderr
