"""The int8 and float8 weight formats: values around zero, with one scale for each row and group."""

from __future__ import annotations

import torch
from torch import Tensor

from ao_kernels import groups

INT8_HIGHEST = 127  # -128 is left out, so that the range is as wide on both sides of zero
FLOAT8 = torch.float8_e4m3fn
FLOAT8_HIGHEST = torch.finfo(FLOAT8).max
FLOAT8_VALUES = torch.arange(256, dtype=torch.uint8, device="cpu").view(FLOAT8).to(torch.bfloat16)
SMALLEST_MAGNITUDE = 1e-12  # a group of zeros still gets a scale to divide by


def int8_row_quantize(x: Tensor, group_size: int | None = None) -> tuple[Tensor, Tensor]:
    """Quantize each row of a weight to int8, with a scale for every `group_size` values.

    The weight that `q` stands for is `q * scale`. All arithmetic is in float32. The last group is shorter when
    `group_size` does not divide K.

    Args:
        x: [N, K], floating point.
        group_size: values of a row that share one scale, at least 1; by default a row has one.

    Returns:
        `q` int8 [N, K] with values from -127 to 127; `scale` float32 [ceil(K / group_size), N]. Both are contiguous.

    Raises:
        TypeError: `x` is not floating point, or `group_size` is no whole number.
        ValueError: `x` is not two-dimensional, or `group_size` is below 1.

    """
    split, scale = _scale(x, group_size, INT8_HIGHEST)
    q = (split / scale).round().clamp(-INT8_HIGHEST, INT8_HIGHEST)
    return groups.integers(q, x.shape[1]), groups.grid(scale)


def float8_row_quantize(x: Tensor, group_size: int | None = None) -> tuple[Tensor, Tensor]:
    """Quantize each row of a weight to float8 (e4m3fn), with a scale for every `group_size` values.

    The same as `int8_row_quantize` but for the values: `q` is float8_e4m3fn [N, K] with magnitudes up to 448.
    """
    split, scale = _scale(x, group_size, FLOAT8_HIGHEST)
    q = (split / scale).clamp(-FLOAT8_HIGHEST, FLOAT8_HIGHEST)
    return groups.rows(q.to(FLOAT8), x.shape[1]), groups.grid(scale)


def write_float8(values: Tensor, stored: Tensor) -> None:
    """Write the values of `stored` [..., K] into `values` [..., K], whatever its dtype."""
    if stored.device.type != "cpu":
        values.copy_(stored)
        return
    # What is traced for a compiler knows no tensor of ours.
    every_value = torch.arange(256, device=stored.device, dtype=torch.uint8).view(FLOAT8).to(values.dtype)
    values.copy_(_look_up(every_value, stored).view(stored.shape))


def read_float8(stored: Tensor) -> Tensor:
    """Give the values of `stored`, on a CPU, in bfloat16, which holds them all."""
    return _look_up(FLOAT8_VALUES, stored)


def _look_up(every_value: Tensor, stored: Tensor) -> Tensor:
    """Find values among all 256: on a CPU, torch converts one number at a time, in four times as long."""
    return every_value.index_select(0, stored.view(torch.uint8).flatten().to(torch.int32))


def _scale(x: Tensor, group_size: int | None, highest: float) -> tuple[Tensor, Tensor]:
    """Split a weight, and scale the largest magnitude of each group to `highest`."""
    split = groups.split(x, groups.whole_rows(x) if group_size is None else group_size).to(torch.float32)
    largest = split.abs().amax(-1, keepdim=True).clamp(min=SMALLEST_MAGNITUDE)
    return split, largest / highest
