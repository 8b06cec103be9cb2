"""Check an installation: multiply two small matrices whose product is known, and compare."""

from __future__ import annotations

import argparse
import sys

import torch

import ao_kernels

# Every number here is exact in bfloat16, so any correct body gives precisely these.
WEIGHT = torch.tensor([[*range(16)], [-15, 0, *range(-1, -15, -1)], [30, 0, *range(2, 30, 2)]], dtype=torch.bfloat16)
INPUT = torch.tensor([[1] * 16, [1] + [0] * 15, [1, -1] * 8], dtype=torch.bfloat16)
PRODUCT = torch.tensor([[120, -120, 240], [0, -15, 30], [-8, -8, 16]], dtype=torch.bfloat16)


def usable_device(name: str) -> torch.device:
    """Parse the name of a device that torch computes on here.

    Raises:
        argparse.ArgumentTypeError: it is none; the message has torch's reason.

    """
    try:
        device = torch.device(name)
        torch.zeros(1).to(device).cpu()
    except (AssertionError, ImportError, RuntimeError) as error:  # torch's backends raise what they like
        reason = str(error).partition("\n")[0]
        message = f"the device must be one that torch computes on here, got {name!r}: {reason}"
        raise argparse.ArgumentTypeError(message) from error
    return device


def is_exact(device: torch.device | str) -> bool:
    """Whether quantizing, packing and multiplying on `device` gives the known product."""
    q, scale, zero_point = ao_kernels.int4_row_quantize_zp(WEIGHT.to(device), group_size=16)
    product = ao_kernels.bf16i4bf16_rowwise(INPUT.to(device), ao_kernels.pack_int4(q), scale, zero_point)
    return torch.equal(product.cpu(), PRODUCT)


def main() -> int:
    """Print which body serves and whether its product on `--device` is right."""
    parser = argparse.ArgumentParser(prog="python -m ao_kernels", description=__doc__)
    said = "the torch device to multiply on (default: %(default)s)"
    parser.add_argument("--device", default="cpu", type=usable_device, help=said)
    device = parser.parse_args().device
    exact = is_exact(device)
    print(f"{ao_kernels.describe(device)}; the product on {device} is {'exact' if exact else 'WRONG'}")  # noqa: T201 - a command
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
