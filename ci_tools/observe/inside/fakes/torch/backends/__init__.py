"""`torch.backends`: what torch's wheels were built with."""

from __future__ import annotations

from torch.backends import cuda, cudnn, mps, openmp

__all__ = ["cuda", "cudnn", "mps", "openmp"]
