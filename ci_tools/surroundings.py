"""What a build sees of this machine's programs: all but the compilers of accelerators, which its job brings."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["search_path"]

# A build for CPUs that finds one of these compiles for a GPU, or fails where torch does not know that GPU.
HIDDEN = frozenset({"hipcc", "hipcc.pl", "hipconfig", "icpx", "nvcc"})


def search_path(path: str, shadows: Path) -> str:
    """Return a PATH without the compilers of accelerators: a folder that has one is shadowed by links to the rest."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join(str(_shadowed(folder, shadows / str(number))) for number, folder in enumerate(folders))


def _shadowed(folder: Path, shadow: Path) -> Path:
    if not any((folder / name).exists() for name in HIDDEN):
        return folder
    shadow.mkdir(parents=True, exist_ok=True)
    for program in folder.iterdir():
        if program.name not in HIDDEN:
            (shadow / program.name).symlink_to(program)
    return shadow
