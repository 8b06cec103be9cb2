"""Lays out a CUDA toolkit for Windows from the package index, and makes what its wheels lack.

The wheels of the compiler, the runtime and CCCL lie side by side as nvcc.exe looks for them (bin/nvcc.profile). Most
libraries' wheels have headers and DLLs, and no import library, without which nothing links with them on Windows: one is
made of the functions that the headers declare, by Microsoft's own lib.exe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ci_tools.errors import MachineError
from ci_tools.machine.process import complaint, run

WINDOWS = "windows-amd64"
WHEEL_TAG = "win_amd64"
# What nvcc.exe runs, reads and links with; all of it is in the wheels of cuda-toolkit 13.0.3.0 to 13.4.3.
LAYOUT = (
    "bin/nvcc.exe",
    "bin/nvcc.profile",
    "bin/cudafe++.exe",
    "bin/ptxas.exe",
    "bin/fatbinary.exe",
    "bin/crt/link.stub",
    "include/cuda_runtime.h",
    "include/crt/host_config.h",
    "lib/x64/cudart.lib",
    "lib/x64/cudart_static.lib",
    "lib/x64/cudadevrt.lib",
    "nvvm/bin/cicc.exe",
    "nvvm/libdevice/libdevice.10.bc",
)
INSTALLED = "NVIDIA GPU Computing Toolkit/CUDA"
DLL = re.compile(r"bin/(?:x86_64/|x64/)?((\w+?)64_[\d_.]+\.dll)")


def refuse_incomplete(home: Path, toolkit: str) -> None:
    """Raise MachineError if a fetched toolkit lacks a file that nvcc.exe works with."""
    if lacking := [name for name in LAYOUT if not (home / name).is_file()]:
        msg = f"the wheels of cuda-toolkit {toolkit} for Windows have no {', '.join(lacking)}"
        raise MachineError(msg, hint="`toolchain: system` takes an installed toolkit")


def list_homes(version: str, program_files: str) -> tuple[str, ...]:
    """Return where NVIDIA's installer puts a toolkit."""
    return (f"{program_files}/{INSTALLED}/v{version}",) if program_files else ()


def import_names(members: Iterable[str]) -> dict[str, str]:
    """Return the DLLs among the members of a library's wheel, each with the name that linkers know it by.

    `bin/x86_64/cublasLt64_13.dll` is linked with as cublasLt.lib. One whose import library is a member is left out.
    """
    members = tuple(members)
    own = {name.rpartition("/")[2].removesuffix(".lib").lower() for name in members if name.endswith(".lib")}
    found = (match for name in members if (match := DLL.fullmatch(name)))
    return {match[1]: match[2] for match in found if match[2].lower() not in own}


def write_import_library(library: Path, dll: str, symbols: Iterable[str], lib: Path, log: Path) -> None:
    """Write an import library for a DLL by lib.exe; raise MachineError if that fails."""
    library.parent.mkdir(parents=True, exist_ok=True)
    definition = library.with_suffix(".def")
    lines = [f"LIBRARY {dll}", "EXPORTS", *(f"    {symbol}" for symbol in sorted(symbols))]
    definition.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ended = run([lib, "/nologo", "/machine:x64", f"/def:{definition}", f"/out:{library}"], log=log)
    definition.unlink()
    library.with_suffix(".exp").unlink(missing_ok=True)  # for who makes the DLL
    if ended.status:
        raise MachineError(f"the import library of {dll} cannot be made: {complaint(ended)}", hint=f"log: {log}")
