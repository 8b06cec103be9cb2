"""What torchao says in a safetensors file of the weights whose layout ours is too, or is but for the order of scales.

The names are those of torchao 0.18, `torchao.prototype.safetensors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ao_kernels.formats import ZeroPoint
from ao_kernels.tensors import Float8Tensor, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from ao_kernels.quantized import QuantizedTensor

CLASSES: dict[str, type[QuantizedTensor]] = {
    "Int4Tensor": Int4PlainTensor,
    "Int4PlainInt32Tensor": Int4PlainInt32Tensor,
    "Int8Tensor": Int8Tensor,
    "Float8Tensor": Float8Tensor,
}
NAMES = {tensor: name for name, tensor in CLASSES.items()}
# What changes no number of a product with a weight.
OF_NO_ACCOUNT = {"block_size", "shape", "dtype", "activation_dtype", "mm_config", "kernel_preference", "reduce_range"}


def import_weight(described: Mapping[str, Any], parts: Sequence[Tensor]) -> QuantizedTensor:
    """Make our weight of torchao's.

    Raises:
        ValueError: it has another layout, other zero points, or quantizes activations besides.

    """
    kind, data = described["_type"], described["_data"]
    if kind not in CLASSES:
        raise ValueError(f"of torchao's weights, {', '.join(CLASSES)} are read, got {kind}")
    tensor = CLASSES[kind]
    stored = dict(zip(described["_tensor_data_names"], parts, strict=True))
    qdata, scale, zero_point = stored.pop("qdata"), stored.pop("scale"), stored.pop("zero_point", None)
    besides = [*stored, *(name for name, value in data.items() if name not in OF_NO_ACCOUNT and _says(name, value))]
    if tensor.FORMAT.zero_point is ZeroPoint.NONE and zero_point is not None and zero_point.any():
        besides.append("zero_point")
    group_size = data["block_size"][-1]
    ones = data["block_size"][:-1]
    if besides or qdata.dim() != 2 or any(one != 1 for one in ones):  # noqa: PLR2004 - a matrix
        what = f"{', '.join(besides) or 'another shape'} (block_size {data['block_size']})"
        message = f"torchao's {kind} is read as a weight [N, K] with scales for groups of a row alone, got {what}"
        raise ValueError(message)
    dtype = getattr(torch, data["dtype"]["_data"]) if data.get("dtype") else scale.dtype
    group_size = min(group_size, tensor.FORMAT.depth(qdata))
    if tensor.FORMAT.zero_point is ZeroPoint.NONE:
        return tensor(qdata, scale.reshape(len(qdata), -1).t().contiguous(), group_size=group_size, dtype=dtype)
    return tensor(qdata, scale, zero_point, group_size=group_size, dtype=dtype)


def _says(name: str, value: object) -> bool:
    """Whether an attribute of torchao's is one that tells how its numbers are to be read otherwise."""
    return value is not None and not (
        name == "mapping_type" and isinstance(value, dict) and value["_data"] == "SYMMETRIC"
    )


def export_weight(name: str, weight: QuantizedTensor) -> tuple[dict[str, object], dict[str, Tensor]]:
    """Say in torchao's words what a weight is, with its parts in torchao's layout."""
    if weight.transposed or weight.dim() != 2:  # noqa: PLR2004 - a matrix
        raise ValueError(f"{name} must be a weight [N, K] for torchao, got {weight!r}")
    kind = NAMES[type(weight)]
    data: dict[str, object] = {"block_size": [1, weight.group_size]}
    if weight.FORMAT.zero_point is ZeroPoint.NONE:
        data["dtype"] = {"_type": "torch.dtype", "_data": str(weight.dtype).removeprefix("torch.")}
        parts = {"qdata": weight.qdata, "scale": weight.scale.mT}
    else:
        data["shape"] = list(weight.shape)
        parts = {"qdata": weight.qdata, **dict(zip(weight.FORMAT.grids, weight.grids, strict=True))}
    return {"_type": kind, "_data": data, "_tensor_data_names": list(parts)}, parts
