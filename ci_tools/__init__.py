"""Fatwheel: plan, build, audit, validate and publish wheels for PyTorch and CUDA packages."""

__version__ = "0.1.0"
