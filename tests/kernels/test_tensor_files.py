"""Quantized weights in files of safetensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import (
    Int4PlainTensor,
    Int4WeightOnlyConfig,
    flatten_tensor_state_dict,
    quantize_,
    unflatten_tensor_state_dict,
)
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.kernels.weights import every_format, module, quantized, random, storage

if TYPE_CHECKING:
    from pathlib import Path

    from ao_kernels.quantized import QuantizedTensor


@every_format
def test_a_safetensors_file_holds_a_state_dict(tensor: type[QuantizedTensor], tmp_path: Path) -> None:
    model, file = nn.Sequential(module(tensor), nn.ReLU(), nn.Linear(48, 8)), tmp_path / "model.safetensors"
    state_dict = model.state_dict()
    tensors, metadata = flatten_tensor_state_dict(state_dict)
    save_file(tensors, file, metadata)
    with safe_open(file, framework="pt") as opened:
        read, left = unflatten_tensor_state_dict(load_file(file), opened.metadata())
    assert not left
    assert list(read) == list(state_dict)
    weight = read["0.weight"]
    assert isinstance(weight, tensor)
    assert torch.equal(weight.dequantize(), state_dict["0.weight"].dequantize())
    assert torch.equal(read["2.bias"], state_dict["2.bias"])


class Tied(nn.Module):
    """A model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(48, 128)
        self.body = nn.Linear(128, 128)
        self.head = nn.Linear(128, 48, bias=False)
        self.head.weight = self.embedding.weight


def through_a_file(state_dict: dict[str, Tensor], file: Path) -> dict[str, Tensor]:
    tensors, metadata = flatten_tensor_state_dict(state_dict)
    save_file(tensors, file, metadata)
    with safe_open(file, framework="pt") as opened:
        return unflatten_tensor_state_dict(load_file(file), opened.metadata())[0]


def test_a_safetensors_file_holds_a_tied_weight_once(tmp_path: Path) -> None:
    model = Tied().bfloat16()
    quantize_(model, Int4WeightOnlyConfig(), filter_fn=lambda _, name: name == "body")
    assert "head.weight" not in flatten_tensor_state_dict(model.state_dict())[0]
    read = through_a_file(model.state_dict(), tmp_path / "model.safetensors")
    assert list(read) == list(model.state_dict())
    assert storage(read["head.weight"]) == storage(read["embedding.weight"])
    assert torch.equal(read["head.weight"], model.head.weight)


def test_a_safetensors_file_holds_a_tied_quantized_weight_once(tmp_path: Path) -> None:
    tied = quantized(Int4PlainTensor)
    state_dict = {"a.weight": tied, "b.weight": tied.detach(), "c.weight": tied.t()}
    assert not any(name.startswith("b.") for name in flatten_tensor_state_dict(state_dict)[0])
    read = through_a_file(state_dict, tmp_path / "model.safetensors")
    assert storage(read["b.weight"].qdata) == storage(read["a.weight"].qdata)
    assert torch.equal(read["c.weight"].dequantize(), tied.dequantize().t())


def test_a_safetensors_file_holds_tensors_that_overlap_or_are_not_contiguous(tmp_path: Path) -> None:
    whole = random(48, 128)
    state_dict = {"whole": whole, "rows": whole[8:16], "turned": whole.t(), "same": whole, "empty": whole[:0]}
    read = through_a_file(state_dict, tmp_path / "model.safetensors")
    assert list(read) == list(state_dict)
    assert all(torch.equal(read[name], tensor) for name, tensor in state_dict.items())
    turned = through_a_file({"turned": random(48, 128).t()}, tmp_path / "turned.safetensors")
    assert torch.equal(turned["turned"], random(48, 128).t())


def test_a_name_waits_for_the_tensor_it_stands_for() -> None:
    tied = quantized(Int4PlainTensor)
    tensors, metadata = flatten_tensor_state_dict({"a": tied, "b": tied})
    last = tensors.pop("_a_scale")
    read, left = unflatten_tensor_state_dict(tensors, metadata)
    assert not read
    again, _ = unflatten_tensor_state_dict({**left, "_a_scale": last}, metadata)
    assert again["a"] is again["b"]


def test_the_parts_of_a_weight_wait_for_each_other() -> None:
    tensors, metadata = flatten_tensor_state_dict({"0.weight": quantized(Int4PlainTensor).t(), "bias": random(3)})
    assert set(tensors) == {"0._weight_qdata", "0._weight_scale", "0._weight_zero_point", "bias"}
    last = tensors.pop("0._weight_scale")
    read, left = unflatten_tensor_state_dict(tensors, metadata)
    assert (set(read), set(left)) == ({"bias"}, {"0._weight_qdata", "0._weight_zero_point"})
    again, left = unflatten_tensor_state_dict({**left, "0._weight_scale": last}, metadata)
    assert again["0.weight"].shape == (128, 48)
    assert not left


def test_metadata_of_something_else_is_named() -> None:
    with pytest.raises(ValueError, match='metadata must hold "tensor_names"'):
        unflatten_tensor_state_dict({}, {"format": "pt"})
    with pytest.raises(ValueError, match="a tensor must be one of Int4PlainTensor"):
        unflatten_tensor_state_dict(
            {"w": random(2)}, {"tensor_names": '["w"]', "w": '{"_type": "Other", "_data": {"dtype": "float32"}}'}
        )
