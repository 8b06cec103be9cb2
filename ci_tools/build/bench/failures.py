"""Explains a failed build: the last lines of its log, and a hint for the errors that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import Rejected
from ci_tools.machine.process import tail

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["build_error"]

HINTS = {
    "cannot repair": "it needs a newer system than its tag says: build on an older one, or raise `wheel-platform`",
    "No space left on device": "the disk is full: free some and run the same command again",
    "Temporary failure in name resolution": "the network is down: run the same command again once it is back",
    "Killed": "the machine ran out of memory: lower `build: {max-jobs: …}`",
    "CUDA_HOME environment variable is not set": "torch.utils.cpp_extension finds no CUDA by a torch without it: let "
    "pip find one for the job's CUDA (PIP_EXTRA_INDEX_URL)",
    "mismatches the version that was used to compile": "torch.utils.cpp_extension wants the CUDA of its torch: let pip "
    "find one for the job's CUDA (PIP_EXTRA_INDEX_URL)",
    "conflicts with a previous declaration": "if it is the standard library's, the source is older than torch's C++: "
    "pass -std=c++17 in the project's own flags (torch up to 2.13), or mend it by `source: patches`",
    "No module named 'torch'": "the build imports torch: name it in `build-system.requires`",
    "No such file or directory: 'cmake'": "add cmake to `build-system.requires`",
    "invalid target ID": "the compiler does not know one of the archs: compare `archs` with its release",
    "skipping incompatible": "the build links with a library of another machine: build the wheel on its own",
    "Unsupported gpu architecture": "the compiler does not know one of the archs: compare `archs` with its release",
}


def build_error(log: Path, what: str) -> Rejected:
    """Return the error of a failed build: the log's last lines, its path, and a hint for known errors."""
    last = tail(log)
    hint = next((hint for sign, hint in HINTS.items() if sign in last), "")
    return Rejected(f"{what}; the last lines of {log}:\n{last}", hint=hint)
