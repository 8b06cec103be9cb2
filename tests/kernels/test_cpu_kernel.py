from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from ao_kernels import int4_row_quantize_zp, pack_int4
from ao_kernels.__main__ import INPUT, PRODUCT, WEIGHT
from ao_kernels.formats import FLOAT8_E4M3, FORMATS, INT4, INT8, UINT4, WeightFormat
from elftools.elf.elffile import ELFFile
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tests.builders.compilers import CXX
from tests.kernels import cpubodies
from tests.kernels.exactness import SQNR_BAR, Given, exact, exact_weight, random_operands, sqnr
from tests.servers.prepared import TORCH, run_prepared

if TYPE_CHECKING:
    Body = Callable[..., Tensor]
    BodiesOf = Callable[[WeightFormat], dict[str, Body]]

pytestmark = pytest.mark.slow  # they compile

BODIES = [
    pytest.param(name, id=name.replace("_", "-"), marks=pytest.mark.skipif(not cpubodies.has(name), reason="this CPU"))
    for name in cpubodies.NEEDED
]
OTHERS = [pytest.param(form, id=form.operator) for form in FORMATS[1:]]
SCALES = [pytest.param(torch.float32, id="float32"), pytest.param(torch.bfloat16, id="bfloat16")]
HANDED_OVER = 200  # rows: more than any body with a limit multiplies by itself


@pytest.fixture(params=BODIES)
def body(request: pytest.FixtureRequest, cpu_bodies: dict[str, Body]) -> Body:
    return cpu_bodies[request.param]


@functools.cache
def expect(rows: int, columns: int, depth: int, group_size: int, scales: torch.dtype) -> tuple[Given, Tensor]:
    """Random operands, for every body the same, and their exact product."""
    given = random_given(rows, columns, depth, group_size, scales)
    return given, exact(INT4, given)


def random_given(rows: int, columns: int, depth: int, group_size: int, scales: torch.dtype = torch.float32) -> Given:
    given = random_operands(INT4, (rows,), columns, depth, group_size)
    return given._replace(grids=tuple(grid.to(scales) for grid in given.grids))


@pytest.mark.parametrize("scales", SCALES)
def test_the_golden_product_is_exact(body: Body, scales: torch.dtype) -> None:
    q, *grids = int4_row_quantize_zp(WEIGHT, group_size=16)
    assert torch.equal(body(INPUT, pack_int4(q), *(grid.to(scales) for grid in grids)), PRODUCT)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("group_size", [32, 128, 4096])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 33, HANDED_OVER])
def test_the_product_is_near_the_exact_one(body: Body, rows: int, group_size: int, scales: torch.dtype) -> None:
    given, product = expect(rows, 37, 4096, group_size, scales)
    assert sqnr(product, body(*given.all)) >= SQNR_BAR


def test_weights_that_take_several_panels_are_all_multiplied(body: Body) -> None:
    for rows in (7, HANDED_OVER):
        given, product = expect(rows, 300, 8192, 128, torch.float32)
        assert sqnr(product, body(*given.all)) >= SQNR_BAR


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("group_size", [8, 24, 128, 768])
@pytest.mark.parametrize("rows", [1, 3, 7, HANDED_OVER])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("form", OTHERS)
def test_other_formats_are_multiplied(
    bodies_of: BodiesOf, form: WeightFormat, name: str, rows: int, group_size: int, scales: torch.dtype
) -> None:
    given = random_operands(form, (2, rows), 37, 768, group_size)
    scale, *zero_point = given.grids
    given = given._replace(grids=(scale.to(scales), *zero_point))
    assert sqnr(exact(form, given), bodies_of(form)[name](*given.all)) >= SQNR_BAR


@pytest.mark.parametrize("rows", [1, 5, HANDED_OVER])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("form", OTHERS[1:])
def test_each_of_256_bytes_is_the_value_that_torch_reads(
    bodies_of: BodiesOf, form: WeightFormat, name: str, rows: int
) -> None:
    stored = torch.arange(256, dtype=torch.uint8).view(256, 1).repeat(1, 96).view(form.storage)
    x = torch.zeros(rows, 96, dtype=torch.bfloat16)
    x[:, 77] = 2
    product = bodies_of(form)[name](x, stored, torch.full((1, 256), 0.5))
    values = stored[:, 77].to(torch.bfloat16).repeat(rows, 1)
    torch.testing.assert_close(product, values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("form", "spoil", "message"),
    [
        (UINT4, lambda x, w, *grids: (x, w.to(torch.int8), *grids), "weight must be int32, got Char"),
        (UINT4, lambda x, w, s, z: (x, w, s, z.float()), "zero_point must be int8, got Float"),
        (UINT4, lambda x, *rest: (x[:, :56], *rest), "dimension must be K = 64, got 56"),
        (INT8, lambda x, w, s: (x, w.to(torch.int32), s), "weight must be int8, got Int"),
        (FLOAT8_E4M3, lambda x, w, s: (x, w.view(torch.int8), s), "weight must be float8_e4m3fn, got Char"),
        (FLOAT8_E4M3, lambda x, w, s: (x, w, s[:, :1]), "scale must have N = "),
    ],
)
def test_what_does_not_fit_another_format_is_named(
    bodies_of: BodiesOf, form: WeightFormat, spoil: Callable[..., tuple[Tensor, ...]], message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        bodies_of(form)["chosen"](*spoil(*random_operands(form).all))


def apart(tensor: Tensor) -> Tensor:
    """The same numbers with a gap after each."""
    return torch.stack((tensor, tensor), dim=-1)[..., 0]


@settings(max_examples=60, deadline=None)
@drawn(data=st.data())
def test_any_product_is_that_of_the_generic_body(bodies_of: BodiesOf, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMATS), label="format")
    leading = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3), label="leading"))
    columns, groups = data.draw(st.integers(0, 35), label="columns"), data.draw(st.integers(1, 4), label="groups")
    group_size = data.draw(st.sampled_from([2, 6, 8, 22, 32, 64, 96, 128]), label="group size")
    group_size *= form is not UINT4 or 8 // math.gcd(8, group_size)  # eight values to a word
    given = random_operands(form, leading, columns, groups * group_size, group_size)
    scales = data.draw(st.sampled_from([torch.float32, torch.bfloat16]), label="scales")
    grids = (grid.to(scales) if grid.is_floating_point() else grid for grid in given.grids)
    operands = [given.input, given.weight, *grids]
    operands = [apart(each) if data.draw(st.booleans(), label="apart") else each for each in operands]
    generic = getattr(torch.ops.ao, form.operator)(*operands)
    for name in filter(cpubodies.has, cpubodies.NEEDED):
        output = bodies_of(form)[name](*operands)
        assert (output.shape, output.dtype, output.is_contiguous()) == (generic.shape, torch.bfloat16, True)
        # The generic body rounds each weight to bfloat16: the longer the rows, the farther apart the two may be.
        torch.testing.assert_close(output, generic, rtol=0.02, atol=0.05 + 0.005 * given.input.shape[-1] ** 0.5)


@pytest.mark.parametrize("group_size", [1, 3, 15])
def test_a_byte_may_lie_in_two_groups(body: Body, group_size: int) -> None:
    given = random_operands(INT4, (5,), 17, 30, 30)
    grids = tuple(torch.randn(30 // group_size, 17, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    given = given._replace(grids=grids)
    torch.testing.assert_close(body(*given.all).double(), exact(INT4, given), rtol=0.02, atol=0.1)


NOT_FINITE = [
    *((operand, bad) for operand in ("input", "scale", "zero_point") for bad in (math.nan, math.inf, -math.inf)),
    ("input", 3e38),  # overflows only as a product
]


@pytest.mark.parametrize(("operand", "bad"), NOT_FINITE)
@pytest.mark.parametrize("rows", [1, 3, 6, HANDED_OVER])
def test_what_is_not_finite_comes_out_as_of_a_linear_layer(body: Body, rows: int, operand: str, bad: float) -> None:
    x, weight, scale, zero_point = random_given(rows, 20, 128, 32).all
    for name, tensor in (("input", x), ("scale", scale), ("zero_point", zero_point)):
        if name == operand:
            tensor[0, 3] = bad
    product = body(x, weight, scale, zero_point)
    linear = torch.nn.functional.linear(x.float(), exact_weight(INT4, weight, scale, zero_point).float())
    torch.testing.assert_close(product, linear.bfloat16(), rtol=0.02, atol=0.1, equal_nan=True)


@pytest.mark.parametrize(("operand", "bad"), [each for each in NOT_FINITE if each[0] != "zero_point"])
@pytest.mark.parametrize("rows", [1, 6, HANDED_OVER])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("form", OTHERS[1:])
def test_what_is_not_finite_comes_out_so_in_other_formats(
    bodies_of: BodiesOf, form: WeightFormat, name: str, rows: int, operand: str, bad: float
) -> None:
    x, weight, scale = random_operands(form, (rows,), 20, 128, 32).all
    {"input": x, "scale": scale}[operand][0, 3] = bad
    linear = torch.nn.functional.linear(x.float(), exact_weight(form, weight, scale).float())
    product = bodies_of(form)[name](x, weight, scale)
    torch.testing.assert_close(product, linear.bfloat16(), rtol=0.02, atol=0.1, equal_nan=True)


@pytest.mark.parametrize(
    "rows", [1, 3, 20]
)  # of more, torch multiplies: oneDNN sums in another order for other threads
def test_the_number_of_threads_changes_no_bit(cpu_bodies: dict[str, Body], rows: int) -> None:
    given = random_given(rows, 600, 1024, 128)
    threads, products = torch.get_num_threads(), []
    for number in (1, 2, 5):
        torch.set_num_threads(number)
        products.append(cpu_bodies["chosen"](*given.all))
    torch.set_num_threads(threads)
    assert all(torch.equal(product, products[0]) for product in products)


@pytest.mark.parametrize(
    ("limit", "body"),
    [
        pytest.param("default", "plain C++", id="default"),
        pytest.param("avx2", "AVX2", id="avx2", marks=BODIES[1].marks),
    ],
)
def test_the_library_stays_within_what_torch_is_limited_to(cpu_library: Path, limit: str, body: str) -> None:
    program = (
        "import ctypes, sys, torch\n"
        "name = ctypes.CDLL(sys.argv[1]).ao_kernels_cpu_body\n"
        "name.restype = ctypes.c_char_p\n"
        "print(name().decode())\n"
    )
    environ = {**os.environ, "ATEN_CPU_CAPABILITY": limit}
    done = run_prepared(["-c", program, str(cpu_library)], env=environ, program=TORCH)
    assert (done.stdout, done.stderr) == (f"{body}\n", "")


@pytest.mark.parametrize("source", [pytest.param(source, id=source.stem) for source in cpubodies.sources()])
def test_a_body_shares_no_function_with_another(source: Path, tmp_path: Path) -> None:
    """Of a function that two objects define, the linker keeps one, which an older CPU may not run."""
    with cpubodies.compile_body(source, tmp_path, "-O0").open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())
    shared = [
        each.name for each in symbols if each["st_info"]["bind"] != "STB_LOCAL" and each["st_shndx"] != "SHN_UNDEF"
    ]
    assert len(shared) == (2 if source.stem == "avx512_bf16" else 1)
    assert all("Body" in name for name in shared)


@pytest.mark.parametrize("source", [pytest.param(source, id=source.stem) for source in cpubodies.sources()])
def test_a_body_compiles_without_warnings_and_knows_no_torch(source: Path, tmp_path: Path) -> None:
    false_alarms = ["-Wno-maybe-uninitialized", "-Wno-uninitialized"]  # in GCC 12's own headers for AVX-512
    cpubodies.compile_body(source, tmp_path, "-Wall", "-Wextra", "-Wpedantic", "-Werror", *false_alarms)
    assert "<torch" not in source.read_text(encoding="utf-8")


def library_of_the_compiler(name: str) -> str:
    command = [CXX, f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.long
@pytest.mark.skipif(cpubodies.BUILT_ALREADY in os.environ, reason="runs under the sanitizer already")
def test_no_access_is_out_of_bounds(tmp_path: Path) -> None:
    runtime = library_of_the_compiler("libasan.so")
    if not Path(runtime).is_absolute():
        pytest.skip(f"{CXX} has no AddressSanitizer")
    library = cpubodies.build(tmp_path, "-fsanitize=address", "-fno-omit-frame-pointer", "-g")
    environ = {
        # Its prepared programs start under the sanitizer: it is a run of its own, no part of one by pytest-xdist.
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST_")},
        cpubodies.BUILT_ALREADY: str(library),
        # Exceptions pass through the sanitizer, which must find the C++ library when it starts.
        "LD_PRELOAD": f"{runtime} {library_of_the_compiler('libstdc++.so.6')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own are many
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", __file__]
    done = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, cwd=cpubodies.ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
