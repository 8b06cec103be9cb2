"""The int4 weight format: values with one scale and one zero point for each row and group, packed two to a byte."""

from __future__ import annotations

import torch
from torch import Tensor

LOWEST = -8  # of a signed four-bit integer
HIGHEST = 7
STEPS = HIGHEST - LOWEST
SMALLEST_RANGE = 1e-6  # a group of equal values still gets a scale to divide by


def int4_row_quantize_zp(x: Tensor, group_size: int = 128) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize each row of a weight to int4, with a scale and a zero point for every `group_size` values.

    The weight that `q` stands for is `q * scale + zero_point`; the zero point is a real value, that of `q = 0`.
    All arithmetic is in float32. The last group is shorter when `group_size` does not divide K;
    `bf16i4bf16_rowwise` cannot tell where such groups begin, so pad K for it first.

    Args:
        x: [N, K], floating point.
        group_size: values of a row that share one scale and zero point, at least 1.

    Returns:
        `q` int8 [N, K] with values from -8 to 7; `scale` and `zero_point` float32 [ceil(K / group_size), N],
        contiguous.

    Raises:
        TypeError: `x` is not floating point.
        ValueError: `x` is not two-dimensional, or `group_size` is below 1.

    """
    _check_quantizable(x, group_size)
    groups = _split(x.to(torch.float32), group_size)
    lowest, highest = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (highest - lowest).clamp(min=SMALLEST_RANGE) / STEPS
    zero_point = lowest - LOWEST * scale
    q = ((groups - lowest) / scale).round().clamp(0, STEPS) + LOWEST
    return (
        q.to(torch.int8).flatten(-2)[:, : x.shape[1]].contiguous(),
        scale.squeeze(-1).t().contiguous(),
        zero_point.squeeze(-1).t().contiguous(),
    )


def pack_int4(q: Tensor) -> Tensor:
    """Pack int4 values two to a byte: those at even positions in the low four bits, in two's complement.

    Args:
        q: [..., K], int8 with values from -8 to 7; K is even.

    Returns:
        int8 [..., K / 2], contiguous.

    Raises:
        TypeError: `q` is not int8.
        ValueError: `q` has no dimension, K is odd, or a value is out of range.

    """
    _check_int8("q", q)
    if q.shape[-1] % 2:
        message = f"q's last dimension must be even, got {q.shape[-1]}"
        raise ValueError(message)
    _check_values(q)
    return (q[..., 0::2] & 0xF) | (q[..., 1::2] << 4)


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
    _check_int8("packed", packed)
    q = packed.new_empty(*packed.shape[:-1], 2 * packed.shape[-1], dtype=dtype)
    q[..., 0::2] = (packed << 4) >> 4  # shifting back and forth spreads the sign
    q[..., 1::2] = packed >> 4
    return q


def _check_quantizable(x: Tensor, group_size: int) -> None:
    if not x.is_floating_point():
        message = f"x must be floating point, got {x.dtype}"
        raise TypeError(message)
    if x.dim() != 2:  # noqa: PLR2004 - a matrix
        message = f"x must have 2 dimensions, got {x.dim()}"
        raise ValueError(message)
    if group_size < 1:
        message = f"group_size must be at least 1, got {group_size}"
        raise ValueError(message)


def _check_int8(name: str, tensor: Tensor) -> None:
    if tensor.dtype != torch.int8:
        message = f"{name} must be int8, got {tensor.dtype}"
        raise TypeError(message)
    if not tensor.dim():
        message = f"{name} must have at least 1 dimension, got 0"
        raise ValueError(message)


def _check_values(q: Tensor) -> None:
    if q.is_meta or not q.numel():  # there is nothing to read
        return
    lowest, highest = (int(bound) for bound in q.aminmax())
    if lowest < LOWEST or highest > HIGHEST:
        message = f"q must hold values from {LOWEST} to {HIGHEST}, got {lowest} to {highest}"
        raise ValueError(message)


def _split(x: Tensor, group_size: int) -> Tensor:
    """[N, K] as [N, G, group_size]; a short last group repeats its last value, which moves no minimum or maximum."""
    rows, depth = x.shape
    missing = -depth % group_size
    padded = torch.cat((x, x[:, -1:].expand(rows, missing)), dim=1) if missing else x
    return padded.reshape(rows, (depth + missing) // group_size, group_size)
