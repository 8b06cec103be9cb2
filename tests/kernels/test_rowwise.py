from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from ao_kernels import bf16i4bf16_rowwise, int4_row_quantize_zp, pack_int4, unpack_int4
from ao_kernels.__main__ import INPUT, PRODUCT, WEIGHT
from ao_kernels.formats import INT4
from torch import Tensor

from tests.kernels.exactness import SQNR_BAR, exact_weight, sqnr

Body = Callable[..., Tensor]

SCALE_DTYPES = [pytest.param(torch.float32, id="float32"), pytest.param(torch.bfloat16, id="bfloat16")]


BODIES = [
    pytest.param("generic", id="generic"),
    pytest.param("kernel_on_host", id="kernel-on-host", marks=pytest.mark.slow),
    pytest.param("kernel_on_cpu", id="kernel-on-cpu", marks=pytest.mark.slow),
    pytest.param("kernel_on_gpu", id="kernel-on-gpu", marks=pytest.mark.gpu),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Hold every body to the list; with `--device acme`, whatever serves that device, and nothing else."""
    device = metafunc.config.getoption("--device", default=None)
    if "body" in metafunc.fixturenames:
        metafunc.parametrize("body", [f"on-{device}"] if device else BODIES, indirect=True)


# Torch itself would take operands of two devices to another kernel than that of the CPU.
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # noqa: SLF001 - torch has no public name for it


class Operands(NamedTuple):
    input: Tensor
    weight: Tensor
    scale: Tensor
    zero_point: Tensor


def operands(
    leading: tuple[int, ...] = (4,),
    columns: int = 8,
    depth: int = 64,
    group_size: int = 32,
    dtype: torch.dtype = torch.float32,
) -> Operands:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(*leading, depth, generator=random).bfloat16()
    q, scale, zero_point = int4_row_quantize_zp(torch.randn(columns, depth, generator=random), group_size)
    return Operands(x, pack_int4(q), scale.to(dtype), zero_point.to(dtype))


def exact(given: Operands) -> Tensor:
    return given.input.double() @ exact_weight(INT4, given.weight, given.scale, given.zero_point).t()


@pytest.mark.parametrize("dtype", SCALE_DTYPES)
def test_the_golden_product_is_exact(body: Body, dtype: torch.dtype) -> None:
    q, scale, zero_point = int4_row_quantize_zp(WEIGHT, group_size=16)
    assert torch.equal(body(INPUT, pack_int4(q), scale.to(dtype), zero_point.to(dtype)), PRODUCT)


@pytest.mark.parametrize("dtype", SCALE_DTYPES)
@pytest.mark.parametrize("depth", [4096, 8192])
@pytest.mark.parametrize("rows", [4, 64, 129], ids=["few", "some", "many"])  # one number for each body on CUDA
def test_the_product_is_near_the_exact_one(body: Body, rows: int, depth: int, dtype: torch.dtype) -> None:
    given = operands((rows,), columns=64, depth=depth, group_size=128, dtype=dtype)
    decibels = sqnr(exact(given), body(*given))
    print(f"{decibels:.1f} dB")  # noqa: T201 - with -s
    assert decibels >= SQNR_BAR


def product_by_torch(given: Operands, group_size: int) -> Tensor:
    u = (unpack_int4(given.weight) + 8).int()
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(u, 1)  # noqa: SLF001 - the only other int4 operator
    grid = torch.stack((given.scale, given.zero_point), dim=-1)
    product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(given.input, packed, group_size, grid)  # noqa: SLF001
    return product


@pytest.mark.parametrize("rows", [1, 2, 8, 16, 17, 100, 257])
def test_the_product_is_near_the_exact_one_for_any_number_of_rows(body: Body, rows: int) -> None:
    given = operands((rows,), columns=24, depth=4096, group_size=128, dtype=torch.bfloat16)
    assert sqnr(exact(given), body(*given)) >= SQNR_BAR


def test_the_product_is_near_that_of_the_int4_operator_of_torch(body: Body) -> None:
    given = operands(columns=64, depth=4096, group_size=128, dtype=torch.bfloat16)
    theirs = product_by_torch(given, group_size=128)
    assert sqnr(theirs.double(), body(*given)) >= SQNR_BAR


@pytest.mark.parametrize(
    ("leading", "columns", "depth", "group_size"),
    [
        pytest.param((), 8, 64, 32, id="vector"),
        pytest.param((3,), 8, 64, 32, id="matrix"),
        pytest.param((2, 3), 8, 64, 32, id="batch"),
        pytest.param((2, 1, 3), 8, 64, 64, id="one-group"),
        pytest.param((3,), 5, 66, 22, id="group-of-another-size"),
        pytest.param((3,), 5, 30, 3, id="byte-in-two-groups"),
        pytest.param((3,), 1, 2, 1, id="smallest"),
        pytest.param((0,), 8, 64, 32, id="no-rows"),
        pytest.param((2, 0), 8, 64, 32, id="empty-batch"),
        pytest.param((3,), 0, 64, 32, id="no-columns"),
        pytest.param((3,), 8, 0, 32, id="no-depth"),
    ],
)
def test_every_shape_gives_a_contiguous_product(
    body: Body, leading: tuple[int, ...], columns: int, depth: int, group_size: int
) -> None:
    given = operands(leading, columns, depth, group_size)
    product = body(*given)
    assert (product.shape, product.dtype, product.is_contiguous()) == ((*leading, columns), torch.bfloat16, True)
    torch.testing.assert_close(product.double(), exact(given), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_does_what_it_does_in_the_linear_of_torch(body: Body, bad: float, rows: int) -> None:
    given = operands((rows,), columns=16, depth=256, group_size=64)
    given.input[0, 70] = bad
    given.scale[1, 3] = given.zero_point[2, 5] = bad
    weight = exact_weight(INT4, given.weight, given.scale, given.zero_point)
    expected, output = torch.nn.functional.linear(given.input.double(), weight), body(*given).double()
    for kind in (torch.isnan, torch.isposinf, torch.isneginf):
        assert torch.equal(kind(output), kind(expected))


def test_operands_need_not_be_contiguous(body: Body) -> None:
    given = operands((2, 3))
    strided = Operands(*(operand.mT.contiguous().mT for operand in given))
    assert not any(operand.is_contiguous() for operand in strided)
    assert torch.equal(body(*strided), body(*given))


FAULTS = [
    pytest.param({"input": torch.ones(2, 64)}, "input must be bfloat16, got", id="input-dtype"),
    pytest.param({"weight": torch.ones(8, 32)}, "weight must be int8, got", id="weight-dtype"),
    pytest.param({"scale": torch.ones(2, 8).half()}, "scale must be float32 or bfloat16, got", id="scale-dtype"),
    pytest.param({"zero_point": torch.ones(2, 8).bfloat16()}, "zero_point must have scale's dtype", id="mixed-dtypes"),
    pytest.param({"input": torch.ones(()).bfloat16()}, "input must have at least 1 dimension, got 0", id="input-rank"),
    pytest.param({"weight": torch.ones(8).char()}, "weight must have 2 dimensions, got 1", id="weight-rank"),
    pytest.param({"scale": torch.ones(8)}, "scale must have 2 dimensions, got 1", id="scale-rank"),
    pytest.param({"zero_point": torch.ones(8)}, "zero_point must have 2 dimensions, got 1", id="zero-point-rank"),
    pytest.param({"input": torch.ones(2, 62).bfloat16()}, "input's last dimension must be K = 64, got 62", id="depth"),
    pytest.param({"scale": torch.ones(2, 9)}, "scale must have N = 8 columns, got 9", id="columns"),
    pytest.param({"scale": torch.ones(3, 8)}, "rows that divides K = 64, got 3", id="groups"),
    pytest.param({"zero_point": torch.ones(1, 8)}, r"have scale's shape \[2, 8\], got \[1, 8\]", id="zero-point-shape"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_every_body_names_what_does_not_fit(body: Body, fault: dict[str, Tensor], message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        body(*operands()._replace(**fault))


def test_the_operand_on_another_device_is_named() -> None:
    given = operands()
    with pytest.raises(ValueError, match=r"^weight must be on cpu as the others are, got meta$"):
        bf16i4bf16_rowwise(*given._replace(weight=given.weight.to("meta")))
    with pytest.raises(ValueError, match=r"zero_point must be on one device, got cpu and meta$"):
        bf16i4bf16_rowwise(*given._replace(weight=given.weight.to("meta"), scale=given.scale.to("meta")))


def test_a_weight_that_its_grids_do_not_fit_is_the_one_to_blame() -> None:
    given = operands()
    with pytest.raises(ValueError, match=r"^weight must have N = 8 rows, as scale and zero_point have columns, got 7$"):
        bf16i4bf16_rowwise(*given._replace(weight=given.weight[:7]))


def test_faults_of_one_kind_are_named_together() -> None:
    with pytest.raises(TypeError, match=r"input must be bfloat16, got torch.float32; weight must be int8"):
        bf16i4bf16_rowwise(*operands()._replace(input=torch.ones(2, 64), weight=torch.ones(8, 32)))


def test_the_schema_is_that_of_the_rfc() -> None:
    schema = "ao::bf16i4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor"
    assert str(torch.ops.ao.bf16i4bf16_rowwise.default._schema) == schema  # noqa: SLF001 - torch has no other way to it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "operators", "where"),
    [
        pytest.param("cpu_bodies", "ao_on_chosen", "on the CPU", id="cpu"),
        pytest.param("kernel_on_host", "ao_on_host", "on one CUDA device", id="cuda"),
    ],
)
def test_a_kernel_names_that_an_operand_is_elsewhere(
    request: pytest.FixtureRequest, library: str, operators: str, where: str
) -> None:
    request.getfixturevalue(library)
    kernel = getattr(torch.ops, operators).bf16i4bf16_rowwise.default
    given = operands()
    with pytest.raises(RuntimeError, match=f"input, weight, scale and zero_point must be {where}"):
        kernel.redispatch(CPU, *given._replace(weight=given.weight.to("meta")))


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_the_gradient_is_that_of_the_exact_product(device: str, leading: tuple[int, ...]) -> None:
    given = operands(leading, columns=64, depth=128)
    exact_input = given.input.double().requires_grad_()
    exact(given._replace(input=exact_input)).sum().backward()
    given.input.requires_grad_()
    bf16i4bf16_rowwise(*(operand.to(device) for operand in given)).sum().backward()
    assert given.input.grad is not None
    assert exact_input.grad is not None
    assert sqnr(exact_input.grad, given.input.grad) >= SQNR_BAR


def test_the_operator_stays_one_node_in_a_compiled_graph() -> None:
    nodes: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    given = operands()
    compiled = torch.compile(bf16i4bf16_rowwise, fullgraph=True, backend=backend)
    assert torch.equal(compiled(*given), bf16i4bf16_rowwise(*given))
    assert nodes == [torch.ops.ao.bf16i4bf16_rowwise]
