"""The CUDA kernels beside torch's int4 operator, cuBLAS in bfloat16, the generic body and the limits of the GPU.

Every figure is the time of one call in a CUDA graph of many. Each call has a weight of its own, until they fill three
times the L2 cache: a model's layers do not find theirs there either.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import ao_kernels
import torch
from torch import Tensor

SHAPES = ((4096, 4096), (14336, 4096), (8192, 8192), (28672, 8192))  # N and K: layers of 8 and 70 billion parameters
ROWS = (1, 4, 8, 9, 16, 17, 32, 33, 64, 128, 129, 256, 512, 1024, 4096)
GROUP_SIZE = 128
BYTES_PER_SECOND, SHARE = 4.3e12, 0.9  # what an H200 reached in a copy, and what of it a kernel shall reach
FLOPS = 790e12  # what an H200 reached in bfloat16
START = 2.5e-6  # seconds to start a kernel and to fetch the first bytes
FEW_ROWS, MANY_ROWS = 16, 4096  # up to the first, memory is the limit; from the second on, cuBLAS is the measure
CACHE_BYTES = 3 * 50e6
REPEATS = 20
CALLS = 40  # of a graph: starting it takes several microseconds
MILLISECONDS = 20  # of a graph, at most: slow operators are called less often in it
SLEEP = 1_000_000  # cycles in which a graph arrives at the GPU before it is measured
INNER_TILES = 8  # torch's name for its layout


class Layer(NamedTuple):
    """One weight in each form that is measured."""

    plain: tuple[Tensor, ...]
    tiled: tuple[Tensor, Tensor]
    dense: Tensor


class Times(NamedTuple):
    """Microseconds of one call; infinite where there is no such operator."""

    ours: float
    generic: float
    torch: float
    dense: float


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, microseconds, unit, the bar); nothing where nothing can be measured, for a reason that is told."""
    if not torch.cuda.is_available() or not ao_kernels.describe().startswith("CUDA"):
        sys.stderr.write(f"kernels: no GPU, or no CUDA wheel: {ao_kernels.describe()}\n")
        return
    sys.stderr.write(f"kernels: on {torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    for columns, depth in SHAPES:
        layers = [_layer(columns, depth) for _ in range(_copies(columns, depth))]
        for rows in ROWS:
            times = _times(torch.randn(rows, depth, device="cuda").bfloat16(), layers)
            yield _named(rows, columns, depth, times), times.ours, "us", _bar(rows, columns, depth, times)


def _named(rows: int, columns: int, depth: int, times: Times) -> str:
    theirs = f"generic {times.generic:.1f}, torch int4 {times.torch:.1f}, cuBLAS {times.dense:.1f}"
    return f"{columns} x {depth}, {rows} rows: {theirs}, roofline {1e6 * _roofline(rows, columns, depth):.1f}"


def _bytes(rows: int, columns: int, depth: int) -> int:
    grids = 2 * 2 * columns * depth // GROUP_SIZE
    return columns * depth // 2 + grids + 2 * rows * (columns + depth)


def _roofline(rows: int, columns: int, depth: int) -> float:
    """Return the fewest seconds: those of memory or of the tensor cores."""
    return max(_bytes(rows, columns, depth) / BYTES_PER_SECOND, 2 * rows * columns * depth / FLOPS)


def _bar(rows: int, columns: int, depth: int, times: Times) -> float:
    """Return the microseconds that must not be exceeded: what issue and README promise."""
    others = min(times.generic, times.torch)
    if rows <= FEW_ROWS:
        return min(others, 1e6 * (_bytes(rows, columns, depth) / (SHARE * BYTES_PER_SECOND) + START))
    return min(others, times.dense / SHARE) if rows >= MANY_ROWS else others


def _copies(columns: int, depth: int) -> int:
    return 1 + int(CACHE_BYTES / (columns * depth / 2))


def _layer(columns: int, depth: int) -> Layer:
    weight = torch.randn(columns, depth, device="cuda")
    q, scale, zero_point = ao_kernels.int4_row_quantize_zp(weight, GROUP_SIZE)
    scale, zero_point = scale.bfloat16(), zero_point.bfloat16()
    nibbles = (q + 8).to(torch.uint8)  # torch's operator has the even k in the high four bits
    packed = torch.ops.aten._convert_weight_to_int4pack(nibbles[:, ::2] << 4 | nibbles[:, 1::2], INNER_TILES)  # noqa: SLF001
    grid = torch.stack((scale, zero_point), dim=-1)
    return Layer((ao_kernels.pack_int4(q), scale, zero_point), (packed, grid), weight.bfloat16())


def _times(x: Tensor, layers: list[Layer]) -> Times:
    operators = torch.ops.ao
    return Times(
        ours=_microseconds(lambda layer: operators.bf16i4bf16_rowwise(x, *layer.plain), layers),
        generic=_microseconds(lambda layer: operators.bf16i4bf16_rowwise_generic(x, *layer.plain), layers[:2]),
        torch=_microseconds_of_torch(x, layers),
        dense=_microseconds(lambda layer: torch.nn.functional.linear(x, layer.dense), layers),
    )


def _microseconds_of_torch(x: Tensor, layers: list[Layer]) -> float:
    """Return the time of torch's int4 operator, or infinity where it does not run on this GPU."""
    try:
        _by_torch(x, *layers[0].tiled)
    except RuntimeError:
        return float("inf")
    return _microseconds(lambda layer: _by_torch(x, *layer.tiled), layers)


def _by_torch(x: Tensor, packed: Tensor, grid: Tensor) -> Tensor:
    result: Tensor = torch.ops.aten._weight_int4pack_mm(x, packed, GROUP_SIZE, grid)  # noqa: SLF001
    return result


def _microseconds(call: Callable[[Layer], object], layers: list[Layer]) -> float:
    """Return the median time of one call."""
    one_round = _replay(_captured(call, layers))
    rounds = max(1, min(-(-CALLS // len(layers)), int(MILLISECONDS / one_round)))
    graph = _captured(call, layers * rounds)
    return statistics.median(_replay(graph) for _ in range(REPEATS)) * 1e3 / (len(layers) * rounds)


def _captured(call: Callable[[Layer], object], layers: list[Layer]) -> torch.cuda.CUDAGraph:
    call(layers[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in layers:
            call(layer)
    graph.replay()
    return graph


def _replay(graph: torch.cuda.CUDAGraph) -> float:
    """Return the milliseconds of a replay."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP)  # noqa: SLF001 - it has no public name
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds
