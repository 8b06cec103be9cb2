"""Quantized weights for safetensors files, which hold plain tensors and text: torchao's two functions, for our classes.

A quantized `0.weight` is stored as `0._weight_qdata`, `0._weight_scale` and so on, and the text says what it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

from ao_kernels.quantized import QuantizedTensor
from ao_kernels.tensors import TENSORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

NAMES = "tensor_names"
CLASSES = {tensor.__name__: tensor for tensor in TENSORS}


def flatten_tensor_state_dict(state_dict: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Take a state_dict apart into what `safetensors.torch.save_file` takes: tensors, and metadata."""
    tensors: dict[str, Tensor] = {}
    metadata = {NAMES: json.dumps(list(state_dict))}
    for name, tensor in state_dict.items():
        metadata[name] = json.dumps(_described(tensor))
        if isinstance(tensor, QuantizedTensor):
            stored, _ = tensor.__tensor_flatten__()
            # A view may share its storage with others, which safetensors refuses.
            tensors |= {_key(name, part): getattr(tensor, part).contiguous().clone() for part in stored}
        else:
            tensors[name] = tensor
    return tensors, metadata


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
    state_dict, left = {}, dict(tensors)
    for name in json.loads(metadata[NAMES]):
        described = json.loads(metadata[name])
        keys = [_key(name, part) for part in described.get("_tensor_data_names", [])] or [name]
        if all(key in left for key in keys):
            state_dict[name] = _restore(described, [left.pop(key) for key in keys])
    return state_dict, left


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
    if kind not in CLASSES:
        message = f"a tensor must be one of {', '.join(CLASSES)} or Tensor, got {kind}"
        raise ValueError(message)
    dtype = getattr(torch, data["dtype"])
    return CLASSES[str(kind)](*parts, group_size=data["group_size"], dtype=dtype, transposed=data["transposed"])
