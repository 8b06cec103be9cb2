"""The CUDA kernels on a GPU: numbers, determinism, streams, graphs and devices. Everything here needs one.

The tests named `product` are made for the sanitizers as well:

    compute-sanitizer --tool memcheck python -m pytest -o pythonpath=. -m gpu -k product tests/kernels/test_gpu.py
    compute-sanitizer --tool racecheck python -m pytest -o pythonpath=. -m gpu -k product tests/kernels/test_gpu.py
"""

from __future__ import annotations

import ao_kernels
import pytest
import torch
from ao_kernels import bf16i4bf16_rowwise
from ao_kernels.formats import INT4
from torch import Tensor

from tests.kernels.exactness import SQNR_BAR, Given, exact, sqnr

HAS_KERNELS = torch.cuda.is_available() and ao_kernels.describe().startswith("CUDA")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_KERNELS, reason=f"needs a GPU and the CUDA wheel; {ao_kernels.describe()}"),
]

# Each body's fewest and most rows, and what lies between its tiles.
ROWS = [1, 3, 8, 9, 16, 17, 25, 32, 33, 64, 65, 128, 129, 512, 513, 4096]
GROUP_SIZES = [32, 64, 96, 128, 256, 4096]
DTYPES = [pytest.param(torch.float32, id="float32"), pytest.param(torch.bfloat16, id="bfloat16")]


def operands(
    rows: int, columns: int = 520, depth: int = 4096, group_size: int = 128, dtype: torch.dtype = torch.float32
) -> Given:
    random = torch.Generator(device="cuda").manual_seed(rows)
    x = torch.randn(rows, depth, device="cuda", generator=random).bfloat16()
    weight, *grids = INT4.quantize(torch.randn(columns, depth, device="cuda", generator=random), group_size)
    return Given(x, weight, tuple(grid.to(dtype) for grid in grids))


def on_host(given: Given) -> Given:
    return Given(given.input.cpu(), given.weight.cpu(), tuple(grid.cpu() for grid in given.grids))


def assert_near(given: Given, product: Tensor) -> None:
    assert sqnr(exact(INT4, on_host(given)), product.cpu()) >= SQNR_BAR


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", ROWS)
def test_a_product_of_any_number_of_rows_is_near_the_exact_one(rows: int, dtype: torch.dtype) -> None:
    given = operands(rows, dtype=dtype)
    assert_near(given, bf16i4bf16_rowwise(*given.all))


@pytest.mark.parametrize("rows", [1, 9, 17, 64])
def test_a_product_of_many_columns_is_near_the_exact_one(rows: int) -> None:
    """From 4097 columns on, blocks are wider."""
    given = operands(rows, columns=4200)
    assert_near(given, bf16i4bf16_rowwise(*given.all))


@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("rows", [1, 16, 20, 100, 2000])
def test_a_product_of_any_groups_is_near_the_exact_one(rows: int, group_size: int) -> None:
    given = operands(rows, depth=12288, group_size=group_size)
    assert_near(given, bf16i4bf16_rowwise(*given.all))


@pytest.mark.parametrize("rows", [1, 9, 40])
@pytest.mark.parametrize(
    ("columns", "depth", "group_size"),
    [
        pytest.param(1, 32, 32, id="smallest"),
        pytest.param(127, 4128, 32, id="ragged"),
        pytest.param(257, 4160, 64, id="ragged-groups-of-64"),
        pytest.param(5, 66, 22, id="groups-of-22"),
        pytest.param(70_000, 64, 32, id="many-columns"),
    ],
)
def test_a_ragged_product_is_near_the_exact_one(rows: int, columns: int, depth: int, group_size: int) -> None:
    given = operands(rows, columns, depth, group_size)
    product = bf16i4bf16_rowwise(*given.all).cpu().double()
    torch.testing.assert_close(product, exact(INT4, on_host(given)), rtol=0.02, atol=0.02 * depth**0.5)


@pytest.mark.parametrize("parts", range(1, 9))
@pytest.mark.parametrize("rows", [1, 16, 20, 40])
def test_a_product_of_any_parts_of_k_is_near_the_exact_one(rows: int, parts: int) -> None:
    """A cluster has as many blocks as K has parts, also three, five, six or seven."""
    given = operands(rows, depth=1024 * parts)
    assert_near(given, bf16i4bf16_rowwise(*given.all))


@pytest.mark.parametrize("rows", [1, 40])
def test_a_product_of_misaligned_operands_is_the_same(rows: int) -> None:
    given = operands(rows, columns=64, depth=256, group_size=32)
    apart = torch.empty(given.input.numel() + 1, device="cuda", dtype=torch.bfloat16)[1:].view_as(given.input)
    apart.copy_(given.input)
    assert apart.data_ptr() % 16
    product = bf16i4bf16_rowwise(apart, given.weight, *given.grids)
    torch.testing.assert_close(product, bf16i4bf16_rowwise(*given.all), rtol=0.02, atol=0.2)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan], ids=str)
@pytest.mark.parametrize("rows", [4, 40, 2000])
def test_nan_and_infinity_reach_a_product_as_in_a_linear_layer(rows: int, value: float) -> None:
    given = operands(rows, depth=512)
    given.input[1, 77] = value
    product, expected = bf16i4bf16_rowwise(*given.all).cpu().double(), exact(INT4, on_host(given))
    torch.testing.assert_close(product[1], expected[1], equal_nan=True)
    assert product[2:].isfinite().all()


@pytest.mark.parametrize("rows", [1, 16, 64, 512, 2000])
def test_the_same_call_gives_the_same_bits(rows: int) -> None:
    given = operands(rows, columns=4096)
    first = bf16i4bf16_rowwise(*given.all)
    assert all(torch.equal(first, bf16i4bf16_rowwise(*given.all)) for _ in range(20))


@pytest.mark.parametrize("rows", [1, 16, 64, 2000])
def test_a_call_is_captured_and_replayed(rows: int) -> None:
    given, other = operands(rows), operands(rows + 1)
    expected = bf16i4bf16_rowwise(other.input[:rows].contiguous(), *given.all[1:])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = bf16i4bf16_rowwise(*given.all)
    given.input.copy_(other.input[:rows])
    graph.replay()
    assert torch.equal(product, expected)


@pytest.mark.parametrize("rows", [1, 64, 2000])
def test_the_work_is_on_the_current_stream(rows: int) -> None:
    given = operands(rows)
    expected = bf16i4bf16_rowwise(*given.all)
    late = given._replace(input=torch.zeros_like(given.input))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)  # noqa: SLF001 - work that takes long, so that another stream would be first
        late.input.copy_(given.input)
        product = bf16i4bf16_rowwise(*late.all)
    stream.synchronize()
    assert torch.equal(product, expected)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("rows", [1, 64, 2000])
def test_nothing_waits_for_the_gpu(rows: int) -> None:
    given = operands(rows)
    bf16i4bf16_rowwise(*given.all)
    try:
        torch.cuda.set_sync_debug_mode("error")
        bf16i4bf16_rowwise(*given.all)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_operands_name_the_device() -> None:
    given = operands(4)
    there = Given(given.input.to("cuda:1"), given.weight.to("cuda:1"), tuple(grid.to("cuda:1") for grid in given.grids))
    product = bf16i4bf16_rowwise(*there.all)
    assert (product.device.index, torch.cuda.current_device()) == (1, 0)
    assert torch.equal(product.cpu(), bf16i4bf16_rowwise(*given.all).cpu())


def test_operands_on_two_devices_are_named() -> None:
    given = operands(4)
    with pytest.raises((ValueError, RuntimeError), match="must be on one"):
        bf16i4bf16_rowwise(given.input, given.weight.cpu(), *given.grids)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch 2.11 on Python 3.12 warns of itself
@pytest.mark.parametrize("rows", [1, 64, 2000])
def test_a_compiled_layer_calls_the_kernel(rows: int) -> None:
    given = operands(rows)
    compiled = torch.compile(bf16i4bf16_rowwise, fullgraph=True)
    assert torch.equal(compiled(*given.all), bf16i4bf16_rowwise(*given.all))


def test_the_operator_keeps_the_promises_that_torch_checks() -> None:
    given = operands(4)
    given.input.requires_grad_()
    torch.library.opcheck(torch.ops.ao.bf16i4bf16_rowwise.default, given.all)
