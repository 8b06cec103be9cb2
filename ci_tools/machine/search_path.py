"""The PATH of a build: this machine's, without its CUDA, ROCm and SYCL compilers, which come from the job."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.model.platforms import AcceleratorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.model.platforms import Accelerator

# If a CPU build finds one of these, it compiles for a GPU, or fails because torch was built without that GPU.
HIDDEN = frozenset({"hipcc", "hipcc.pl", "hipconfig", "icpx", "nvcc"})
HIDDEN |= {f"{name}.{suffix}" for name in (*HIDDEN, "icx") for suffix in ("exe", "bat")}  # on Windows
# hipcc compiles for NVIDIA by default if nvcc is installed and there is no program named clang++, as on Debian.
SETTLED = {AcceleratorKind.ROCM: {"HIP_PLATFORM": "amd"}}


def search_path(path: str, shadows: Path) -> str:
    """Return a PATH without accelerator compilers: a folder that has one is replaced by links to its other programs.

    A folder that is on PATH under several names, as /bin and /usr/bin often are, is replaced once.
    """
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    places: dict[Path, Path] = {}
    for number, folder in enumerate(folders):
        if any((folder / name).exists() for name in HIDDEN) and folder.resolve() not in places:
            places[folder.resolve()] = _hide_compilers(folder, shadows / str(number))
    return os.pathsep.join(str(places.get(folder.resolve(), folder)) for folder in folders)


def compiler_variables(accelerator: Accelerator | None) -> Mapping[str, str]:
    """Return variables that fix the choices a compiler would otherwise make from the programs installed."""
    return SETTLED.get(accelerator.kind, {}) if accelerator else {}


def _hide_compilers(folder: Path, shadow: Path) -> Path:
    shadow.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as programs:
        for program in programs:
            if program.name.lower() not in HIDDEN:
                _stand_in(program, f"{shadow}{os.sep}{program.name}")
    return shadow


def _stand_in(program: os.DirEntry[str], place: str) -> None:
    """Make a link to a program; a copy where links are not allowed, as they are not to every user of Windows.

    There are a thousand in a folder, so these are names: to make a Path of one takes half as long as its link.
    """
    try:
        os.symlink(program.path, place)  # noqa: PTH211 - see above
    except OSError:
        if program.is_file():
            shutil.copy2(program.path, place)
