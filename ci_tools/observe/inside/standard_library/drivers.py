"""Shows what a GPU's driver adds to a machine, its files and libraries, where a build imagines a GPU.

Its devices and programs are files in a folder of the stage, and a look at their usual place is one at that folder.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

from ci_tools.observe.inside.facts import FACTS, answer

PLACES = re.compile(
    r"/dev(?:/(?:nvidia|kfd|dri|dxg).*)?|/proc/driver(?:/nvidia.*)?|/sys/(?:class/kfd|module/(?:amdgpu|nvidia|i915|xe)).*"
    r"|/usr/(?:local/)?bin/(?:nvidia|rocm|amd|xpu)-smi|/usr/lib/.*/lib(?:cuda|nvidia-ml)\.so[.\d]*"
)
LIBRARIES = {
    "cuda": ("cuda", "nvcuda", "nvidia-ml"),
    "rocm": ("hsa-runtime64", "rocm_smi64", "amd_smi"),
    "xpu": ("ze_loader", "ze_intel_gpu"),
}
LIBRARY = re.compile(
    rf"(?:lib)?({'|'.join(name for names in LIBRARIES.values() for name in names)})(?:\.(?:so|dll|dylib)[.\d]*)?"
)


def locate(path: Any) -> Any:
    """Return where the stage has a file that a GPU's driver adds to a machine, and any other path as it is."""
    try:
        name = os.path.abspath(os.fsdecode(path))
    except TypeError:  # an open file
        return path
    if name == os.devnull or not PLACES.fullmatch(name):
        return path
    FACTS.ask("gpu")
    return f"{FACTS.known['gpu_folder']}{name}"


def watch() -> None:
    """Let the project open the files of a GPU's driver."""
    real = open
    builtins.open = io.open = answer(real, lambda file, *args, **kwargs: real(locate(file), *args, **kwargs))
    if accessor := getattr(pathlib, "_NormalAccessor", None):  # of Python 3.10, which keeps the original
        accessor.open = staticmethod(io.open)


def has_library(name: str) -> bool | None:
    """Whether the machine has a library, by its name; None if a GPU's driver has no such library."""
    found = LIBRARY.fullmatch(os.path.basename(name))
    if not found:
        return None
    return bool(FACTS.ask("gpu")) and found[1] in LIBRARIES[FACTS.known["accelerator"]["kind"]]


class _Driver:
    """A library of a GPU's driver: it starts, and counts one GPU."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            if "GetCount" in name and args:
                args[0]._obj.value = 1  # noqa: SLF001 - what `ctypes.byref` was given
            elif "Init" not in name and "init" not in name:
                FACTS.doubt(f"calls {name} of a GPU's driver, whose answer no cell defines")
            return 0

        return call


def open_library(real: Any) -> Any:
    """Return `ctypes.CDLL` for a build: it finds the libraries of a GPU's driver where there is a GPU."""

    class DriverLibrary(real):  # type: ignore[misc]
        def __new__(cls, name: Any = None, *_: Any, **__: Any) -> Any:
            known = has_library(os.fsdecode(name)) if name else None
            if known is False:
                raise OSError(f"{name}: cannot open shared object file: No such file or directory")
            return _Driver() if known else real(name)

    return DriverLibrary


def find_library(real: Any) -> Any:
    """Return `ctypes.util.find_library` for a build."""

    @functools.wraps(real)
    def found(name: str) -> str | None:
        known = has_library(name)
        return real(name) if known is None else f"lib{name}.so.1" if known else None

    return found
