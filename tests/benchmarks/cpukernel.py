"""How long the CPU kernel takes beside torch's own int4 operator and its bfloat16 linear layer, as ratios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from tests.kernels import cpubodies

SIZE = 4096  # N and K
GROUP_SIZE = 128
PEER_OF_ONE_ROW = "torch's int4 operator"
PEER_OF_MORE = "bfloat16 linear"
LIMITS = {1: 1.0, 16: 1.2, 64: 1.2, 256: 1.2, 1024: 1.2}  # of the ratio, by rows
ROUNDS = {1: 100, 16: 40, 64: 20, 256: 12, 1024: 8}  # the quickest one counts, for the machine may do other things too
SCHEMA = "bf16i4bf16_rowwise(Tensor input, Tensor weight, Tensor scale, Tensor zero_point) -> Tensor"

# What a body is compared on: torch and oneDNN take no better instructions than it does.
SETTINGS = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "chosen": {},
}


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, our figure as a ratio of torch's, "x", limit).

    First the CPU time of one thread, which other work on the machine hardly moves; then the time on the clock of all
    threads, for the body that this CPU is given, which says something on a quiet machine only.
    """
    with tempfile.TemporaryDirectory() as folder:
        library = cpubodies.build(Path(folder), "-O3")
        for body, setting in SETTINGS.items():
            if body == "chosen" or cpubodies.has(body):
                for rows, ours, theirs in _measured(body, library, setting, threads=1):
                    yield _what(body, rows, ours, "CPU"), ours / theirs, "x", LIMITS[rows]
        threads = torch.get_num_threads()
        for rows, ours, theirs in _measured("chosen", library, {}, threads):
            yield _what(f"{threads} threads", rows, ours, "clock"), ours / theirs, "x", LIMITS[rows]


def _what(who: str, rows: int, milliseconds: float, clock: str) -> str:
    return f"{who}, M={rows}, {milliseconds:.2f} ms {clock}: {PEER_OF_ONE_ROW if rows == 1 else PEER_OF_MORE}"


def _measured(body: str, library: Path, setting: dict[str, str], threads: int) -> list[tuple[int, float, float]]:
    command = [sys.executable, "-c", "from tests.benchmarks.cpukernel import run; run()", body, library, str(threads)]
    done = subprocess.run(command, env={**os.environ, **setting}, check=True, capture_output=True, text=True)
    return [tuple(row) for row in json.loads(done.stdout)]


def run() -> None:
    """Print (rows, our milliseconds, torch's) for a body, as JSON."""
    _, body, library, threads = sys.argv
    torch.set_num_threads(int(threads))
    clock = time.process_time if threads == "1" else time.perf_counter
    fragment = torch.library.Library(f"ao_on_{body}", "FRAGMENT")
    fragment.define(SCHEMA)
    torch.ops.load_library(library)
    ours = getattr(torch.ops, f"ao_on_{body}").bf16i4bf16_rowwise
    figures = [(rows, *_quickest(ours, rows, clock)) for rows in LIMITS]
    sys.stdout.write(json.dumps(figures))


def _quickest(ours: Callable[..., Tensor], rows: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Return both in milliseconds; they take turns, so that what else the machine does is borne by both."""
    x = torch.randn(rows, SIZE).bfloat16()
    grid = torch.rand(SIZE // GROUP_SIZE, SIZE, 2).bfloat16()
    weight = torch.randint(-128, 128, (SIZE, SIZE // 2), dtype=torch.int8)
    scale, zero_point = (part.contiguous() for part in grid.unbind(-1))
    theirs = torch_int4(x, grid) if rows == 1 else _torch_linear(x)
    both: tuple[Callable[[], Tensor], ...] = (lambda: ours(x, weight, scale, zero_point), theirs)
    times = [[_seconds(work, clock) for work in both] for _ in range(ROUNDS[rows])]
    first, second = (1e3 * min(column) for column in zip(*times, strict=True))
    return first, second


def torch_int4(x: Tensor, grid: Tensor) -> Callable[[], Tensor]:
    """Return a call of torch's int4 operator; `grid` [G, N, 2] holds the scales and zero points."""
    u = torch.randint(0, 16, (SIZE, SIZE), dtype=torch.int32)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(u, 1)  # noqa: SLF001 - it has no public name
    return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, GROUP_SIZE, grid)  # noqa: SLF001 - see above


def _torch_linear(x: Tensor) -> Callable[[], Tensor]:
    weight = torch.randn(SIZE, SIZE).bfloat16()
    return lambda: torch.nn.functional.linear(x, weight)


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    work()
    return clock() - started
