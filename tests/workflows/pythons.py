"""The Pythons of this machine, for jobs to find."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path


@functools.cache
def pythons() -> list[tuple[str, str]]:
    """Return the Pythons of this machine with their versions, the newest first."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    folders += sorted([*pyenv.glob("*/bin"), *uv.glob("*/bin")])
    names = {path.resolve() for folder in folders for path in folder.glob("python3*") if "shims" not in path.parts}
    found = {_version(path): str(path) for path in sorted(names) if re.fullmatch(r"python3(\.\d+)?", path.name)}
    return sorted(((v, p) for v, p in found.items() if v), key=lambda it: [*map(int, it[0].split("."))], reverse=True)


def _version(path: Path) -> str:
    """Return a Python's version; empty for one that is too old for `venv` and pip, or does not start."""
    found = "sys.version_info >= (3, 8) and importlib.machinery.PathFinder.find_spec('venv')"
    asked = f"import sys, importlib.machinery; print('.'.join(map(str, sys.version_info[:3])) if {found} else '')"
    done = subprocess.run([str(path), "-I", "-S", "-c", asked], capture_output=True, text=True, check=False)
    return done.stdout.strip()
