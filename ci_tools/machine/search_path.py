"""What a build sees of this machine's programs: all but the compilers of accelerators, which its job brings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.model.platforms import AcceleratorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.model.platforms import Accelerator

__all__ = ["compiler_variables", "search_path"]

# A build for CPUs that finds one of these compiles for a GPU, or fails where torch does not know that GPU.
HIDDEN = frozenset({"hipcc", "hipcc.pl", "hipconfig", "icpx", "nvcc"})
# hipcc compiles for NVIDIA by itself where nvcc is installed and no clang++ under that very name, as on Debian.
SETTLED = {AcceleratorKind.ROCM: {"HIP_PLATFORM": "amd"}}


def search_path(path: str, shadows: Path) -> str:
    """Return a PATH without the compilers of accelerators: a folder that has one is shadowed by links to the rest."""
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    return os.pathsep.join(str(_hide_compilers(folder, shadows / str(number))) for number, folder in enumerate(folders))


def compiler_variables(accelerator: Accelerator | None) -> Mapping[str, str]:
    """Return the variables that settle what a compiler would otherwise decide by what else is installed."""
    return SETTLED.get(accelerator.kind, {}) if accelerator else {}


def _hide_compilers(folder: Path, shadow: Path) -> Path:
    if not any((folder / name).exists() for name in HIDDEN):
        return folder
    shadow.mkdir(parents=True, exist_ok=True)
    for program in folder.iterdir():
        if program.name not in HIDDEN:
            (shadow / program.name).symlink_to(program)
    return shadow
