"""Multiply on the device, load a kernel for it, and multiply again: print what either needed of the CPU."""

from __future__ import annotations

import json
import sys
from itertools import chain

import acme_device  # type: ignore[import-not-found]
import torch
from ao_kernels.__main__ import INPUT, PRODUCT, WEIGHT
from ao_kernels.formats import INT4

OPERATOR = torch.ops.ao.bf16i4bf16_rowwise
COMPILED = torch.compile(OPERATOR, fullgraph=True, backend="aot_eager")
OPERANDS = [operand.to("acme") for operand in chain([INPUT], INT4.quantize(WEIGHT, 16))]


def counted() -> list[int]:
    counts = []
    for operator in (OPERATOR, COMPILED):
        before = acme_device.fallbacks()
        product = operator(*OPERANDS)
        counts.append(acme_device.fallbacks() - before)
        if not torch.equal(product.cpu(), PRODUCT):
            sys.exit("the product is wrong")
    return counts


found = {"before": counted()}
torch.ops.load_library(sys.argv[1])
torch.compiler.set_stance("fail_on_recompile")
found["after"] = counted()
print(json.dumps(found))  # noqa: T201 - it is what the test reads
