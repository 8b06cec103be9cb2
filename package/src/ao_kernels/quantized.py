"""A quantized weight as a tensor: a module holds one in the place of its weight, and need not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch._C import DisableTorchFunctionSubclass

from ao_kernels.formats import dequantize
from ao_kernels.rowwise import multiply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch._ops import OpOverload
    from typing_extensions import Self

    from ao_kernels.formats import WeightFormat

MATRIX = 2  # dimensions of one weight
BATCH = 3  # of several


class QuantizedTensor(Tensor):
    """A weight [N, K] or [B, N, K] that is stored quantized, in groups along K; there is a class for each format.

    It is a constant to multiply by: `F.linear`, `@`, `torch.matmul`, `torch.mm`, `torch.bmm` and `torch.einsum` take
    it, and the gradient goes to the other operand. Slices, transposes and the like are views, which share what is
    stored; columns are cut where groups end. Whatever else there is to do with a weight begins with `dequantize()`.

    The products are those of the format's operator, in bfloat16. With a weight of another floating-point dtype, the
    other operand has that dtype too; it is converted, and the product is converted back.
    """

    FORMAT: ClassVar[WeightFormat]
    OTHERWISE: ClassVar[Callable[..., object]]  # what becomes of operators without a handler: `policy` says so

    qdata: Tensor
    """The stored values, [..., N, K / FORMAT.together]."""
    scale: Tensor
    """One number for each group and row, [..., K / group_size, N]. So is `zero_point`, in formats that have one."""
    group_size: int
    """Values of a row that share a scale."""
    transposed: bool
    """Whether this is the view [..., K, N] of what is stored."""

    def __new__(
        cls,
        qdata: Tensor,
        /,
        *grids: Tensor,
        group_size: int = 0,
        dtype: torch.dtype = torch.bfloat16,
        transposed: bool = False,
        requires_grad: bool = False,
        **attributes: object,
    ) -> Self:
        """Let stored values with their scales and zero points stand for a tensor of `dtype`.

        Or a parameter again for a tensor that is one already, as libraries make them: a plain one stays plain, and a
        quantized one has the attributes that accelerate gives besides.

        Raises:
            TypeError: the scales are missing, or an argument is none of these.
            ValueError: a grid has another shape than [..., G, N], or `group_size` is not K / G.

        """
        if not grids:
            parameter: Self = _as_parameter(qdata, requires_grad=requires_grad)
            return parameter
        if attributes:
            raise TypeError(f"{cls.__name__} takes group_size, dtype and transposed, got {', '.join(attributes)}")
        _check_grids(cls.FORMAT, qdata, grids, group_size)
        *leading, rows = qdata.shape[:-1]
        depth = cls.FORMAT.depth(qdata)
        *apart, row, value = _strides(cls.FORMAT.together, qdata, grids)
        shape = (*leading, depth, rows) if transposed else (*leading, rows, depth)
        strides = (*apart, value, row) if transposed else (*apart, row, value)
        self = cls._make_wrapper_subclass(cls, shape, strides, dtype=dtype, device=qdata.device)
        self.qdata = qdata
        for name, grid in zip(cls.FORMAT.grids, grids, strict=True):
            setattr(self, name, grid)
        self.group_size = group_size
        self.transposed = transposed
        return self

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    @classmethod
    def from_hp(cls, weight: Tensor, block_size: int | Sequence[int]) -> Self:
        """Quantize a weight.

        Args:
            weight: [N, K] or [B, N, K], floating point.
            block_size: the values of a row that share a scale, a divisor of K, such as 128; or as torchao writes it,
                with a one for each other dimension, (1, 128).

        Raises:
            TypeError: `weight` is not floating point.
            ValueError: `weight` has other dimensions, or `block_size` does not fit it.

        """
        group_size = _group_size(block_size, weight.dim())
        fault = cls.fault(weight.shape, group_size)
        if fault:
            raise ValueError(fault)
        *leading, rows, _ = weight.shape
        qdata, *grids = cls.FORMAT.quantize(weight.detach().flatten(0, -2), group_size)
        of_batches = (grid.unflatten(1, (*leading, rows)).movedim(0, -2).contiguous() for grid in grids)
        stored = (grid if grid.dtype == torch.int8 else grid.to(_scale_dtype(weight.dtype)) for grid in of_batches)
        return cls(qdata.view(*leading, rows, qdata.shape[-1]), *stored, group_size=group_size, dtype=weight.dtype)

    @classmethod
    def fault(cls, shape: Sequence[int], group_size: int) -> str | None:
        """Say why a weight of this shape cannot be quantized so; None where it can."""
        if len(shape) not in {MATRIX, BATCH}:
            return f"weight must have 2 or 3 dimensions, got {len(shape)}"
        if group_size < 1:
            return f"group_size must be at least 1, got {group_size}"
        if shape[-1] % group_size:
            return f"weight's last dimension must be a multiple of group_size {group_size}, got {shape[-1]}"
        if shape[-1] % cls.FORMAT.together:
            return f"weight's last dimension must be a multiple of {cls.FORMAT.together}, got {shape[-1]}"
        return None

    @property
    def grids(self) -> tuple[Tensor, ...]:
        """The scales, and the zero points in formats that have them."""
        return tuple(getattr(self, name) for name in self.FORMAT.grids)

    @property
    def stored(self) -> tuple[Tensor, ...]:
        """All that is stored: the values and the grids."""
        return (self.qdata, *self.grids)

    @property
    def kind(self) -> tuple[object, ...]:
        """All that two weights must have in common for one to take what the other stores."""
        return type(self), self.shape, self.group_size, self.transposed

    @property
    def nbytes(self) -> int:  # type: ignore[override] # torch's is of the numbers that this stands for
        """The bytes that are stored."""
        return sum(stored.nbytes for stored in self.stored)

    def element_size(self) -> float:  # type: ignore[override] # a number takes less than a byte
        """Return the bytes that are stored for a number; all numbers together take `nbytes`."""
        size = self.nbytes / max(self.numel(), 1)
        return int(size) if size.is_integer() else size

    @property
    def itemsize(self) -> float:  # type: ignore[override] # see above
        """The bytes of what is stored for a number, as `element_size` gives them."""
        return self.element_size()

    @property
    def block_size(self) -> tuple[int, ...]:
        """The group size as torchao writes it, with a one for each dimension but K."""
        ones = (1,) * (self.dim() - 2)
        return (*ones, self.group_size, 1) if self.transposed else (*ones, 1, self.group_size)

    @property
    def requires_grad(self) -> bool:
        """Whether there is a gradient for this weight: never, whatever it is told.

        A module that loads one in the place of its weight, or `nn.Parameter`, asks for it without a thought.
        """
        return False

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool) -> None:
        pass

    def requires_grad_(self, requires_grad: bool = True) -> Self:  # noqa: ARG002, FBT001, FBT002 - torch's
        """Stay a constant."""
        return self

    @property
    def data(self) -> Tensor:
        """The same weight, apart from autograd."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        """Stand for what another weight of this class stands for and share what it stores, or quantize a plain one."""
        if not isinstance(other, type(self)):
            self.quantize_again(other.dequantize() if isinstance(other, QuantizedTensor) else other)
            return
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined] # shape, dtype and device
        for name in ("qdata", *self.FORMAT.grids, "group_size", "transposed"):
            setattr(self, name, getattr(other, name))

    def share_memory_(self) -> Self:
        """Move what is stored to memory that other processes can open."""
        for stored in (self.qdata, *self.grids):
            stored.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Whether other processes can open what is stored."""
        return all(stored.is_shared() for stored in (self.qdata, *self.grids))

    def dequantize(self) -> Tensor:
        """Make the tensor that this one stands for, a plain one of its dtype."""
        grids = (grid.movedim(-2, 0).flatten(1) for grid in self.grids)
        rows = dequantize(self.FORMAT, self.qdata.flatten(0, -2), *grids, dtype=self.dtype)
        weight = rows.view(*self.qdata.shape[:-1], rows.shape[-1])
        return weight.mT if self.transposed else weight

    def quantize_again(self, plain: Tensor) -> None:
        """Take the numbers of a plain tensor of this shape: quantized as this weight is, into what it stores."""
        if plain.shape != self.shape:
            raise ValueError(f"a quantized weight keeps its shape {tuple(self.shape)}, got {tuple(plain.shape)}")
        *leading, rows, _ = self.qdata.shape
        of_rows = plain.detach().mT if self.transposed else plain.detach()
        qdata, *grids = self.FORMAT.quantize(of_rows.reshape(-1, of_rows.shape[-1]), self.group_size)
        of_batches = (grid.unflatten(1, (*leading, rows)).movedim(0, -2) for grid in grids)
        self.store((qdata.view(self.qdata.shape), *of_batches))

    def store(self, parts: Iterable[Tensor], *, non_blocking: bool = False) -> None:
        """Write into what is stored.

        Autograd, which saves that for a gradient, is told: torch itself tells it of writes to this tensor alone.
        """
        for stored, part in zip(self.stored, parts, strict=True):
            stored.copy_(part, non_blocking=non_blocking)
            if not torch.compiler.is_compiling() and not stored.is_inference():
                torch.autograd.graph.increment_version(stored)

    def linear(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Multiply activations [..., K] by this weight [N, K], whether it is seen transposed or not.

        Both have one dtype, which autocast gives as `dtype`.
        """
        dtype = dtype or self.dtype
        if x.dtype != dtype:
            raise TypeError(f"input must have the weight's dtype {dtype}, got {x.dtype}")
        if dtype == torch.bfloat16:
            return multiply(self.FORMAT, x, self.qdata, *self.grids)
        return multiply(self.FORMAT, x.to(torch.bfloat16), self.qdata, *self.grids).to(dtype)

    def rewrap(
        self,
        qdata: Tensor,
        grids: Iterable[Tensor],
        *,
        dtype: torch.dtype | None = None,
        transposed: bool | None = None,
    ) -> Self:
        """Make a tensor like this one of other stored tensors."""
        return type(self)(
            qdata,
            *grids,
            group_size=self.group_size,
            dtype=self.dtype if dtype is None else dtype,
            transposed=self.transposed if transposed is None else transposed,
        )

    def map(self, change: Callable[[Tensor], Tensor], *, dtype: torch.dtype | None = None) -> Self:
        """Make a tensor like this one, with the same change to all that is stored."""
        return self.rewrap(change(self.qdata), map(change, self.grids), dtype=dtype)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        del tensor_contents  # the numbers stored here mean little
        described = f"shape={tuple(self.shape)}, dtype={self.dtype}, device={self.device}, group_size={self.group_size}"
        return f"{type(self).__name__}({described})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[int, torch.dtype, bool]]:
        """Tell the compiler which tensors this one is made of, and what there is beside them."""
        return ["qdata", *self.FORMAT.grids], (self.group_size, self.dtype, self.transposed)

    @classmethod
    def __tensor_unflatten__(
        cls,
        inner: Mapping[str, Tensor],
        context: tuple[int, torch.dtype, bool],
        shape: Sequence[int],
        strides: Sequence[int],
    ) -> Self:
        """Put together what `__tensor_flatten__` took apart."""
        group_size, dtype, transposed = context
        grids = (inner[name] for name in cls.FORMAT.grids)
        return cls(inner["qdata"], *grids, group_size=group_size, dtype=dtype, transposed=transposed)

    def _stable_hash_for_caching(self) -> str:
        """Tell the compiler's cache all that a program compiled for this weight depends on.

        The schema is there for a later version, whose program may be another one.
        """
        stored = [(part.shape, part.stride(), part.dtype, part.device) for part in (self.qdata, *self.grids)]
        return f"{type(self).__qualname__} {self.FORMAT.schema} {self.__tensor_flatten__()} {stored}"

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Leave functions to `__torch_dispatch__`; what torch itself would do here is to wrap the result."""
        func = FUNCTIONS.get(func, func)
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch declares it without a class
        cls,
        func: OpOverload,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Run an operator on a quantized weight."""
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        return cls.OTHERWISE(func, args, kwargs or {})


HANDLERS: dict[OpOverload, Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], object]] = {}
"""What quantized weights do under an operator; one that is not here is taken apart, where torch knows how."""

FUNCTIONS: dict[Callable[..., object], Callable[..., object]] = {}
"""What takes the place of a function that torch takes apart into operators that a quantized weight has no use for."""


def _as_parameter(weight: Tensor, *, requires_grad: bool) -> Any:  # noqa: ANN401 - a parameter passes for its tensor
    if not isinstance(weight, QuantizedTensor) and not weight.is_floating_point():
        raise TypeError(f"stored values must come with their scales, got {weight.dtype} alone")
    return torch.nn.Parameter(weight, requires_grad and not isinstance(weight, QuantizedTensor))


def _check_grids(form: WeightFormat, qdata: Tensor, grids: Sequence[Tensor], group_size: int) -> None:
    """Raise unless there is each grid, in the shape that the stored values ask for."""
    if len(grids) != len(form.grids):
        raise TypeError(f"stored values must come with {' and '.join(form.grids)}, got {len(grids)} of these")
    *leading, rows, _ = qdata.shape
    depth, groups = form.depth(qdata), grids[0].shape[-2]
    for name, grid in zip(form.grids, grids, strict=True):
        if grid.shape != (*leading, groups, rows):
            raise ValueError(f"{name} must have the shape {[*leading, groups, rows]}, got {list(grid.shape)}")
    if group_size * groups != depth:
        raise ValueError(f"group_size must be that of {depth} values in {groups} groups, got {group_size}")


def _strides(together: int, qdata: Tensor, grids: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the strides of a weight [..., N, K], by which torch finds out whether a new shape needs a copy.

    Between the matrices of a batch lie their scales and zero points, so that they are one matrix only in a copy.
    """
    *apart, row, value = qdata.stride()
    with_grids = (together * stride + sum(grid.stride(i) for grid in grids) for i, stride in enumerate(apart))
    return (*with_grids, together * row, value)


def _group_size(block_size: int | Sequence[int], dimensions: int) -> int:
    if isinstance(block_size, int):
        return block_size
    *ones, group_size = block_size
    if len(block_size) != dimensions or any(one != 1 for one in ones):
        expected = ", ".join(["1"] * (dimensions - 1) + ["group_size"])
        raise ValueError(f"block_size must be group_size or ({expected}), got {tuple(block_size)}")
    return group_size


def _scale_dtype(weight: torch.dtype) -> torch.dtype:
    """Return bfloat16 for weights of it; float32, which holds every other, for the rest."""
    return weight if weight == torch.bfloat16 else torch.float32
