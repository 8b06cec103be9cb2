"""The PATH of a build: this machine's, without its CUDA, ROCm and SYCL compilers, which come from the job."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


def search_path(path: str, shadows: Path, hidden: AbstractSet[str]) -> str:
    """Return a PATH without the programs of some names: a folder that has one is replaced by links to its others.

    A folder that is on PATH under several names, as /bin and /usr/bin often are, is replaced once.
    """
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    places: dict[Path, Path] = {}
    for number, folder in enumerate(folders):
        if any((folder / name).exists() for name in hidden) and folder.resolve() not in places:
            places[folder.resolve()] = _hide(folder, shadows / str(number), hidden)
    return os.pathsep.join(str(places.get(folder.resolve(), folder)) for folder in folders)


def _hide(folder: Path, shadow: Path, hidden: AbstractSet[str]) -> Path:
    shadow.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as programs:
        for program in programs:
            if program.name.lower() not in hidden:
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
