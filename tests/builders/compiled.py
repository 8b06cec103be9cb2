"""What gcc makes of small sources, compiled once for all processes and runs: each test takes its own copy of the bytes.

Some tables of tests hold libraries, so every process that only looks for its tests would start gcc twenty times.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ci_tools.machine.storage import write_atomically

KEPT = Path(__file__).parents[2] / ".pytest_cache" / "compiled"  # by what decides the bytes
OUT = "library.so"


@functools.cache
def compiled(source: str, flags: Sequence[str], beside: bytes = b"") -> bytes:
    """Return the shared library that gcc makes of a source on its input; another one lies beside it as `other.so`."""
    kept = KEPT / hashlib.sha256(json.dumps([_gcc(), source, flags, beside.hex()]).encode()).hexdigest()
    if kept.is_file():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        if beside:
            (Path(folder) / "other.so").write_bytes(beside)
        subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", OUT], input=source.encode(), check=True, cwd=folder)
        made = (Path(folder) / OUT).read_bytes()
    KEPT.mkdir(parents=True, exist_ok=True)
    with write_atomically(kept) as file:
        file.write(made)
    return made


@functools.cache
def _gcc() -> tuple[str, int, int]:
    """Return what changes when another gcc takes the place of this one."""
    path = Path(shutil.which("gcc") or "gcc").resolve()
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns
