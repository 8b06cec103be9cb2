"""The int4 weight format of XPU devices: unsigned values, integer zero points, packed eight to an int32."""

from __future__ import annotations

import torch
from torch import Tensor

from ao_kernels import groups
from ao_kernels.int4 import check_packable, check_stored

HIGHEST = 15  # of an unsigned four-bit integer
TOGETHER = 8  # values of four bits in an int32
SHIFTS = torch.arange(0, 4 * TOGETHER, 4, dtype=torch.int32, device="cpu")  # to each value of an int32
SMALLEST_SCALE = 1e-6  # a group of zeros still gets a scale to divide by


def uint4_row_quantize(x: Tensor, group_size: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize each row of a weight to unsigned int4, with a scale and an integer zero point for every `group_size`.

    The weight that `u` stands for is `(u - zero_point) * scale`, so that zero stays zero. All arithmetic is in the
    dtype of `x`. The last group is shorter when `group_size` does not divide K.

    Args:
        x: [N, K], floating point.
        group_size: values of a row that share one scale and zero point, at least 1.

    Returns:
        `u` int8 [N, K] with values from 0 to 15; `scale` [ceil(K / group_size), N] of the dtype of `x`; `zero_point`
        int8 [ceil(K / group_size), N] with values from 0 to 15. All are contiguous.

    Raises:
        TypeError: `x` is not floating point, or `group_size` is no whole number.
        ValueError: `x` is not two-dimensional, or `group_size` is below 1.

    """
    split = groups.split(x, group_size)
    lowest, highest = split.amin(-1, keepdim=True).clamp(max=0), split.amax(-1, keepdim=True).clamp(min=0)
    scale = ((highest - lowest) / HIGHEST).clamp(min=SMALLEST_SCALE)
    zero_point = (-(lowest / scale).round()).clamp(0, HIGHEST).nan_to_num(nan=0)
    # The reciprocal of float16's smallest scale is infinite, and a zero times it NaN: it stands for zero.
    steps = (split * (1 / scale)).round().nan_to_num(nan=0)
    u = groups.integers((steps + zero_point).clamp(0, HIGHEST), x.shape[1])
    return u, groups.grid(scale), groups.grid(zero_point.to(torch.int8))


def pack_uint4(u: Tensor) -> Tensor:
    """Pack unsigned int4 values eight to an int32: value `8 j + i` in the bits from `4 i` on of word `j`.

    Args:
        u: [..., K], int8 with values from 0 to 15; K is a multiple of 8.

    Returns:
        int32 [..., K / 8], contiguous.

    Raises:
        TypeError: `u` is not int8.
        ValueError: `u` has no dimension, K is no multiple of 8, or a value is out of range, as far as there are values
            to read: a compiler has none.

    """
    check_packable(u, TOGETHER, 0, HIGHEST)
    words = u[..., 0::TOGETHER].to(torch.int32)
    for i in range(1, TOGETHER):
        words |= u[..., i::TOGETHER].to(torch.int32) << 4 * i
    return words.contiguous()


def unpack_uint4(packed: Tensor, dtype: torch.dtype = torch.int8) -> Tensor:
    """Give back the values that `pack_uint4` packed.

    Args:
        packed: int32 [..., K / 8].
        dtype: of the result; every floating-point one holds the values exactly.

    Returns:
        `dtype` [..., K] with values from 0 to 15, contiguous.

    Raises:
        TypeError: `packed` is not int32.
        ValueError: `packed` has no dimension.

    """
    check_stored("packed", packed, torch.int32)
    u = packed.new_empty(*packed.shape[:-1], TOGETHER * packed.shape[-1], dtype=dtype)
    write_uint4(u, packed)
    return u


def write_uint4(u: Tensor, packed: Tensor) -> None:
    """Write the values of `packed` [..., K / 8] into `u` [..., K], whatever its dtype."""
    for i in range(TOGETHER):
        u[..., i::TOGETHER] = (packed >> 4 * i) & 0xF


def read_uint4(packed: Tensor) -> Tensor:
    """Give the values of `packed` in int32."""
    return (packed.unsqueeze(-1) >> SHIFTS).bitwise_and_(0xF)
