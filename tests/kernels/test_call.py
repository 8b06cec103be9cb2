"""One call of a linear layer gives the same bits however it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import Int8Tensor
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from tests.kernels.weights import DTYPES, every_format, quantized, random

if TYPE_CHECKING:
    from ao_kernels.quantized import QuantizedTensor

Layer = tuple[Tensor, Tensor, Tensor | None]

with_or_without_bias = pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no-bias"])


def layer(tensor: type[QuantizedTensor], dtype: torch.dtype = torch.bfloat16, *, has_bias: bool) -> Layer:
    return random(3, 128, dtype=dtype), quantized(tensor, dtype=dtype), random(48, dtype=dtype) if has_bias else None


def in_inference_mode(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    with torch.inference_mode():
        return functional.linear(x, weight, bias)


def with_a_gradient(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(x.clone().requires_grad_(), weight, bias).detach()


def with_a_gradient_of_the_bias(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return functional.linear(x, weight, None if bias is None else bias.clone().requires_grad_()).detach()


def with_a_tangent(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    with forward_ad.dual_level():
        product, tangent = forward_ad.unpack_dual(functional.linear(forward_ad.make_dual(x, 2 * x), weight, bias))
        assert torch.equal(tangent, functional.linear(2 * x, weight))
        return product


def under_autocast(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """All operands in float32, which holds what they are."""
    with torch.autocast("cpu", torch.bfloat16):
        return functional.linear(x.float(), weight.float(), None if bias is None else bias.float())


def over_a_batch(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.vmap(lambda row: functional.linear(row, weight, bias))(x)


def of_a_transform(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.func.vjp(lambda x: functional.linear(x, weight, bias), x)[0]
    return product


def as_a_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = x @ weight.t()
    return product if bias is None else product + bias


def compiled(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    torch.compiler.reset()
    product: Tensor = torch.compile(functional.linear, fullgraph=True, backend="aot_eager")(x, weight, bias)
    return product


@with_or_without_bias
@every_format
@pytest.mark.parametrize(
    "way",
    [
        in_inference_mode,
        with_a_gradient,
        with_a_gradient_of_the_bias,
        with_a_tangent,
        under_autocast,
        over_a_batch,
        of_a_transform,
        as_a_product,
        compiled,
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.13 warns of its own code
def test_the_bits_are_the_same(tensor: type[QuantizedTensor], way: Callable[..., Tensor], *, has_bias: bool) -> None:
    given = layer(tensor, has_bias=has_bias)
    with torch.no_grad():
        assert torch.equal(way(*given), functional.linear(*given))


@every_format
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bits_are_the_same_in_every_dtype(tensor: type[QuantizedTensor], dtype: torch.dtype) -> None:
    given = layer(tensor, dtype, has_bias=True)
    expected = functional.linear(*given)
    assert expected.dtype == dtype
    for way in (in_inference_mode, with_a_gradient, over_a_batch, as_a_product):
        assert torch.equal(way(*given), expected)


@every_format
def test_activations_need_not_be_contiguous_for_the_same_bits(tensor: type[QuantizedTensor]) -> None:
    x, weight, bias = layer(tensor, has_bias=True)
    batch = random(3, 2, 128).transpose(0, 1)
    for other in (x.t().contiguous().t(), torch.stack((x, x), -1)[..., 0], nn.Parameter(x), batch):
        assert torch.equal(functional.linear(other, weight, bias), functional.linear(other.contiguous(), weight, bias))


def test_a_call_is_not_taken_apart() -> None:
    """Torch's own way to the same product is `t`, `addmm` and several views, each through Python."""
    x, weight, bias = layer(Int8Tensor, has_bias=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        functional.linear(x, weight, bias)
    names = {event.key for event in profile.key_averages()}
    assert f"ao::{Int8Tensor.FORMAT.operator}" in names
    assert not names & {"aten::addmm", "aten::alias"}


@every_format
def test_the_operations_of_a_call_are_counted_as_torchs_are(tensor: type[QuantizedTensor]) -> None:
    weight, counts = quantized(tensor), []
    for matrix in (weight, weight.dequantize()):
        with FlopCounterMode(display=False) as counter:
            functional.linear(random(2, 3, 128).requires_grad_(), matrix).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts == [2 * 2 * 6 * 48 * 128] * 2


@pytest.mark.parametrize("shape", [(47,), (2, 48), (1, 3, 48)], ids=["length", "rows", "dimensions"])
def test_a_bias_that_does_not_fit_is_blamed(shape: tuple[int, ...]) -> None:
    weight = quantized(Int8Tensor)
    with pytest.raises(ValueError, match=r"bias must have the shape \(48,\), one number for an output, got"):
        functional.linear(random(3, 128), weight, random(*shape))
    for fits in ((1,), (3, 1), (3, 48)):
        expected = functional.linear(random(3, 128), weight) + random(*fits)
        assert torch.equal(functional.linear(random(3, 128), weight, random(*fits)), expected)
