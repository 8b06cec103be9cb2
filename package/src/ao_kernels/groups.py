"""What every quantizer does alike: split rows into groups, and lay out what it found for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def split(x: Tensor, group_size: int) -> Tensor:
    """View a weight [N, K] as [N, G, group_size], G being ceil(K / group_size); one group is no longer than a row.

    A short last group repeats its last value, which moves no minimum or maximum. What is made of the result has no
    gradient: quantized weights are constants.

    Raises:
        TypeError: `x` is not floating point, or `group_size` is no whole number.
        ValueError: `x` is not two-dimensional, or `group_size` is below 1.

    """
    check_group_size(group_size)
    _check(x)
    x = x.detach()
    rows, depth = x.shape
    group_size = min(group_size, whole_rows(x))
    missing = -depth % group_size
    padded = torch.cat((x, x[:, -1:].expand(rows, missing)), dim=1) if missing else x
    return padded.reshape(rows, (depth + missing) // group_size, group_size)


def whole_rows(x: Tensor) -> int:
    """Return the group size that gives each row of a weight one group."""
    return max(x.shape[-1], 1) if x.dim() else 1


def rows(q: Tensor, depth: int) -> Tensor:
    """Lay the quantized values [N, G, group_size] out as [N, K], contiguous."""
    return q.flatten(-2)[:, :depth].contiguous()


def integers(q: Tensor, depth: int) -> Tensor:
    """Lay rounded values out as `rows` does, in int8; a NaN among them becomes zero.

    What a conversion makes of NaN is the processor's affair. A group that holds one has NaN as its scale, so its values
    mean nothing in any case.
    """
    return rows(q.nan_to_num(nan=0).to(torch.int8), depth)


def grid(column: Tensor) -> Tensor:
    """Lay out what each group has one of, [N, G, 1], as [G, N], contiguous."""
    return column.squeeze(-1).t().contiguous()


def check_group_size(group_size: int) -> None:
    """Raise unless a group size is a whole number that is at least 1."""
    if not isinstance(group_size, (int, torch.SymInt)) or isinstance(group_size, bool):
        raise TypeError(f"group_size must be a whole number, got {group_size!r}")
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}")


def _check(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(f"x must be floating point, got {x.dtype}")
    if x.dim() != 2:  # noqa: PLR2004 - a matrix
        raise ValueError(f"x must have 2 dimensions, got {x.dim()}")
