"""Platforms and accelerators."""

from __future__ import annotations

from typing import NamedTuple

from ci_tools.model.names import Name
from ci_tools.model.versions import Minor

__all__ = ["Accelerator", "AcceleratorKind", "Platform"]


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
