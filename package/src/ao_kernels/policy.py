"""One policy for every operator: what acts on what is stored, what on numbers, and what is written back.

- What only looks at shape, place or identity acts on what is stored: `HANDLERS`, from here and from `operations`.
- Everything else computes with the numbers that a weight stands for, and gives plain tensors.
- What writes into a weight computes so too, and the weight is quantized again: its caller has asked for that.
- A view of numbers that are not stored is refused: what was written to it would be lost.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import dlpack
from torch.utils._python_dispatch import return_and_correct_aliasing

from ao_kernels.operations import COPIES, FUSED, PRODUCTS, VIEWS, stack_rows
from ao_kernels.quantized import FUNCTIONS, HANDLERS, QuantizedTensor
from ao_kernels.scaled import FLOAT8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch._ops import OpOverload

aten = torch.ops.aten


def is_quantized(operand: object) -> bool:
    """Whether an operand is a quantized weight."""
    return isinstance(operand, QuantizedTensor)


def _is_pinned(weight: QuantizedTensor, device: object = None) -> bool:
    del device  # torch does without it by now
    return all(stored.is_pinned() for stored in weight.stored)


def _pin(weight: QuantizedTensor, device: object = None) -> QuantizedTensor:
    del device
    return weight.map(Tensor.pin_memory)


def _equal(one: Tensor, other: Tensor) -> bool:
    if isinstance(one, QuantizedTensor) and isinstance(other, QuantizedTensor) and one.kind == other.kind:
        return all(torch.equal(_bits(mine), _bits(its)) for mine, its in zip(one.stored, other.stored, strict=True))
    return torch.equal(_plain(one), _plain(other))


def _bits(stored: Tensor) -> Tensor:
    """Show float8 as bytes, which torch can compare."""
    return stored.view(torch.uint8) if stored.dtype == FLOAT8 else stored


def _view_as_bytes(weight: QuantizedTensor, dtype: torch.dtype) -> Tensor:
    """Show the numbers in another dtype, to be read: accelerate writes them to disk so."""
    return weight.dequantize().view(dtype)


def _record_stream(weight: QuantizedTensor, stream: torch.Stream) -> None:
    for stored in weight.stored:
        stored.record_stream(stream)


def _index_select(weight: QuantizedTensor, dim: int, index: Tensor) -> Tensor:
    """Choose rows or matrices; values along K lie in groups, which a choice would tear."""
    axis = dim % weight.dim() - weight.dim()
    if axis == (-2 if weight.transposed else -1):
        return weight.dequantize().index_select(dim, index)
    of_rows = axis >= -2  # noqa: PLR2004 - of the last two dimensions
    qdata = weight.qdata.index_select(-2 if of_rows else axis, index)
    return weight.rewrap(qdata, (grid.index_select(-1 if of_rows else axis, index) for grid in weight.grids))


def _index(weight: QuantizedTensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Choose by one index along the first dimension: rows of a matrix, or matrices of several."""
    if not isinstance(weight, QuantizedTensor) or len(indices) != 1 or indices[0] is None or weight.transposed:
        chosen: Tensor = aten.index.Tensor(_plain(weight), pytree.tree_map(_plain, indices))
        return chosen
    (index,) = indices
    if weight.dim() > 2:  # noqa: PLR2004 - of several matrices
        return weight.map(lambda stored: stored[index])
    rows = (grid.mT[index].movedim(-1, -2) for grid in weight.grids)
    return weight.rewrap(weight.qdata[index], rows)


def _squeeze(weight: QuantizedTensor, dims: int | Sequence[int] | None = None) -> QuantizedTensor:
    """Drop dimensions of one before the matrix, which stays a matrix."""
    wanted = range(weight.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    leading = tuple({dim % weight.dim() for dim in wanted} & set(range(weight.dim() - 2)))
    return weight.map(lambda stored: stored.squeeze(leading))


def _new(
    weight: QuantizedTensor,
    size: Sequence[int],
    stride: object = None,
    *,
    fill: str = "new_empty",
    **options: Any,  # noqa: ANN401 - torch's
) -> Tensor:
    """Make a weight of other rows, quantized alike; a plain tensor where K is another one or the dtype no weight's."""
    del stride
    dtype = options.get("dtype") or weight.dtype
    if weight.transposed or len(size) < 2 or size[-1] != weight.shape[-1] or not dtype.is_floating_point:  # noqa: PLR2004
        plain: Tensor = getattr(weight.scale, fill)(size, dtype=dtype, device=options.get("device"))
        return plain
    device = options.get("device")
    qdata = getattr(weight.qdata, fill)((*size[:-1], weight.qdata.shape[-1]), device=device)
    grids = (getattr(grid, fill)((*size[:-2], grid.shape[-2], size[-2]), device=device) for grid in weight.grids)
    return weight.rewrap(qdata, grids, dtype=dtype)


def _zeros_like(
    weight: QuantizedTensor, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: object
) -> QuantizedTensor:
    """Make a weight that stands for zeros: its scales are zero too."""
    return weight.map(lambda stored: torch.zeros_like(stored, device=device), dtype=dtype)


STORED: dict[OpOverload, Callable[..., Any]] = {
    aten.equal.default: _equal,
    aten.is_pinned.default: _is_pinned,
    aten.pin_memory.default: _pin,
    aten._pin_memory.default: _pin,  # noqa: SLF001 - the name of an operator
    aten.record_stream.default: _record_stream,
    aten.index.Tensor: _index,
    aten.index_select.default: _index_select,
    aten.new_empty.default: _new,
    aten.new_empty_strided.default: _new,
    aten.new_zeros.default: functools.partial(_new, fill="new_zeros"),
    aten.stack.default: stack_rows,
    aten.view.dtype: _view_as_bytes,
    aten.zeros_like.default: _zeros_like,
}
SQUEEZES: dict[OpOverload, Callable[..., QuantizedTensor]] = dict.fromkeys(
    (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _squeeze
)
# What only looks at the shape and the place of its first operand, and gives numbers that have to be stored plainly.
FILLED = (
    aten.full_like.default,
    aten.new_full.default,
    aten.new_ones.default,
    aten.ones_like.default,
    aten.rand_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.randn_like.default,
)


def _plain(operand: Any) -> Any:  # noqa: ANN401 - operators take anything
    return operand.dequantize() if isinstance(operand, QuantizedTensor) else operand


@functools.cache
def _say_once() -> None:
    message = (
        "operators other than products compute with the numbers that a quantized weight stands for, "
        "and give plain tensors (said once)"
    )
    logging.getLogger("ao_kernels").warning(message)


def refuse_view(func: object) -> NoReturn:
    """Say that numbers which are not stored cannot be shared."""
    raise NotImplementedError(
        f"{func} gives a view of numbers that a quantized weight does not store: call dequantize() on it first"
    )


def apply_policy(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Run an operator that has no handler."""
    result = func.decompose(*args, **kwargs)
    if result is not NotImplemented:
        return result
    written = _written(func, args, kwargs)
    if not written and func.is_view:
        refuse_view(func)
    if not torch.compiler.is_compiling():
        _say_once()
    plain = {id(weight): weight.dequantize() for weight in pytree.tree_leaves((args, kwargs)) if is_quantized(weight)}
    plain_args, plain_kwargs = pytree.tree_map(lambda one: plain.get(id(one), one), (args, kwargs))
    result = func(*plain_args, **plain_kwargs)
    for weight in written:
        weight.quantize_again(plain[id(weight)])
    originals = {id(plain[id(weight)]): weight for weight in written}
    return pytree.tree_map(lambda one: originals.get(id(one), one), result)


def _written(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[QuantizedTensor]:
    """Return the weights that an operator writes into."""
    found = []
    for i, argument in enumerate(func._schema.arguments):  # noqa: SLF001 - no public name
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            found += [leaf for leaf in pytree.tree_leaves(given) if is_quantized(leaf)]
    return found


def _rewrite(func: Callable[..., Tensor], target: Tensor, *others: object) -> Tensor:
    """Write into numbers, and take them again."""
    plain = _plain(target)
    func(plain, *map(_plain, others))
    if isinstance(target, QuantizedTensor):
        target.quantize_again(plain)
    return target


def _share(func: str, *_: object, **__: object) -> NoReturn:
    refuse_view(func)


def _guard_capsule(original: Callable[..., object]) -> Callable[..., object]:
    """Refuse a weight before torch makes a capsule of it, whose reader would end the process."""

    @functools.wraps(original)
    def to_dlpack(tensor: Tensor, **options: object) -> object:
        if is_quantized(tensor):
            refuse_view("to_dlpack")
        return original(tensor, **options)

    return to_dlpack


def _run_stored(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return STORED[func](*args, **kwargs)


def _run_squeeze(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return return_and_correct_aliasing(func, args, kwargs, SQUEEZES[func](*args, **kwargs))


def _run_filled(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Show an operator the shape, without the numbers."""
    weight, *others = args
    shape = weight.scale.new_empty((), dtype=weight.dtype).expand(weight.shape)
    return func(
        shape, *others, **{"memory_format": torch.contiguous_format, **kwargs} if "_like" in str(func) else kwargs
    )


HANDLERS.update(dict.fromkeys(STORED, _run_stored))
HANDLERS.update(dict.fromkeys(SQUEEZES, _run_squeeze))
HANDLERS.update(dict.fromkeys(FILLED, _run_filled))
# What torch does past its operators, by the address of numbers that are not there: some of it ends the process. That
# address stays 0, also for whoever asks for it: torch takes it for the mark of a tensor that is made of others.
FUNCTIONS.update(
    {getattr(Tensor, name): functools.partial(_rewrite, getattr(Tensor, name)) for name in ("apply_", "map_", "map2_")}
)
FUNCTIONS.update(
    {getattr(Tensor, name): functools.partial(_share, name) for name in ("numpy", "__array__", "__dlpack__")}
)
torch.to_dlpack = dlpack.to_dlpack = _guard_capsule(dlpack.to_dlpack)  # type: ignore[attr-defined] # there is no hook
FUNCTIONS[Tensor.tolist] = lambda weight: weight.dequantize().tolist()
QuantizedTensor.OTHERWISE = staticmethod(apply_policy)


KINDS: dict[str, tuple[str, Sequence[OpOverload]]] = {
    "product": ("multiplies by the operator of the format, or by the numbers where that has none", tuple(PRODUCTS)),
    "view": ("gives a quantized weight that shares what is stored", (*VIEWS, *SQUEEZES, aten.as_strided.default)),
    "stored": ("acts on what is stored", (*COPIES, *STORED)),
    "shape": ("looks at the shape and the place, and gives plain numbers", FILLED),
    "refused": ("is refused with a sentence", FUSED),
}
"""What becomes of a quantized weight under the operators that have a handler."""
