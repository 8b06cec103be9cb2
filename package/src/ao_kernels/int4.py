"""The int4 weight format: values with one scale and one zero point for each row and group, packed two to a byte."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake

from ao_kernels import groups

LOWEST = -8  # of a signed four-bit integer
HIGHEST = 7
STEPS = HIGHEST - LOWEST
# The pair of values that each byte holds, as one number so that it is looked up in one step: 0 to 127, -128 to -1.
PAIRS = torch.tensor(
    [complex(((byte & 0xF) ^ 8) - 8, byte >> 4) for byte in (*range(128), *range(-128, 0))],
    device="cpu",
    dtype=torch.complex64,
)
SMALLEST_RANGE = 1e-6  # a group of equal values still gets a scale to divide by


def int4_row_quantize_zp(x: Tensor, group_size: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize each row of a weight to int4, with a scale and a zero point for every `group_size` values.

    The weight that `q` stands for is `q * scale + zero_point`; the zero point is a real value, that of `q = 0`.
    All arithmetic is in float32. The last group is shorter when `group_size` does not divide K;
    `bf16i4bf16_rowwise` cannot tell where such groups begin, so pad K for it first.

    A value that is not finite makes the scale or the zero point of its group NaN or infinite, and no other.

    Args:
        x: [N, K], floating point.
        group_size: values of a row that share one scale and zero point, at least 1.

    Returns:
        `q` int8 [N, K] with values from -8 to 7; `scale` and `zero_point` float32 [ceil(K / group_size), N],
        contiguous.

    Raises:
        TypeError: `x` is not floating point, or `group_size` is no whole number.
        ValueError: `x` is not two-dimensional, or `group_size` is below 1.

    """
    split = groups.split(x, group_size).to(torch.float32)
    lowest, highest = split.amin(-1, keepdim=True), split.amax(-1, keepdim=True)
    scale = (highest - lowest).clamp(min=SMALLEST_RANGE) / STEPS
    zero_point = lowest - LOWEST * scale
    q = ((split - lowest) / scale).round().clamp(0, STEPS) + LOWEST
    return groups.integers(q, x.shape[1]), groups.grid(scale), groups.grid(zero_point)


def pack_int4(q: Tensor) -> Tensor:
    """Pack int4 values two to a byte: those at even positions in the low four bits, in two's complement.

    Args:
        q: [..., K], int8 with values from -8 to 7; K is even.

    Returns:
        int8 [..., K / 2], contiguous.

    Raises:
        TypeError: `q` is not int8.
        ValueError: `q` has no dimension, K is odd, or a value is out of range, as far as there are values to read: a
            compiler has none.

    """
    check_packable(q, 2, LOWEST, HIGHEST)
    return ((q[..., 0::2] & 0xF) | (q[..., 1::2] << 4)).contiguous()


def unpack_int4(packed: Tensor, dtype: torch.dtype = torch.int8) -> Tensor:
    """Give back the values that `pack_int4` packed.

    Args:
        packed: int8 [..., K / 2].
        dtype: of the result; every floating-point one holds the values exactly.

    Returns:
        `dtype` [..., K] with values from -8 to 7, contiguous.

    Raises:
        TypeError: `packed` is not int8.
        ValueError: `packed` has no dimension.

    """
    check_stored("packed", packed, torch.int8)
    q = packed.new_empty(*packed.shape[:-1], 2 * packed.shape[-1], dtype=dtype)
    write_int4(q, packed)
    return q


def write_int4(q: Tensor, packed: Tensor) -> None:
    """Write the values of `packed` [..., K / 2] into `q` [..., K], whatever its dtype."""
    q[..., 0::2] = (packed << 4) >> 4  # shifting back and forth spreads the sign
    q[..., 1::2] = packed >> 4


def read_int4(packed: Tensor) -> Tensor:
    """Give the values of `packed`, on a CPU, in float32."""
    return torch.view_as_real(PAIRS.take(packed.to(torch.int64)))  # which counts from the end where a byte is negative


def check_stored(name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    """Raise unless a tensor has the dtype that values are stored in, and a dimension that they lie along."""
    if tensor.dtype != dtype:
        raise TypeError(f"{name} must be {str(dtype).removeprefix('torch.')}, got {tensor.dtype}")
    if not tensor.dim():
        raise ValueError(f"{name} must have at least 1 dimension, got 0")


def check_packable(q: Tensor, together: int, lowest: int, highest: int) -> None:
    """Raise unless `q` is int8, holds values from `lowest` to `highest`, and splits into `together` values each."""
    check_stored("q", q, torch.int8)
    if q.shape[-1] % together:
        must = "even" if together == 2 else f"a multiple of {together}"  # noqa: PLR2004 - which is what even means
        raise ValueError(f"q's last dimension must be {must}, got {q.shape[-1]}")
    if torch.compiler.is_compiling() or is_fake(q) or q.is_meta or not q.numel():  # there is nothing to read
        return
    least, most = (int(bound) for bound in q.aminmax())
    if least < lowest or most > highest:
        raise ValueError(f"q must hold values from {lowest} to {highest}, got {least} to {most}")
