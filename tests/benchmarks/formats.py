"""How long each format's operator takes on a CPU beside torch's own, in turns on one thread.

`ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2` in the environment leaves the processor's better instructions out.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import ao_kernels  # noqa: F401 - which defines the operators
import torch
from ao_kernels.formats import FLOAT8_E4M3, FORMATS, INT4, INT8, UINT4, WeightFormat
from torch import Tensor

from tests.benchmarks.cpukernel import GROUP_SIZE, PEER_OF_MORE, PEER_OF_ONE_ROW, SIZE, torch_int4
from tests.kernels import cpubodies

ROWS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 32, 64, 256)
GROUP_SIZES = {INT4: GROUP_SIZE, UINT4: GROUP_SIZE, INT8: SIZE, FLOAT8_E4M3: SIZE}
LIMITS = {INT4: 1.2, UINT4: 1.3, INT8: 1.3, FLOAT8_E4M3: 1.3}
LIMIT_OF_INT4 = 1.3  # over torch's operator for it, which is the quicker one for four rows
RUNS = 8


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, the processor's time as a ratio of torch's linear or of its int4 operator, "x", limit)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    weight = torch.randn(SIZE, SIZE).bfloat16()
    stored = {form: _quantize(form, weight) for form in FORMATS}
    grid = torch.rand(SIZE // GROUP_SIZE, SIZE, 2).bfloat16()
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(cpubodies.build_wheels_library(Path(folder), "-O3"))
        for rows in ROWS:
            x = torch.randn(rows, SIZE).bfloat16()
            calls = [partial(getattr(torch.ops.ao, form.operator), x, *stored[form]) for form in FORMATS]
            peers = (partial(torch.nn.functional.linear, x, weight), torch_int4(x, grid))
            *ours, linear, int4 = _times([*calls, *peers])
            for form, seconds in zip(FORMATS, ours, strict=True):
                yield f"{form.operator}, {rows} rows, over {PEER_OF_MORE}", seconds / linear, "x", LIMITS[form]
            what = f"{INT4.operator}, {rows} rows, over {PEER_OF_ONE_ROW}"
            yield what, ours[FORMATS.index(INT4)] / int4, "x", LIMIT_OF_INT4
    torch.set_num_threads(threads)


def _quantize(form: WeightFormat, weight: Tensor) -> tuple[Tensor, ...]:
    stored, *grids = form.quantize(weight, GROUP_SIZES[form])
    return stored, *(grid if grid.dtype == torch.int8 else grid.bfloat16() for grid in grids)


def _times(calls: list[Callable[[], object]]) -> list[float]:
    """Return the lower quartile of each, which take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(RUNS):
        for call, taken in zip(calls, times, strict=True):
            started = time.thread_time()
            call()
            taken.append(time.thread_time() - started)
    return [sorted(taken)[RUNS // 4] for taken in times]
