"""The lock of a release: what `wheels.lock` in a smart sdist says of each wheel. It has no code of its own to read it.

The backend in the same sdist reads it, with Python 3.9 and nothing else; so it is JSON. docs/reference/lock.md.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.install.fatwheel_backend import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ci_tools.model.names import FileName, Sha256


class BuildSystem(NamedTuple):
    """A project's own build system, which compiles it if no wheel fits (PEP 518, PEP 517)."""

    requires: tuple[str, ...]
    build_backend: str
    backend_path: tuple[str, ...] = ()


class Compiling(NamedTuple):
    """The work to compile a wheel instead: its source files, and an estimate of the seconds on one core."""

    sources: int
    seconds: int


class LockedWheel(NamedTuple):
    """One wheel of a release, and the machines it is for."""

    file: FileName
    urls: tuple[str, ...]  # in the order in which they are tried
    sha256: Sha256
    size: int  # bytes
    cuda: str | None = None  # 13.0: the CUDA it was built with
    serves: tuple[str, ...] = ()  # the CUDA versions that the release offers it for
    rocm: str | None = None  # 7.1
    xpu: bool = False
    other: str = ""  # the label of an accelerator that a machine has only if its torch has that label
    archs: tuple[str, ...] = ()  # 9.0, 10.0+PTX
    driver_sass: str | None = None  # the oldest Linux driver that runs its machine code
    driver_ptx: str | None = None  # the oldest Linux driver that compiles its PTX
    torch: tuple[str, str | None] | None = None  # the lowest, and the first that is too new (None: none is)
    cxx11abi: bool | None = None  # the C++ ABI it needs of torch; None: any
    env: Mapping[str, str] = MappingProxyType({})  # the variables of its build, by the config
    compiling: Compiling | None = None  # None: not known


def write_lock(
    project: str, version: str, sdist: FileName, build_system: BuildSystem, wheels: Iterable[LockedWheel]
) -> str:
    """Return the text of a lock: the same wheels in any order give the same text, those for any machine last."""
    lock = {
        "format": FORMAT,
        "project": project,
        "version": version,
        "sdist": sdist,
        "build-system": {
            "requires": list(build_system.requires),
            "build-backend": build_system.build_backend,
            "backend-path": list(build_system.backend_path),
        },
        "wheels": [_table(wheel) for wheel in _order(wheels)],
    }
    return json.dumps(lock, indent=1, ensure_ascii=False) + "\n"


def _order(wheels: Iterable[LockedWheel]) -> Sequence[LockedWheel]:
    return sorted(wheels, key=lambda wheel: (wheel.file.endswith("-any.whl"), wheel.file))


def _table(wheel: LockedWheel) -> dict[str, object]:
    return {
        "file": wheel.file,
        "urls": list(wheel.urls),
        "sha256": wheel.sha256,
        "size": wheel.size,
        "cuda": wheel.cuda,
        "serves": list(wheel.serves),
        "rocm": wheel.rocm,
        "xpu": wheel.xpu,
        **({"other": wheel.other} if wheel.other else {}),
        "archs": list(wheel.archs),
        "driver": {"sass": wheel.driver_sass, "ptx": wheel.driver_ptx},
        "torch": list(wheel.torch) if wheel.torch else None,
        "cxx11abi": wheel.cxx11abi,
        "env": dict(sorted(wheel.env.items())),
        "compiling": wheel.compiling and wheel.compiling._asdict(),
    }
