"""What an eager call of a quantized linear layer costs beside torchao's, in one process and in turns."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ao_kernels
import torch
from torch import nn

from tests.kernels import cpubodies

SIZES = {64: 100, 4096: 1}  # N and K, with the calls of a run
RUNS = 30  # of each, in turns; the medians count
LIMIT = 1.05
GROUP_SIZES = {64: 32, 4096: 128}


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, our time as a ratio of torchao's, "x", limit): the processor's time of one thread, of one row.

    The kernels for the CPU are those of a wheel. int4 is compared with torchao's tensor for torch's int4 operator, and
    int4 for XPU with its tensor for any device: torchao has no other on a CPU.
    """
    try:
        from torchao.quantization import Float8WeightOnlyConfig  # noqa: F401, PLC0415 - which may be missing
    except ImportError:
        sys.stderr.write("call: torchao is missing: pip install --no-deps --target FOLDER torchao, PYTHONPATH=FOLDER\n")
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(cpubodies.build_wheels_library(Path(folder), "-O3"))
        for size, calls in SIZES.items():
            for name in PAIRS:
                for has_bias in (False, True):
                    layers = pair(name, size, has_bias=has_bias)
                    what = f"{name}, {size}{', bias' if has_bias else ''}"
                    for way, ratio in ratios(layers, size, calls):
                        yield f"{what}, {way}", ratio, "x", LIMIT
    torch.set_num_threads(threads)


def pair(name: str, size: int, *, has_bias: bool) -> tuple[nn.Linear, nn.Linear]:
    """Return a layer that torchao has quantized, and one of ours."""
    layers = tuple(nn.Linear(size, size, bias=has_bias).bfloat16() for _ in range(2))
    for layer in layers:
        for parameter in layer.parameters():
            parameter.requires_grad = False
    theirs, ours = layers
    quantize, config = PAIRS[name]
    quantize(theirs, GROUP_SIZES[size])
    ao_kernels.quantize_(ours, config(GROUP_SIZES[size]))
    return theirs, ours


def _by_torchao(config: str, layer: nn.Linear, _: int, **options: object) -> None:
    from torchao import quantization  # noqa: PLC0415 - which may be missing

    quantization.quantize_(layer, getattr(quantization, config)(**options))


def _by_its_int4_operator(layer: nn.Linear, group_size: int) -> None:
    from torchao.prototype.quantization.int4 import Int4OpaqueTensor  # noqa: PLC0415 - which may be missing

    layer.weight = nn.Parameter(Int4OpaqueTensor.from_hp(layer.weight, [1, group_size]), requires_grad=False)


def _by_its_values(layer: nn.Linear, group_size: int) -> None:
    from torchao.quantization.granularity import PerGroup  # noqa: PLC0415 - which may be missing

    options = {"weight_dtype": torch.int4, "granularity": PerGroup(group_size)}
    _by_torchao("IntxWeightOnlyConfig", layer, group_size, **options)


PLAIN_INT32 = partial(ao_kernels.Int4WeightOnlyConfig, packing_format=ao_kernels.Int4PackingFormat.PLAIN_INT32)
PAIRS: dict[str, tuple[Callable[[nn.Linear, int], None], Callable[[int], Any]]] = {
    "int4": (_by_its_int4_operator, ao_kernels.Int4WeightOnlyConfig),
    "int4 for XPU": (_by_its_values, PLAIN_INT32),
    "int8": (partial(_by_torchao, "Int8WeightOnlyConfig"), lambda _: ao_kernels.Int8WeightOnlyConfig()),
    "float8": (partial(_by_torchao, "Float8WeightOnlyConfig"), lambda _: ao_kernels.Float8WeightOnlyConfig()),
}


def ratios(layers: tuple[nn.Linear, nn.Linear], size: int, calls: int) -> Iterator[tuple[str, float]]:
    """Yield the ways to call a layer, with our time over torchao's."""
    x = torch.randn(1, size).bfloat16()
    with torch.no_grad():
        yield "no gradient", ratio(layers, x, calls)
    with torch.inference_mode():
        yield "inference mode", ratio(layers, x, calls)
    yield "gradient", ratio(layers, x.clone().requires_grad_(), calls)
    if "Opaque" not in type(layers[0].weight).__name__:  # which does not take float32
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            yield "autocast", ratio(layers, x.float(), calls)


def ratio(layers: tuple[nn.Linear, nn.Linear], x: torch.Tensor, calls: int) -> float:
    """Return our median time over theirs."""
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(-1, RUNS):
        for layer, taken in zip(layers, times, strict=True):
            started = time.thread_time()
            for _ in range(calls):
                layer(x)
            if run >= 0:
                taken.append(time.thread_time() - started)
    theirs, ours = map(statistics.median, times)
    return ours / theirs
