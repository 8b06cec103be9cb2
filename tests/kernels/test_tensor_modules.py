"""Quantized weights in modules: saved, loaded, moved, compiled, exported and transformed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import (
    Int4PlainTensor,
    Int8Tensor,
    bf16i4bf16_rowwise,
    unpack_int4,
)
from torch import Tensor, nn
from torch.nn import functional

from tests.kernels.weights import BROADCASTS, GROUP_SIZE, TENSORS, every_format, module, quantized, random, storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ao_kernels.quantized import QuantizedTensor


@every_format
@pytest.mark.parametrize("assign", [pytest.param(True, id="assigned"), pytest.param(False, id="copied")])
def test_a_state_dict_is_saved_and_loaded_as_weights_only(tensor: type[QuantizedTensor], *, assign: bool) -> None:
    saved, loaded, file = module(tensor), module(tensor), io.BytesIO()
    saved.weight.copy_(tensor.from_hp(random(48, 128) * 3, GROUP_SIZE))
    torch.save(saved.state_dict(), file)
    file.seek(0)
    loaded.load_state_dict(torch.load(file, weights_only=True), assign=assign)
    assert type(loaded.weight) is tensor
    assert torch.equal(loaded(random(2, 128)), saved(random(2, 128)))


@every_format
def test_a_weight_is_a_constant_whatever_a_module_asks_of_it(tensor: type[QuantizedTensor]) -> None:
    model = nn.Linear(128, 48).bfloat16()
    model.load_state_dict(module(tensor).state_dict(), assign=True)
    model.requires_grad_()
    model.weight.requires_grad = True
    model(random(2, 128)).sum().backward()
    torch.optim.AdamW(model.parameters()).step()
    assert isinstance(model.weight, nn.Parameter)
    assert not model.weight.requires_grad
    assert model.weight.grad is None
    assert model.bias.grad is not None


@every_format
def test_data_takes_the_place_of_what_a_weight_was(tensor: type[QuantizedTensor]) -> None:
    parameter = nn.Parameter(quantized(tensor))
    other = tensor.from_hp(random(64, 256, dtype=torch.float32), 64).t()
    parameter.data = other
    assert repr(parameter) == repr(other)
    assert parameter.stride() == other.stride()
    assert torch.equal(parameter.dequantize(), other.dequantize())
    assert storage(parameter.qdata) == storage(other.qdata)
    assert isinstance(parameter, nn.Parameter)


def test_data_of_another_class_is_named() -> None:
    weight = quantized(Int4PlainTensor)
    with pytest.raises(TypeError, match="data must be of the weight's class Int4PlainTensor, got Tensor"):
        weight.data = random(48, 128)


@every_format
def test_a_module_is_shared_with_other_processes(tensor: type[QuantizedTensor]) -> None:
    linear, x = module(tensor), random(2, 128)
    expected = linear(x)
    assert not linear.weight.is_shared()
    linear.share_memory()
    assert linear.weight.is_shared()
    assert all(stored.is_shared() for stored in (linear.weight.qdata, *linear.weight.grids))
    assert torch.equal(linear(x), expected)


def test_a_plain_module_says_how_to_load_quantized_weights() -> None:
    with pytest.raises(RuntimeError) as raised:
        nn.Linear(128, 48).load_state_dict(module(Int4PlainTensor).state_dict())
    message = str(raised.value)
    assert "load a state_dict that holds one with assign=True" in message
    assert len(message) < 450


def test_a_quantized_module_does_not_print_plain_weights() -> None:
    with pytest.raises(RuntimeError, match=r"got a plain tensor of shape \(48, 128\) and dtype torch\.bfloat16;"):
        module(Int4PlainTensor).load_state_dict(nn.Linear(128, 48).bfloat16().state_dict())


def test_the_cache_of_the_compiler_tells_weights_apart_by_all_but_their_numbers() -> None:
    weight = quantized(Int4PlainTensor)
    others = [
        quantized(Int8Tensor),
        quantized(Int4PlainTensor, 48, 256),
        quantized(Int4PlainTensor, dtype=torch.float16),
        Int4PlainTensor.from_hp(random(48, 128), 64),
        weight.t(),
        weight.to("meta"),
    ]
    texts = [each._stable_hash_for_caching() for each in (weight, *others)]  # noqa: SLF001 - torch's protocol
    assert len(set(texts)) == len(texts)
    assert Int4PlainTensor.from_hp(random(48, 128) + 1, GROUP_SIZE)._stable_hash_for_caching() == texts[0]  # noqa: SLF001


@every_format
def test_a_module_changes_its_dtype_and_its_device(tensor: type[QuantizedTensor]) -> None:
    linear = module(tensor).float()
    assert linear(random(2, 128, dtype=torch.float32)).dtype == torch.float32
    assert linear.to("meta").to_empty(device="cpu").weight.shape == (48, 128)


def test_products_in_other_shapes_compile_without_a_break() -> None:
    """All in one graph: to trace each by itself takes thrice as long."""
    products = [product for product, _, _ in (parameters.values for parameters in BROADCASTS)]
    shapes = [shapes for _, *shapes in (parameters.values for parameters in BROADCASTS)]
    weights = {by: quantized(Int4PlainTensor, *by) for _, by in shapes}
    operands = [(random(*of), weights[by]) for of, by in shapes]

    def multiply(operands: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
        return [product(*pair) for product, pair in zip(products, operands, strict=True)]

    torch.compiler.reset()
    compiled = torch.compile(multiply, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(operands), multiply(operands), rtol=0.02, atol=0.2)


class Together(nn.Module):
    """A linear module with a weight of each format."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(module(tensor.values[0]) for tensor in TENSORS)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [part(x) for part, x in zip(self.parts, inputs, strict=True)]


OPERATORS = [f"ao.{tensor.values[0].FORMAT.operator}.default" for tensor in TENSORS]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.13 warns of its own code
@pytest.mark.parametrize(
    "backend", [pytest.param("aot_eager", marks=pytest.mark.slow), pytest.param("inductor", marks=pytest.mark.long)]
)
def test_a_module_compiles_without_a_break(backend: str) -> None:
    linear = Together()
    torch.compiler.reset()
    compiled = torch.compile(linear, fullgraph=True, backend=backend)
    x = random(2, 3, 128)  # of two dimensions, in the next tests
    leaves, compiled_leaves = ([x.clone().requires_grad_() for _ in TENSORS] for _ in range(2))
    expected, products = linear(*leaves), compiled(*compiled_leaves)
    torch.testing.assert_close(products, expected, rtol=0.02, atol=0.2)
    sum(product.sum() for product in (*expected, *products)).backward()
    gradients = [[leaf.grad for leaf in each] for each in (compiled_leaves, leaves)]
    torch.testing.assert_close(*gradients, rtol=0.02, atol=0.2)


def test_each_operator_is_a_node_of_the_graph_that_is_compiled() -> None:
    nodes: list[str] = []

    def compiler(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        nodes.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd  # noqa: PLC0415 - it takes as long as torch itself

    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=compiler)
    with torch.no_grad():
        torch.compile(Together(), fullgraph=True, backend=backend)(*[random(5, 128)] * len(TENSORS))
    assert [nodes.count(operator) for operator in OPERATORS] == [1] * len(TENSORS)


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch 2.13 warns of its own code
def test_a_module_is_exported() -> None:
    linear = Together().eval()
    inputs = tuple(random(5, 128) * number for number in range(1, len(TENSORS) + 1))
    exported = torch.export.export(linear, inputs).run_decompositions()
    targets = [str(node.target) for node in exported.graph.nodes]
    assert [targets.count(operator) for operator in OPERATORS] == [1] * len(TENSORS)
    for product, expected in zip(exported.module()(*inputs), linear(*inputs), strict=True):
        assert torch.equal(product, expected)


def product(x: Tensor, *weight: Tensor) -> Tensor:
    return bf16i4bf16_rowwise(x, *weight)


def plain_product(x: Tensor, qdata: Tensor, *grids: Tensor) -> Tensor:
    scale, zero_point = (grid.t().unsqueeze(-1) for grid in grids)
    groups = unpack_int4(qdata).float().unflatten(-1, (-1, GROUP_SIZE)) * scale + zero_point
    return functional.linear(x, groups.flatten(-2).bfloat16())


def squares(multiply: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *operands: multiply(*operands).float().square().mean()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.13 warns of its own code
@pytest.mark.parametrize(
    "transform",
    [
        pytest.param(lambda f, x, w: torch.func.grad(squares(f))(x, *w), id="grad"),
        pytest.param(lambda f, x, w: torch.func.vjp(lambda x: f(x, *w), x)[1](x[:, :48])[0], id="vjp"),
        pytest.param(lambda f, x, w: torch.func.jvp(lambda x: f(x, *w), (x,), (x * 2,))[1], id="jvp"),
        pytest.param(lambda f, x, w: torch.func.jacrev(f)(x[0], *w), id="jacrev"),
        pytest.param(lambda f, x, w: torch.func.jacfwd(f)(x[0], *w), id="jacfwd"),
        pytest.param(lambda f, x, w: torch.func.vmap(lambda x: f(x, *w), 1, 1)(x.expand(2, 3, 128)), id="vmap"),
        pytest.param(
            lambda f, x, w: torch.func.vmap(f)(x, *(part.expand(3, *part.shape) for part in w)), id="vmap-weights"
        ),
        pytest.param(
            lambda f, x, w: torch.func.vmap(lambda scale: f(x, w[0], scale, w[2]))(torch.stack([w[1], w[1] * 2])),
            id="vmap-scales",
        ),
        pytest.param(
            lambda f, x, w: torch.func.vmap(torch.func.grad(squares(lambda x: f(x, *w))))(x), id="grad-for-each"
        ),
        pytest.param(
            lambda f, x, w: torch.func.grad(squares(torch.func.grad(squares(f))))(x, *w), id="gradient-of-the-gradient"
        ),
    ],
)
def test_the_operator_takes_part_in_transforms(transform: Callable[..., Tensor]) -> None:
    weight, x = quantized(Int4PlainTensor), random(3, 128)
    results = [transform(multiply, x, (weight.qdata, *weight.grids)) for multiply in (product, plain_product)]
    torch.testing.assert_close(*results, rtol=0.05, atol=0.2)
    assert results[0].any()


@every_format
def test_a_module_takes_part_in_transforms(tensor: type[QuantizedTensor]) -> None:
    linear, x = module(tensor), random(3, 128)
    leaf = x.clone().requires_grad_()
    squares(linear)(leaf).backward()
    assert torch.equal(torch.func.grad(squares(linear))(x), leaf.grad)
