"""Which body serves which device: probe the wheel and torch, decide, and load the wheel's libraries that fit."""

from __future__ import annotations

import ctypes
import json
import warnings
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

import torch

from ao_kernels._guard import explain_errors, find_remedy
from ao_kernels.formats import FORMATS

PACKAGE = Path(__file__).parent
CPU_LIBRARY = PACKAGE / "libao_kernels_cpu.so"
CUDA_LIBRARY = PACKAGE / "libao_kernels_cuda.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaBuild:
    """The CUDA library of a wheel, as its build described it."""

    cuda: str
    """The toolkit's version, such as `13.0`."""
    architectures: str
    """What the library was compiled for, as in `TORCH_CUDA_ARCH_LIST`."""

    @property
    def kernels(self) -> str:
        """What the library holds, in words."""
        return f"CUDA kernels for CUDA {self.cuda} ({self.architectures})"

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
        return Decision(action=Action.LOAD, reason=build.kernels)
    reason = f"these kernels are for CUDA {build.cuda}, torch {torch_version} for CUDA {torch_cuda}"
    return Decision(action=Action.WARN, reason=reason)


def decide_cpu(*, is_in_wheel: bool) -> Decision:
    """Decide by the wheel alone: its tag says the processor, and the library itself finds what that one can do."""
    if is_in_wheel:
        return Decision(action=Action.LOAD, reason="CPU kernels")
    return Decision(action=Action.LEAVE, reason="this wheel holds no CPU kernels")


BUILD = CudaBuild.from_file(PACKAGE / "cuda_build.json")
CUDA = decide_cuda(BUILD, str(torch.__version__), torch.version.cuda)
CPU = decide_cpu(is_in_wheel=CPU_LIBRARY.exists())


def load() -> None:
    """Load the libraries that fit, in any order, and warn where a wheel for another CUDA is installed."""
    for decision, library in ((CUDA, CUDA_LIBRARY), (CPU, CPU_LIBRARY)):
        if decision.action is Action.LOAD:
            with explain_errors("ao-kernels"):
                torch.ops.load_library(library)
        elif decision.action is Action.WARN:
            warnings.warn(f"ao-kernels: {decision.reason}. {find_remedy('ao-kernels')}", stacklevel=3)


def describe(
    device: torch.device | str | None = None, shape: tuple[int, int, int] | None = None, group_size: int = 128
) -> str:
    """Say in one line which bodies serve, and why it is the generic one where no other does.

    The library of a device's kernels decides which calls it serves, and is asked here. A pure wheel has none: torch's
    dispatcher then says whether anybody has registered a kernel.

    Args:
        device: the device to speak of, such as `cuda:0`, whoever registered a kernel for it; by default, the line says
            what this wheel has for any.
        shape: M, N and K of a product with int4 weights, of which to say what multiplies there.
        group_size: that of the weights.

    """
    if device is None:
        return tell(CUDA, CPU, cpu_body() if CPU.action is Action.LOAD else "")
    chosen = torch.device(device)
    served = [form.operator for form in FORMATS if has_kernel(form.operator, chosen.type)]
    told = tell_of_device(decide_for_device(chosen, is_served=bool(served)), served)
    way = None if shape is None else ask_for_way(chosen, shape, group_size)
    return told if way is None else f"{told}; {' x '.join(map(str, shape or ()))}: {way}"


def ask_for_way(device: torch.device, shape: tuple[int, int, int], group_size: int) -> str | None:
    """Ask a device's library what multiplies a product [M, N, K] of int4 weights; None where it does not."""
    numbers = (*shape, group_size)
    if device.type == "cuda" and CUDA.action is Action.LOAD and torch.cuda.is_available():
        index = torch.cuda.current_device() if device.index is None else device.index
        return ask(CUDA_LIBRARY, "ao_kernels_cuda_serves", ctypes.c_int32(index), *map(ctypes.c_int64, numbers))
    if device.type == "cpu" and CPU.action is Action.LOAD:
        return ask(CPU_LIBRARY, "ao_kernels_cpu_serves", *map(ctypes.c_int64, numbers))
    return None


def ask(library: Path, function: str, *arguments: object) -> str | None:
    """Call a function of a loaded library that answers with text, or with none."""
    asked = getattr(ctypes.CDLL(str(library)), function)
    asked.restype = ctypes.c_char_p
    answer: bytes | None = asked(*arguments)
    return None if answer is None else answer.decode("ascii")


def has_kernel(operator: str, device_type: str) -> bool:
    """Ask torch's dispatcher whether an operator has a kernel for a type of device alone."""
    key = torch._C._dispatch_key_for_device(device_type)  # noqa: SLF001 - as torch.library asks
    found: bool = torch._C._dispatch_has_kernel_for_dispatch_key(f"ao::{operator}", key)  # noqa: SLF001 - see above
    return found


def decide_for_device(device: torch.device, *, is_served: bool) -> Decision:
    """Decide what is to be said of a device: LOAD where kernels serve it, ours or another's."""
    if device.type == "cuda" and CUDA.action is Action.LOAD and BUILD and torch.cuda.is_available():
        serves = ask_for_way(device, (1, 1, 1), 1) is not None
        return decide_gpu(BUILD, torch.cuda.get_device_capability(device), serves=serves)
    if device.type == "cpu" and CPU.action is Action.LOAD:
        return Decision(action=Action.LOAD, reason=f"{CPU.reason} ({cpu_body()})")
    if is_served:
        return Decision(action=Action.LOAD, reason=f"kernels registered for {device.type} devices")
    nobody = Decision(action=Action.LEAVE, reason=f"no kernel is registered for {device.type} devices")
    return {"cuda": CUDA, "cpu": CPU}.get(device.type, nobody)


@cache
def warn_without_code(device: torch.device) -> None:
    """Warn, once for each device, that the generic body serves a GPU for which the loaded kernels have no code."""
    decision = decide_for_device(device, is_served=True)
    if decision.action is Action.LEAVE:
        warnings.warn(f"ao-kernels: {tell_of_device(decision, [])}", stacklevel=3)


def decide_gpu(build: CudaBuild, capability: tuple[int, int], *, serves: bool) -> Decision:
    """Put into words what the library says of a GPU: calls on one without code are handed on to the generic body."""
    if serves:
        return Decision(action=Action.LOAD, reason=build.kernels)
    version = ".".join(map(str, capability))
    return Decision(action=Action.LEAVE, reason=f"{build.kernels} have no code for compute capability {version}")


def tell_of_device(decision: Decision, served: list[str]) -> str:
    """Put what was decided for a device into words; `served` are the operators that have kernels for it."""
    if decision.action is Action.LOAD:
        rest = "" if len(served) == len(FORMATS) else ", the generic body all else"
        return f"{decision.reason} serve {', '.join(served)}{rest}"
    return f"generic body: {decision.reason}"


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
    return ask(CPU_LIBRARY, "ao_kernels_cpu_body") or ""
