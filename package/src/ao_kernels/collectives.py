"""Collectives move what is stored: each tensor of a weight by itself, so that every process gets the same bits."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils import _pytree as pytree

from ao_kernels import policy  # whose handlers are there first
from ao_kernels.quantized import HANDLERS, QuantizedTensor
from ao_kernels.scaled import FLOAT8

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload
    from typing_extensions import Self

aten = torch.ops.aten

# Those that move numbers. The others compute with them, as a sum over processes does: they are as any operator.
MOVES = ("broadcast_", "scatter_", "gather_", "allgather_", "alltoall_", "send", "recv_", "recv_any_source_")


def _movable(stored: Tensor) -> Tensor:
    """Return the same bytes contiguous, and in a dtype that every backend sends: gloo knows no float8."""
    contiguous = stored.contiguous()
    return contiguous.view(torch.uint8) if contiguous.dtype == FLOAT8 else contiguous


def _move(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Run a collective for each stored tensor, contiguous as all of them must be, and wait for it."""
    weights = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, QuantizedTensor)]
    if len({(weight.kind[0], weight.group_size) for weight in weights}) > 1:
        message = f"{func} moves quantized weights of one class and group size, got {', '.join(map(repr, weights))}"
        raise ValueError(message)
    result: Any = None
    for i in range(len(weights[0].stored)):
        moved = {id(weight): _movable(weight.stored[i]) for weight in weights}
        part_args, part_kwargs = pytree.tree_map(lambda one, moved=moved: moved.get(id(one), one), (args, kwargs))
        result = func(*part_args, **part_kwargs)
        work = result[-1] if isinstance(result, (list, tuple)) else result
        work.wait()
        for weight in weights:
            if moved[id(weight)].data_ptr() != weight.stored[i].data_ptr():
                weight.stored[i].copy_(moved[id(weight)].view(weight.stored[i].dtype))
    return (args[0], *result[1:]) if isinstance(result, tuple) else result


def _broadcast_coalesced(original: Callable[..., None]) -> Callable[..., None]:
    """Let DistributedDataParallel broadcast what is stored: it would lay the numbers of all weights end to end."""

    @functools.wraps(original)
    def broadcast(group: object, tensors: list[Tensor], *options: object, **named: object) -> None:
        stored = [part for one in tensors for part in (one.stored if isinstance(one, QuantizedTensor) else (one,))]
        moved = [_movable(part) for part in stored]
        original(group, moved, *options, **named)
        for part, sent in zip(stored, moved, strict=True):
            if part.data_ptr() != sent.data_ptr():
                part.copy_(sent.view(part.dtype))

    return broadcast


if dist.is_available():
    for _name in MOVES:
        if hasattr(torch.ops.c10d, _name):
            HANDLERS[getattr(torch.ops.c10d, _name).default] = _move
    dist._broadcast_coalesced = _broadcast_coalesced(dist._broadcast_coalesced)  # type: ignore[attr-defined] # noqa: SLF001 - there is no hook


class FlatWeight(Tensor):
    """The view of a weight as one dimension, which holds it and has no use but to be viewed as it was.

    FSDP keeps one of each weight.
    """

    whole: QuantizedTensor

    def __new__(cls, whole: QuantizedTensor) -> Self:
        """Make the view."""
        self = cls._make_wrapper_subclass(cls, (whole.numel(),), dtype=whole.dtype, device=whole.device)
        self.whole = whole
        return self

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch declares it without a class
        cls, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        """Give the weight again where it is viewed as it was, and its numbers to every other operator."""
        flat, *others = args
        if func in {aten.view.default, aten._unsafe_view.default} and isinstance(flat, cls):  # noqa: SLF001 - the name of an operator
            if tuple(others[0]) == flat.whole.shape:
                return flat.whole.view(flat.whole.shape)
            if tuple(others[0]) in {(-1,), (flat.numel(),)}:
                return FlatWeight(flat.whole)
        if func in {aten.detach.default, aten._to_copy.default} and isinstance(flat, cls):  # noqa: SLF001 - see above
            return FlatWeight(func(flat.whole, **(kwargs or {})))
        if func._schema.is_mutable:  # noqa: SLF001 - no public name
            message = f"{func} cannot write to a flat view of a quantized weight: view it as it was first"
            raise NotImplementedError(message)
        plain = pytree.tree_map(
            lambda one: one.whole.dequantize().flatten() if isinstance(one, cls) else one, (args, kwargs or {})
        )
        return func(*plain[0], **plain[1])


def _view(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """View a weight as one dimension, or as `operations` does."""
    weight, size = args
    if tuple(size) in {(-1,), (weight.numel(),)}:
        return FlatWeight(weight)
    return VIEW(func, args, kwargs)


def _as_strided(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """View a weight as it is, which is all that FSDP asks for."""
    weight, size, stride, *offset = args
    if tuple(size) != weight.shape or tuple(stride) != weight.stride() or any(offset) or kwargs.get("storage_offset"):
        policy.refuse_view(func)
    return weight.view(weight.shape)


def _before_gathering(self: QuantizedTensor, mesh: object) -> tuple[tuple[Tensor, ...], object]:
    """Give FSDP what is stored, by rows."""
    del mesh
    return (self.qdata, *(grid.mT.contiguous() for grid in self.grids)), (self.group_size, self.dtype)


def _after_gathering(
    self: QuantizedTensor,
    gathered: tuple[Tensor, ...],
    metadata: tuple[int, torch.dtype],
    dtype: torch.dtype,
    *,
    out: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]] | None:
    """Put the whole weight together of what was gathered; `out` shares it, and is whole already."""
    del dtype
    if out is not None:
        return None
    qdata, *grids = gathered
    group_size, own = metadata
    return type(self)(qdata, *(grid.mT for grid in grids), group_size=group_size, dtype=own), gathered


VIEW = HANDLERS[aten.view.default]
HANDLERS[aten.view.default] = _view
HANDLERS[aten.as_strided.default] = _as_strided
QuantizedTensor.fsdp_pre_all_gather = _before_gathering  # type: ignore[attr-defined] # FSDP asks for it
QuantizedTensor.fsdp_post_all_gather = _after_gathering  # type: ignore[attr-defined] # see above
