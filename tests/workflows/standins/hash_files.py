"""Stands for act's hashFiles: one hash of the files that patterns name, empty where they name none."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path


def main() -> None:
    workspace = Path(os.environ.get("GITHUB_WORKSPACE", "."))
    patterns = os.environ["patterns"].splitlines()  # noqa: SIM112 - act names it so
    found = {path for pattern in patterns for path in workspace.glob(pattern.strip()) if path.is_file()}
    hashes = [hashlib.sha256(path.read_bytes()).digest() for path in sorted(found)]
    print(f"__OUTPUT__{hashlib.sha256(b''.join(hashes)).hexdigest() if hashes else ''}__OUTPUT__", file=sys.stderr)


main()
