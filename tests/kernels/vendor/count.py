"""Multiply on the device, and print what each format's operator needed of the CPU and how exact the product is."""

from __future__ import annotations

import json

import acme_device  # type: ignore[import-not-found]
import torch
from ao_kernels.formats import FORMATS, WeightFormat, dequantize
from torch import Tensor


def operands(form: WeightFormat) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4096, generator=random).bfloat16()
    return x, *form.quantize(torch.randn(16, 4096, generator=random), 128)


def measured(form: WeightFormat, *, compiled: bool) -> tuple[int, float]:
    x, *stored = operands(form)
    operator = getattr(torch.ops.ao, form.operator)
    if compiled:
        operator = torch.compile(operator, fullgraph=True, backend="aot_eager")
    given = [operand.to("acme") for operand in (x, *stored)]
    operator(*given)  # a first call, to compile
    before = acme_device.fallbacks()
    product = operator(*given)
    count = acme_device.fallbacks() - before
    exact = x.double() @ dequantize(form, *stored, dtype=torch.float32).double().t()
    noise = (product.cpu().double() - exact).norm()
    return count, 20 * float(torch.log10(exact.norm() / noise))


found = {
    form.operator: {mode: measured(form, compiled=mode == "compiled") for mode in ("eager", "compiled")}
    for form in FORMATS
}
print(json.dumps(found))  # noqa: T201 - it is what the test reads
