from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ao_kernels import (
    float8_row_quantize,
    int4_row_quantize_zp,
    int8_row_quantize,
    pack_int4,
    pack_uint4,
    uint4_row_quantize,
    unpack_int4,
)
from torch._subclasses import FakeTensorMode

QUANTIZERS = [int4_row_quantize_zp, uint4_row_quantize, int8_row_quantize, float8_row_quantize]
ROWS = torch.tensor([[*range(16)], [-15, 0, *range(-1, -15, -1)], [30, 0, *range(2, 30, 2)]], dtype=torch.float32)
PACKED = ["98badcfe10325476", "78563412f0debc9a", "87a9cbed0f214365"]


def hexadecimal(packed: torch.Tensor) -> list[str]:
    return [bytes(byte & 0xFF for byte in row).hex() for row in packed.tolist()]


def test_the_golden_rows_give_the_golden_scales_and_zero_points() -> None:
    _, scale, zero_point = int4_row_quantize_zp(ROWS, group_size=16)
    assert scale.tolist() == [[1, 1, 2]]
    assert zero_point.tolist() == [[8, -7, 16]]


def test_the_golden_rows_give_the_golden_bytes() -> None:
    q, _, _ = int4_row_quantize_zp(ROWS, group_size=16)
    assert hexadecimal(pack_int4(q)) == PACKED


def test_ties_round_to_the_even_step() -> None:
    q, _, _ = int4_row_quantize_zp(torch.tensor([[0.0, 15.0, 0.5, 1.5, 2.5, 3.5]]), group_size=6)
    assert (q + 8).tolist() == [[0, 15, 0, 2, 2, 4]]


def test_a_weight_comes_back_to_within_half_a_step() -> None:
    weight = torch.randn(64, 1024, generator=torch.Generator().manual_seed(0))
    q, scale, zero_point = int4_row_quantize_zp(weight)
    step, zero = (grid.t().repeat_interleave(128, dim=1) for grid in (scale, zero_point))
    assert ((q * step + zero - weight).abs() <= step * 0.5001).all()


def test_a_group_of_equal_values_comes_back() -> None:
    q, scale, zero_point = int4_row_quantize_zp(torch.full((2, 4), 3.0), group_size=4)
    torch.testing.assert_close(q * scale.t() + zero_point.t(), torch.full((2, 4), 3.0))


def test_a_short_last_group_is_quantized_by_its_own_values() -> None:
    weight = torch.randn(4, 40, generator=torch.Generator().manual_seed(0))
    q, scale, zero_point = int4_row_quantize_zp(weight, group_size=16)
    last, last_scale, last_zero_point = int4_row_quantize_zp(weight[:, 32:], group_size=8)
    assert torch.equal(q[:, 32:], last)
    assert torch.equal(torch.stack((scale[-1:], zero_point[-1:])), torch.stack((last_scale, last_zero_point)))


@pytest.mark.parametrize(
    ("shape", "group_size", "groups"),
    [
        pytest.param((3, 256), 128, 2, id="whole-groups"),
        pytest.param((3, 257), 128, 3, id="ragged"),
        pytest.param((3, 5), 128, 1, id="shorter-than-a-group"),
        pytest.param((0, 257), 128, 3, id="no-rows"),
        pytest.param((3, 0), 128, 0, id="no-columns"),
    ],
)
def test_there_is_a_contiguous_scale_for_each_group_and_row(
    shape: tuple[int, int], group_size: int, groups: int
) -> None:
    q, *grids = int4_row_quantize_zp(torch.randn(shape, dtype=torch.bfloat16), group_size)
    assert (q.shape, q.dtype, q.is_contiguous()) == (shape, torch.int8, True)
    for grid in grids:
        assert (grid.shape, grid.dtype, grid.is_contiguous()) == ((groups, shape[0]), torch.float32, True)


def test_every_byte_unpacks_and_packs_to_itself() -> None:
    every_byte = torch.arange(-128, 128, dtype=torch.int8).view(2, 4, 32)
    assert torch.equal(pack_int4(unpack_int4(every_byte)), every_byte)


def test_even_positions_are_in_the_low_four_bits() -> None:
    assert hexadecimal(pack_int4(torch.tensor([[1, 2, -1, -8]], dtype=torch.int8))) == ["218f"]


def test_what_is_packed_is_contiguous_whatever_the_strides() -> None:
    q = torch.randint(-8, 8, (12, 6), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    packed = pack_int4(q.t())
    assert packed.is_contiguous()
    assert torch.equal(packed, pack_int4(q.t().contiguous()))


def test_a_group_longer_than_a_row_costs_no_more_than_the_row() -> None:
    weight = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    longest = largest_allocation(lambda: int4_row_quantize_zp(weight, group_size=1 << 40))
    assert longest <= largest_allocation(lambda: int4_row_quantize_zp(weight, group_size=5))


def largest_allocation(work: Callable[[], object]) -> int:
    with torch.profiler.profile(profile_memory=True) as profile:
        work()
    return max(int(event.cpu_memory_usage) for event in profile.key_averages())


@pytest.mark.parametrize("quantize", QUANTIZERS)
def test_what_is_quantized_keeps_no_weight_alive(quantize: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    weight = torch.nn.Parameter(torch.randn(2, 32))
    assert not any(made.requires_grad for made in quantize(weight, 16))


@pytest.mark.parametrize("quantize", [*QUANTIZERS, pack_int4])
def test_a_compiler_sees_through_quantizing(quantize: Callable[..., object]) -> None:
    weight = torch.randn(2, 32) if quantize is not pack_int4 else torch.ones(2, 32).char()
    torch.compiler.reset()
    compiled = torch.compile(quantize, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(weight), quantize(weight), rtol=0, atol=0)


def test_fake_values_have_shapes_only() -> None:
    with FakeTensorMode():
        assert pack_int4(torch.ones(2, 32, dtype=torch.int8)).shape == (2, 16)
        assert pack_uint4(torch.ones(2, 32, dtype=torch.int8)).shape == (2, 4)


def test_values_on_the_meta_device_have_shapes_only() -> None:
    q, scale, _ = int4_row_quantize_zp(torch.empty(3, 40, device="meta"), group_size=16)
    assert (pack_int4(q).shape, scale.shape) == ((3, 20), (3, 3))


@pytest.mark.parametrize(
    ("x", "group_size", "error", "message"),
    [
        pytest.param(torch.ones(2, 2).int(), 2, TypeError, "x must be floating point, got torch.int32", id="dtype"),
        pytest.param(torch.ones(2), 2, ValueError, "x must have 2 dimensions, got 1", id="rank"),
        pytest.param(torch.ones(2, 2), 0, ValueError, "group_size must be at least 1, got 0", id="group-size"),
        pytest.param(torch.ones(2, 2), "32", TypeError, "group_size must be a whole number, got '32'", id="text"),
        pytest.param(torch.ones(2, 2), 2.0, TypeError, r"group_size must be a whole number, got 2\.0", id="float"),
        pytest.param(torch.ones(2, 2), True, TypeError, "group_size must be a whole number, got True", id="bool"),
        pytest.param(torch.ones(2, 2), None, TypeError, "group_size must be a whole number, got None", id="none"),
    ],
)
def test_what_cannot_be_quantized_is_named(
    x: torch.Tensor, group_size: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        int4_row_quantize_zp(x, group_size)


@pytest.mark.parametrize(
    ("q", "error", "message"),
    [
        pytest.param(torch.ones(2, 2), TypeError, "q must be int8, got torch.float32", id="dtype"),
        pytest.param(torch.ones(()).char(), ValueError, "q must have at least 1 dimension, got 0", id="rank"),
        pytest.param(torch.ones(2, 3).char(), ValueError, "q's last dimension must be even, got 3", id="odd"),
        pytest.param(torch.tensor([-9, 7]).char(), ValueError, "from -8 to 7, got -9 to 7", id="range"),
    ],
)
def test_what_cannot_be_packed_is_named(q: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pack_int4(q)
