"""How long the generic bodies take on one core: for a weight of 4096 by 4096 and one row of activations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import ao_kernels  # noqa: F401 - which defines the operators
import torch
from ao_kernels.formats import FORMATS, INT4

# A good one took 10.6 ms on two idle cores, where torch's bfloat16 linear takes 1.12 ms; twice that will do. For the
# others, this only shows what becomes worse.
TIMES = {INT4: 2 * 10.6 / 1.12}
OTHER_TIMES = 40.0


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit): the processor's time, as a multiple of that of torch's bfloat16 linear."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # whatever else runs here then takes nothing away
    x, weight = torch.randn(1, 4096).bfloat16(), torch.randn(4096, 4096)
    plain = weight.bfloat16()
    linear = _seconds(partial(torch.nn.functional.linear, x, plain))
    for form in FORMATS:
        stored = form.quantize(weight, 128)
        generic = getattr(torch.ops.ao, f"{form.operator}_generic")  # whatever kernel is registered here
        seconds = _seconds(partial(generic, x, *stored))
        yield f"{form.operator}, generic, over bfloat16 linear", seconds / linear, "x", TIMES.get(form, OTHER_TIMES)
    torch.set_num_threads(threads)


def _seconds(action: Callable[[], object]) -> float:
    """Return the quickest of ten."""
    times = []
    for _ in range(10):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)
