from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import Float8Tensor, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tests.kernels.exactness import sqnr
from tests.kernels.weights import BROADCASTS, DTYPES, GROUP_SIZE, every_format, quantized, random, storage

if TYPE_CHECKING:
    from ao_kernels.quantized import QuantizedTensor

SQNR_BARS = {Int4PlainTensor: 18, Int4PlainInt32Tensor: 18, Int8Tensor: 35, Float8Tensor: 28}  # against the weight


@every_format
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(48, 128), (3, 48, 128)], ids=str)
def test_a_weight_is_near_what_it_was(
    tensor: type[QuantizedTensor], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    weight = quantized(tensor, *shape, dtype=dtype)
    assert (weight.shape, weight.dtype, weight.device) == (shape, dtype, torch.device("cpu"))
    assert type(weight.dequantize()) is Tensor
    assert sqnr(random(*shape, dtype=dtype).double(), weight.dequantize()) >= SQNR_BARS[tensor]


@every_format
@pytest.mark.parametrize("shape", [(0, 128), (8, 0), (0, 8, 128), (3, 0, 128)], ids=str)
def test_an_empty_weight_is_one(tensor: type[QuantizedTensor], shape: tuple[int, ...]) -> None:
    weight = quantized(tensor, *shape)
    assert weight.dequantize().shape == shape
    assert (random(*shape[:-2], 5, shape[-1]) @ weight.mT).shape == (*shape[:-2], 5, shape[-2])


@every_format
def test_a_block_size_is_written_as_in_torchao_or_as_a_number(tensor: type[QuantizedTensor]) -> None:
    weight = tensor.from_hp(random(48, 128), [1, GROUP_SIZE])
    assert (weight.block_size, weight.t().block_size) == ((1, GROUP_SIZE), (GROUP_SIZE, 1))
    assert torch.equal(weight.dequantize(), quantized(tensor).dequantize())
    assert tensor.from_hp(random(2, 48, 128), (1, 1, GROUP_SIZE)).block_size == (1, 1, GROUP_SIZE)


def test_a_weight_says_what_it_is() -> None:
    described = "Int4PlainTensor(shape=(48, 128), dtype=torch.bfloat16, device=cpu, group_size=32)"
    assert repr(quantized(Int4PlainTensor)) == described


@every_format
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (2, 0), (2, 1, 3)], ids=str)
@pytest.mark.parametrize("inference", [pytest.param(False, id="eager"), pytest.param(True, id="inference")])
def test_every_product_is_that_of_the_weight_it_stands_for(
    tensor: type[QuantizedTensor], leading: tuple[int, ...], dtype: torch.dtype, *, inference: bool
) -> None:
    weight, bias, x = quantized(tensor, dtype=dtype), random(48, dtype=dtype), random(*leading, 128, dtype=dtype)
    plain = weight.dequantize()
    with torch.inference_mode(inference):
        products = [functional.linear(x, weight, bias), x @ weight.t() + bias, torch.matmul(x, weight.mT) + bias]
    for product in products:
        assert type(product) is Tensor
        assert product.dtype == dtype
        torch.testing.assert_close(product, functional.linear(x, plain, bias), rtol=0.02, atol=0.2)


@every_format
def test_a_batch_of_weights_multiplies_a_batch(tensor: type[QuantizedTensor]) -> None:
    weights, x = quantized(tensor, 3, 48, 128), random(3, 5, 128)
    for product in (torch.bmm(x, weights.mT), x @ weights.transpose(1, 2)):
        torch.testing.assert_close(product, x @ weights.dequantize().mT, rtol=0.02, atol=0.2)
    assert torch.bmm(x[:0], weights[:0].mT).shape == (0, 5, 48)


@every_format
def test_other_products_are_those_of_the_plain_weight(tensor: type[QuantizedTensor]) -> None:
    weight, x = quantized(tensor), random(5, 48)
    plain = weight.dequantize()
    assert torch.equal(x @ weight, x @ plain)
    assert torch.equal(weight.t() @ x.t(), plain.t() @ x.t())
    torch.testing.assert_close(weight @ x.new_ones(128), plain @ x.new_ones(128), rtol=0.02, atol=0.2)
    assert torch.equal(
        torch.addmm(x, random(5, 128), weight.t(), beta=2), torch.addmm(x, random(5, 128), plain.t(), beta=2)
    )


@every_format
@pytest.mark.parametrize(("product", "of", "by"), BROADCASTS)
def test_a_product_in_another_shape_is_that_of_the_plain_weight(
    tensor: type[QuantizedTensor], product: Callable[..., Tensor], of: tuple[int, ...], by: tuple[int, ...]
) -> None:
    weight, x = quantized(tensor, *by), random(*of)
    results, gradients = [], []
    for matrix in (weight, weight.dequantize()):
        leaf = x.clone().requires_grad_()
        results.append(product(leaf, matrix))
        results[-1].sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*results, rtol=0.02, atol=0.2)
    torch.testing.assert_close(*gradients, rtol=0.02, atol=0.2)
    assert torch.equal(product(x, weight), results[0])


@every_format
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_gradient_is_that_of_the_plain_weight(tensor: type[QuantizedTensor], dtype: torch.dtype) -> None:
    weight, x = quantized(tensor, dtype=dtype), random(2, 3, 128, dtype=dtype)
    gradients = []
    for matrix in (weight, weight.dequantize()):
        leaf = x.clone().requires_grad_()
        functional.linear(leaf, matrix).square().sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad.double())
    assert sqnr(*gradients) >= 40


@every_format
@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda weight: weight[8:20], id="rows"),
        pytest.param(lambda weight: weight[1::3], id="rows-in-steps"),
        pytest.param(lambda weight: weight[40:], id="last-rows"),
        pytest.param(lambda weight: weight[:0], id="no-rows"),
        pytest.param(lambda weight: weight[:, 32:96], id="columns"),
        pytest.param(lambda weight: weight[:, 96:], id="last-columns"),
        pytest.param(lambda weight: weight[-8:, :64], id="both"),
        pytest.param(lambda weight: weight.narrow(0, 4, 9), id="narrow"),
        pytest.param(lambda weight: weight.chunk(3)[1], id="chunk"),
        pytest.param(lambda weight: weight.split([16, 32])[1], id="split"),
        pytest.param(lambda weight: weight.split(64, dim=1)[1], id="split-columns"),
        pytest.param(lambda weight: weight.t(), id="transposed"),
        pytest.param(lambda weight: weight.t()[32:64], id="rows-of-the-transposed"),
        pytest.param(lambda weight: weight.mT[:, 8:9].t(), id="columns-of-the-transposed"),
        pytest.param(lambda weight: weight.detach(), id="detached"),
        pytest.param(lambda weight: weight.expand(4, 48, 128), id="expanded"),
        pytest.param(lambda weight: weight.unsqueeze(0), id="unsqueezed"),
        pytest.param(lambda weight: weight.view(48, 128), id="viewed"),
        pytest.param(lambda weight: weight.view(-1, 128), id="viewed-by-one-dimension"),
        pytest.param(lambda weight: weight.view(4, -1, 128), id="viewed-as-a-batch"),
        pytest.param(lambda weight: weight.view(4, 12, 128).view(48, 128), id="viewed-as-a-batch-and-back"),
        pytest.param(lambda weight: weight.view(2, 2, 12, 128).view(4, 12, 128), id="viewed-as-batches"),
        pytest.param(lambda weight: weight.t().view(1, 128, 48), id="viewed-transposed"),
        pytest.param(lambda weight: weight.view(4, 12, 128)[:, 4:8], id="rows-of-each"),
        pytest.param(lambda weight: weight.view(2, 2, 12, 128).transpose(0, 1), id="batches-transposed"),
        pytest.param(lambda weight: weight.view(2, 2, 12, 128).select(1, 0), id="selected"),
        pytest.param(lambda weight: weight.unsqueeze(0).unsqueeze(1), id="unsqueezed-twice"),
        pytest.param(lambda weight: weight.T, id="T"),
        pytest.param(lambda weight: weight.permute(-1, 0).permute(0, 1), id="permuted"),
        pytest.param(lambda weight: weight.data, id="data"),
    ],
)
def test_a_view_shares_what_is_stored(tensor: type[QuantizedTensor], cut: Callable[[Tensor], Tensor]) -> None:
    weight = quantized(tensor)
    view = cut(weight)
    assert isinstance(view, tensor)
    expected = cut(weight.dequantize())
    assert view.shape == expected.shape
    assert torch.equal(view.dequantize(), expected)
    if view.numel():
        assert list(map(storage, (view.qdata, *view.grids))) == list(map(storage, (weight.qdata, *weight.grids)))
    if view.dim() == 2:
        x = random(3, view.shape[1])
        torch.testing.assert_close(functional.linear(x, view), functional.linear(x, expected), rtol=0.02, atol=0.2)


@every_format
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_cut_where_groups_end_is_that_of_the_plain_weight(
    tensor: type[QuantizedTensor], data: st.DataObject
) -> None:
    weight = quantized(tensor)
    rows = slice(*sorted(data.draw(st.tuples(st.integers(0, 48), st.integers(0, 48)))))
    groups = sorted(data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4))))
    columns = slice(*(GROUP_SIZE * group for group in groups))
    assert torch.equal(weight[rows, columns].dequantize(), weight.dequantize()[rows, columns])
    assert torch.equal(weight.t()[columns, rows].dequantize(), weight.dequantize().t()[columns, rows])


@every_format
def test_the_weights_of_a_batch_are_views(tensor: type[QuantizedTensor]) -> None:
    weights = quantized(tensor, 3, 48, 128)
    plain = weights.dequantize()
    for view, expected in ((weights[1], plain[1]), (weights[1:], plain[1:]), (list(weights)[2], plain[2])):
        assert torch.equal(view.dequantize(), expected)
    assert torch.equal(weights[:, 8:16, 32:].dequantize(), plain[:, 8:16, 32:])


@every_format
def test_a_shape_that_no_view_has_is_a_copy(tensor: type[QuantizedTensor]) -> None:
    weights = quantized(tensor, 3, 48, 128)
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        weights.view(-1, 128)
    for merged in (weights.flatten(0, 1), weights.reshape(-1, 128)):
        assert torch.equal(merged.dequantize(), weights.dequantize().flatten(0, 1))
        assert storage(merged.qdata) != storage(weights.qdata)


@every_format
@pytest.mark.parametrize("dim", [0, 1, 2, -1], ids=str)
def test_weights_are_joined_along_any_dimension(tensor: type[QuantizedTensor], dim: int) -> None:
    weights = [quantized(tensor, *shape) for shape in ((2, 48, 128), (2, 48, 128))]
    joined = torch.cat(weights, dim)
    assert torch.equal(joined.dequantize(), torch.cat([weight.dequantize() for weight in weights], dim))
    transposed = torch.cat([weight.mT for weight in weights], dim)
    assert torch.equal(transposed.dequantize(), torch.cat([weight.dequantize().mT for weight in weights], dim))


@every_format
def test_weights_of_any_length_are_joined_along_their_rows(tensor: type[QuantizedTensor]) -> None:
    query, key = quantized(tensor, 48, 128), quantized(tensor, 16, 128)
    joined = torch.cat([query, key])
    assert isinstance(joined, tensor)
    assert torch.equal(joined.dequantize(), torch.cat([query.dequantize(), key.dequantize()]))
    assert torch.equal(torch.cat([query.t(), key.t()], dim=1).dequantize(), joined.dequantize().t())


@pytest.mark.parametrize(
    "other",
    [  # made later: `t` of a weight takes torch a second, in each process that collects tests
        pytest.param(lambda: random(48, 128), id="plain"),
        pytest.param(lambda: quantized(Int8Tensor), id="class"),
        pytest.param(lambda: quantized(Int4PlainTensor, dtype=torch.float32), id="dtype"),
        pytest.param(lambda: Int4PlainTensor.from_hp(random(48, 128), 64), id="group-size"),
        pytest.param(lambda: quantized(Int4PlainTensor, 48, 64), id="depth"),
        pytest.param(lambda: quantized(Int4PlainTensor, 128, 64).t(), id="transposed"),
    ],
)
def test_weights_of_different_kinds_are_not_joined(other: Callable[[], Tensor]) -> None:
    weight, another = quantized(Int4PlainTensor), other()
    for operands in ([weight, another], [another, weight]):
        with pytest.raises(ValueError, match="is joined along dimension 0 to weights of its class, dtype, grouping"):
            torch.cat(operands)


def test_a_view_sees_what_is_copied_into_the_whole() -> None:
    weight, other = quantized(Int4PlainTensor), Int4PlainTensor.from_hp(random(48, 128) * 2, GROUP_SIZE)
    view = weight[8:16]
    weight.copy_(other)
    assert torch.equal(view.dequantize(), other[8:16].dequantize())
    view.copy_(other[:8])
    assert torch.equal(weight[8:16].dequantize(), other[:8].dequantize())


@every_format
def test_a_copy_shares_nothing(tensor: type[QuantizedTensor]) -> None:
    weight = quantized(tensor)
    for copied in (weight.clone(), copy.deepcopy(weight), weight.to("cpu", copy=True)):
        assert type(copied) is tensor
        assert torch.equal(copied.dequantize(), weight.dequantize())
        assert storage(copied.qdata) != storage(weight.qdata)


@every_format
def test_another_dtype_is_what_the_weight_stands_for(tensor: type[QuantizedTensor]) -> None:
    weight = quantized(tensor, dtype=torch.float32)
    other = weight.to(torch.bfloat16)
    assert (other.dtype, other.qdata.dtype, other.scale.dtype) == (torch.bfloat16, weight.qdata.dtype, torch.float32)
    assert torch.equal(other.dequantize(), weight.dequantize().bfloat16())


@every_format
def test_a_weight_moves_to_another_device(tensor: type[QuantizedTensor]) -> None:
    moved = quantized(tensor).to("meta")
    assert (moved.device.type, moved.qdata.device.type, moved.scale.device.type) == ("meta",) * 3
    assert functional.linear(torch.empty(2, 128, dtype=torch.bfloat16, device="meta"), moved).shape == (2, 48)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        pytest.param(lambda w: w.diagonal(), NotImplementedError, "diagonal.* gives a view of numbers", id="diagonal"),
        pytest.param(lambda w: w[:, 8:64], ValueError, "along K where its groups of 32 end.*got 8:64:1", id="cut"),
        pytest.param(lambda w: w[:, ::2], ValueError, "in steps of 1, got 0:128:2", id="step"),
        pytest.param(lambda w: w[3], ValueError, r"gives whole matrices: slice it, as in weight\[3:4\]", id="row"),
        pytest.param(lambda w: w.view(128, 48), ValueError, "keeps its last dimension", id="view"),
        pytest.param(
            lambda w: w.view(-1).zero_(), NotImplementedError, "cannot write to a flat view", id="view-of-all"
        ),
        pytest.param(
            lambda w: w.view(5, -1), ValueError, r"keeps its 6144 numbers.*got.*\(5, -1\)", id="view-of-others"
        ),
        pytest.param(lambda w: w.transpose(0, 2), IndexError, "dim must be from -2 to 1, got 2", id="dimension"),
        pytest.param(lambda w: w.t().view(64, 96), ValueError, "keeps its last two dimensions", id="view-transposed"),
        pytest.param(lambda w: w.expand(2, 96, 128), ValueError, "keeps its last two dimensions", id="expand"),
        pytest.param(lambda w: w.unsqueeze(1), ValueError, "new dimensions before its last two only", id="unsqueeze"),
        pytest.param(
            lambda w: w.expand(2, 48, 128).transpose(0, 1), ValueError, "dimensions together at the end", id="t"
        ),
        pytest.param(lambda w: w.to(torch.int8), ValueError, "stands for floating-point numbers, got", id="to"),
        pytest.param(lambda w: w.resize_(3, 5), ValueError, r"keeps its shape \(48, 128\), got \(3, 5\)", id="resize"),
        pytest.param(
            lambda w: functional.linear(random(2, 128).float(), w),
            TypeError,
            r"input must have the weight.s dtype torch\.bfloat16, got torch\.float32",
            id="dtype",
        ),
        pytest.param(
            lambda w: functional.linear(random(2, 128), w, torch.zeros(48)), TypeError, "bias must have the", id="bias"
        ),
    ],
)
def test_what_cannot_be_done_with_a_weight_is_said(
    attempt: Callable[[Tensor], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        attempt(quantized(Int4PlainTensor))


@pytest.mark.parametrize(
    ("tensor", "weight", "block_size", "message"),
    [
        pytest.param(Int8Tensor, random(128), 32, "weight must have 2 or 3 dimensions, got 1", id="rank"),
        pytest.param(Int8Tensor, random(2, 100), 32, "a multiple of group_size 32, got 100", id="ragged"),
        pytest.param(Int4PlainTensor, random(2, 9), 3, "dimension must be a multiple of 2, got 9", id="odd"),
        pytest.param(Int4PlainInt32Tensor, random(2, 12), 4, "dimension must be a multiple of 8, got 12", id="words"),
        pytest.param(Int8Tensor, random(2, 64), 0, "group_size must be at least 1, got 0", id="group-size"),
        pytest.param(Int8Tensor, random(2, 64), (2, 32), r"group_size or \(1, group_size\), got \(2, 32\)", id="block"),
    ],
)
def test_what_cannot_be_quantized_is_named(
    tensor: type[QuantizedTensor], weight: Tensor, block_size: int | tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        tensor.from_hp(weight, block_size)
