"""What torch's operators do with quantized weights: products, views, copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing

from ao_kernels.quantized import HANDLERS, MATRIX, QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

aten = torch.ops.aten


def _plain(operand: Any) -> Any:  # noqa: ANN401 - operators take anything
    return operand.dequantize() if isinstance(operand, QuantizedTensor) else operand


def _dequantized(func: OpOverload, *operands: object, **options: object) -> Tensor:
    """Run an operator on plain tensors, for products that the format's operator does not give."""
    product: Tensor = func(*map(_plain, operands), **options)
    return product


def _serves(weight: object) -> bool:
    """Whether the product of activations with a weight is that of the format's operator: they meet along K."""
    return isinstance(weight, QuantizedTensor) and weight.transposed


def _mm(x: Tensor, weight: Tensor) -> Tensor:
    if isinstance(weight, QuantizedTensor) and _serves(weight):
        return weight.linear(_plain(x))
    return _dequantized(aten.mm.default, x, weight)


def _addmm(bias: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if _serves(weight) and beta == alpha == 1:
        return _mm(x, weight) + bias
    return _dequantized(aten.addmm.default, bias, x, weight, beta=beta, alpha=alpha)


def _mv(weight: Tensor, x: Tensor) -> Tensor:
    if isinstance(weight, QuantizedTensor) and not weight.transposed:
        return weight.linear(_plain(x))
    return _dequantized(aten.mv.default, weight, x)


def _bmm(x: Tensor, weight: Tensor) -> Tensor:
    if not isinstance(weight, QuantizedTensor) or not _serves(weight):
        return _dequantized(aten.bmm.default, x, weight)
    x = _plain(x)
    if not len(x):
        return x.new_empty(0, x.shape[1], weight.shape[2])
    if weight.qdata.stride(0) == 0:  # one weight, expanded
        return _batch(weight, 0).linear(x)
    return torch.stack([_batch(weight, i).linear(matrix) for i, matrix in enumerate(x)])


PRODUCTS: dict[OpOverload, Callable[..., Tensor]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.mv.default: _mv,
    aten.bmm.default: _bmm,
}


def _batch(weight: QuantizedTensor, index: int) -> QuantizedTensor:
    return weight.map(lambda stored: stored.select(0, index))


def _same(weight: QuantizedTensor) -> QuantizedTensor:
    return weight.map(lambda stored: stored.view(stored.shape))


def _transpose(weight: QuantizedTensor, *dimensions: int) -> QuantizedTensor:
    chosen = {dimension % weight.dim() for dimension in dimensions or (0, 1)}
    if len(chosen) == 1:
        return _same(weight)
    if chosen != {weight.dim() - 2, weight.dim() - 1}:
        _refuse(weight, "transposes its last two dimensions only")
    stored = _same(weight)
    return stored.rewrap(stored.qdata, stored.grids, transposed=not weight.transposed)


def _slice(
    weight: QuantizedTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> QuantizedTensor:
    axis = dim % weight.dim()
    wanted = slice(*slice(start, end, step).indices(weight.shape[axis]))
    from_the_end = weight.dim() - axis
    if from_the_end > MATRIX:
        return weight.map(lambda stored: stored[wanted])
    if (from_the_end == 1) is not weight.transposed:
        return _columns(weight, wanted)
    return weight.rewrap(weight.qdata[..., wanted, :], (grid[..., wanted] for grid in weight.grids))


def _columns(weight: QuantizedTensor, wanted: slice) -> QuantizedTensor:
    """Cut along K, where values lie in groups and lie together in stored elements."""
    group_size, together = weight.group_size, weight.FORMAT.together
    stop = max(wanted.start, wanted.stop)
    if wanted.step != 1 or any(end % group_size or end % together for end in (wanted.start, stop)):
        cut = f"{wanted.start}:{stop}:{wanted.step}"
        _refuse(weight, f"is cut along K where its groups of {group_size} end, in steps of 1, got {cut}")
    elements = slice(wanted.start // together, stop // together)
    groups = slice(wanted.start // group_size, stop // group_size)
    return weight.rewrap(weight.qdata[..., elements], (grid[..., groups, :] for grid in weight.grids))


def _select(weight: QuantizedTensor, dim: int, index: int) -> QuantizedTensor:
    if weight.dim() == MATRIX or dim % weight.dim():
        _refuse(weight, "gives whole matrices: slice it, as in weight[3:4]")
    return _batch(weight, index)


def _unbind(weight: QuantizedTensor, dim: int = 0) -> list[QuantizedTensor]:
    return [_select(weight, dim, index) for index in range(weight.shape[dim])]


def _split(weight: QuantizedTensor, size: int, dim: int = 0) -> list[QuantizedTensor]:
    return [_slice(weight, dim, start, start + size) for start in range(0, weight.shape[dim], size)]


def _split_with_sizes(weight: QuantizedTensor, sizes: Sequence[int], dim: int = 0) -> list[QuantizedTensor]:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [_slice(weight, dim, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _view(weight: QuantizedTensor, size: Sequence[int]) -> QuantizedTensor:
    """Change the dimensions before the matrix."""
    if tuple(size[-2:]) != tuple(weight.shape[-2:]):
        _refuse(weight, f"keeps its last two dimensions, got the shape {tuple(size)}")
    return weight.map(lambda stored: stored.view(*size[:-2], *stored.shape[-2:]))


def _expand(weight: QuantizedTensor, size: Sequence[int], **_: bool) -> QuantizedTensor:
    if any(new not in {-1, old} for new, old in zip(size[-2:], weight.shape[-2:], strict=True)):
        _refuse(weight, f"keeps its last two dimensions, got the shape {tuple(size)}")
    return weight.map(lambda stored: stored.expand(*size[:-2], -1, -1))


def _unsqueeze(weight: QuantizedTensor, dim: int) -> QuantizedTensor:
    if dim not in {0, -3} or weight.dim() != MATRIX:
        _refuse(weight, "gets no dimension but one before its two")
    return weight.map(lambda stored: stored.unsqueeze(0))


def _refuse(weight: QuantizedTensor, what: str) -> None:
    message = f"{type(weight).__name__} {what}; or call dequantize() on it first"
    raise ValueError(message)


VIEWS: dict[OpOverload, Callable[..., QuantizedTensor | list[QuantizedTensor]]] = {
    aten.alias.default: _same,
    aten.detach.default: _same,
    aten.expand.default: _expand,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.t.default: _transpose,
    aten.transpose.int: _transpose,
    aten.unbind.int: _unbind,
    aten.unsqueeze.default: _unsqueeze,
    aten.view.default: _view,
    aten._unsafe_view.default: _view,  # noqa: SLF001 - the name of an operator
}


def _clone(weight: QuantizedTensor, **_: torch.memory_format) -> QuantizedTensor:
    return weight.map(Tensor.clone)


def _empty_like(
    weight: QuantizedTensor, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: object
) -> QuantizedTensor:
    return weight.map(lambda stored: torch.empty_like(stored, device=device), dtype=dtype)


def _to_copy(
    weight: QuantizedTensor,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    non_blocking: bool = False,
    **_: object,
) -> QuantizedTensor:
    """Copy to a device. Another dtype is what the copy stands for; what is stored stays as it is."""
    if dtype is not None and not dtype.is_floating_point:
        _refuse(weight, f"stands for floating-point numbers, got {dtype}")
    return weight.map(lambda stored: stored.to(device, copy=True, non_blocking=non_blocking), dtype=dtype)


def _copy(weight: QuantizedTensor, source: Tensor, non_blocking: bool = False) -> QuantizedTensor:  # noqa: FBT001, FBT002 - torch's
    if _kind(source) != _kind(weight):
        _refuse(weight, f"is filled by a weight like it, {weight!r}, got {source!r}")
    stored, given = (
        (tensor.qdata, *tensor.grids) for tensor in (weight, source) if isinstance(tensor, QuantizedTensor)
    )
    for mine, other in zip(stored, given, strict=True):
        mine.copy_(other, non_blocking=non_blocking)
    return weight


def _kind(tensor: Tensor) -> tuple[object, ...]:
    """All that two tensors must have in common for one to take the numbers of the other."""
    if not isinstance(tensor, QuantizedTensor):
        return (type(tensor),)
    return (type(tensor), tensor.shape, tensor.group_size, tensor.transposed)


COPIES: dict[OpOverload, Callable[..., QuantizedTensor]] = {
    aten._to_copy.default: _to_copy,  # noqa: SLF001 - the name of an operator
    aten.clone.default: _clone,
    aten.copy_.default: _copy,
    aten.empty_like.default: _empty_like,
}


FUSED: tuple[OpOverload, ...] = (
    aten._native_multi_head_attention.default,  # noqa: SLF001 - the name of an operator
    aten._transformer_encoder_layer_fwd.default,  # noqa: SLF001 - see above
)


def _run_fused(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse what torch takes for a whole layer in inference, when its compiler does not see what the weights are."""
    del args, kwargs
    message = f"quantized weights do not support {func}: call torch.backends.mha.set_fastpath_enabled(False) first"
    raise NotImplementedError(message)


def _run_product(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return PRODUCTS[func](*args, **kwargs)


def _run_view(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    # In inference mode, what torch makes of a weight from outside of it is no inference tensor either.
    with torch.inference_mode(torch.is_inference_mode_enabled() and args[0].is_inference()):
        return return_and_correct_aliasing(func, args, kwargs, VIEWS[func](*args, **kwargs))


def _run_copy(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return return_and_correct_aliasing(func, args, kwargs, COPIES[func](*args, **kwargs))


HANDLERS.update(dict.fromkeys(FUSED, _run_fused))
HANDLERS.update(dict.fromkeys(PRODUCTS, _run_product))
HANDLERS.update(dict.fromkeys(VIEWS, _run_view))
HANDLERS.update(dict.fromkeys(COPIES, _run_copy))
