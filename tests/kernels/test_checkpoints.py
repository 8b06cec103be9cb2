"""Checkpoints of other libraries, written here by the packing that they publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from ao_kernels import Int4PlainTensor, read_checkpoint
from torch import Tensor, nn

N, K, GROUP = 16, 64, 32
RANDOM = torch.Generator().manual_seed(0)
VALUES = torch.randint(0, 16, (N, K), generator=RANDOM)
ZEROS = torch.randint(1, 16, (N, K // GROUP), generator=RANDOM)
SCALES = torch.rand(N, K // GROUP, generator=RANDOM).half()
EXPECTED = ((VALUES - ZEROS.repeat_interleave(GROUP, 1)) * SCALES.repeat_interleave(GROUP, 1).double()).double()
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # AutoAWQ's order_map: which column is at each place of a word


def words(rows: list[list[int]]) -> Tensor:
    """Each eight numbers as one int32, the first in its lowest bits."""
    packed = [[sum(row[8 * j + i] << 4 * i for i in range(8)) for j in range(len(row) // 8)] for row in rows]
    return torch.tensor([[word - (1 << 32) if word >> 31 else word for word in row] for row in packed]).int()


def reordered(rows: list[list[int]]) -> list[list[int]]:
    return [[row[8 * j + place] for j in range(len(row) // 8) for place in ORDER] for row in rows]


def gptq(*, first: bool = True) -> dict[str, Tensor]:
    qzeros = words((ZEROS.t() - int(first)).tolist())
    index = torch.arange(K) // GROUP
    return {
        "qweight": words(VALUES.tolist()).t().contiguous(),
        "qzeros": qzeros,
        "scales": SCALES.t(),
        "g_idx": index.int(),
    }


def awq() -> dict[str, Tensor]:
    qweight, qzeros = (words(reordered(part.t().tolist())) for part in (VALUES, ZEROS))
    return {"qweight": qweight, "qzeros": qzeros, "scales": SCALES.t().contiguous()}


def compressed() -> dict[str, Tensor]:
    zero_point = words(ZEROS.t().tolist()).t().contiguous()
    shape = torch.tensor([N, K])
    return {
        "weight_packed": words(VALUES.tolist()),
        "weight_scale": SCALES,
        "weight_zero_point": zero_point,
        "weight_shape": shape,
    }


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": GROUP, "symmetric": False}}},
}


def named(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        **{f"model.0.{name}": one for name, one in parts.items()},
        "model.0.bias": torch.ones(N).half(),
        "norm.weight": torch.ones(3),
    }


@pytest.mark.parametrize(
    ("parts", "config"),
    [
        pytest.param(gptq(), GPTQ, id="gptq"),
        pytest.param(gptq(first=False), {**GPTQ, "checkpoint_format": "gptq_v2"}, id="gptq-v2"),
        pytest.param(awq(), AWQ, id="awq"),
        pytest.param(compressed(), COMPRESSED, id="compressed-tensors"),
    ],
)
def test_every_weight_is_what_it_was(parts: dict[str, Tensor], config: dict[str, Any]) -> None:
    read = read_checkpoint(named(parts), config)
    assert set(read) == {"model.0.weight", "model.0.bias", "norm.weight"}
    weight = read["model.0.weight"]
    assert isinstance(weight, Int4PlainTensor)
    assert (weight.scale.dtype, weight.dtype) == (torch.float32, torch.float16)
    assert torch.equal(weight.to(torch.float32).dequantize().double(), EXPECTED)
    linear = nn.Linear(K, N).half()
    linear.load_state_dict({"weight": weight, "bias": read["model.0.bias"]}, assign=True)
    x = torch.randn(3, K).half()
    torch.testing.assert_close(linear(x).double(), x.double() @ EXPECTED.t() + 1, rtol=0.02, atol=0.2)


def test_symmetric_weights_have_no_zero_points() -> None:
    parts = compressed()
    del parts["weight_zero_point"]
    weight = read_checkpoint(named(parts), COMPRESSED)["model.0.weight"]
    expected = (VALUES - 8) * SCALES.repeat_interleave(GROUP, 1).double()
    assert torch.equal(weight.to(torch.float32).dequantize().double(), expected)


@pytest.mark.parametrize(
    ("parts", "config", "message"),
    [
        pytest.param(
            gptq, {**GPTQ, "quant_method": "aqlm"}, "quant_method must be one of gptq, awq, .*got aqlm", id="method"
        ),
        pytest.param(gptq, {**GPTQ, "bits": 8}, "weights must have 4 bits, got 8", id="bits"),
        pytest.param(
            awq, {**AWQ, "version": "marlin"}, r"model\.0\.qweight must be in AWQ's format gemm, got marlin", id="awq"
        ),
        pytest.param(
            compressed, {**COMPRESSED, "format": "marlin-24"}, "must be pack-quantized, got marlin-24", id="format"
        ),
        pytest.param(
            lambda: {**gptq(), "g_idx": torch.arange(K).flip(0) // GROUP},
            GPTQ,
            r"model\.0\.weight has its columns in the",
            id="order",
        ),
    ],
)
def test_what_is_not_read_is_named(
    parts: Callable[[], dict[str, Tensor]], config: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_checkpoint(named(parts()), config)
