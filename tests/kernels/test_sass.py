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

FOLDER = Path(__file__).parents[2] / "kernels" / "bf16i4bf16_rowwise"
SOURCES = sorted(FOLDER.glob("*.cu"))
INCLUDED = sorted(FOLDER.glob("*.cuh"))
MMA = "HMMA.16816.F32.BF16"
KERNELS = 22 + 4 + 4  # streaming, tiled, dequantizing
REGISTERS = 65536  # of a multiprocessor
THREADS = 256  # of a block
SPILLED = 40  # bytes at most, ten registers, in the bodies below alone
SPILLING = r"StreamingI\w+Li4ELi[24]ELi4EE|StreamingIfLi2ELi2ELi2EE|TiledI\w+Li128EE"


class Compiled(NamedTuple):
    """One architecture's code."""

    cubins: list[Path]
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
    cubins = [tmp_path_factory.mktemp(request.param) / "cubin" for _ in SOURCES]
    options = ("-std=c++17", "-arch", request.param, "-cubin", "-Xptxas", "-v")
    nvcc = cuda_home / "bin" / "nvcc"
    reports = [
        run_nvcc(nvcc, cubin, [source], *options, included=INCLUDED)
        for cubin, source in zip(cubins, SOURCES, strict=True)
    ]
    return Compiled(cubins, "".join(reports))


@pytest.fixture(scope="module")
def nvdisasm() -> Path:
    return fetch_cuda_program("nvdisasm", ">=13.0")


@pytest.fixture(scope="module")
def kernels(compiled: Compiled, nvdisasm: Path) -> list[Kernel]:
    listing = "".join(
        subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
        for cubin in compiled.cubins
    )
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


def test_nothing_is_spilled_but_by_the_largest_bodies(compiled: Compiled) -> None:
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    found = re.findall(pattern, compiled.report, re.DOTALL)
    assert len(found) == KERNELS
    for name, *sizes in found:
        assert max(map(int, sizes)) <= (SPILLED if re.search(SPILLING, name) else 0), name


def test_the_wanted_blocks_fit_a_multiprocessor(compiled: Compiled) -> None:
    found = re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", compiled.report, re.DOTALL)
    assert len(found) == KERNELS
    for name, registers in found:
        blocks = 1 if re.search(r"Streaming\w+Li4ELi[24]EE", name) else 2
        assert int(registers) * THREADS * blocks <= REGISTERS, name


def test_every_kernel_uses_the_tensor_cores_but_those_that_dequantize(kernels: list[Kernel]) -> None:
    assert len(kernels) == KERNELS
    assert all(kernel.count(MMA) for kernel in of(kernels, "rowwise_kernel"))
    assert not any(kernel.count(MMA) for kernel in of(kernels, "dequantize_kernel"))


# Words side by side, tiles of rows, tiles of columns.
STREAMING = [(4, 1, 4), (4, 1, 2), (4, 2, 4), (4, 2, 2), (4, 4, 4)]
STREAMING += [(run, rows, columns) for run in (2, 1) for rows, columns in ((1, 4), (2, 2), (4, 2))]
COPIES = {4: r"LDGSTS\.E\.BYPASS\.LTC128B\.128", 2: r"LDGSTS\.E\.LTC128B\.64", 1: r"LDGSTS\.E\.LTC128B"}


@pytest.mark.parametrize(("run", "rows", "columns"), STREAMING)
def test_streaming_copies_the_weight_as_wide_as_the_groups_allow(
    kernels: list[Kernel], run: int, rows: int, columns: int
) -> None:
    ring = 4 if columns == 2 else 2
    for kernel in of(kernels, f"Li{run}ELi{rows}ELi{columns}E"):
        # Of each tile two columns, four words of each: for the whole ring before the walk along K, for a slice in it.
        assert kernel.count(COPIES[run]) == (ring + 1) * 2 * columns * 4 // run
        # Only the oldest slice is waited for.
        assert kernel.waits == [f"{ring - 1:#x}"]


@pytest.mark.parametrize(("run", "rows", "columns"), STREAMING)
def test_streaming_spends_few_instructions_on_a_slice(kernels: list[Kernel], run: int, rows: int, columns: int) -> None:
    for kernel in of(kernels, f"Li{run}ELi{rows}ELi{columns}E"):
        assert kernel.count(r"LDS\.128") == (2 * columns if run == 4 else 0)
        assert kernel.count(r"LDG\.E\.128") == 2 * 4 * rows  # of the first slice and of the next
        assert kernel.count(MMA) == 8 * rows * (columns + 1)  # one more adds up the activations
        # A pair needs a shift and a logical operation: no subtraction, and no conversion of an integer.
        assert kernel.count(r"HADD2\..*|HFMA2\..*|I2F\..*BF16.*") == 0


@pytest.mark.parametrize("rows", [64, 128])
def test_tiles_are_copied_and_read_16_bytes_at_a_time(kernels: list[Kernel], rows: int) -> None:
    for kernel in (found for found in of(kernels, f"Li{rows}E") if "Tiled" in found.name):
        assert kernel.count(r"LDGSTS\.E\.BYPASS\.LTC128B\.128") >= 2
        # For the tensor cores, and to put what a thread has copied in order.
        assert kernel.count(r"LDS\.128") == rows // 8 // (2 if rows == 128 else 1) + rows // 32
        assert kernel.count("LDGDEPBAR") >= 2


def test_a_kernel_waits_for_the_one_before_it_and_lets_the_next_one_start(kernels: list[Kernel]) -> None:
    for kernel in of(kernels, "rowwise_kernel"):
        assert kernel.count("ACQBULK") == kernel.count("PREEXIT") == 1


def test_blocks_of_a_tile_read_each_others_sums(kernels: list[Kernel]) -> None:
    for kernel in of(kernels, "rowwise_kernel"):
        assert kernel.count("UCGABAR_ARV") == kernel.count("UCGABAR_WAIT") == 2


def test_dequantized_words_are_stored_16_bytes_at_a_time(kernels: list[Kernel]) -> None:
    assert all(kernel.count(r"STG\.E\.128") for kernel in of(kernels, "dequantize_kernelILi4E"))
