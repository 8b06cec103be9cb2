"""The policy for operators: what acts on what is stored, what computes with numbers, and what is written back."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from ao_kernels import Int4PlainTensor, Int8Tensor
from ao_kernels.policy import KINDS, _say_once
from ao_kernels.quantized import HANDLERS, QuantizedTensor
from torch import Tensor

from tests.kernels.weights import GROUP_SIZE, every_format, quantized, random, storage

if TYPE_CHECKING:
    from torch._ops import OpOverload

aten = torch.ops.aten
ROWS = torch.tensor([3, 0, 3])


def other_groups() -> Tensor:
    return Int8Tensor.from_hp(random(48, 128) * 2, 64)


@every_format
@pytest.mark.parametrize(
    "choose",
    [
        pytest.param(lambda w: w[ROWS], id="index"),
        pytest.param(lambda w: w[ROWS.view(3, 1)], id="index-of-two-dimensions"),
        pytest.param(lambda w: w[torch.arange(48) > 40], id="mask"),
        pytest.param(lambda w: w.index_select(0, ROWS), id="rows"),
        pytest.param(lambda w: w.t().index_select(1, ROWS), id="columns-of-the-transposed"),
        pytest.param(lambda w: torch.stack([w, w]), id="stack"),
        pytest.param(lambda w: torch.stack([w, w])[torch.tensor([1])], id="experts"),
        pytest.param(lambda w: torch.stack([w, w]).index_select(0, torch.tensor([1])), id="matrices"),
        pytest.param(lambda w: w.unsqueeze(0).squeeze(), id="squeeze"),
        pytest.param(lambda w: w.unsqueeze(0).squeeze(0), id="squeeze-one"),
        pytest.param(torch.zeros_like, id="zeros"),
        pytest.param(lambda w: w.new_zeros(5, 128), id="new-zeros"),
        pytest.param(lambda w: torch.chunk(w, 3)[1], id="chunk"),
        pytest.param(lambda w: torch.unsafe_chunk(w, 3)[1], id="unsafe-chunk"),
        pytest.param(lambda w: torch.unsafe_split_with_sizes(w, [40, 8])[1], id="unsafe-split"),
        pytest.param(lambda w: w.view(-1).detach().view(48, 128), id="flat-and-back"),
        pytest.param(lambda w: w.as_strided((48, 128), (128, 1)), id="as-strided"),
    ],
)
def test_what_looks_at_shape_and_place_acts_on_what_is_stored(
    tensor: type[QuantizedTensor], choose: Callable[[Tensor], Tensor]
) -> None:
    weight = quantized(tensor)
    chosen = choose(weight)
    assert isinstance(chosen, tensor)
    assert torch.equal(chosen.dequantize(), choose(weight.dequantize()))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda w: w.new_zeros(5, 100), id="another-depth"),
        pytest.param(lambda w: w.new_zeros(7), id="a-row"),
        pytest.param(lambda w: w.new_ones(5, 128), id="ones"),
        pytest.param(torch.ones_like, id="ones-like"),
        pytest.param(lambda w: w[:, ROWS], id="index-along-a-row"),
        pytest.param(lambda w: w.index_select(1, ROWS), id="columns"),
        pytest.param(lambda w: torch.stack([w, w], 1), id="stack-within"),
        pytest.param(lambda w: torch.stack([w, other_groups()]), id="stack-of-other-groups"),
        pytest.param(lambda w: w + 1, id="add"),
        pytest.param(lambda w: w.mean(0), id="mean"),
        pytest.param(lambda w: w.abs(), id="abs"),
        pytest.param(lambda w: w == w.dequantize(), id="equal"),
        pytest.param(lambda w: torch.linalg.vector_norm(w, dim=1), id="norm"),
        pytest.param(lambda w: random(48, 128).mul_(w), id="into-a-plain-one"),
    ],
)
def test_everything_else_gives_plain_numbers(make: Callable[[Tensor], Tensor]) -> None:
    weight = quantized(Int4PlainTensor)
    made = make(weight)
    assert type(made) is Tensor
    assert torch.equal(made, make(weight.dequantize()))


@pytest.mark.parametrize(
    "tear",
    [lambda w: w.split([1, 2]), lambda w: w.split([49, -1]), lambda w: w.split(-1), lambda w: w.chunk(0)],
    ids=["sum", "negative", "size", "chunks"],
)
def test_parts_that_torch_refuses_are_refused(tear: Callable[[Tensor], Tensor]) -> None:
    for weight in (quantized(Int4PlainTensor), quantized(Int4PlainTensor).dequantize()):
        with pytest.raises((RuntimeError, ValueError), match=r"split|chunk"):
            tear(weight)


def test_experts_without_rows_of_their_own_are_refused() -> None:
    experts, ends = torch.stack([quantized(Int8Tensor)] * 3), torch.tensor([2, 7], dtype=torch.int32)
    for weight in (experts, experts.dequantize()):
        with pytest.raises(RuntimeError, match="batch sizes"):
            torch.nn.functional.grouped_mm(random(7, 128), weight.mT, offs=ends)


@every_format
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda w: w.add_(1, alpha=2), id="add"),
        pytest.param(lambda w: w.copy_(random(48, 128) * 3), id="copy"),
        pytest.param(lambda w: w.copy_(other_groups()), id="copy-of-other-groups"),
        pytest.param(lambda w: w.mul_(w), id="by-itself"),
        pytest.param(lambda w: w.apply_(lambda number: number + 1), id="apply"),
        pytest.param(lambda w: w.map_(random(48, 128), lambda one, other: one - other), id="map"),
        pytest.param(lambda w: w.t().add_(random(128, 48)).t(), id="transposed"),
        pytest.param(lambda w: torch.add(w, w, out=w), id="out"),
        pytest.param(lambda w: w.data.sub_(random(48, 128)), id="data"),
    ],
)
def test_what_is_written_is_quantized_again(tensor: type[QuantizedTensor], change: Callable[[Tensor], Tensor]) -> None:
    weight = quantized(tensor)
    place = storage(weight.qdata)
    plain = change(weight.dequantize())
    changed = change(weight)
    assert isinstance(changed, tensor)
    assert storage(weight.qdata) == place
    assert torch.equal(weight.dequantize(), tensor.from_hp(plain, GROUP_SIZE).dequantize())


@pytest.mark.parametrize(
    "write", [lambda w: w.add_(1), lambda w: w.copy_(w.clone()), lambda w: w.copy_(other_groups()), Tensor.zero_]
)
def test_a_gradient_is_not_that_of_what_was_written_later(write: Callable[[Tensor], Tensor]) -> None:
    """It was, without a word: torch counts the writes to a tensor, and not those to what a tensor is made of."""
    weight, x = quantized(Int8Tensor), random(3, 128).requires_grad_()
    product = torch.nn.functional.linear(x, weight)
    write(weight)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.parametrize(
    "share", [torch.from_dlpack, torch.to_dlpack, torch.utils.dlpack.to_dlpack, Tensor.numpy, Tensor.__array__]
)
def test_numbers_are_given_and_not_shared(share: Callable[[Tensor], object]) -> None:
    """torch would read them at an address of 0, and end the process."""
    weight = quantized(Int4PlainTensor)
    assert weight.tolist() == weight.dequantize().tolist()
    with pytest.raises(NotImplementedError, match=r"does not store: call dequantize\(\) on it first"):
        share(weight)


def test_a_slice_is_written_where_it_lies() -> None:
    weight = quantized(Int8Tensor)
    before = weight.dequantize()
    weight[8:16].zero_()
    assert not weight[8:16].dequantize().any()
    assert torch.equal(weight[16:].dequantize(), before[16:])


@every_format
def test_weights_are_equal_by_what_they_store(tensor: type[QuantizedTensor]) -> None:
    weight = quantized(tensor)
    other = weight.clone()
    assert torch.equal(weight, other)
    other.qdata.view(torch.uint8)[0] ^= 1
    assert not torch.equal(weight, other)
    assert torch.equal(weight, weight.dequantize())
    assert not weight.is_pinned()


@every_format
def test_the_memory_that_is_told_is_that_of_what_is_stored(tensor: type[QuantizedTensor]) -> None:
    weight = quantized(tensor)
    assert weight.nbytes == sum(part.nbytes for part in (weight.qdata, *weight.grids)) < weight.dequantize().nbytes
    assert weight.numel() * weight.element_size() == weight.numel() * weight.itemsize == weight.nbytes


def test_numbers_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    _say_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            _ = quantized(Int4PlainTensor) * 2
    assert [record.name for record in caplog.records] == ["ao_kernels"]


def test_every_handler_has_one_kind() -> None:
    listed = Counter(func for _, funcs in KINDS.values() for func in funcs)
    assert set(listed.values()) == {1}
    assert set(listed) == {func for func in HANDLERS if func.namespace == "aten"}


# Of operators. torch lists those that something has asked for: after other tests, these would be others.
NAMES = dir(aten)
# Scalars, sizes and dimensions with which most operators mean something.
ARGUMENTS = {"int": 1, "number": 2, "float": 0.5, "bool": False, "List[int]": [1], "Optional[int]": None}
RANDOM = (
    *("new_empty", "rand", "standard_gamma", "bernoulli", "dropout", "normal", "uniform", "cauchy", "exponential"),
    *("geometric", "log_normal", "empty", "rrelu", "resize"),
)
PLACE = (
    *("_weight_norm", "_has_", "_is_", "is_", "_version", "_foobar", "_debug", "_test", "view.dtype", "_nested"),
    *("_cudnn", "_mkldnn", "sym_", "_sparse", "_fused", "stride", "_chunk_cat"),
    *("_add_batch_dim", "_remove_batch_dim"),  # of vmap's own levels
)


def arguments_of(func: OpOverload, weight: Tensor) -> list[Any] | None:
    """The weight wherever a tensor is asked for, and something for the rest; None where an operator wants more."""
    given: list[Any] = []
    for argument in func._schema.arguments:  # noqa: SLF001 - no public name
        kind = str(argument.type)
        if argument.has_default_value() or argument.kwarg_only:
            break
        if kind not in {"Tensor", *ARGUMENTS}:
            return None
        given.append(weight if kind == "Tensor" else ARGUMENTS[kind])
    return given if any(one is weight for one in given) else None


def swept() -> Iterator[OpOverload]:
    for name in NAMES:
        packet = getattr(aten, name)
        if isinstance(packet, torch._ops.OpOverloadPacket) and not name.startswith(PLACE):  # noqa: SLF001 - no public name
            yield from (getattr(packet, overload) for overload in packet.overloads())


def attempt(func: OpOverload, weight: Tensor) -> object:
    try:
        return func(*arguments_of(func, weight) or ())
    except Exception as error:  # noqa: BLE001 - operators raise what they like
        return error


def as_plain(result: object) -> object:
    return result.dequantize() if isinstance(result, QuantizedTensor) else result


def same(one: object, other: object) -> bool:
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    one, other = as_plain(one), as_plain(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.allclose(one.double(), other.double(), 0.02, 0.2, equal_nan=True)
    return one == other


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's old operators
def test_every_operator_does_as_the_policy_says() -> None:
    """Either what it does to the plain weight, or a sentence; an error only where the plain weight has one too."""
    strange, counts = {}, Counter[str]()
    for func in swept():
        weight = quantized(Int8Tensor, 16, 32, dtype=torch.float32)
        if arguments_of(func, weight) is None:
            continue
        found, expected = (
            attempt(func, weight),
            attempt(func, quantized(Int8Tensor, 16, 32, dtype=torch.float32).dequantize()),
        )
        if isinstance(expected, Exception):
            counts["error of torch's"] += 1
        elif isinstance(found, Exception):
            counts["refused"] += 1
            if not re.search(r"dequantize\(\) on it|keeps its shape", str(found)):
                strange[str(func)] = repr(found)
        elif not str(func.name()).split("::")[1].lstrip("_").startswith(RANDOM):
            counts["the same"] += 1
            written = func._schema.is_mutable  # noqa: SLF001 - no public name
            close = same(found, expected)
            if (
                written
                and isinstance(expected, Tensor)
                and expected.shape == weight.shape
                and expected.is_floating_point()
            ):
                close = same(found, Int8Tensor.from_hp(expected, 32))
            if not close:
                strange[str(func)] = f"got {type(found)}, expected {type(expected)}"
    assert not strange, "\n".join(f"{name}: {what}" for name, what in strange.items())
    assert counts["the same"] > 300
