"""The weight formats that operators read: how values are stored, and what the grids of numbers beside them mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import Parameter

from ao_kernels.int4 import int4_row_quantize_zp, pack_int4, read_int4, write_int4
from ao_kernels.scaled import FLOAT8, float8_row_quantize, int8_row_quantize, read_float8, write_float8
from ao_kernels.uint4 import TOGETHER, pack_uint4, read_uint4, uint4_row_quantize, write_uint4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK_ON_CPU = 1 << 20  # values dequantized at a time: 4 MiB in float32, which a core's cache holds
SMALL = 1 << 14  # values of a weight on a CPU of which the number of steps is the cost, not that of a step
BLOCK = 1 << 26  # elsewhere, where many launches cost more: 256 MiB


class ZeroPoint(Enum):
    """What a zero point is, if there is one."""

    NONE = "weight = value * scale"
    REAL = "weight = value * scale + zero_point"
    INTEGER = "weight = (value - zero_point) * scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """All that tells one operator from another."""

    operator: str
    """Its name in the namespace `ao`."""
    storage: torch.dtype
    """The dtype of the stored weight, [N, K / together]."""
    together: int
    """Values in one stored element."""
    zero_point: ZeroPoint
    quantize: Callable[[Tensor, int], tuple[Tensor, ...]]
    """Makes a stored weight and its grids of a floating-point weight [N, K] and a group size."""
    write: Callable[[Tensor, Tensor], object]
    """Writes the values of a stored weight into a tensor [N, K] of any floating-point dtype."""
    read: Callable[[Tensor], Tensor]
    """Gives the values of a small stored weight on a CPU, N K of them: a new tensor, in as few steps as can be."""

    @property
    def grids(self) -> tuple[str, ...]:
        """The names of the operands [G, N] that hold one number for each group and row."""
        return ("scale",) if self.zero_point is ZeroPoint.NONE else ("scale", "zero_point")

    @property
    def schema(self) -> str:
        """What torch is told of the operator."""
        operands = ", ".join(f"Tensor {name}" for name in ("input", "weight", *self.grids))
        return f"{self.operator}({operands}) -> Tensor"

    def depth(self, weight: Tensor) -> int:
        """K, which a stored weight has in its last dimension."""
        return self.together * weight.shape[-1]


def _quantize_int4(weight: Tensor, group_size: int) -> tuple[Tensor, ...]:
    q, *grids = int4_row_quantize_zp(weight, group_size)
    return pack_int4(q), *grids


def _quantize_uint4(weight: Tensor, group_size: int) -> tuple[Tensor, ...]:
    u, *grids = uint4_row_quantize(weight, group_size)
    return pack_uint4(u), *grids


INT4 = WeightFormat(
    operator="bf16i4bf16_rowwise",
    storage=torch.int8,
    together=2,
    zero_point=ZeroPoint.REAL,
    quantize=_quantize_int4,
    write=write_int4,
    read=read_int4,
)
UINT4 = WeightFormat(
    operator="bf16u4bf16_rowwise",
    storage=torch.int32,
    together=TOGETHER,
    zero_point=ZeroPoint.INTEGER,
    quantize=_quantize_uint4,
    write=write_uint4,
    read=read_uint4,
)
INT8 = WeightFormat(
    operator="bf16i8bf16_rowwise",
    storage=torch.int8,
    together=1,
    zero_point=ZeroPoint.NONE,
    quantize=int8_row_quantize,
    write=Tensor.copy_,
    read=Tensor.bfloat16,  # which holds every value
)
FLOAT8_E4M3 = WeightFormat(
    operator="bf16f8bf16_rowwise",
    storage=FLOAT8,
    together=1,
    zero_point=ZeroPoint.NONE,
    quantize=float8_row_quantize,
    write=write_float8,
    read=read_float8,
)
FORMATS = (INT4, UINT4, INT8, FLOAT8_E4M3)


def dequantize(form: WeightFormat, weight: Tensor, *grids: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Make the [N, K] weight that a stored weight stands for, with its scales and zero points [G, N].

    The arithmetic is in float32, so that a weight is rounded to `dtype` once.
    """
    if type(weight) in (Tensor, Parameter) and not torch.compiler.is_compiling() and is_small(form, weight):
        return dequantize_small(form, weight, *grids).to(dtype)
    result = weight.new_empty(weight.shape[0], form.depth(weight), dtype=dtype)
    for rows, block in dequantized_blocks(form, weight, *grids):
        result[rows] = block
    return result


def is_small(form: WeightFormat, weight: Tensor) -> bool:
    """Whether a stored weight on a CPU is small, and not empty."""
    return weight.is_cpu and 0 < weight.numel() * form.together <= SMALL


def dequantize_small(form: WeightFormat, weight: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
    """Make the same weight in float32, in as few steps as can be."""
    values = form.read(weight).view(weight.shape[0], scale.shape[0], -1)
    if form.zero_point is ZeroPoint.NONE:
        values = values.to(torch.float32)
    column = scale.to(torch.float32).mT.unsqueeze(-1)
    if form.zero_point is ZeroPoint.INTEGER and zero_point is not None:
        values = values.sub_(zero_point.mT.unsqueeze(-1)).mul(column)
    else:
        values.mul_(column)
    if form.zero_point is ZeroPoint.REAL and zero_point is not None:
        values.add_(zero_point.to(torch.float32).mT.unsqueeze(-1))
    return values.view(weight.shape[0], form.depth(weight))


def dequantized_blocks(form: WeightFormat, weight: Tensor, *grids: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows of the [N, K] weight after others, in float32; each lie where the last ones did."""
    columns = [grid.t().to(torch.float32).contiguous().unsqueeze(-1) for grid in grids]  # [N, G, 1]
    buffer: Tensor | None = None
    for rows in row_blocks(weight.shape[0], form.depth(weight), weight.device):
        if buffer is None:
            buffer = weight.new_empty(rows.stop, form.depth(weight), dtype=torch.float32)
        values = buffer[: rows.stop - rows.start]
        form.write(values, weight[rows])
        _scale(form, values.view(*columns[0][rows].shape[:2], -1), *(column[rows] for column in columns))
        yield rows, values


def row_blocks(rows: int, depth: int, device: torch.device) -> Iterator[slice]:
    """Split the rows of a matrix. A compiler gets them whole: it makes blocks of its own."""
    values = BLOCK_ON_CPU if device.type == "cpu" else BLOCK
    step = rows if torch.compiler.is_compiling() else values // max(depth, 1)
    step = max(step, 1)
    for start in range(0, rows if depth else 0, step):
        yield slice(start, min(start + step, rows))


def _scale(form: WeightFormat, values: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> None:
    """Turn values [N, G, K / G] into weights, where they are."""
    if zero_point is not None and form.zero_point is ZeroPoint.INTEGER:
        values.sub_(zero_point)
    values.mul_(scale)
    if zero_point is not None and form.zero_point is ZeroPoint.REAL:
        values.add_(zero_point)
