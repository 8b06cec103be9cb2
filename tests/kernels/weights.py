"""Quantized weights for the tests of their tensors: one of each class, and how they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import Float8Tensor, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from ao_kernels.quantized import QuantizedTensor

TENSORS = [
    pytest.param(Int4PlainTensor, id="int4-plain"),
    pytest.param(Int4PlainInt32Tensor, id="int4-plain-int32"),
    pytest.param(Int8Tensor, id="int8"),
    pytest.param(Float8Tensor, id="float8"),
]
GROUP_SIZE = 32

BROADCASTS = [
    pytest.param(lambda x, weight: x @ weight.T, (5, 128), (48, 128), id="T"),
    pytest.param(lambda x, weight: x @ weight.permute(0, 2, 1), (3, 5, 128), (3, 48, 128), id="permute"),
    pytest.param(torch.inner, (2, 3, 128), (48, 128), id="inner"),
    pytest.param(lambda x, weight: torch.tensordot(x, weight, ([1], [1])), (5, 128), (48, 128), id="tensordot"),
    pytest.param(lambda x, weight: x @ weight.mT, (5, 128), (3, 48, 128), id="two-by-three-dimensions"),
    pytest.param(lambda x, weight: x @ weight.mT, (2, 3, 5, 128), (3, 48, 128), id="four-by-three-dimensions"),
    pytest.param(lambda x, weight: x @ weight.mT, (2, 1, 5, 128), (3, 48, 128), id="broadcast"),
    pytest.param(lambda x, weight: functional.linear(x, weight.flatten(0, 1)), (5, 128), (3, 48, 128), id="flatten"),
    pytest.param(lambda x, weight: x @ weight.unflatten(0, (3, -1)).mT, (3, 5, 128), (48, 128), id="unflatten"),
    pytest.param(lambda x, weight: torch.einsum("bk,nk->bn", x, weight), (5, 128), (48, 128), id="einsum"),
    pytest.param(lambda x, weight: torch.einsum("bmk,bnk->bmn", [x, weight]), (3, 5, 128), (3, 48, 128), id="einsums"),
    pytest.param(lambda x, weight: functional.linear(x, torch.cat([weight] * 3)), (5, 128), (48, 128), id="cat"),
]

every_format = pytest.mark.parametrize("tensor", TENSORS)


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def quantized(tensor: type[QuantizedTensor], *shape: int, dtype: torch.dtype = torch.bfloat16) -> QuantizedTensor:
    return tensor.from_hp(random(*shape or (48, 128), dtype=dtype), GROUP_SIZE)


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def module(tensor: type[QuantizedTensor], dtype: torch.dtype = torch.bfloat16) -> nn.Linear:
    linear = nn.Linear(128, 48, dtype=dtype)
    linear.weight = nn.Parameter(quantized(tensor, dtype=dtype), requires_grad=False)
    return linear
