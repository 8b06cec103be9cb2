"""docs/reference/kernel-operators.md: what torch's operators do with the quantized weights of ao-kernels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from docs.pages import REPOSITORY
from docs.pages.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator

POLICY = """\
# Operators and quantized weights

A quantized weight of [ao-kernels](../../package/README.md) is a tensor, and every operator of torch's takes one. One
policy says what becomes of it; a test asks all of aten's operators that it can call.

- What only looks at shape, place or identity acts on **what is stored**.
- Arithmetic computes with **the numbers** that the weight stands for, and gives plain tensors. This is logged once.
- What writes into a weight, such as `add_` or `copy_`, computes with the numbers too, and the weight is **quantized
  again**, into what it stores.
- A view of numbers that are not stored, such as `diagonal`, is **refused**: what was written to it would be lost. So is
  what would change the shape in place.
- Collectives that move numbers (`broadcast`, `scatter`, `gather`, `all_gather`, `send`, `recv`) move what is stored.

These operators have a handler; every other one falls under the rules above."""


def describe() -> Iterator[str]:
    """Give the operators that have a handler, by what becomes of a weight."""
    sys.path.insert(0, str(REPOSITORY / "package" / "src"))
    from ao_kernels.policy import KINDS  # noqa: PLC0415 - with it comes torch

    yield POLICY
    rows = ((what, ", ".join(f"`{func}`" for func in sorted(map(str, funcs)))) for what, funcs in KINDS.values())
    yield from table(("what becomes of a weight", "operators"), rows)
