"""Quantized matrix kernels for PyTorch: one CUDA library for every torch, and a generic body for every other device."""

from __future__ import annotations

from ao_kernels import native
from ao_kernels.int4 import int4_row_quantize_zp, pack_int4, unpack_int4
from ao_kernels.native import describe
from ao_kernels.rowwise import bf16f8bf16_rowwise, bf16i4bf16_rowwise, bf16i8bf16_rowwise, bf16u4bf16_rowwise
from ao_kernels.scaled import float8_row_quantize, int8_row_quantize
from ao_kernels.uint4 import pack_uint4, uint4_row_quantize, unpack_uint4

__all__ = [
    "bf16f8bf16_rowwise",
    "bf16i4bf16_rowwise",
    "bf16i8bf16_rowwise",
    "bf16u4bf16_rowwise",
    "describe",
    "float8_row_quantize",
    "int4_row_quantize_zp",
    "int8_row_quantize",
    "pack_int4",
    "pack_uint4",
    "uint4_row_quantize",
    "unpack_int4",
    "unpack_uint4",
]

native.load()
