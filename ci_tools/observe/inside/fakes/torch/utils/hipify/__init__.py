"""`torch.utils.hipify`: how sources for CUDA become sources for ROCm."""

from __future__ import annotations

from torch.utils.hipify import hipify_python

__all__ = ["hipify_python"]
