"""Quantized weights for PyTorch: an operator for each format, and fast kernels for CUDA behind it."""

from __future__ import annotations

from ao_kernels import _guard, native  # noqa: F401 - the guard first: it says what to do where torch is missing
from ao_kernels.checkpoints import read_checkpoint
from ao_kernels.flattening import flatten_tensor_state_dict, flatten_when_saved, unflatten_tensor_state_dict
from ao_kernels.int4 import int4_row_quantize_zp, pack_int4, unpack_int4
from ao_kernels.native import describe
from ao_kernels.quantize import Float8WeightOnlyConfig, Int4WeightOnlyConfig, Int8WeightOnlyConfig, quantize_
from ao_kernels.rowwise import bf16f8bf16_rowwise, bf16i4bf16_rowwise, bf16i8bf16_rowwise, bf16u4bf16_rowwise
from ao_kernels.scaled import float8_row_quantize, int8_row_quantize
from ao_kernels.tensors import Float8Tensor, Int4PackingFormat, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor
from ao_kernels.uint4 import pack_uint4, uint4_row_quantize, unpack_uint4

__all__ = [
    "Float8Tensor",
    "Float8WeightOnlyConfig",
    "Int4PackingFormat",
    "Int4PlainInt32Tensor",
    "Int4PlainTensor",
    "Int4WeightOnlyConfig",
    "Int8Tensor",
    "Int8WeightOnlyConfig",
    "bf16f8bf16_rowwise",
    "bf16i4bf16_rowwise",
    "bf16i8bf16_rowwise",
    "bf16u4bf16_rowwise",
    "describe",
    "flatten_tensor_state_dict",
    "flatten_when_saved",
    "float8_row_quantize",
    "int4_row_quantize_zp",
    "int8_row_quantize",
    "pack_int4",
    "pack_uint4",
    "quantize_",
    "read_checkpoint",
    "uint4_row_quantize",
    "unflatten_tensor_state_dict",
    "unpack_int4",
    "unpack_uint4",
]

native.load()
