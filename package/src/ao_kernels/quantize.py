"""Quantize the weights of a model, in the shape of torchao's API."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from ao_kernels.groups import check_group_size, whole_rows
from ao_kernels.quantized import QuantizedTensor
from ao_kernels.tensors import Float8Tensor, Int4PackingFormat, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

# torch's modules whose weight is a matrix or several, but not one that their input is multiplied by.
OTHER_USES = (nn.Embedding, nn.EmbeddingBag, nn.Bilinear, nn.modules.conv._ConvNd)  # noqa: SLF001 - all convolutions


class Config(Protocol):
    """What `quantize_` is to do to each weight."""

    @property
    def group_size(self) -> int | None:
        """Values of a row that share a scale; None for a whole row."""

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""


@dataclass(frozen=True, slots=True)
class Int4WeightOnlyConfig:
    """int4 weights, with a scale and a zero point for every `group_size` values of a row."""

    group_size: int = 128
    _: KW_ONLY
    packing_format: Int4PackingFormat = Int4PackingFormat.PLAIN
    int4_packing_format: InitVar[Int4PackingFormat | None] = None
    """torchao's name for `packing_format`; give one of the two."""

    def __post_init__(self, int4_packing_format: Int4PackingFormat | None) -> None:
        check_group_size(self.group_size)
        if int4_packing_format is not None:
            self._take(int4_packing_format)
        known = [packing_format.value for packing_format in Int4PackingFormat]
        if self.packing_format not in known:
            message = f"packing_format must be one of {', '.join(known)}, got {self.packing_format}"
            raise ValueError(message)

    def _take(self, packing_format: Int4PackingFormat) -> None:
        if self.packing_format not in (Int4PackingFormat.PLAIN, packing_format):  # which may be text: no set finds it
            message = (
                "int4_packing_format must be packing_format by another name, "
                f"got {packing_format} and {self.packing_format}"
            )
            raise ValueError(message)
        object.__setattr__(self, "packing_format", packing_format)

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""
        return Int4PlainTensor if self.packing_format == Int4PackingFormat.PLAIN else Int4PlainInt32Tensor


@dataclass(frozen=True, slots=True)
class Int8WeightOnlyConfig:
    """int8 weights, with a scale for every `group_size` values of a row, or for the whole row."""

    group_size: int | None = None

    def __post_init__(self) -> None:
        if self.group_size is not None:
            check_group_size(self.group_size)

    @property
    def tensor(self) -> type[QuantizedTensor]:
        """The class of the quantized weights."""
        return Int8Tensor


@dataclass(frozen=True, slots=True)
class Float8WeightOnlyConfig:
    """float8 (e4m3fn) weights, with a scale for every `group_size` values of a row, or for the whole row."""

    group_size: int | None = None

    def __post_init__(self) -> None:
        if self.group_size is not None:
            check_group_size(self.group_size)

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

    A weight that several modules share stays shared between those that are chosen. Every weight is quantized before the
    first is replaced.

    Args:
        model: any module; the linear modules in it are quantized, or itself if it is one.
        config: the format, such as `Int4WeightOnlyConfig(group_size=128)`.
        filter_fn: chooses other modules, by themselves and their names in the model.
        device: where to move each chosen module before its weight is quantized, by default nowhere.

    Raises:
        TypeError: `config` is none.
        ValueError: a chosen module has no weight that can be quantized so; the model is then as it was.

    """
    _check(config)
    chosen = {name: module for name, module in model.named_modules() if (filter_fn or is_linear)(module, name)}
    faults = [f"{name or 'the model'}: {fault}" for name, module in chosen.items() if (fault := _fault(module, config))]
    if faults:
        message = f"{'; '.join(faults)}. Leave such modules out by filter_fn, or choose another group_size"
        raise ValueError(message)
    weights = dict.fromkeys(_weight(module) for module in chosen.values())
    quantized = {weight: _quantize(weight.to(device), config) for weight in weights}
    for module in chosen.values():
        _replace(module, quantized[_weight(module)], device)


def _check(config: Config) -> None:
    tensor = getattr(config, "tensor", None)
    if not (isinstance(tensor, type) and issubclass(tensor, QuantizedTensor)):
        message = f"config must be one such as Int4WeightOnlyConfig(group_size=128), got {config!r}"
        raise TypeError(message)


def _weight(module: nn.Module) -> nn.Parameter:
    return dict(module.named_parameters(recurse=False))["weight"]


def _replace(module: nn.Module, weight: nn.Parameter, device: torch.device | str | None) -> None:
    if device is not None:
        module.to(device)
    module.weight = weight


def _fault(module: nn.Module, config: Config) -> str | None:
    kind = type(module).__name__
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    if weight is None:
        computed = getattr(module, "weight", None) is not None
        return f"weight must be a parameter, got what {kind} computes" if computed else f"{kind} has no weight"
    if isinstance(module, OTHER_USES):
        return f"weight must be one that the module's input is multiplied by, got that of {kind}"
    if isinstance(weight, QuantizedTensor):
        return "weight is quantized already"
    if not weight.is_floating_point():
        return f"weight must be floating point, got {weight.dtype}"
    return config.tensor.fault(weight.shape, _group_size(weight, config))


def _quantize(weight: Tensor, config: Config) -> nn.Parameter:
    return nn.Parameter(config.tensor.from_hp(weight, _group_size(weight, config)), requires_grad=False)


def _group_size(weight: Tensor, config: Config) -> int:
    return whole_rows(weight) if config.group_size is None else config.group_size
