"""A quantized weight for each format."""

from __future__ import annotations

from enum import Enum

import torch

from ao_kernels import collectives, policy  # noqa: F401 - which tell torch's operators about quantized weights
from ao_kernels.formats import FLOAT8_E4M3, INT4, INT8, UINT4
from ao_kernels.quantized import QuantizedTensor


class Int4PackingFormat(str, Enum):
    """How int4 values lie in memory, and what their zero points mean."""

    PLAIN = "plain"
    """Two to a byte, zero points that are real numbers: for every device."""
    PLAIN_INT32 = "plain_int32"
    """Eight to an int32, zero points that are integers: what torch's own operator for XPU devices reads."""


class Int4PlainTensor(QuantizedTensor):
    """An int4 weight with real zero points, for every device: `q * scale + zero_point`."""

    FORMAT = INT4


class Int4PlainInt32Tensor(QuantizedTensor):
    """An int4 weight with integer zero points, packed for torch's XPU operator: `(u - zero_point) * scale`."""

    FORMAT = UINT4


class Int8Tensor(QuantizedTensor):
    """An int8 weight: `q * scale`."""

    FORMAT = INT8


class Float8Tensor(QuantizedTensor):
    """A float8 (e4m3fn) weight: `q * scale`."""

    FORMAT = FLOAT8_E4M3


TENSORS = (Int4PlainTensor, Int4PlainInt32Tensor, Int8Tensor, Float8Tensor)

# A state_dict that holds them then loads with `torch.load(..., weights_only=True)`.
torch.serialization.add_safe_globals(list(TENSORS))
