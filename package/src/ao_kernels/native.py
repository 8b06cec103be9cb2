"""Which body serves which device: probe the wheel and torch, decide, and load the wheel's libraries that fit."""

from __future__ import annotations

import ctypes
import json
import warnings
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import torch

PACKAGE = Path(__file__).parent
CPU_LIBRARY = PACKAGE / "libao_kernels_cpu.so"
CUDA_LIBRARY = PACKAGE / "libao_kernels_cuda.so"
REFRESH = "pip install --force-reinstall --no-deps --no-cache-dir ao-kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaBuild:
    """The CUDA library of a wheel, as its build described it."""

    cuda: str
    """The toolkit's version, such as `13.0`."""
    architectures: str
    """What the library was compiled for, as in `TORCH_CUDA_ARCH_LIST`."""

    @classmethod
    def from_file(cls, path: Path) -> CudaBuild | None:
        """Read what the build wrote; None in a wheel without a CUDA library."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


class Action(Enum):
    """What to do about a library."""

    LOAD = "load"
    LEAVE = "leave"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An action and its reason."""

    action: Action
    reason: str


def decide_cuda(build: CudaBuild | None, torch_version: str, torch_cuda: str | None) -> Decision:
    """Decide by the CUDA major version: a library runs with every torch built for the same one."""
    if build is None:
        return Decision(action=Action.LEAVE, reason="this wheel holds no CUDA kernels")
    if torch_cuda is None:
        return Decision(action=Action.LEAVE, reason=f"torch {torch_version} is built without CUDA")
    if torch_cuda.split(".")[0] == build.cuda.split(".")[0]:
        return Decision(action=Action.LOAD, reason=f"CUDA kernels for CUDA {build.cuda} ({build.architectures})")
    reason = f"these kernels are for CUDA {build.cuda}, torch {torch_version} for CUDA {torch_cuda}"
    return Decision(action=Action.WARN, reason=reason)


def decide_cpu(*, is_in_wheel: bool) -> Decision:
    """Decide by the wheel alone: its tag says the processor, and the library itself finds what that one can do."""
    if is_in_wheel:
        return Decision(action=Action.LOAD, reason="CPU kernels")
    return Decision(action=Action.LEAVE, reason="this wheel holds no CPU kernels")


CUDA = decide_cuda(CudaBuild.from_file(PACKAGE / "cuda_build.json"), str(torch.__version__), torch.version.cuda)
CPU = decide_cpu(is_in_wheel=CPU_LIBRARY.exists())


def load() -> None:
    """Load the libraries that fit, in any order, and warn where a wheel for another CUDA is installed."""
    for decision, library in ((CUDA, CUDA_LIBRARY), (CPU, CPU_LIBRARY)):
        if decision.action is Action.LOAD:
            torch.ops.load_library(library)
        elif decision.action is Action.WARN:
            warnings.warn(f"ao-kernels: {decision.reason}. To install the kernels for it: {REFRESH}", stacklevel=3)


def describe() -> str:
    """Say in one line which bodies serve, and why it is the generic one where no other does."""
    return tell(CUDA, CPU, cpu_body() if CPU.action is Action.LOAD else "")


def tell(cuda: Decision, cpu: Decision, body: str) -> str:
    """Put two decisions into words; `body` is the set of instructions that the CPU kernels use."""
    generic = f"generic body: {cuda.reason}"
    if cpu.action is not Action.LOAD:
        return f"{cuda.reason}, else generic body" if cuda.action is Action.LOAD else generic
    if cuda.action is Action.LOAD:
        return f"{cuda.reason}, {cpu.reason} ({body}), else generic body"
    return f"{cpu.reason} ({body}), else {generic}"


def cpu_body() -> str:
    """Ask the loaded library which instructions it found, such as `AVX-512 BF16`."""
    name = ctypes.CDLL(str(CPU_LIBRARY)).ao_kernels_cpu_body
    name.restype = ctypes.c_char_p
    found: bytes = name()
    return found.decode("ascii")
