"""Quantize the weights of a model, in the shape of torchao's API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from ao_kernels.groups import whole_rows
from ao_kernels.quantized import QuantizedTensor
from ao_kernels.tensors import Float8Tensor, Int4PackingFormat, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


class Config(Protocol):
    """What `quantize_` is to do to each weight."""

    @property
    def group_size(self) -> int | None:
        """Values of a row that share a scale; None for a whole row."""

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4WeightOnlyConfig:
    """int4 weights, with a scale and a zero point for every `group_size` values of a row."""

    group_size: int = 128
    packing_format: Int4PackingFormat = Int4PackingFormat.PLAIN

    def __post_init__(self) -> None:
        known = [packing_format.value for packing_format in Int4PackingFormat]
        if self.packing_format not in known:
            message = f"packing_format must be one of {', '.join(known)}, got {self.packing_format}"
            raise ValueError(message)

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""
        return Int4PlainTensor if self.packing_format == Int4PackingFormat.PLAIN else Int4PlainInt32Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8WeightOnlyConfig:
    """int8 weights, with a scale for every `group_size` values of a row, or for the whole row."""

    group_size: int | None = None

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""
        return Int8Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Float8WeightOnlyConfig:
    """float8 (e4m3fn) weights, with a scale for every `group_size` values of a row, or for the whole row."""

    group_size: int | None = None

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""
        return Float8Tensor


def is_linear(module: nn.Module, name: str) -> bool:  # noqa: ARG001 - which others may go by
    """Whether a module is linear and its weight not quantized yet: what `quantize_` takes by default."""
    return isinstance(module, nn.Linear) and not isinstance(module.weight, QuantizedTensor)


def quantize_(
    model: nn.Module,
    config: Config,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    device: torch.device | str | None = None,
) -> None:
    """Replace weights of a model by quantized ones, in place.

    A weight that several modules share stays shared between those that are chosen.

    Args:
        model: any module; the linear modules in it are quantized, or itself if it is one.
        config: the format, such as `Int4WeightOnlyConfig(group_size=128)`.
        filter_fn: chooses other modules, by themselves and their names in the model.
        device: where to move each chosen module before its weight is quantized, by default nowhere.

    Raises:
        ValueError: a chosen module has no weight that can be quantized so; the model is then as it was.

    """
    chosen = {name: module for name, module in model.named_modules() if (filter_fn or is_linear)(module, name)}
    faults = [f"{name or 'the model'}: {fault}" for name, module in chosen.items() if (fault := _fault(module, config))]
    if faults:
        message = f"{'; '.join(faults)}. Leave such modules out by filter_fn, or choose another group_size"
        raise ValueError(message)
    quantized: dict[Tensor, nn.Parameter] = {}
    for module in chosen.values():
        weight = module.weight
        if weight not in quantized:
            quantized[weight] = _quantize(weight.to(device), config)
        module.to(device).weight = quantized[weight]


def _fault(module: nn.Module, config: Config) -> str | None:
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return f"{type(module).__name__} has no weight"
    if isinstance(weight, QuantizedTensor):
        return "weight is quantized already"
    if not weight.is_floating_point():
        return f"weight must be floating point, got {weight.dtype}"
    return config.tensor.fault(weight.shape, _group_size(weight, config))


def _quantize(weight: Tensor, config: Config) -> nn.Parameter:
    return nn.Parameter(config.tensor.from_hp(weight, _group_size(weight, config)), requires_grad=False)


def _group_size(weight: Tensor, config: Config) -> int:
    return whole_rows(weight) if config.group_size is None else config.group_size
