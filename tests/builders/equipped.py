"""Other Pythons of this machine, each with what the toolkit requires, installed and compiled once for all runs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
from pathlib import Path

from ci_tools.machine.process import output
from ci_tools.machine.storage import cache_folder, fill_once
from tests.servers.uploads import UV

REQUIREMENTS = Path(__file__).parents[2] / "pyproject.toml"
SAME = [f"{name}=={importlib.metadata.version(name)}" for name in ("packaging", "setuptools")]


def equip(python: Path) -> Path:
    """Return the program of an environment of a Python that has what the toolkit requires."""
    parts = (REQUIREMENTS.read_bytes(), f"{python.resolve()} {output([python, '-VV'])} {SAME}".encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def fill(folder: Path) -> None:
        install(python, folder, "--requirements", REQUIREMENTS)

    return fill_once(cache_folder(os.environ) / "pythons" / key, fill, print) / "bin" / "python"


def install(python: Path, folder: Path, *what: str | Path) -> Path:
    """Install something for a Python, with the same setuptools as here; return the program of its environment.

    It is compiled at once: what a Python writes later would be a change of the folder, which is then filled again.
    """
    host = folder / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--allow-existing", "--python", python, folder], check=True)
    command = [UV, "pip", "install", "--quiet", "--link-mode=copy", "--compile-bytecode", "--python", host]
    subprocess.run([*command, *SAME, *what], check=True)
    return host
