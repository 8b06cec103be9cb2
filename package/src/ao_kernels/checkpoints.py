"""int4 checkpoints of other libraries, read exactly: their grids become float32, in which every weight is the same.

The packing is that which the libraries publish: GPTQ's in AutoGPTQ and GPTQModel, AWQ's in AutoAWQ, and
`pack-quantized` of compressed-tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ao_kernels.int4 import LOWEST, pack_int4
from ao_kernels.tensors import Int4PlainTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

BITS = 4
TOGETHER = 8  # values in an int32
ZERO = -LOWEST  # what a packed value is above its signed one
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # where AWQ's word has value 0, 1, 2 of its columns


def read_checkpoint(
    tensors: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """Read a state_dict with int4 weights of GPTQ, AWQ or compressed-tensors.

    Args:
        tensors: what the checkpoint holds, by name.
        config: its `quantization_config`, as `config.json` has it.
        dtype: what the weights are to stand for; by default the dtype of their scales.

    Returns:
        The state_dict, in which each quantized weight is an `Int4PlainTensor`; the rest is as it was.

    Raises:
        ValueError: the weights are no groups of four bits, or their columns are in another order.

    """
    method = config.get("quant_method")
    if method not in READERS:
        raise ValueError(f"quant_method must be one of {', '.join(READERS)}, got {method}")
    marker, read = READERS[method]
    _check(config)
    layers = [name.removesuffix(marker) for name in tensors if name.endswith(f".{marker}")]
    state_dict = {
        name: one for name, one in tensors.items() if f"{name.rpartition('.')[0]}." not in layers or _stays(name)
    }
    for layer in layers:
        parts = {name.removeprefix(layer): one for name, one in tensors.items() if name.startswith(layer)}
        state_dict[f"{layer}weight"] = _to_tensor(layer, read(layer, parts, config), parts, dtype)
    return state_dict


def _stays(name: str) -> bool:
    return name.endswith(".bias")


def _check(config: Mapping[str, Any]) -> None:
    """Raise unless the weights are integers of four bits."""
    described = [config]
    if config["quant_method"] == "compressed-tensors":
        if config.get("format") != "pack-quantized":
            raise ValueError(f"compressed-tensors' format must be pack-quantized, got {config.get('format')}")
        described = [group["weights"] for group in config["config_groups"].values()]
    for one in described:
        bits = one.get("bits", one.get("w_bit", one.get("num_bits")))
        if bits != BITS:
            raise ValueError(f"weights must have 4 bits, got {bits}")


def _to_tensor(
    layer: str, read: tuple[Tensor, Tensor, Tensor], parts: Mapping[str, Tensor], dtype: torch.dtype | None
) -> Int4PlainTensor:
    """Make a weight of values [N, K] from 0 to 15, scales [G, N] and zero points [G, N], which are integers."""
    values, scale, zero_point = read
    depth, groups = values.shape[1], len(scale)
    if depth % groups:
        raise ValueError(f"{layer}weight must have groups of one size, got {groups} of {depth} values")
    index = parts.get("g_idx", parts.get("weight_g_idx"))
    if index is not None and not torch.equal(index.cpu().long(), torch.arange(depth) // (depth // groups)):
        message = f"{layer}weight has its columns in the order of activations (desc_act), for which there is no kernel"
        raise ValueError(message)
    grid = scale.to(torch.float32).contiguous()
    real = (ZERO - zero_point.to(torch.float32)) * grid
    qdata = pack_int4((values - ZERO).to(torch.int8))
    return Int4PlainTensor(qdata, grid, real, group_size=depth // groups, dtype=dtype or scale.dtype)


def _unpack(words: Tensor, dim: int, order: tuple[int, ...] = tuple(range(TOGETHER))) -> Tensor:
    """Unpack the eight values of each word along a dimension, in which the first has the lowest bits."""
    shifts = torch.tensor([BITS * place for place in order], device=words.device, dtype=torch.int32)
    last = words.movedim(dim, -1)
    return ((last.unsqueeze(-1) >> shifts) & 0xF).flatten(-2).movedim(-1, dim)


def _read_gptq(layer: str, parts: Mapping[str, Tensor], config: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Read words along K, with zero points along N, which the first format holds less one."""
    del layer
    is_second = config.get("checkpoint_format", "gptq") == "gptq_v2"
    zero_point = _unpack(parts["qzeros"], -1) + (0 if is_second else 1)
    return _unpack(parts["qweight"], 0).t(), parts["scales"], zero_point


def _read_awq(layer: str, parts: Mapping[str, Tensor], config: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Read words along N, of values that are not in their order."""
    if config.get("version", "gemm").lower() != "gemm":
        raise ValueError(f"{layer}qweight must be in AWQ's format gemm, got {config['version']}")
    return _unpack(parts["qweight"], -1, AWQ_ORDER).t(), parts["scales"], _unpack(parts["qzeros"], -1, AWQ_ORDER)


def _read_compressed(
    layer: str, parts: Mapping[str, Tensor], config: Mapping[str, Any]
) -> tuple[Tensor, Tensor, Tensor]:
    """Read words along K, with scales [N, G] and zero points packed along N."""
    del layer, config
    rows, depth = (int(size) for size in parts["weight_shape"])
    scale = parts["weight_scale"].t()
    zero_point = torch.full_like(scale, ZERO, dtype=torch.int32)
    if "weight_zero_point" in parts:
        zero_point = _unpack(parts["weight_zero_point"], 0)[:rows].t()
    return _unpack(parts["weight_packed"], -1)[:, :depth], scale, zero_point


READERS: dict[
    str, tuple[str, Callable[[str, Mapping[str, Tensor], Mapping[str, Any]], tuple[Tensor, Tensor, Tensor]]]
] = {
    "gptq": ("qweight", _read_gptq),
    "awq": ("qweight", _read_awq),
    "compressed-tensors": ("weight_packed", _read_compressed),
}
