"""Quantize the weights of a model, in the shape of torchao's API."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ao_kernels.groups import check_group_size, whole_rows
from ao_kernels.quantized import BATCH, MATRIX, QuantizedTensor
from ao_kernels.tensors import Float8Tensor, Int4PackingFormat, Int4PlainInt32Tensor, Int4PlainTensor, Int8Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# torch's modules whose weight is a matrix or several, but not one that their input is multiplied by.
OTHER_USES = (nn.Embedding, nn.EmbeddingBag, nn.Bilinear, nn.modules.conv._ConvNd)  # noqa: SLF001 - all convolutions

MOST_NAMES = 5  # that one message lists


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
            raise ValueError(f"packing_format must be one of {', '.join(known)}, got {self.packing_format}")

    def _take(self, packing_format: Int4PackingFormat) -> None:
        if self.packing_format not in (Int4PackingFormat.PLAIN, packing_format):  # which may be text: no set finds it
            raise ValueError(
                "int4_packing_format must be packing_format by another name, "
                f"got {packing_format} and {self.packing_format}"
            )
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
    """Whether a module is linear, or holds experts, and is not quantized yet: what `quantize_` takes by default."""
    if isinstance(module, nn.Linear):
        return not isinstance(module.weight, QuantizedTensor)
    return type(module).__name__.endswith("Experts") and bool(_matrices(module))


def quantize_(
    model: nn.Module,
    config: Config,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    device: torch.device | str | None = None,
    *,
    strict: bool = False,
) -> None:
    """Replace weights of a model by quantized ones, in place.

    A weight that several modules share stays shared between those that are chosen. Every weight is quantized before the
    first is replaced. What is left as it is among the matrices is told, with its share of the parameters.

    Args:
        model: any module; the linear modules in it are quantized, or itself if it is one, and the weights of experts,
            [E, N, K], in modules whose class is called so.
        config: the format, such as `Int4WeightOnlyConfig(group_size=128)`.
        filter_fn: chooses other modules, by themselves and their names in the model.
        device: where to move each chosen module before its weight is quantized, by default nowhere.
        strict: refuse a model of which matrices are left that could be multiplied by.

    Raises:
        TypeError: `config` is none.
        ValueError: a chosen module has no weight that can be quantized so, `strict` and one is left, or a lazy module
            has no shape yet; the model is then as it was.

    """
    config = translate(config)
    _check(config)
    if lazy := [name for name, parameter in model.named_parameters() if is_lazy(parameter)]:
        raise ValueError(f"{', '.join(lazy)}: no shape yet. Call the model once, which gives lazy modules theirs")
    chosen = {name: module for name, module in model.named_modules() if (filter_fn or is_linear)(module, name)}
    faults = [f"{name or 'the model'}: {fault}" for name, module in chosen.items() if (fault := _fault(module, config))]
    if faults:
        raise ValueError(f"{'; '.join(faults)}. Leave such modules out by filter_fn, or choose another group_size")
    left = list(_left(model, chosen))
    if strict and any(one.could_be for one in left):
        raise ValueError(f"strict, but {_tell([one for one in left if one.could_be], model)}")
    weights = {weight: weight for module in chosen.values() for weight in _weights(module).values()}
    quantized = {weight: _quantize(weight.to(device), config) for weight in weights}
    if chosen and left:
        logging.getLogger("ao_kernels").warning("%s", _tell(left, model))
    for module in chosen.values():
        replaced = {name: quantized[weight] for name, weight in _weights(module).items()}
        if device is not None:
            module.to(device)
        for name, weight in replaced.items():
            setattr(module, name, weight)


class Left(NamedTuple):
    """A matrix that `quantize_` leaves as it is."""

    name: str
    numbers: int
    could_be: bool
    """Whether it may be one that is multiplied by, unlike an embedding's."""
    was_tied: bool
    """Whether a chosen module has it too, which gets a quantized one of its own."""


def _left(model: nn.Module, chosen: Mapping[str, nn.Module]) -> Iterator[Left]:
    replaced = {id(module): _weights(module) for module in chosen.values()}
    quantized = {id(weight) for weights in replaced.values() for weight in weights.values()}
    told: set[int] = set()
    for module_name, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_plain = parameter.is_floating_point() and not isinstance(parameter, QuantizedTensor)
            is_left = parameter.dim() >= MATRIX and is_plain and name not in replaced.get(id(module), ())
            if is_left and id(parameter) not in told:
                told.add(id(parameter))
                full = f"{module_name}.{name}" if module_name else name
                could_be = not isinstance(module, OTHER_USES)
                yield Left(full, parameter.numel(), could_be, id(parameter) in quantized)


def _tell(left: Sequence[Left], model: nn.Module) -> str:
    tied = sum(one.numbers for one in left if one.was_tied)  # which are two parameters from now on
    share = sum(one.numbers for one in left) / max(sum(one.numel() for one in model.parameters()) + tied, 1)
    most = sorted(left, key=lambda one: -one.numbers)[:MOST_NAMES]
    names = ", ".join(f"{one.name} (tied until now)" if one.was_tied else one.name for one in most)
    more = f" and {len(left) - MOST_NAMES} more" if len(left) > MOST_NAMES else ""
    return f"{share:.0%} of the parameters stay as they are: {names}{more}"


def translate(config: Any) -> Any:  # noqa: ANN401 - whatever a caller gives
    """Return our config for one of torchao's, whose classes have the same names; any other as it is.

    Raises:
        ValueError: torchao's config asks for what no format here is.

    """
    kind = type(config)
    if kind.__module__.partition(".")[0] != "torchao":
        return config
    makers: dict[str, Callable[[], Config]] = {
        "Int4WeightOnlyConfig": lambda: Int4WeightOnlyConfig(
            config.group_size, packing_format=config.int4_packing_format.value
        ),
        "Int8WeightOnlyConfig": lambda: Int8WeightOnlyConfig(_granularity(config)),
        "Float8WeightOnlyConfig": lambda: Float8WeightOnlyConfig(_granularity(config)),
    }
    if kind.__name__ not in makers or getattr(config, "weight_dtype", torch.float8_e4m3fn) != torch.float8_e4m3fn:
        raise ValueError(f"of torchao's configs, {', '.join(makers)} are taken, got {config}")
    return makers[kind.__name__]()


def _granularity(config: Any) -> int | None:  # noqa: ANN401 - torchao's
    """Return the group size of one of torchao's configs; None for whole rows."""
    granularity: Any = getattr(config, "granularity", None)
    kind = type(granularity).__name__
    if granularity is not None and kind not in {"PerRow", "PerGroup"}:
        raise ValueError(f"granularity must be PerRow or PerGroup, got {granularity}")
    group_size: int | None = granularity.group_size if kind == "PerGroup" else getattr(config, "group_size", None)
    return group_size


def _check(config: Config) -> None:
    tensor = getattr(config, "tensor", None)
    if not (isinstance(tensor, type) and issubclass(tensor, QuantizedTensor)):
        raise TypeError(f"config must be one such as Int4WeightOnlyConfig(group_size=128), got {config!r}")


def _matrices(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights of experts that are not quantized yet: the parameters of three dimensions."""
    of_experts = {name: one for name, one in module.named_parameters(recurse=False) if one.dim() == BATCH}
    return {name: one for name, one in of_experts.items() if not isinstance(one, QuantizedTensor)}


def _weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return what is quantized of a module: its weight, or those of its experts."""
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    return _matrices(module) if weight is None else {"weight": weight}


def _fault(module: nn.Module, config: Config) -> str | None:
    kind = type(module).__name__
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    if weight is None and (experts := _matrices(module)):
        faults = ((name, config.tensor.fault(one.shape, _group_size(one, config))) for name, one in experts.items())
        return "; ".join(f"{name}: {fault}" for name, fault in faults if fault) or None
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
