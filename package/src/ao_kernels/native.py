"""Which body serves: probe the wheel and torch, decide, and load the wheel's CUDA library where it fits."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import torch

PACKAGE = Path(__file__).parent
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
    """What to do about the CUDA library."""

    LOAD = "load"
    LEAVE = "leave"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An action and its reason."""

    action: Action
    reason: str


def decide(build: CudaBuild | None, torch_version: str, torch_cuda: str | None) -> Decision:
    """Decide by the CUDA major version: a library runs with every torch built for the same one."""
    if build is None:
        return Decision(action=Action.LEAVE, reason="generic body: this wheel holds no CUDA kernels")
    if torch_cuda is None:
        return Decision(action=Action.LEAVE, reason=f"generic body: torch {torch_version} is built without CUDA")
    if torch_cuda.split(".")[0] == build.cuda.split(".")[0]:
        return Decision(
            action=Action.LOAD, reason=f"CUDA kernels for CUDA {build.cuda} ({build.architectures}), else generic body"
        )
    return Decision(
        action=Action.WARN,
        reason=f"generic body: these kernels are for CUDA {build.cuda}, torch {torch_version} for CUDA {torch_cuda}",
    )


DECISION = decide(CudaBuild.from_file(PACKAGE / "cuda_build.json"), str(torch.__version__), torch.version.cuda)


def load() -> None:
    """Load the CUDA library where it fits, and warn where a wheel for another CUDA is installed."""
    if DECISION.action is Action.LOAD:
        torch.ops.load_library(PACKAGE / "libao_kernels_cuda.so")
    elif DECISION.action is Action.WARN:
        warnings.warn(f"ao-kernels: {DECISION.reason}. To install the kernels for it: {REFRESH}", stacklevel=3)


def describe() -> str:
    """Say in one line which body serves, and why."""
    return DECISION.reason
