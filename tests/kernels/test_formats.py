from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ao_kernels import (
    bf16f8bf16_rowwise,
    bf16i8bf16_rowwise,
    bf16u4bf16_rowwise,
    float8_row_quantize,
    int4_row_quantize_zp,
    int8_row_quantize,
    pack_int4,
    pack_uint4,
    uint4_row_quantize,
    unpack_uint4,
)
from ao_kernels.formats import FLOAT8_E4M3, FORMATS, INT4, INT8, UINT4, WeightFormat, dequantize
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tests.kernels.exactness import FORMS, SQNR_BAR, exact, exact_weight, random_operands, sqnr

# Exact in bfloat16: a row from zero up, one down to zero, and one of even numbers on both sides.
ROWS = torch.tensor([[*range(16)], [*range(-15, 1)], [*range(-14, 18, 2)]], dtype=torch.bfloat16)
WORDS = [[0x76543210, 0xFEDCBA98 - (1 << 32)]] * 3


def product(form: WeightFormat) -> Callable[..., Tensor]:
    operator: Callable[..., Tensor] = getattr(torch.ops.ao, form.operator)
    return operator


def test_the_golden_rows_give_golden_words_and_integer_zero_points() -> None:
    u, scale, zero_point = uint4_row_quantize(ROWS, group_size=16)
    assert (scale.tolist(), zero_point.tolist()) == ([[1, 1, 2]], [[0, 15, 7]])
    assert (scale.dtype, zero_point.dtype) == (torch.bfloat16, torch.int8)
    assert pack_uint4(u).tolist() == WORDS


def test_the_golden_rows_have_a_golden_product() -> None:
    u, scale, zero_point = uint4_row_quantize(ROWS, group_size=16)
    ones = torch.ones(1, 16, dtype=torch.bfloat16)
    assert bf16u4bf16_rowwise(ones, pack_uint4(u), scale, zero_point).tolist() == [[120, -120, 16]]


def test_the_bytes_of_one_int4_format_are_the_words_of_the_other() -> None:
    q = torch.arange(-8, 8, dtype=torch.int8).repeat(3, 2)
    assert torch.equal((pack_int4(q) ^ -0x78).view(torch.int32), pack_uint4(q + 8))  # 0x88 as a signed byte


def test_every_word_unpacks_and_packs_to_itself() -> None:
    words = torch.randint(-(1 << 31), 1 << 31, (4, 32), generator=torch.Generator().manual_seed(0)).int()
    assert torch.equal(pack_uint4(unpack_uint4(words)), words)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_a_group_of_zeros_stays_zero(dtype: torch.dtype) -> None:
    u, _, zero_point = uint4_row_quantize(torch.zeros(2, 16, dtype=dtype), group_size=8)
    assert torch.equal(u, zero_point.t().repeat_interleave(8, dim=1))


def test_int8_takes_the_largest_magnitude_to_127() -> None:
    q, scale = int8_row_quantize(torch.tensor([[-127.0, 0, 0.5, 1.5], [254, -3, 1, 0]]))
    assert (scale.tolist(), q.tolist()) == ([[1, 2]], [[-127, 0, 0, 2], [127, -2, 0, 0]])
    assert bf16i8bf16_rowwise(torch.ones(4).bfloat16(), q, scale).tolist() == [-125, 250]


def test_float8_takes_the_largest_magnitude_to_448() -> None:
    q, scale = float8_row_quantize(torch.tensor([[-448.0, 0, 0.5, 16], [896, -2, 1, 0]]))
    assert (scale.tolist(), q.double().tolist()) == ([[1, 2]], [[-448, 0, 0.5, 16], [448, -1, 0.5, 0]])
    assert bf16f8bf16_rowwise(torch.ones(4).bfloat16(), q, scale).tolist() == [-432, 896]


@pytest.mark.parametrize("quantize", [uint4_row_quantize, int8_row_quantize, float8_row_quantize])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        pytest.param((3, 256), 2, id="whole-groups"),
        pytest.param((3, 257), 3, id="ragged"),
        pytest.param((3, 5), 1, id="shorter-than-a-group"),
        pytest.param((0, 257), 3, id="no-rows"),
        pytest.param((3, 0), 0, id="no-columns"),
    ],
)
def test_there_is_a_contiguous_scale_for_each_group_and_row(
    quantize: Callable[..., tuple[Tensor, ...]], shape: tuple[int, int], groups: int
) -> None:
    q, *grids = quantize(torch.randn(shape), 128)
    assert (q.shape, q.is_contiguous()) == (shape, True)
    assert [(grid.shape, grid.is_contiguous()) for grid in grids] == [((groups, shape[0]), True)] * len(grids)


@pytest.mark.parametrize("quantize", [int4_row_quantize_zp, uint4_row_quantize, int8_row_quantize, float8_row_quantize])
@settings(max_examples=40, deadline=None)
@drawn(
    depth=st.integers(1, 70),
    group_size=st.integers(1, 40),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]),
    apart=st.booleans(),
)
def test_every_group_is_quantized_by_itself(
    quantize: Callable[..., tuple[Tensor, ...]], depth: int, group_size: int, dtype: torch.dtype, *, apart: bool
) -> None:
    weight = strided(torch.randn(3, depth, generator=torch.Generator().manual_seed(depth)).to(dtype), apart=apart)
    q, *grids = quantize(weight, group_size)
    for group, start in enumerate(range(0, depth, group_size)):
        columns = slice(start, start + group_size)
        alone, *its_grids = quantize(weight[:, columns], group_size)
        assert torch.equal(q[:, columns].float(), alone.float())
        assert all(torch.equal(grid[group], its[0]) for grid, its in zip(grids, its_grids, strict=True))


def test_every_float8_value_is_read() -> None:
    every = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).view(2, 128)
    read = dequantize(FLOAT8_E4M3, every, torch.ones(1, 2))
    torch.testing.assert_close(read, every.bfloat16(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_several_blocks_are_read(form: WeightFormat) -> None:
    given = random_operands(form, columns=300, depth=8192, group_size=128)  # 2,457,600 values
    read = dequantize(form, given.weight, *given.grids, dtype=torch.float32)
    torch.testing.assert_close(read.double(), exact_weight(form, given.weight, *given.grids), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64, 300])
def test_the_product_is_near_the_exact_one(form: WeightFormat, rows: int) -> None:
    given = random_operands(form, (rows,), columns=32, depth=4096, group_size=128)
    assert sqnr(exact(form, given), product(form)(*given.all)) >= SQNR_BAR


def strided(tensor: Tensor, *, apart: bool) -> Tensor:
    """The same numbers with a gap after each."""
    return torch.stack((tensor, tensor), dim=-1)[..., 0] if apart else tensor


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40, deadline=None)
@drawn(data=st.data())
def test_any_product_is_near_the_exact_one(form: WeightFormat, data: st.DataObject) -> None:
    leading = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3), label="leading"))
    columns, groups = data.draw(st.integers(0, 9), label="columns"), data.draw(st.integers(1, 4), label="groups")
    group_size = 8 * data.draw(st.integers(1, 9), label="group size / 8")
    given = random_operands(form, leading, columns, groups * group_size, group_size)
    scales = data.draw(st.sampled_from([torch.float32, torch.bfloat16]), label="scales")
    grids = (grid if grid.dtype == torch.int8 else grid.to(scales) for grid in given.grids)
    given = given._replace(grids=tuple(strided(grid, apart=data.draw(st.booleans())) for grid in grids))
    given = given._replace(input=strided(given.input, apart=data.draw(st.booleans(), label="apart")))
    output = product(form)(*given.all)
    assert (output.shape, output.dtype, output.is_contiguous()) == ((*leading, columns), torch.bfloat16, True)
    torch.testing.assert_close(output.double(), exact(form, given), rtol=0.02, atol=0.2)


STEPS = {INT4: 0.501, UINT4: 1.001, INT8: 0.501}  # the zero point of UINT4 is rounded too


@pytest.mark.parametrize("form", [pytest.param(form, id=form.operator) for form in STEPS])
@settings(max_examples=40, deadline=None)
@drawn(data=st.data())
def test_any_weight_comes_back_to_within_its_step(form: WeightFormat, data: st.DataObject) -> None:
    rows, groups = data.draw(st.integers(0, 5), label="rows"), data.draw(st.integers(1, 4), label="groups")
    group_size = 8 * data.draw(st.integers(1, 9), label="group size / 8")
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 99), label="seed"))
    magnitude = 10.0 ** data.draw(st.integers(-3, 3), label="magnitude")
    weight = (torch.randn(rows, groups * group_size, generator=random) + data.draw(st.floats(-3, 3))) * magnitude
    stored, *grids = form.quantize(weight, group_size)
    step = grids[0].t().repeat_interleave(group_size, dim=1)
    assert ((exact_weight(form, stored, *grids) - weight).abs() <= STEPS[form] * step).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_in_a_weight_reaches_its_row_alone(form: WeightFormat, bad: float) -> None:
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    weight[2, 40] = bad
    output = product(form)(torch.ones(3, 64).bfloat16(), *form.quantize(weight, 32))
    assert output.isfinite().all(dim=0).tolist() == [True, True, False, True]


LEADING = ((), (3,), (2, 3), (2, 0))
NAMES = ("{}", "{}_generic")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_every_operator_keeps_the_promises_that_torch_checks(
    form: WeightFormat, name: str, leading: tuple[int, ...]
) -> None:
    check_promises(form, name, leading, {"test_schema", "test_autograd_registration", "test_faketensor"})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_traced_for_any_size(form: WeightFormat, name: str) -> None:
    """Trace each operator at one of the shapes: how weights are stored has nothing to do with the shape of an input."""
    leading = LEADING[(FORMATS.index(form) + NAMES.index(name)) % len(LEADING)]
    check_promises(form, name, leading, {"test_aot_dispatch_dynamic"})


def check_promises(form: WeightFormat, name: str, leading: tuple[int, ...], checks: set[str]) -> None:
    given = random_operands(form, leading)
    given.input.requires_grad_()
    if form is FLOAT8_E4M3:
        checks -= {"test_schema"}  # it compares the operands before and after, which torch cannot do in float8
    operator = getattr(torch.ops.ao, name.format(form.operator)).default
    torch.library.opcheck(operator, given.all, test_utils=sorted(checks))


@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_is_that_of_the_exact_product(form: WeightFormat) -> None:
    given = random_operands(form, (2, 3), columns=64, depth=128)
    exact_input = given.input.double().requires_grad_()
    exact(form, given._replace(input=exact_input)).sum().backward()
    given.input.requires_grad_()
    product(form)(*given.all).sum().backward()
    assert exact_input.grad is not None
    assert given.input.grad is not None
    assert sqnr(exact_input.grad, given.input.grad) >= SQNR_BAR


class Product(torch.nn.Module):
    def __init__(self, form: WeightFormat) -> None:
        super().__init__()
        self.product = product(form)

    def forward(self, *operands: Tensor) -> Tensor:
        return self.product(*operands)


@pytest.mark.parametrize("form", FORMS)
def test_the_operator_stays_one_node_in_an_exported_graph(form: WeightFormat) -> None:
    given = random_operands(form)
    exported = torch.export.export(Product(form), given.all)
    nodes = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert nodes == [product(form).default]  # type: ignore[attr-defined]
    assert torch.equal(exported.module()(*given.all), product(form)(*given.all))


@pytest.mark.parametrize("form", FORMS)
def test_the_operator_stays_one_node_in_a_compiled_graph_of_any_batch(form: WeightFormat) -> None:
    nodes: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        nodes.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    compiled = torch.compile(Product(form), fullgraph=True, dynamic=True, backend=backend)
    for rows in (3, 5):
        given = random_operands(form, (rows,))
        assert torch.equal(compiled(*given.all), product(form)(*given.all))
    assert nodes == [product(form)]


@pytest.mark.parametrize(
    ("form", "fault", "message"),
    [
        pytest.param(INT8, {1: torch.ones(8, 64)}, "weight must be int8, got torch.float32", id="int8"),
        pytest.param(FLOAT8_E4M3, {1: torch.ones(8, 64)}, "weight must be float8_e4m3fn, got", id="float8"),
        pytest.param(UINT4, {1: torch.ones(8, 8)}, "weight must be int32, got torch.float32", id="int32"),
        pytest.param(UINT4, {3: torch.ones(2, 8)}, "zero_point must be int8, got torch.float32", id="zero-point"),
        pytest.param(UINT4, {0: torch.ones(2, 8).bfloat16()}, "dimension must be K = 64, got 8", id="depth"),
        pytest.param(INT8, {2: torch.ones(3, 8)}, "number of rows that divides K = 64, got 3", id="groups"),
        pytest.param(
            INT8, {2: torch.ones(2, 8).to("meta")}, "scale must be on cpu as the others are, got meta", id="device"
        ),
    ],
)
def test_what_does_not_fit_is_named(form: WeightFormat, fault: dict[int, Tensor], message: str) -> None:
    operands = [fault.get(i, operand) for i, operand in enumerate(random_operands(form).all)]
    with pytest.raises((TypeError, ValueError), match=message):
        product(form)(*operands)


@pytest.mark.parametrize(
    ("u", "error", "message"),
    [
        pytest.param(torch.ones(2, 8), TypeError, "q must be int8, got torch.float32", id="dtype"),
        pytest.param(torch.ones(2, 12).char(), ValueError, "must be a multiple of 8, got 12", id="words"),
        pytest.param(torch.full((8,), 16).char(), ValueError, "from 0 to 15, got 16 to 16", id="range"),
    ],
)
def test_what_cannot_be_packed_is_named(u: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pack_uint4(u)


def test_int4_quantizers_refuse_what_the_others_refuse() -> None:
    for quantize in (int4_row_quantize_zp, uint4_row_quantize, int8_row_quantize, float8_row_quantize):
        with pytest.raises(TypeError, match=r"x must be floating point, got torch\.int32"):
            quantize(torch.ones(2, 2).int())
        with pytest.raises(ValueError, match="group_size must be at least 1, got 0"):
            quantize(torch.ones(2, 2), 0)
