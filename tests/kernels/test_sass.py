"""The machine code of the CUDA kernels: what the compiler made of them for both architectures."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders.compilers import fetch_cuda_program, run_nvcc

pytestmark = pytest.mark.long

SOURCE = Path(__file__).parents[2] / "kernels" / "bf16i4bf16_rowwise" / "bf16i4bf16_rowwise.cu"
INCLUDED = sorted(SOURCE.parent.glob("*.cuh"))
MMA = "HMMA.16816.F32.BF16"
KERNELS = 12 + 6 + 4  # streaming, tiled, dequantizing
REGISTERS = 65536  # of a multiprocessor
THREADS = 256  # of a block


class Compiled(NamedTuple):
    """One architecture's code."""

    cubin: Path
    report: str
    """What ptxas says of registers and spills."""


class Kernel(NamedTuple):
    """A kernel's instructions and how often it holds each."""

    name: str
    instructions: Counter[str]
    waits: list[str]
    """How many groups of copies may be under way where the code waits for the others."""

    def count(self, pattern: str) -> int:
        return sum(times for name, times in self.instructions.items() if re.fullmatch(pattern, name))


@pytest.fixture(scope="module", params=["sm_90", "sm_100"])
def compiled(request: pytest.FixtureRequest, cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    cubin = tmp_path_factory.mktemp(request.param) / "cubin"
    options = ("-std=c++17", "-arch", request.param, "-cubin", "-Xptxas", "-v")
    return Compiled(cubin, run_nvcc(cuda_home / "bin" / "nvcc", cubin, [SOURCE], *options, included=INCLUDED))


@pytest.fixture(scope="module")
def nvdisasm() -> Path:
    return fetch_cuda_program("nvdisasm", ">=13.0")


@pytest.fixture(scope="module")
def kernels(compiled: Compiled, nvdisasm: Path) -> list[Kernel]:
    listing = subprocess.run([nvdisasm, "-c", compiled.cubin], check=True, capture_output=True, text=True).stdout
    instruction = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)")
    _, *parts = re.split(r"^\.text\.(\w+):$", listing, flags=re.MULTILINE)
    found = zip(parts[::2], parts[1::2], strict=True)
    return [
        Kernel(name, Counter(instruction.findall(code)), re.findall(r"DEPBAR\.LE SB0, (\w+) ;", code))
        for name, code in found
    ]


def of(kernels: list[Kernel], part: str) -> list[Kernel]:
    """The kernels whose mangled names hold `part`."""
    found = [kernel for kernel in kernels if part in kernel.name]
    assert found
    return found


def test_nothing_is_spilled(compiled: Compiled) -> None:
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", compiled.report)
    assert spills == [("0", "0", "0")] * KERNELS


def test_the_wanted_blocks_fit_a_multiprocessor(compiled: Compiled) -> None:
    found = re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", compiled.report, re.DOTALL)
    assert len(found) == KERNELS
    for name, registers in found:
        assert int(registers) * THREADS * 2 <= REGISTERS, name


def test_every_kernel_uses_the_tensor_cores_but_those_that_dequantize(kernels: list[Kernel]) -> None:
    assert len(kernels) == KERNELS
    assert all(kernel.count(MMA) for kernel in of(kernels, "rowwise_kernel"))
    assert not any(kernel.count(MMA) for kernel in of(kernels, "dequantize_kernel"))


def ring_of(run: int, tiles: int) -> int:
    """The slices under way: one less where two tiles have four scales for each column of a slice."""
    if tiles == 1:
        return 6
    return 3 if run == 1 else 4


@pytest.mark.parametrize(
    ("run", "copies"),
    [
        pytest.param(4, r"LDGSTS\.E\.BYPASS\.LTC128B\.128", id="groups-of-128"),
        pytest.param(2, r"LDGSTS\.E\.LTC128B\.64", id="groups-of-64"),
        pytest.param(1, r"LDGSTS\.E\.LTC128B", id="groups-of-32"),
    ],
)
@pytest.mark.parametrize("tiles", [1, 2])
def test_streaming_copies_the_weight_as_wide_as_the_groups_allow(
    kernels: list[Kernel], run: int, copies: str, tiles: int
) -> None:
    for kernel in of(kernels, f"Li{run}ELi{tiles}E"):
        ring = ring_of(run, tiles)
        # Of each tile two columns, four words of each: for the whole ring before the walk along K, for a slice in it.
        assert kernel.count(copies) == (ring + 1) * tiles * 2 * 4 // run
        # Only the oldest slice is waited for.
        assert kernel.waits == [f"{ring - 1:#x}"]


@pytest.mark.parametrize("run", [1, 2, 4])
@pytest.mark.parametrize("tiles", [1, 2])
def test_streaming_spends_few_instructions_on_a_slice(kernels: list[Kernel], run: int, tiles: int) -> None:
    for kernel in of(kernels, f"Li{run}ELi{tiles}E"):
        weights = 2 * tiles if run == 4 else 0
        sums = 4  # of the activations, which are added up once for the whole block
        assert kernel.count(r"LDS\.128") == 4 * tiles + weights + sums
        assert kernel.count(MMA) == 4 * 2 * tiles * tiles + 2 * sums
        # A pair needs a shift and a logical operation: no subtraction, and no conversion of an integer.
        assert kernel.count(r"HADD2\..*|HFMA2\..*|I2F\..*BF16.*") == 0


@pytest.mark.parametrize("rows", [32, 64, 128])
def test_tiles_are_copied_and_read_16_bytes_at_a_time(kernels: list[Kernel], rows: int) -> None:
    for kernel in (found for found in of(kernels, f"Li{rows}E") if "Tiled" in found.name):
        assert kernel.count(r"LDGSTS\.E\.BYPASS\.LTC128B\.128") >= 2
        assert kernel.count(r"LDS\.128") == rows // 8 // (2 if rows == 128 else 1)
        assert kernel.count("LDGDEPBAR") >= 2


def test_blocks_of_a_tile_read_each_others_sums(kernels: list[Kernel]) -> None:
    for kernel in of(kernels, "rowwise_kernel"):
        assert kernel.count("UCGABAR_ARV") == kernel.count("UCGABAR_WAIT") == 2


def test_dequantized_words_are_stored_16_bytes_at_a_time(kernels: list[Kernel]) -> None:
    assert all(kernel.count(r"STG\.E\.128") for kernel in of(kernels, "dequantize_kernelILi4E"))
