"""What torch's operators do with quantized weights: products, views, copies."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import return_and_correct_aliasing

from ao_kernels.quantized import BATCH, FUNCTIONS, HANDLERS, MATRIX, QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

aten = torch.ops.aten
ROWS, DEPTH = -2, -1  # the last dimensions of the stored values; of the grids they are the other way round


def _plain(operand: Any) -> Any:  # noqa: ANN401 - operators take anything
    return operand.dequantize() if isinstance(operand, QuantizedTensor) else operand


def _dequantized(func: Callable[..., Tensor], *operands: object, **options: object) -> Tensor:
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


def _grouped_mm(
    x: Tensor,
    weight: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply the rows of each expert by its weight; `offs` says where they end."""
    counts = type(offs) is Tensor and x.dim() == MATRIX and bias is None and out_dtype in {None, x.dtype}
    counts = counts and offs is not None and len(offs) == len(weight)  # torch refuses another number, with its sentence
    if offs is None or not counts or not isinstance(weight, QuantizedTensor) or not _serves(weight):
        return _dequantized(aten._grouped_mm.default, x, weight, offs, bias, out_dtype)  # noqa: SLF001 - the name of an operator
    product = x.new_zeros(x.shape[0], weight.shape[-1])
    ends = offs.tolist()
    for expert, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        if last > first:
            product[first:last] = _batch(weight, expert).linear(x[first:last])
    return product


def _add(product: Tensor, bias: Tensor) -> Tensor:
    if bias.dtype != product.dtype:
        raise TypeError(f"bias must have the operands' dtype {product.dtype}, got {bias.dtype}")
    if bias.dim() != 1 or bias.shape[0] != product.shape[-1]:
        _check_bias(bias, product)
    return product + bias


def _check_bias(bias: Tensor, product: Tensor) -> None:
    """Refuse what torch does: a sum would blame the product, or be greater than it."""
    lengths = zip(reversed(bias.shape), reversed(product.shape), strict=False)
    if bias.dim() > product.dim() or any(one not in {1, length} for one, length in lengths):
        expected = tuple(product.shape[-1:])
        raise ValueError(f"bias must have the shape {expected}, one number for an output, got {tuple(bias.shape)}")


def _addmm(bias: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if _serves(weight) and beta == alpha == 1:
        return _add(_mm(x, weight), bias)
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


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002 - torch's name
    """Multiply as a linear layer does. Torch would come to the same product by a view and several operators."""
    if isinstance(weight, QuantizedTensor) and not weight.transposed and weight.qdata.dim() == MATRIX:
        return _product(_plain(input), weight, _plain(bias))
    return _dequantized(functional.linear, input, weight, bias)


def _matmul(input: Tensor, other: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Multiply in one way, with a gradient and without: torch's way to a product in another shape hangs on that."""
    if not isinstance(other, QuantizedTensor) or not other.transposed or isinstance(input, QuantizedTensor):
        return torch.matmul(input, other)
    if other.qdata.dim() == MATRIX and input.dim():
        return _product(input, other)
    if input.dim() == MATRIX or (input.dim() == BATCH and len(input) == 1):
        return torch.bmm(input.expand(len(other), *input.shape[-MATRIX:]), other)
    return torch.matmul(input, other)


def _product(x: Tensor, weight: QuantizedTensor, bias: Tensor | None = None) -> Tensor:
    dtype = weight.dtype
    # The first question is quick, and no device is unknown to it.
    if torch._C._is_any_autocast_enabled() and torch.is_autocast_enabled(x.device.type):  # noqa: SLF001 - torch's own
        dtype = torch.get_autocast_dtype(x.device.type)
        x, bias = _autocast(x, dtype), None if bias is None else _autocast(bias, dtype)
    product = weight.linear(x, dtype)
    return product if bias is None else _add(product, bias)


def _autocast(operand: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert an operand as autocast does: float64 and what is not floating point stay as they are."""
    return operand.to(dtype) if operand.is_floating_point() and operand.dtype != torch.float64 else operand


PRODUCTS: dict[OpOverload, Callable[..., Tensor]] = {
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.mv.default: _mv,
    aten.bmm.default: _bmm,
    aten.linear.default: _linear,
    aten._grouped_mm.default: _grouped_mm,  # noqa: SLF001 - the name of an operator
}


def _einsum(equation: str, *operands: Any) -> Tensor:  # noqa: ANN401 - tensors, or a list of them
    """Multiply by plain weights: torch would move the dimensions of a quantized one where they cannot be."""
    if len(operands) == 1:
        (operands,) = operands
    return _dequantized(partial(torch.einsum, equation), *operands)


FUNCTIONS[torch.einsum] = _einsum
FUNCTIONS[functional.linear] = _linear
FUNCTIONS.update(dict.fromkeys((torch.matmul, torch.linalg.matmul, Tensor.matmul), _matmul))


def _axis(dim: int, dimensions: int) -> int:
    if not -dimensions <= dim < dimensions:
        raise IndexError(f"dim must be from {-dimensions} to {dimensions - 1}, got {dim}")
    return dim % dimensions


def _same(weight: QuantizedTensor) -> QuantizedTensor:
    return weight.map(lambda stored: stored.view(stored.shape))


def _batch(weight: QuantizedTensor, index: int, dim: int = 0) -> QuantizedTensor:
    return weight.map(lambda stored: stored.select(dim, index))


def _permute(weight: QuantizedTensor, order: Sequence[int]) -> QuantizedTensor:
    """Change the order of the dimensions before the matrix, and that of its two."""
    *leading, rows, columns = (_axis(dim, weight.dim()) for dim in order)
    turned = rows > columns
    if {rows, columns} != {weight.dim() - 2, weight.dim() - 1}:
        _refuse(weight, f"keeps its last two dimensions together at the end, got the order {tuple(order)}")
    stored = weight.map(lambda stored: stored.permute(*leading, -2, -1))
    return stored.rewrap(stored.qdata, stored.grids, transposed=turned is not weight.transposed)


def _transpose(weight: QuantizedTensor, first: int = 0, second: int = 1) -> QuantizedTensor:
    order = list(range(weight.dim()))
    first, second = (_axis(dim, weight.dim()) for dim in (first, second))
    order[first], order[second] = order[second], order[first]
    return _permute(weight, order)


def _slice(
    weight: QuantizedTensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> QuantizedTensor:
    wanted = slice(*slice(start, end, step).indices(weight.shape[dim]))
    stored, of_grids = _stored_axes(weight, dim)
    if stored == DEPTH:
        return _columns(weight, wanted)
    grids = (_cut(grid, of_grids, wanted) for grid in weight.grids)
    return weight.rewrap(_cut(weight.qdata, stored, wanted), grids)


def _stored_axes(weight: QuantizedTensor, dim: int) -> tuple[int, int]:
    """Return where a dimension of a weight lies in the stored values, and where in the grids, both from the end."""
    from_the_end = _axis(dim, weight.dim()) - weight.dim()
    if from_the_end < ROWS:
        return from_the_end, from_the_end
    return (DEPTH, ROWS) if (from_the_end == DEPTH) is not weight.transposed else (ROWS, DEPTH)


def _cut(stored: Tensor, axis: int, wanted: slice) -> Tensor:
    return stored.transpose(0, axis)[wanted].transpose(0, axis)


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
    axis = _axis(dim, weight.dim())
    if weight.dim() - axis <= MATRIX:
        _refuse(weight, "gives whole matrices: slice it, as in weight[3:4]")
    return _batch(weight, index, axis)


def _unbind(weight: QuantizedTensor, dim: int = 0) -> list[QuantizedTensor]:
    return [_select(weight, dim, index) for index in range(weight.shape[dim])]


def _split(weight: QuantizedTensor, size: int, dim: int = 0) -> list[QuantizedTensor]:
    if size < 1:
        raise ValueError(f"split_size must be at least 1, got {size}")
    return [_slice(weight, dim, start, start + size) for start in range(0, weight.shape[dim], size)]


def _split_with_sizes(weight: QuantizedTensor, sizes: Sequence[int], dim: int = 0) -> list[QuantizedTensor]:
    length = weight.shape[dim]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise ValueError(f"split_sizes must sum to the {length} of dimension {dim}, got {list(sizes)}")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [_slice(weight, dim, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _view(weight: QuantizedTensor, size: Sequence[int]) -> QuantizedTensor:
    return _resize(weight, size, Tensor.view)


def _reshape(weight: QuantizedTensor, size: Sequence[int]) -> QuantizedTensor:
    return _resize(weight, size, Tensor.reshape)


def _resize(weight: QuantizedTensor, size: Sequence[int], change: Callable[..., Tensor]) -> QuantizedTensor:
    """Change the dimensions before K, which are those of the stored values, and of the grids but for theirs of G."""
    wanted = _resolve(weight, size)
    kept = MATRIX if weight.transposed else 1
    if len(wanted) < MATRIX or wanted[-kept:] != weight.shape[-kept:]:
        _refuse(weight, f"keeps its last {'two dimensions' if kept == MATRIX else 'dimension'}, got the shape {wanted}")
    *leading, rows = (*wanted[:-2], weight.qdata.shape[-2]) if weight.transposed else wanted[:-1]
    qdata = change(weight.qdata, (*leading, rows, weight.qdata.shape[-1]))
    grids = (change(grid.movedim(-2, 0), (grid.shape[-2], *leading, rows)).movedim(0, -2) for grid in weight.grids)
    return weight.rewrap(qdata, grids)


def _resolve(weight: QuantizedTensor, size: Sequence[int]) -> tuple[int, ...]:
    """Put in the dimension that is written as -1."""
    known = math.prod(new for new in size if new != -1)
    wanted = tuple(weight.numel() // max(known, 1) if new == -1 else new for new in size)
    if math.prod(wanted) != weight.numel():
        _refuse(weight, f"keeps its {weight.numel()} numbers, got the shape {tuple(size)}")
    return wanted


def _expand(weight: QuantizedTensor, size: Sequence[int], **_: bool) -> QuantizedTensor:
    if any(new not in {-1, old} for new, old in zip(size[-2:], weight.shape[-2:], strict=True)):
        _refuse(weight, f"keeps its last two dimensions, got the shape {tuple(size)}")
    return weight.map(lambda stored: stored.expand(*size[:-2], -1, -1))


def _unsqueeze(weight: QuantizedTensor, dim: int) -> QuantizedTensor:
    axis = _axis(dim, weight.dim() + 1)
    if axis > weight.dim() - MATRIX:
        _refuse(weight, "gets new dimensions before its last two only")
    return weight.map(lambda stored: stored.unsqueeze(axis))


def _refuse(weight: QuantizedTensor, what: str) -> NoReturn:
    raise ValueError(f"{type(weight).__name__} {what}; or call dequantize() on it first")


VIEWS: dict[OpOverload, Callable[..., QuantizedTensor | list[QuantizedTensor]]] = {
    aten.alias.default: _same,
    aten.detach.default: _same,
    aten.expand.default: _expand,
    aten.permute.default: _permute,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.t.default: _transpose,
    aten.transpose.int: _transpose,
    aten.unbind.int: _unbind,
    aten.unsafe_split.Tensor: _split,
    aten.unsafe_split_with_sizes.default: _split_with_sizes,
    aten.unsqueeze.default: _unsqueeze,
    aten.view.default: _view,
    aten._unsafe_view.default: _reshape,  # noqa: SLF001 - the name of an operator
}


def _clone(weight: QuantizedTensor, *, memory_format: torch.memory_format | None = None) -> QuantizedTensor:
    return weight.map(lambda stored: stored.clone(memory_format=memory_format or torch.preserve_format))


def _cat(weights: Sequence[Tensor], dim: int = 0) -> QuantizedTensor:
    """Join weights along any dimension."""
    first = next(weight for weight in weights if isinstance(weight, QuantizedTensor))
    alike = [weight for weight in weights if isinstance(weight, QuantizedTensor) and _joins(first, weight, dim)]
    if len(alike) < len(weights):
        others = ", ".join(map(_described, weights))
        _refuse(
            first, f"is joined along dimension {dim} to weights of its class, dtype, grouping and shape, got {others}"
        )
    stored, of_grids = _stored_axes(first, dim)
    grids = (torch.cat(parts, of_grids) for parts in zip(*(weight.grids for weight in alike), strict=True))
    return first.rewrap(torch.cat([weight.qdata for weight in alike], stored), grids)


def stack_rows(weights: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Put matrices together as several, where they are alike and torch stacks them before their last two dimensions."""
    quantized = [weight for weight in weights if isinstance(weight, QuantizedTensor)]
    axis = dim % (weights[0].dim() + 1)
    alike = len(quantized) == len(weights) and len({(weight.kind, weight.dtype) for weight in quantized}) == 1
    if alike and axis <= weights[0].dim() - MATRIX:
        return _cat([_unsqueeze(weight, axis) for weight in quantized], axis)
    return torch.stack([_plain(weight) for weight in weights], dim)


def _joins(first: QuantizedTensor, second: QuantizedTensor, dim: int) -> bool:
    """Whether two weights have in common all but the length of a dimension."""
    axis = _axis(dim, first.dim())
    kinds = (
        (
            type(weight),
            weight.shape[:axis],
            weight.shape[axis + 1 :],
            weight.dtype,
            weight.group_size,
            weight.transposed,
        )
        for weight in (first, second)
    )
    return len(set(kinds)) == 1


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


def _copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - torch's
    if not isinstance(target, QuantizedTensor):
        return target.copy_(_plain(source), non_blocking=non_blocking)
    if not isinstance(source, QuantizedTensor) or source.kind != target.kind:
        plain = (
            target.dequantize()
            if source.shape != target.shape
            else torch.empty(source.shape, dtype=target.dtype, device=target.device)
        )
        target.quantize_again(plain.copy_(_plain(source)))
        return target
    target.store(source.stored, non_blocking=non_blocking)
    return target


def _described(operand: Tensor) -> str:
    """Describe a tensor without its numbers."""
    if isinstance(operand, QuantizedTensor):
        return repr(operand)
    return f"a plain tensor of shape {tuple(operand.shape)} and dtype {operand.dtype}"


COPIES: dict[OpOverload, Callable[..., Tensor]] = {
    aten.cat.default: _cat,
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
