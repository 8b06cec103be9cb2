"""Scripts of a folder, as a program that `tests.servers.prepared` forks: each finds what it imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

USED_LATER = ("argparse", "fnmatch", "glob", "hashlib", "pathlib", "re", "shutil", "subprocess", "tarfile")
FOLDER = Path(__file__).parents[1] / "workflows" / "standins"
CODES: dict[str, Any] = {}


def load() -> None:
    """Import what the scripts import, and compile them."""
    for name in USED_LATER:
        importlib.import_module(name)
    for path in FOLDER.glob("*.py"):
        CODES[path.name] = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    sys.path.insert(0, str(FOLDER))


def run(arguments: Sequence[str]) -> int:
    """Run a script, which ends by itself, with its arguments."""
    script, *rest = arguments
    sys.argv = [script, *rest]
    exec(CODES[script], {"__name__": "__main__", "__file__": str(FOLDER / script)})  # noqa: S102 - a script of ours
    return 0
