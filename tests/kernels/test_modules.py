"""Modules with quantized weights: what they save, load, share and print."""

from __future__ import annotations

import io
from pathlib import Path
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

from tests.kernels.weights import GROUP_SIZE, every_format, module, quantized, random, storage

if TYPE_CHECKING:
    from ao_kernels.quantized import QuantizedTensor


@every_format
@pytest.mark.parametrize("assign", [pytest.param(True, id="assigned"), pytest.param(False, id="copied")])
def test_a_state_dict_is_saved_and_loaded_as_weights_only(tensor: type[QuantizedTensor], *, assign: bool) -> None:
    saved, loaded, file = module(tensor), module(tensor), io.BytesIO()
    saved.weight.copy_(tensor.from_hp(random(48, 128) * 3, GROUP_SIZE))
    torch.save(saved.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True), assign=assign)
    assert type(loaded.weight) is tensor
    assert torch.equal(loaded(random(2, 128)), saved(random(2, 128)))


@every_format
def test_a_weight_is_a_constant_whatever_a_module_asks_of_it(tensor: type[QuantizedTensor]) -> None:
    model = nn.Linear(128, 48).bfloat16()
    model.load_state_dict(module(tensor).state_dict(), assign=True)
    model.requires_grad_()
    model.weight.requires_grad = True
    model(random(2, 128)).sum().backward()
    torch.optim.AdamW(model.parameters()).step()
    assert isinstance(model.weight, nn.Parameter)
    assert not model.weight.requires_grad
    assert model.weight.grad is None
    assert model.bias.grad is not None


@every_format
def test_data_takes_the_place_of_what_a_weight_was(tensor: type[QuantizedTensor]) -> None:
    parameter = nn.Parameter(quantized(tensor))
    other = tensor.from_hp(random(64, 256, dtype=torch.float32), 64).t()
    parameter.data = other
    assert repr(parameter) == repr(other)
    assert parameter.stride() == other.stride()
    assert torch.equal(parameter.dequantize(), other.dequantize())
    assert storage(parameter.qdata) == storage(other.qdata)
    assert isinstance(parameter, nn.Parameter)


def test_data_of_another_shape_is_named() -> None:
    weight = quantized(Int4PlainTensor)
    with pytest.raises(ValueError, match=r"keeps its shape \(48, 128\), got \(3, 128\)"):
        weight.data = random(3, 128)


@every_format
def test_data_that_is_plain_is_quantized(tensor: type[QuantizedTensor]) -> None:
    weight = nn.Parameter(quantized(tensor))
    weight.data = random(48, 128) * 2
    assert torch.equal(weight.dequantize(), tensor.from_hp(random(48, 128) * 2, GROUP_SIZE).dequantize())


@every_format
def test_a_parameter_is_made_by_its_class(tensor: type[QuantizedTensor]) -> None:
    weight = quantized(tensor)
    again = type(weight)(weight, requires_grad=True)
    assert isinstance(again, nn.Parameter)
    assert torch.equal(again, weight)
    assert torch.equal(type(weight)(weight.clone(), **vars(weight), requires_grad=False), weight)  # as accelerate does
    assert type(type(weight)(random(2, 3), requires_grad=False)) is nn.Parameter
    with pytest.raises(TypeError, match=r"stored values must come with their scales, got torch\.int16 alone"):
        type(weight)(torch.ones(2, 2, dtype=torch.int16))
    with pytest.raises(TypeError, match="takes group_size, dtype and transposed, got block_size"):
        type(weight)(*weight.stored, block_size=32)
    with pytest.raises(ValueError, match="group_size must be that of 128 values in 4 groups, got 0"):
        type(weight)(*weight.stored)
    with pytest.raises(ValueError, match=r"scale must have the shape \[4, 48\], got \[4, 40\]"):
        type(weight)(weight.qdata, *(grid[:, :40] for grid in weight.grids), group_size=32)
    with pytest.raises(TypeError, match=r"must come with scale.*, got 3 of these"):
        type(weight)(weight.qdata, *[weight.scale] * 3, group_size=32)


@every_format
def test_a_module_is_shared_with_other_processes(tensor: type[QuantizedTensor]) -> None:
    linear, x = module(tensor), random(2, 128)
    expected = linear(x)
    assert not linear.weight.is_shared()
    linear.share_memory()
    assert linear.weight.is_shared()
    assert all(stored.is_shared() for stored in (linear.weight.qdata, *linear.weight.grids))
    assert torch.equal(linear(x), expected)


def test_a_plain_module_loads_the_numbers_that_quantized_weights_stand_for() -> None:
    linear, quantized_linear = nn.Linear(128, 48).bfloat16(), module(Int4PlainTensor)
    linear.load_state_dict(quantized_linear.state_dict())
    assert torch.equal(linear.weight, quantized_linear.weight.dequantize())


@every_format
def test_a_quantized_module_quantizes_the_plain_weights_that_it_loads(tensor: type[QuantizedTensor]) -> None:
    plain, linear = nn.Linear(128, 48).bfloat16(), module(tensor)
    linear.load_state_dict(plain.state_dict())
    assert type(linear.weight) is tensor
    assert torch.equal(linear.weight.dequantize(), tensor.from_hp(plain.weight, GROUP_SIZE).dequantize())


@every_format
def test_a_module_changes_its_dtype_and_its_device(tensor: type[QuantizedTensor]) -> None:
    linear = module(tensor).float()
    assert linear(random(2, 128, dtype=torch.float32)).dtype == torch.float32
    assert linear.to("meta").to_empty(device="cpu").weight.shape == (48, 128)


@every_format
def test_a_safetensors_file_holds_a_state_dict(tensor: type[QuantizedTensor], tmp_path: Path) -> None:
    state_dict = nn.Sequential(module(tensor), nn.ReLU(), nn.Linear(48, 8)).state_dict()
    read = through_a_file(state_dict, tmp_path / "model.safetensors")
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
        read, left = unflatten_tensor_state_dict(load_file(file), opened.metadata())
    assert not left
    return read


def test_a_safetensors_file_holds_a_tied_weight_once(tmp_path: Path) -> None:
    model = Tied().bfloat16()
    quantize_(model, Int4WeightOnlyConfig(), filter_fn=lambda _, name: name == "body")
    assert "head.weight" not in flatten_tensor_state_dict(model.state_dict())[0]
    read = through_a_file(model.state_dict(), tmp_path / "model.safetensors")
    assert list(read) == list(model.state_dict())
    assert storage(read["head.weight"]) == storage(read["embedding.weight"])
    assert torch.equal(read["head.weight"], model.head.weight)


def test_a_weight_that_is_not_tied_any_longer_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model = Tied()
    quantize_(model, Int4WeightOnlyConfig())
    assert type(model.embedding.weight) is nn.Parameter
    assert "21% of the parameters stay as they are: embedding.weight (tied until now)" in caplog.text


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
