"""How long each format's operator takes on a CPU beside torch's bfloat16 linear, in turns on one thread."""

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

from tests.kernels import cpubodies

SIZE = 4096  # N and K
ROWS = (1, 4, 8, 9, 16, 64, 256)
GROUP_SIZES = {INT4: 128, UINT4: 128, INT8: SIZE, FLOAT8_E4M3: SIZE}
LIMITS = {INT4: 1.2, UINT4: 1.3, INT8: 1.3, FLOAT8_E4M3: 1.3}
RUNS = 8


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, the processor's time as a ratio of torch's linear, "x", limit)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    weight = torch.randn(SIZE, SIZE).bfloat16()
    stored = {form: _quantize(form, weight) for form in FORMATS}
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(cpubodies.build_wheels_library(Path(folder), "-O3"))
        for rows in ROWS:
            x = torch.randn(rows, SIZE).bfloat16()
            calls = [partial(getattr(torch.ops.ao, form.operator), x, *stored[form]) for form in FORMATS]
            *ours, linear = _times([*calls, partial(torch.nn.functional.linear, x, weight)])
            for form, seconds in zip(FORMATS, ours, strict=True):
                yield f"{form.operator}, {rows} rows, over bfloat16 linear", seconds / linear, "x", LIMITS[form]
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
