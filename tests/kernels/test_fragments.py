"""The CUDA kernels' index arithmetic on this machine: the bodies that nvcc compiles, run lane by lane by a host."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from ao_kernels import bf16i4bf16_rowwise, pack_int4
from ao_kernels.formats import INT4
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tests.builders.compilers import CXX, compile_cxx, has_compiler
from tests.kernels.exactness import SQNR_BAR, Given, exact, random_operands, sqnr
from tests.kernels.hostbodies import HOST, QUICK, STRICT, compile_bodies

pytestmark = pytest.mark.slow  # they compile

Body = Callable[..., Tensor]

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover")


class Kind(IntEnum):
    """The bodies, as the kernels count them."""

    STREAMING = 0
    TILED = 1
    SLABS = 2


class Case(NamedTuple):
    """One call."""

    body: Kind
    rows: int
    columns: int
    groups: int
    group_size: int
    dtype: torch.dtype = torch.float32
    multiprocessors: int = 132  # of an H200; fewer give fewer splits

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.rows, self.columns, self.groups * self.group_size, self.group_size


class Product(NamedTuple):
    """What came of a call, the exact result, and how far rounding alone may lead away from it."""

    output: Tensor
    exact: Tensor
    error: Tensor


def compiled(out: Path, *options: str, link: Sequence[str]) -> Path:
    if not has_compiler():
        pytest.skip("no C++ compiler: install g++ or set CXX")
    calls = compile_cxx(HOST / "fragments.cpp", out.with_suffix(".o"), *STRICT, *options)
    subprocess.run([CXX, *link, calls, compile_bodies(out.parent, *options), "-o", out], check=True)
    return out


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compiled(tmp_path_factory.mktemp("fragments") / "libfragments.so", *QUICK, link=["-shared"])
    loaded = ctypes.CDLL(str(library))
    loaded.columns_of_slab.restype = ctypes.c_int64
    return loaded


def array(*numbers: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(numbers))(*numbers)


def pointers(*tensors: Tensor) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def run(kernels: ctypes.CDLL, case: Case, special: dict[int, float] | None = None) -> Product:
    """Multiply random operands by one body, and in float64; `special` values are in the middle of their rows."""
    random = torch.Generator().manual_seed(case.rows * 7919 + case.columns)
    rows, columns, depth, _ = case.shape
    x = torch.randn(rows, depth, generator=random).bfloat16()
    for row, value in (special or {}).items():
        x[row, depth // 2 + 1] = value
    q = torch.randint(-8, 8, (columns, depth), generator=random, dtype=torch.int8)
    scale, zero_point = (torch.randn(case.groups, columns, generator=random).to(case.dtype) for _ in range(2))
    weight = pack_int4(q)
    output = torch.full((columns, depth) if case.body is Kind.SLABS else (rows, columns), torch.nan).bfloat16()
    operands = pointers(x, weight, scale, zero_point)
    is_bfloat16 = case.dtype is torch.bfloat16
    place = ctypes.c_void_p(output.data_ptr())
    kernels.multiply(case.body, is_bfloat16, operands, place, array(*case.shape), case.multiprocessors)
    scales, zero_points = (grid.double().t().repeat_interleave(case.group_size, dim=1) for grid in (scale, zero_point))
    exact = q * scales + zero_points
    if case.body is Kind.SLABS:
        return Product(output, exact, exact.abs() / 256 + 1e-6)
    size = x.double().abs() @ (q.abs() * scales.abs() + zero_points.abs()).t()
    # Tiles round scales, zero points and weights to eight bits, each half a unit at most.
    inner = 1.01 / 256 if case.body is Kind.TILED else 1e-6
    product = x.double() @ exact.t()
    return Product(output, product, product.abs() / 256 + size * inner + 1e-6)


def assert_near(product: Product) -> None:
    excess = (product.output.double() - product.exact).abs() - product.error
    assert bool((excess <= 0).all()), f"at {(~(excess <= 0)).nonzero()[:8].tolist()}"


DTYPES = st.sampled_from([torch.float32, torch.bfloat16])


def calls(body: Kind, rows: int, columns: int, groups: int) -> st.SearchStrategy[Case]:
    """Calls of a tensor-core body, of at most these sizes."""
    return st.builds(
        Case,
        body=st.just(body),
        rows=st.integers(1, rows),
        columns=st.integers(1, columns),
        groups=st.integers(1, groups),
        group_size=st.sampled_from([32, 64, 96, 128, 160, 192, 256, 384]),
        dtype=DTYPES,
        multiprocessors=st.sampled_from([1, 4, 132]),
    )


@settings(deadline=None, max_examples=40)
@drawn(case=calls(Kind.STREAMING, rows=32, columns=300, groups=9))
def test_streaming_gives_the_product(kernels: ctypes.CDLL, case: Case) -> None:
    assert_near(run(kernels, case))


@settings(deadline=None, max_examples=25)
@drawn(case=calls(Kind.TILED, rows=150, columns=200, groups=7))
def test_tiles_give_the_product(kernels: ctypes.CDLL, case: Case) -> None:
    assert_near(run(kernels, case))


@settings(deadline=None, max_examples=60)
@drawn(columns=st.integers(1, 40), groups=st.integers(1, 6), group_size=st.integers(1, 70), dtype=DTYPES)
def test_a_slab_is_the_dequantized_weight(
    kernels: ctypes.CDLL, columns: int, groups: int, group_size: int, dtype: torch.dtype
) -> None:
    even = groups if group_size % 2 == 0 else 2 * groups
    assert_near(run(kernels, Case(Kind.SLABS, 1, columns, even, group_size, dtype)))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(Kind.STREAMING, 5, 20, 3, 128), id="streaming"),
        pytest.param(Case(Kind.STREAMING, 12, 20, 4, 32), id="streaming-short-groups"),
        pytest.param(Case(Kind.TILED, 20, 20, 3, 64), id="tiled"),
    ],
)
def test_nan_and_infinity_reach_the_product_as_in_a_linear_layer(kernels: ctypes.CDLL, case: Case) -> None:
    product = run(kernels, case, {0: torch.inf, 1: -torch.inf, 2: torch.nan})
    assert product.exact[:3].isfinite().sum() == 0
    torch.testing.assert_close(product.output[:3].double(), product.exact[:3], equal_nan=True)
    assert product.output[3:].isfinite().all()


LONG = [
    pytest.param(Case(Kind.STREAMING, 1, 16, 32, 128), id="streaming-one-row"),
    pytest.param(Case(Kind.STREAMING, 16, 16, 64, 64), id="streaming-short-groups"),
    pytest.param(Case(Kind.STREAMING, 9, 16, 112, 128, multiprocessors=1), id="streaming-without-splits"),
    pytest.param(Case(Kind.STREAMING, 32, 16, 32, 128), id="streaming-most-rows"),
    pytest.param(Case(Kind.STREAMING, 3, 16, 1, 4096), id="streaming-one-group"),
    pytest.param(Case(Kind.TILED, 128, 16, 32, 128), id="tiled"),
    pytest.param(Case(Kind.TILED, 17, 16, 1, 4160, multiprocessors=1), id="tiled-one-ragged-group"),
]


@pytest.mark.parametrize("case", LONG)
def test_long_rows_give_the_product(kernels: ctypes.CDLL, case: Case) -> None:
    product = run(kernels, case)
    assert_near(product)
    noise = (product.output.double() - product.exact).norm()
    assert 20 * torch.log10(product.exact.norm() / noise) >= 48


def test_every_word_is_decoded_exactly(kernels: ctypes.CDLL) -> None:
    values = (ctypes.c_float * 8)()
    for low in range(256):
        word = low | (255 - low) << 8 | (low ^ 0x5A) << 16 | (low * 7 % 256) << 24
        kernels.decode_word(ctypes.c_uint32(word), values)
        assert list(values) == [((word >> 4 * i & 15) ^ 8) - 8 for i in range(8)]


@drawn(divisor=st.integers(1, 1 << 16), data=st.data())
def test_dividing_by_multiplying_is_exact(kernels: ctypes.CDLL, divisor: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(0, min(2**32 // divisor, 1 << 31) - 1))
    assert kernels.divide(value, ctypes.c_int64(divisor)) == value // divisor


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "group_size", "body"),
    [
        pytest.param(1, 4096, 4096, 128, Kind.STREAMING, id="one-row"),
        pytest.param(32, 4096, 4096, 32, Kind.STREAMING, id="most-rows-of-streaming"),
        pytest.param(33, 4096, 4096, 128, Kind.TILED, id="fewest-rows-of-tiles"),
        pytest.param(128, 4096, 4096, 96, Kind.TILED, id="most-rows-of-tiles"),
        pytest.param(129, 4096, 4096, 128, Kind.SLABS, id="many-rows"),
        pytest.param(1, 8, 66, 22, Kind.SLABS, id="group-of-another-size"),
        pytest.param(1, 8, 0, 0, Kind.SLABS, id="no-depth"),
        pytest.param(1, 8, 1 << 22, 128, Kind.SLABS, id="depth-beyond-32-bit-indices"),
    ],
)
def test_rows_and_groups_choose_the_body(
    kernels: ctypes.CDLL, rows: int, columns: int, depth: int, group_size: int, body: Kind
) -> None:
    assert kernels.body_of(array(rows, columns, depth, group_size)) == body


# For two blocks on each of 132 multiprocessors, in parts of the GPU that hold 14 to 18 of them.
CLUSTERS = (0, 264, 132, 84, 66, 50, 40, 35, 31)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "splits"),
    [
        pytest.param(1, 4096, 4096, 2, id="small"),
        pytest.param(1, 1024, 8192, 7, id="smaller"),  # eight would be 32 clusters, of which 31 run at once
        pytest.param(32, 4096, 4096, 4, id="small-with-wider-blocks"),
        pytest.param(1, 14336, 4096, 1, id="medium"),
        pytest.param(1, 8192, 8192, 2, id="square"),
        pytest.param(1, 28672, 8192, 1, id="large"),
        pytest.param(1, 1024, 2048, 2, id="short"),  # of four slices, each warp would have half a one
        pytest.param(1, 4096, 128, 1, id="one-slice"),
        pytest.param(128, 4096, 4096, 7, id="tiles"),
        pytest.param(128, 70_000, 4096, 1, id="many-tiles"),
    ],
)
def test_k_is_split_while_all_blocks_run_at_once(
    kernels: ctypes.CDLL, rows: int, columns: int, depth: int, splits: int
) -> None:
    clusters = (ctypes.c_int * len(CLUSTERS))(*CLUSTERS)
    assert kernels.splits_of(array(rows, columns, depth, 128), clusters) == splits


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "slab"),
    [
        pytest.param(1024, 4096, 4096, 4096, id="all-at-once"),
        pytest.param(1024, 14336, 4096, 8192, id="64-MB"),
        pytest.param(512, 28672, 4096, 16384, id="128-MB-for-fewer-rows"),
        pytest.param(1024, 28672, 8192, 4096, id="longer-rows"),
        pytest.param(1024, 4096, 200_000, 167, id="less-than-whole-tiles"),
        pytest.param(1024, 4, 1 << 26, 1, id="one-at-a-time"),
        pytest.param(1024, 4, 0, 4, id="no-depth"),
    ],
)
def test_a_slab_has_64_megabytes_or_128_at_most(
    kernels: ctypes.CDLL, rows: int, columns: int, depth: int, slab: int
) -> None:
    assert kernels.columns_of_slab(*(ctypes.c_int64(number) for number in (rows, columns, depth))) == slab


@pytest.fixture
def older_gpu(kernel_on_host: Body) -> Iterator[Body]:
    """The host's stand-in for the CUDA library, which finds no code for its device."""
    (library,) = (path for path in torch.ops.loaded_libraries if path.endswith("libao_on_host.so"))
    pretend = ctypes.CDLL(library).pretend_to_have_code
    pretend(0)
    yield kernel_on_host
    pretend(1)


@pytest.mark.parametrize("leading", [(3,), (2, 3), (0,)], ids=str)
def test_an_older_gpu_gets_the_generic_body(older_gpu: Body, leading: tuple[int, ...]) -> None:
    given = random_operands(INT4, leading)
    assert torch.equal(older_gpu(*given.all), bf16i4bf16_rowwise(*given.all))


def test_a_weight_of_several_slabs_is_multiplied_whole(kernel_on_host: Body) -> None:
    columns, groups, random = 80, 40_000, torch.Generator().manual_seed(0)  # a slab has 76 of these columns
    weight = torch.randint(-128, 128, (columns, groups * 11), generator=random, dtype=torch.int8)
    grids = tuple(torch.rand(groups, columns, generator=random) + 0.5 for _ in range(2))
    given = Given(torch.randn(2, groups * 22, generator=random).bfloat16(), weight, grids)
    product = kernel_on_host(*given.all)[:, 72:]
    seen = Given(given.input, weight[72:], tuple(grid[:, 72:] for grid in grids))  # of both slabs
    assert sqnr(exact(INT4, seen), product) >= SQNR_BAR


RAGGED = [
    (Kind.STREAMING, rows, columns, groups * group_size, group_size)
    for rows, columns, groups, group_size in [
        (1, 1, 1, 32), (3, 40, 2, 128), (9, 300, 3, 32), (16, 17, 18, 64), (8, 129, 9, 128), (15, 255, 5, 96),
        (25, 70, 9, 128), (31, 33, 17, 32), (17, 65, 5, 64),
    ]
] + [
    (Kind.TILED, rows, columns, groups * group_size, group_size)
    for rows, columns, groups, group_size in [
        (1, 1, 1, 32), (17, 130, 5, 32), (65, 140, 2, 128), (150, 3, 9, 160), (33, 129, 3, 64),
    ]
] + [(Kind.SLABS, 1, 5, 30, 3), (Kind.SLABS, 1, 5, 64, 32), (Kind.SLABS, 1, 1, 2, 1)]  # fmt: skip


@pytest.mark.long
def test_no_byte_outside_an_operand_is_touched(tmp_path: Path) -> None:
    program = compiled(tmp_path / "fragments", "-O1", "-g", *SANITIZERS, link=SANITIZERS)
    words = [str(word) for dtype in (0, 1) for body, *shape in RAGGED for word in (int(body), dtype, *shape)]
    ended = subprocess.run([program, *words], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) == 2 * len(RAGGED)
