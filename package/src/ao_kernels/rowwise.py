"""bfloat16 activations times quantized weights: for each format an operator with a generic body and a gradient."""

from __future__ import annotations

import functools
import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C import _after_autograd_keyset, _AutoDispatchBelowAutograd
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.nn import Parameter, functional
from torch.utils.flop_counter import register_flop_formula

from ao_kernels.formats import (
    FORMATS,
    INT8,
    ZeroPoint,
    dequantize,
    dequantize_small,
    dequantized_blocks,
    is_small,
    row_blocks,
)
from ao_kernels.native import warn_without_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch._functorch.autograd_function import VmapInfo
    from torch._ops import OpOverload
    from torch.autograd.function import BackwardCFunction, FunctionCtx

    from ao_kernels.formats import WeightFormat

MATRIX = 2  # dimensions
STEP_OF_TORCH = 32  # values of a row that torch's int8 operator reads at a time; it looks for no rest
ROWS_OF_TORCH = 8  # up to which that operator is the quicker one: see the table in package/README.md
# Autocast would convert what a body computes in float32.
AUTOCAST = functools.reduce(
    torch._C.DispatchKeySet.__or__,  # noqa: SLF001 - torch has no public name for keys
    (
        torch._C.DispatchKeySet(key)  # noqa: SLF001 - see above
        for name, key in torch._C.DispatchKey.__members__.items()  # noqa: SLF001 - see above
        if name.startswith("Autocast") and name != "AutocastFunctionality"
    ),
)
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
        TypeError: a dtype is another one. A compiled kernel raises RuntimeError here and below.
        ValueError: a shape or a device does not fit the others.

    """
    output: Tensor = torch.ops.ao.bf16i4bf16_rowwise(input, weight, scale, zero_point)
    return output


def bf16u4bf16_rowwise(input: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Multiply bfloat16 activations by unsigned int4 weights: `input @ ((u - zero_point) * scale).T`.

    As `bf16i4bf16_rowwise`, but `weight` is int32 [N, K / 8], eight values to a word as packed by `pack_uint4`, and
    `zero_point` is int8 [G, N]; `uint4_row_quantize` makes them.
    """
    output: Tensor = torch.ops.ao.bf16u4bf16_rowwise(input, weight, scale, zero_point)
    return output


def bf16i8bf16_rowwise(input: Tensor, weight: Tensor, scale: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Multiply bfloat16 activations by int8 weights: `input @ (q * scale).T`.

    As `bf16i4bf16_rowwise`, but `weight` is int8 [N, K], and there is no zero point; `int8_row_quantize` makes them.
    """
    output: Tensor = torch.ops.ao.bf16i8bf16_rowwise(input, weight, scale)
    return output


def bf16f8bf16_rowwise(input: Tensor, weight: Tensor, scale: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Multiply bfloat16 activations by float8 weights: `input @ (q * scale).T`.

    As `bf16i4bf16_rowwise`, but `weight` is float8_e4m3fn [N, K], and there is no zero point; `float8_row_quantize`
    makes them.
    """
    output: Tensor = torch.ops.ao.bf16f8bf16_rowwise(input, weight, scale)
    return output


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _device_faults(form: WeightFormat, *operands: Tensor) -> Iterator[str]:
    names = ["input", "weight", *form.grids]
    counts = Counter(str(operand.device) for operand in operands)
    ((most, number), *others) = counts.most_common()
    if others and number > others[0][1]:
        odd = [name for name, operand in zip(names, operands, strict=True) if str(operand.device) != most]
        got = " and ".join(sorted(counts.keys() - {most}))
        yield f"{' and '.join(odd)} must be on {most} as the others are, got {got}"
    elif others:
        yield f"{', '.join(names[:-1])} and {names[-1]} must be on one device, got {' and '.join(sorted(counts))}"


def _dtype_faults(form: WeightFormat, x: Tensor, weight: Tensor, scale: Tensor, *zero_points: Tensor) -> Iterator[str]:
    if x.dtype != torch.bfloat16:
        yield f"input must be bfloat16, got {x.dtype}"
    if weight.dtype != form.storage:
        yield f"weight must be {_plain(form.storage)}, got {weight.dtype}"
    if scale.dtype not in SCALE_DTYPES:
        yield f"scale must be float32 or bfloat16, got {scale.dtype}"
    for zero_point in zero_points:
        if form.zero_point is ZeroPoint.INTEGER and zero_point.dtype != torch.int8:
            yield f"zero_point must be int8, got {zero_point.dtype}"
        if form.zero_point is ZeroPoint.REAL and zero_point.dtype != scale.dtype:
            yield f"zero_point must have scale's dtype {scale.dtype}, got {zero_point.dtype}"


def _rank_faults(form: WeightFormat, x: Tensor, *matrices: Tensor) -> Iterator[str]:
    if not x.dim():
        yield "input must have at least 1 dimension, got 0"
    for name, matrix in zip(("weight", *form.grids), matrices, strict=True):
        if matrix.dim() != 2:  # noqa: PLR2004 - a matrix
            yield f"{name} must have 2 dimensions, got {matrix.dim()}"


def _shape_faults(form: WeightFormat, x: Tensor, weight: Tensor, scale: Tensor, *zero_points: Tensor) -> Iterator[str]:
    depth, groups, of_weight = x.shape[-1], scale.shape[0], form.depth(weight)
    if depth != of_weight:
        yield f"input's last dimension must be K = {of_weight}, got {depth}"
    if zero_points and scale.shape[1] != weight.shape[0] and zero_points[0].shape == scale.shape:
        yield f"weight must have N = {scale.shape[1]} rows, as scale and zero_point have columns, got {weight.shape[0]}"
    elif scale.shape[1] != weight.shape[0]:
        yield f"scale must have N = {weight.shape[0]} columns, got {scale.shape[1]}"
    if of_weight % groups if groups else of_weight:  # whatever input has
        yield f"scale must have a number of rows that divides K = {of_weight}, got {groups}"
    for zero_point in zero_points:
        if zero_point.shape != scale.shape:
            yield f"zero_point must have scale's shape {list(scale.shape)}, got {list(zero_point.shape)}"


def _fits(form: WeightFormat, x: Tensor, weight: Tensor, scale: Tensor, *zero_points: Tensor) -> bool:
    """Whether there is no fault at all, in as few steps as a call of a small weight can bear."""
    device, grid = x.device, scale.dtype
    of_zero_points = torch.int8 if form.zero_point is ZeroPoint.INTEGER else grid
    if x.dtype != torch.bfloat16 or weight.dtype != form.storage or grid not in SCALE_DTYPES:
        return False
    if not x.dim() or not weight.dim() == scale.dim() == 2 or not device == weight.device == scale.device:  # noqa: PLR2004 - matrices
        return False
    (columns, elements), (groups, of_scales), depth = weight.shape, scale.shape, x.shape[-1]
    return (
        depth == form.together * elements
        and of_scales == columns
        and not (depth % groups if groups else depth)
        and all(z.dtype == of_zero_points and z.shape == scale.shape and z.device == device for z in zero_points)
    )


def _check(form: WeightFormat, *operands: Tensor) -> None:
    """Raise one error that lists every fault of the first kind there is."""
    if _fits(form, *operands):
        return
    for find_faults, error in (
        (_device_faults, ValueError),
        (_dtype_faults, TypeError),
        (_rank_faults, ValueError),
        (_shape_faults, ValueError),
    ):
        faults = list(find_faults(form, *operands))
        if faults:
            raise error("; ".join(faults))


def _generic(form: WeightFormat, x: Tensor, weight: Tensor, *grids: Tensor) -> Tensor:
    _check(form, x, weight, *grids)
    if torch._C._is_any_autocast_enabled():  # noqa: SLF001 - torch's own
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):  # noqa: SLF001 - which costs a quarter of torch.autocast
            return _multiply(form, x, weight, *grids)
    return _multiply(form, x, weight, *grids)


def _multiply(form: WeightFormat, x: Tensor, weight: Tensor, *grids: Tensor) -> Tensor:
    if form is INT8 and _has_operator_of_torch(x, weight, *grids):
        return _multiply_by_torch(x, weight, *grids)
    if is_small(form, weight):
        return _multiply_small(form, x, weight, *grids)
    *leading, depth = x.shape
    rows = x.reshape(math.prod(leading), depth)
    product = x.new_zeros(len(rows), weight.shape[0])
    if form is INT8 and len(grids[0]) == 1:  # bfloat16 holds every value, so that the scales can wait
        for columns in row_blocks(weight.shape[0], weight.shape[1], weight.device):
            product[:, columns] = rows @ weight[columns].to(x.dtype).t()
        return product.mul_(grids[0]).view(*leading, weight.shape[0])
    for columns, block in dequantized_blocks(form, weight, *grids):
        product[:, columns] = rows @ block.to(x.dtype).t()
    return product.view(*leading, weight.shape[0])


def _multiply_small(form: WeightFormat, x: Tensor, weight: Tensor, *grids: Tensor) -> Tensor:
    """Multiply in few steps: for a small weight, their number is what a product costs."""
    rows = x if x.dim() == MATRIX else x.reshape(-1, x.shape[-1])
    if form.zero_point is ZeroPoint.NONE and len(grids[0]) == 1:  # bfloat16 holds every value: the scales can wait
        product = functional.linear(rows, form.read(weight).view(weight.shape)).mul_(grids[0])
    else:
        product = functional.linear(rows.to(torch.float32), dequantize_small(form, weight, *grids)).to(x.dtype)
    return product if x.dim() == MATRIX else product.view(*x.shape[:-1], weight.shape[0])


def _has_operator_of_torch(x: Tensor, weight: Tensor, scale: Tensor) -> bool:
    """Whether torch's own int8 operator multiplies so, and is quicker: one scale for a row, and few rows."""
    depth = x.shape[-1]
    return (
        weight.is_cpu
        and scale.shape[0] == 1
        and scale.dtype == torch.bfloat16
        and depth % STEP_OF_TORCH == 0
        and x.numel() <= ROWS_OF_TORCH * depth
        and weight.numel() > 0
    )


def _multiply_by_torch(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    rows = (x if x.dim() == MATRIX else x.reshape(-1, x.shape[-1])).contiguous()
    product = torch._weight_int8pack_mm(rows, weight.contiguous(), scale.contiguous().view(-1))  # noqa: SLF001 - it has no public name
    return product if x.dim() == MATRIX else product.view(*x.shape[:-1], weight.shape[0])


def _handed_on(form: WeightFormat, x: Tensor, *matrices: Tensor) -> Tensor:
    """Do what a compiled kernel has no code for, and say so."""
    warn_without_code(x.device)
    return _generic(form, x, *matrices)


def _fake(form: WeightFormat, x: Tensor, weight: Tensor, *grids: Tensor) -> Tensor:
    _check(form, x, weight, *grids)
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def _input_gradient(form: WeightFormat, ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor | None, ...]:
    saved: tuple[Tensor, ...] = ctx.saved_tensors
    return gradient @ dequantize(form, *saved), *(None for _ in saved)


def multiply(form: WeightFormat, x: Tensor, *weight: Tensor) -> Tensor:
    """Call a format's operator, past its kernel for autograd where torch's dispatcher has nothing else to see to."""
    operator = getattr(torch.ops.ao, form.operator).default
    product: Tensor
    if (
        type(x) not in {Tensor, Parameter}
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()  # noqa: SLF001 - no public name says it
        or forward_ad._current_level >= 0  # noqa: SLF001 - see above
    ):
        product = operator(x, *weight)
    elif x.requires_grad and torch.is_grad_enabled():
        product = DIFFERENTIATED[form.operator].apply(None, x, *weight)  # type: ignore[attr-defined] # torch declares none
    else:
        with _AutoDispatchBelowAutograd():
            product = operator(x, *weight)
    return product


DIFFERENTIATED: dict[str, type[_SingleLevelFunction]] = {}
"""What each operator is under autograd."""


def _differentiated(form: WeightFormat, operator: OpOverload) -> Callable[..., Tensor]:
    """Make what an operator does under autograd: `torch.library.register_autograd` takes twice as long for it.

    Transforms of `torch.func` never come here, so that the class need not look for them.
    """

    class Product(_SingleLevelFunction):
        @staticmethod
        def forward(ctx: FunctionCtx, below: torch._C.DispatchKeySet | None, *operands: Tensor) -> Tensor:
            ctx.save_for_backward(*operands[1:])
            if forward_ad._current_level >= 0:  # noqa: SLF001 - no public name says it
                ctx.save_for_forward(*operands[1:])
            with _AutoDispatchBelowAutograd():
                product: Tensor = operator(*operands) if below is None else operator.redispatch(below, *operands)
            return product

        @staticmethod
        def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor | None, ...]:
            return None, *_input_gradient(form, ctx, gradient)

        @staticmethod
        def jvp(ctx: BackwardCFunction, _: None, tangent: Tensor, *__: None) -> Tensor:
            product: Tensor = operator(tangent, *ctx.saved_tensors)
            return product

    DIFFERENTIATED[operator.name().partition("::")[2]] = Product

    def differentiate(keys: torch._C.DispatchKeySet, x: Tensor, *weight: Tensor) -> Any:  # noqa: ANN401 - torch says no more
        below = keys & _after_autograd_keyset
        if (x.requires_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0:  # noqa: SLF001 - see above
            return Product.apply(below, x, *weight)  # type: ignore[attr-defined] # torch declares no class above
        with _AutoDispatchBelowAutograd():
            return operator.redispatch(below, x, *weight)

    return differentiate


def _transformed(form: WeightFormat, operator: OpOverload) -> Callable[..., Tensor]:
    """Make what an operator does under `torch.func`."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(*operands: Tensor) -> Tensor:
            product: Tensor = operator(*operands)
            return product

        @staticmethod
        def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor) -> None:  # noqa: ARG004 - torch passes it by name
            ctx.save_for_backward(*inputs[1:])
            ctx.save_for_forward(*inputs[1:])

        backward = staticmethod(partial(_input_gradient, form))

        @staticmethod
        def jvp(ctx: BackwardCFunction, tangent: Tensor, *_: None) -> Tensor:
            product: Tensor = operator(tangent, *ctx.saved_tensors)
            return product

        @staticmethod
        def vmap(info: VmapInfo, dims: tuple[int | None, ...], *operands: Tensor) -> tuple[Tensor, int]:
            return _of_batch(operator, info.batch_size, dims, operands), 0

    return Product.apply


def _of_batch(
    operator: Callable[..., Tensor], size: int, dims: Sequence[int | None], operands: Sequence[Tensor]
) -> Tensor:
    """Multiply batches, which lie along `dims`: activations at once, weights one by one."""
    x, *weight = operands
    if dims[0] is not None and set(dims[1:]) == {None}:
        return operator(x.movedim(dims[0], 0), *weight)
    each = zip(*(_unbind(operand, dim, size) for operand, dim in zip(operands, dims, strict=True)), strict=True)
    return torch.stack([operator(*chosen) for chosen in each])


def _unbind(operand: Tensor, dim: int | None, size: int) -> Sequence[Tensor]:
    return [operand] * size if dim is None else operand.unbind(dim)


def _define(schema: str, name: str, library: torch.library.Library) -> None:
    """Define an operator, or find it: `libao_kernels_schema` defines it where Python comes later, if at all.

    Raises:
        RuntimeError: another operator has the name.

    """
    if not hasattr(torch.ops.ao, name):
        library.define(schema)
    elif (found := str(getattr(torch.ops.ao, name).default._schema)) != f"ao::{schema}":  # noqa: SLF001 - nobody else tells
        raise RuntimeError(f"ao::{name} must be ao::{schema}, but another library has defined {found}")


def _register(form: WeightFormat, library: torch.library.Library) -> None:
    """Define an operator, unless a program in C++ has done so. Libraries of kernels only add to it: they load any time.

    A compiled kernel hands on to the second one what it has no code for: the first would lead back to it.
    """
    for name, body in ((form.operator, _generic), (f"{form.operator}_generic", _handed_on)):
        _define(form.schema.replace(form.operator, name, 1), name, library)
        # CompositeImplicitAutograd would take the operator apart while tracing, before a device's kernel is looked for.
        library.impl(name, partial(body, form), "CompositeExplicitAutograd")
        torch.library.register_fake(f"ao::{name}", partial(_fake, form), lib=library)
        operator = getattr(torch.ops.ao, name).default
        library.impl(name, _differentiated(form, operator), "Autograd", with_keyset=True)
        library.impl(name, _transformed(form, operator), "FuncTorchDynamicLayerFrontMode")


LIBRARY = torch.library.Library("ao", "FRAGMENT")  # the registrations live as long as this object
for _form in FORMATS:
    _register(_form, LIBRARY)


@register_flop_formula([getattr(torch.ops.ao, form.operator) for form in FORMATS])
def _count_flops(x: Sequence[int], *_: Sequence[int], out_shape: Sequence[int], **__: object) -> int:
    """Count those of the matrix product, as torch does for a plain weight: two for each pair that is multiplied."""
    return 2 * math.prod(out_shape) * x[-1]
