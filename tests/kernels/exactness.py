"""What products must be: computed in float64 from the stored bytes up, independent of how ao_kernels reads them."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from ao_kernels.formats import FLOAT8_E4M3, FORMATS, INT4, INT8, UINT4, WeightFormat
from torch import Tensor

SQNR_BAR = 48  # decibels; rounding the output alone to bfloat16 leaves 55.5
FORMS = [pytest.param(form, id=form.operator) for form in FORMATS]


class Given(NamedTuple):
    """The operands of a product."""

    input: Tensor
    weight: Tensor
    grids: tuple[Tensor, ...]

    @property
    def all(self) -> tuple[Tensor, ...]:
        return self.input, self.weight, *self.grids


def random_operands(
    form: WeightFormat, leading: tuple[int, ...] = (4,), columns: int = 8, depth: int = 64, group_size: int = 32
) -> Given:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(*leading, depth, generator=random).bfloat16()
    weight, *grids = form.quantize(torch.randn(columns, depth, generator=random), group_size)
    return Given(x, weight, tuple(grids))


def nibbles(weight: Tensor, together: int) -> Tensor:
    parts = [(weight.long() >> 4 * i) & 15 for i in range(together)]
    return torch.stack(parts, dim=-1).flatten(-2)


def values(form: WeightFormat, weight: Tensor) -> Tensor:
    if form is INT4:
        return (nibbles(weight, 2) ^ 8) - 8
    return nibbles(weight, 8) if form is UINT4 else weight


def exact_weight(form: WeightFormat, weight: Tensor, *grids: Tensor) -> Tensor:
    q = values(form, weight).double()
    group = torch.arange(q.shape[1]) // (q.shape[1] // max(grids[0].shape[0], 1))
    scale, *zero_points = (grid.double()[group].t() for grid in grids)
    if form in {INT8, FLOAT8_E4M3}:
        return q * scale
    return (q - zero_points[0]) * scale if form is UINT4 else q * scale + zero_points[0]


def exact(form: WeightFormat, given: Given) -> Tensor:
    return given.input.double() @ exact_weight(form, given.weight, *given.grids).t()


def sqnr(reference: Tensor, output: Tensor) -> float:
    noise = (reference - output.double()).norm()
    return 20 * math.log10(reference.norm() / noise) if noise else math.inf
