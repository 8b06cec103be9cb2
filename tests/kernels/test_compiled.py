"""Quantized weights under the compiler, in an exported program and in transforms."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import Int4PlainTensor, Int8Tensor, bf16i4bf16_rowwise, unpack_int4
from torch import Tensor, nn
from torch.nn import functional

from tests.kernels.weights import BROADCASTS, GROUP_SIZE, TENSORS, every_format, module, quantized, random

if TYPE_CHECKING:
    from ao_kernels.quantized import QuantizedTensor


def test_products_in_other_shapes_compile_without_a_break() -> None:
    """All are in one graph: most of the time is what a compiler does besides."""
    products, of, by = zip(*(case.values for case in BROADCASTS), strict=True)
    weights, numbers = [quantized(Int4PlainTensor, *shape) for shape in by], [random(*shape) for shape in of]

    def multiply(numbers: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
        return [product(x, weight) for product, x, weight in zip(products, numbers, weights, strict=True)]

    torch.compiler.reset()
    compiled = torch.compile(multiply, fullgraph=True, backend="aot_eager")
    for found, expected in zip(compiled(numbers, weights), multiply(numbers, weights), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.2)


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


class Formats(nn.Module):
    """A module for each format, which all multiply the same numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.ModuleList(module(tensor) for (tensor,) in (case.values for case in TENSORS))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [linear(x) for linear in self.each]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.13 warns of its own code
@pytest.mark.filterwarnings("ignore:The distutils package:DeprecationWarning", "ignore:Reliance on distutils")
@pytest.mark.parametrize(
    "backend", [pytest.param("aot_eager", marks=pytest.mark.slow), pytest.param("inductor", marks=pytest.mark.long)]
)
def test_modules_compile_without_a_break(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All formats in one graph, which is compiled for one shape, and then for those that it may have.

    Inductor imports setuptools. Once a process has looked for pip, as tests/conftest.py does, Python's own distutils is
    the only one that a setuptools of Python 3.11 finds, and it takes that one only if it is told to.
    """
    if sys.version_info < (3, 12):
        monkeypatch.setenv("SETUPTOOLS_USE_DISTUTILS", "stdlib")
    formats = Formats()
    torch.compiler.reset()
    compiled = torch.compile(formats, fullgraph=True, backend=backend)
    for x in (random(5, 128), random(2, 3, 128)):
        leaf, compiled_leaf = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected, products = formats(leaf), compiled(compiled_leaf)
        assert len(products) == len(TENSORS)
        for one, other in zip(products, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.2)
            gradients = (
                torch.autograd.grad(y.sum(), of, retain_graph=True)[0]
                for y, of in ((one, compiled_leaf), (other, leaf))
            )
            torch.testing.assert_close(*gradients, rtol=0.02, atol=0.2)


def test_each_operator_is_a_node_of_the_graph_that_is_compiled() -> None:
    nodes: list[str] = []

    def compiler(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        nodes.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd  # noqa: PLC0415 - it takes as long as torch itself

    torch.compiler.reset()
    backend = aot_autograd(fw_compiler=compiler)
    formats = Formats()
    with torch.no_grad():
        torch.compile(formats, fullgraph=True, backend=backend)(random(5, 128))
    operators = Counter(f"ao.{tensor.FORMAT.operator}.default" for (tensor,) in (case.values for case in TENSORS))
    assert {name: nodes.count(name) for name in operators} == operators


@every_format
@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch 2.13 warns of its own code
def test_a_module_is_exported(tensor: type[QuantizedTensor]) -> None:
    linear = module(tensor).eval()
    exported = torch.export.export(linear, (random(5, 128),)).run_decompositions()
    targets = [str(node.target) for node in exported.graph.nodes]
    assert targets.count(f"ao.{tensor.FORMAT.operator}.default") == 1
    assert torch.equal(exported.module()(random(5, 128)), linear(random(5, 128)))


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
