"""Quantized weights for safetensors files, which hold plain tensors and text: torchao's two functions, for our classes.

A quantized `0.weight` is stored as `0._weight_qdata`, `0._weight_scale` and so on, and the text says what it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

from ao_kernels.quantized import QuantizedTensor
from ao_kernels.tensors import TENSORS
from ao_kernels.torchao_files import export_weight, import_weight

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from torch import Tensor, nn

NAMES = "tensor_names"
ALIAS = "Alias"  # the type of a name that another one stands for
CLASSES = {tensor.__name__: tensor for tensor in TENSORS}


def flatten_tensor_state_dict(
    state_dict: Mapping[str, Tensor], *, for_torchao: bool = False
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Take a state_dict apart into what `safetensors.torch.save_file` takes: tensors, and metadata.

    These are contiguous and share no memory. A tensor with several names, such as a tied weight, is there once, by the
    first of them; the metadata says what the others stand for.

    With `for_torchao`, torchao's `unflatten_tensor_state_dict` reads the file too. It knows no aliases: a tied weight
    is in it under each of its names.

    Raises:
        ValueError: `for_torchao`, and a weight is one of several, or seen transposed: torchao has no such file.

    """
    if for_torchao:
        return _flatten_for_torchao(state_dict)
    tensors: dict[str, Tensor] = {}
    metadata = {NAMES: json.dumps(list(state_dict))}
    first_names: dict[Hashable, str] = {}
    for name, tensor in state_dict.items():
        first = first_names.setdefault(_identity(tensor), name)
        metadata[name] = json.dumps(_described(tensor) if first == name else {"_type": ALIAS, "_name": first})
        tensors |= _parts(name, tensor) if first == name else {}
    return _apart(tensors), metadata


def unflatten_tensor_state_dict(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Put a state_dict together again, out of what a safetensors file holds.

    Returns:
        The state_dict, and those tensors that are no part of it: what belongs to a weight whose other tensors lie in
        another file waits there to be given again, together with them.

    Raises:
        ValueError: the metadata is not that of `flatten_tensor_state_dict`.

    """
    if NAMES not in metadata:
        message = f'metadata must hold "{NAMES}", as flatten_tensor_state_dict writes it, got {sorted(metadata)}'
        raise ValueError(message)
    state_dict: dict[str, Tensor] = {}
    left = dict(tensors)
    for name in json.loads(metadata[NAMES]):
        described = json.loads(metadata[name])
        if described.get("_name") in state_dict:
            state_dict[name] = state_dict[described["_name"]]
            continue
        keys = [_key(name, part) for part in described.get("_tensor_data_names", [])] or [name]
        if all(key in left for key in keys):
            state_dict[name] = _restore(described, [left.pop(key) for key in keys])
    return state_dict, left


def _flatten_for_torchao(state_dict: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    tensors: dict[str, Tensor] = {}
    metadata = {NAMES: json.dumps(list(state_dict))}
    for name, tensor in state_dict.items():
        if isinstance(tensor, QuantizedTensor):
            described, parts = export_weight(name, tensor)
            tensors |= {_key(name, part): stored for part, stored in parts.items()}
        else:
            described = {"_type": "Tensor"}
            tensors[name] = tensor
        metadata[name] = json.dumps(described)
    return _apart(tensors), metadata


def flatten_when_saved(model: nn.Module) -> None:
    """Let the `state_dict` of a model hold plain tensors, and load them again.

    For what writes a `state_dict` to safetensors by itself, as accelerate's `save_model` does. The model that loads one
    is quantized in the same way, and prepared by this function too.
    """
    for module in model.modules():
        if any(isinstance(parameter, QuantizedTensor) for parameter in module.parameters(recurse=False)):
            module.register_state_dict_post_hook(_flatten_hook)
            module.register_load_state_dict_pre_hook(_unflatten_hook)


def _flatten_hook(module: nn.Module, state_dict: dict[str, Tensor], prefix: str, _: object) -> None:
    for name, parameter in module.named_parameters(recurse=False):
        if isinstance(parameter, QuantizedTensor):
            state_dict.update(_parts(prefix + name, state_dict.pop(prefix + name)))


def _unflatten_hook(module: nn.Module, state_dict: dict[str, Tensor], prefix: str, *_: object) -> None:
    for name, parameter in module.named_parameters(recurse=False):
        if isinstance(parameter, QuantizedTensor):
            keys = list(_parts(prefix + name, parameter))
            if all(key in state_dict for key in keys):
                qdata, *grids = (state_dict.pop(key) for key in keys)
                state_dict[prefix + name] = parameter.rewrap(qdata, grids)


def _parts(name: str, tensor: Tensor) -> dict[str, Tensor]:
    if not isinstance(tensor, QuantizedTensor):
        return {name: tensor}
    stored, _ = tensor.__tensor_flatten__()
    return {_key(name, part): getattr(tensor, part) for part in stored}


def _identity(tensor: Tensor) -> Hashable:
    """Tell tensors apart by what they are views of; those of no memory are all different."""
    if isinstance(tensor, QuantizedTensor):
        stored, context = tensor.__tensor_flatten__()
        return (type(tensor), context, *(_identity(getattr(tensor, part)) for part in stored))
    if not tensor.data_ptr():
        return id(tensor)
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy those tensors that are not contiguous, and those that share memory with one before them."""
    taken: set[Hashable] = set()
    apart = {}
    for name, tensor in tensors.items():
        memory = (tensor.device, tensor.untyped_storage().data_ptr())
        apart[name] = tensor.clone(memory_format=torch.contiguous_format) if memory in taken else tensor.contiguous()
        taken.add(memory)
    return apart


def _key(name: str, part: str) -> str:
    module, dot, parameter = name.rpartition(".")
    return f"{module}{dot}_{parameter}_{part}"


def _described(tensor: Tensor) -> dict[str, object]:
    if not isinstance(tensor, QuantizedTensor):
        return {"_type": "Tensor"}
    stored, (group_size, dtype, transposed) = tensor.__tensor_flatten__()
    data = {"group_size": group_size, "dtype": str(dtype).removeprefix("torch."), "transposed": transposed}
    return {"_type": type(tensor).__name__, "_data": data, "_tensor_data_names": stored}


def _restore(described: Mapping[str, object], parts: list[Tensor]) -> Tensor:
    kind, data = described["_type"], described.get("_data")
    if not isinstance(data, dict):
        return parts[0]
    if "block_size" in data:
        return import_weight(described, parts)
    if kind not in CLASSES:
        raise ValueError(f"a tensor must be one of {', '.join(CLASSES)} or Tensor, got {kind}")
    dtype = getattr(torch, data["dtype"])
    return CLASSES[str(kind)](*parts, group_size=data["group_size"], dtype=dtype, transposed=data["transposed"])
