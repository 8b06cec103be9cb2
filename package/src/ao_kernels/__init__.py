"""Quantized matrix kernels for PyTorch: one CUDA library for every torch, and a generic body for every other device."""

from __future__ import annotations

from ao_kernels import native
from ao_kernels.int4 import int4_row_quantize_zp, pack_int4, unpack_int4
from ao_kernels.native import describe
from ao_kernels.rowwise import bf16i4bf16_rowwise

__all__ = ["bf16i4bf16_rowwise", "describe", "int4_row_quantize_zp", "pack_int4", "unpack_int4"]

native.load()
