"""bfloat16 activations times int4 weights: the operator's schema, its generic body, its shapes and its gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ao_kernels.int4 import unpack_int4

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "ao::bf16i4bf16_rowwise"
SCALE_DTYPES = (torch.float32, torch.bfloat16)


def bf16i4bf16_rowwise(input: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Multiply bfloat16 activations by int4 weights: `input @ (q * scale + zero_point).T`.

    Sums are float32. G groups of K / G values along K share a scale and a zero point (the weight that q = 0 stands
    for); `int4_row_quantize_zp` and `pack_int4` make them. The gradient is that
    of `input`; the other three are constants.

    Args:
        input: [..., K], bfloat16.
        weight: [N, K / 2], int8, two values to a byte as packed by `pack_int4`.
        scale: [G, N], float32 or bfloat16; G divides K.
        zero_point: [G, N], of `scale`'s dtype.

    Returns:
        bfloat16 [..., N], contiguous.

    Raises:
        TypeError: a dtype is another one. The CUDA kernel raises RuntimeError here and below.
        ValueError: a shape or a device does not fit the others.

    """
    output: Tensor = torch.ops.ao.bf16i4bf16_rowwise(input, weight, scale, zero_point)
    return output


def dequantize(weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Make the bfloat16 [N, K] weight that packed int4 [N, K / 2] with scales and zero points [G, N] stands for."""
    (rows, half), groups = weight.shape, scale.shape[0]
    values = unpack_int4(weight, scale.dtype).view(rows, groups, 2 * half // max(groups, 1))
    values.mul_(scale.t().unsqueeze(-1)).add_(zero_point.t().unsqueeze(-1))
    return values.view(rows, 2 * half).to(torch.bfloat16)


def _dtype_faults(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Iterator[str]:
    if x.dtype != torch.bfloat16:
        yield f"input must be bfloat16, got {x.dtype}"
    if weight.dtype != torch.int8:
        yield f"weight must be int8, got {weight.dtype}"
    if scale.dtype not in SCALE_DTYPES:
        yield f"scale must be float32 or bfloat16, got {scale.dtype}"
    if zero_point.dtype != scale.dtype:
        yield f"zero_point must have scale's dtype {scale.dtype}, got {zero_point.dtype}"


def _rank_faults(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Iterator[str]:
    if not x.dim():
        yield "input must have at least 1 dimension, got 0"
    for name, matrix in (("weight", weight), ("scale", scale), ("zero_point", zero_point)):
        if matrix.dim() != 2:  # noqa: PLR2004 - a matrix
            yield f"{name} must have 2 dimensions, got {matrix.dim()}"


def _shape_faults(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Iterator[str]:
    depth, groups = x.shape[-1], scale.shape[0]
    if depth != 2 * weight.shape[1]:
        yield f"input's last dimension must be K = {2 * weight.shape[1]}, got {depth}"
    if scale.shape[1] != weight.shape[0]:
        yield f"scale must have N = {weight.shape[0]} columns, got {scale.shape[1]}"
    if depth % groups if groups else depth:
        yield f"scale must have a number of rows that divides K = {depth}, got {groups}"
    if zero_point.shape != scale.shape:
        yield f"zero_point must have scale's shape {list(scale.shape)}, got {list(zero_point.shape)}"


def _device_faults(*operands: Tensor) -> Iterator[str]:
    devices = sorted({str(operand.device) for operand in operands})
    if len(devices) > 1:
        yield f"input, weight, scale and zero_point must be on one device, got {' and '.join(devices)}"


def _check(*operands: Tensor) -> None:
    """Raise one error that lists every fault of the first kind there is."""
    for find_faults, error in (
        (_device_faults, ValueError),
        (_dtype_faults, TypeError),
        (_rank_faults, ValueError),
        (_shape_faults, ValueError),
    ):
        faults = list(find_faults(*operands))
        if faults:
            raise error("; ".join(faults))


def _generic(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    _check(x, weight, scale, zero_point)
    *leading, depth = x.shape
    rows = x.reshape(math.prod(leading), depth)
    return (rows @ dequantize(weight, scale, zero_point).t()).view(*leading, weight.shape[0])


def _fake(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    _check(x, weight, scale, zero_point)
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _save_weight(
    ctx: torch.autograd.function.FunctionCtx,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    output: Tensor,  # noqa: ARG001 - torch passes it by name
) -> None:
    ctx.save_for_backward(*inputs[1:])


def _input_gradient(
    ctx: torch.autograd.function.BackwardCFunction, gradient: Tensor
) -> tuple[Tensor, None, None, None]:
    saved: tuple[Tensor, ...] = ctx.saved_tensors
    return gradient @ dequantize(*saved), None, None, None


def _register() -> torch.library.Library:
    """Define the operator. Compiled libraries add kernels to it and never define it, so they load in any order."""
    library = torch.library.Library("ao", "FRAGMENT")
    library.define("bf16i4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor")
    # CompositeImplicitAutograd would take the operator apart while tracing, before a device's own kernel is looked for.
    library.impl("bf16i4bf16_rowwise", _generic, "CompositeExplicitAutograd")
    torch.library.register_fake(NAME, _fake, lib=library)
    torch.library.register_autograd(NAME, _input_gradient, setup_context=_save_weight, lib=library)
    return library


LIBRARY = _register()  # the registration lives as long as this object
