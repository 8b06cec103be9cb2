"""Platforms and accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.names import Name
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Sequence


class Platform(Name):
    """The platforms that a request can name."""

    LINUX_CUDA = "linux-cuda"
    LINUX_CUDA_AARCH64 = "linux-cuda-aarch64"
    LINUX_ROCM = "linux-rocm"
    LINUX_XPU = "linux-xpu"
    LINUX_CPU = "linux-cpu"
    LINUX_AARCH64 = "linux-aarch64"
    MACOS_ARM64 = "macos-arm64"
    WINDOWS = "windows"
    WINDOWS_CUDA = "windows-cuda"


class AcceleratorKind(Name):
    """The vendor's software stack that a wheel is compiled for."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"


class Accelerator(NamedTuple):
    """An accelerator's software stack and its version, where the stack has one."""

    kind: AcceleratorKind
    version: Minor | None = None

    @property
    def label(self) -> str:
        """The label in local versions and index folders: `cu130`, `rocm7.1`, `xpu`."""
        if self.kind is AcceleratorKind.CUDA and self.version:
            return f"cu{self.version.digits}"
        return f"{self.kind}{self.version or ''}"


# The variables in which builds of torch's extensions take the GPUs, and what stands between two of them.
ARCH_LISTS = {
    AcceleratorKind.CUDA: ("TORCH_CUDA_ARCH_LIST", ";"),
    AcceleratorKind.ROCM: ("PYTORCH_ROCM_ARCH", ";"),
    AcceleratorKind.XPU: ("TORCH_XPU_ARCH_LIST", ","),
}


def name_archs_for_torch(accelerator: Accelerator | None, archs: Sequence[str]) -> dict[str, str]:
    """Return the variable that names the GPUs to a build.

    For XPU it is there without GPUs as well: empty, torch compiles SPIR-V only, and without it for all of its own GPUs.
    """
    if accelerator is None or not (archs or accelerator.kind is AcceleratorKind.XPU):
        return {}
    name, between = ARCH_LISTS[accelerator.kind]
    return {name: between.join(archs)}
