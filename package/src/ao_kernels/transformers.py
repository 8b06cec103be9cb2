"""Quantized weights in Hugging Face's transformers: import this module, and its quantizer is registered.

from ao_kernels.transformers import AoKernelsConfig

model = AutoModelForCausalLM.from_pretrained(name, quantization_config=AoKernelsConfig("int4", group_size=32))
model.save_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers.core_model_loading import ConversionOps  # type: ignore[import-not-found] # which only who imports this has
from transformers.quantizers import HfQuantizer, register_quantization_config, register_quantizer  # type: ignore[import-not-found] # which only who imports this has
from transformers.quantizers.quantizers_utils import get_module_from_name, should_convert_module  # type: ignore[import-not-found] # which only who imports this has
from transformers.utils.quantization_config import QuantizationConfigMixin  # type: ignore[import-not-found] # which only who imports this has

from ao_kernels.flattening import NAMES, flatten_tensor_state_dict, unflatten_tensor_state_dict
from ao_kernels.quantize import Float8WeightOnlyConfig, Int4WeightOnlyConfig, Int8WeightOnlyConfig, quantize_
from ao_kernels.tensors import TENSORS, Int4PackingFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ao_kernels.quantize import Config

METHOD = "ao_kernels"
FORMATS: dict[str, Callable[[Any], Config]] = {
    "int4": Int4WeightOnlyConfig,
    "int4_plain_int32": lambda group_size: Int4WeightOnlyConfig(
        group_size, packing_format=Int4PackingFormat.PLAIN_INT32
    ),
    "int8": Int8WeightOnlyConfig,
    "float8": Float8WeightOnlyConfig,
}


@register_quantization_config(METHOD)
class AoKernelsConfig(QuantizationConfigMixin):  # type: ignore[misc] # transformers says no types
    """How the linear modules of a model are quantized, all but its head and those that are named."""

    def __init__(
        self,
        weights: str = "int4",
        group_size: int | None = None,
        modules_to_not_convert: Sequence[str] | None = None,
        **_: object,
    ) -> None:
        if weights not in FORMATS:
            raise ValueError(f"weights must be one of {', '.join(FORMATS)}, got {weights}")
        self.quant_method = METHOD
        self.weights = weights
        self.group_size = 128 if group_size is None and weights.startswith("int4") else group_size
        self.modules_to_not_convert = None if modules_to_not_convert is None else list(modules_to_not_convert)
        self.make()

    def make(self) -> Config:
        """Return what `quantize_` takes."""
        config: Config = FORMATS[self.weights](self.group_size)
        return config


@register_quantizer(METHOD)
class AoKernelsQuantizer(HfQuantizer):  # type: ignore[misc] # see above
    """Quantizes weights as they are loaded, and saves them as safetensors."""

    requires_calibration = False

    def is_serializable(self) -> bool:
        """Whether a model can be saved: always."""
        return True

    is_trainable = True  # by adapters: the weights are constants
    is_compileable = True
    metadata: dict[str, str] = {}  # noqa: RUF012 - a quantizer's own once there is a checkpoint

    @property
    def serialized_names(self) -> dict[str, list[str]]:
        """What a weight is called in a checkpoint."""
        parts = {f"_weight_{part}" for tensor in TENSORS for part in ("qdata", *tensor.FORMAT.grids)}
        return {"weight": sorted(parts)} if self.pre_quantized else {}

    def _process_model_before_weight_loading(self, model: nn.Module, checkpoint_files: Any = None, **_: Any) -> None:  # noqa: ANN401 - transformers'
        skipped = self.quantization_config.modules_to_not_convert
        self.skipped = self.get_modules_to_not_convert(model, skipped, model._keep_in_fp32_modules)  # noqa: SLF001 - as its own quantizers do
        for file in checkpoint_files or ():
            if str(file).endswith(".safetensors"):
                with safe_open(file, framework="pt") as opened:
                    self.metadata = {**self.metadata, **(opened.metadata() or {})}

    def param_needs_quantization(self, model: nn.Module, param_name: str, **_: Any) -> bool:  # noqa: ANN401 - transformers'
        """Whether a parameter is the weight of a linear module that is not to be left."""
        module, name = get_module_from_name(model, param_name)
        return (
            isinstance(module, nn.Linear)
            and name == "weight"
            and should_convert_module(param_name.rpartition(".")[0], self.skipped)
        )

    def get_quantize_ops(self) -> ConversionOps:
        """Return what quantizes a weight that is loaded."""
        return _Quantize(self)

    def get_load_operations(self) -> dict[str, type[ConversionOps]]:
        """Return what puts a weight together that was saved."""
        return {"deserialize": _Restore}

    def get_state_dict_and_metadata(self, model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Take the weights apart for safetensors."""
        return flatten_tensor_state_dict(model.state_dict())

    def _dequantize(self, model: nn.Module, dtype: Any = None) -> nn.Module:  # noqa: ANN401 - transformers'
        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype  # it is text once a model has been saved
        for module in model.modules():
            weight: Any = getattr(module, "weight", None)
            if isinstance(weight, TENSORS):
                module.weight = nn.Parameter(weight.dequantize().to(dtype), requires_grad=False)
        return model


class _Quantize(ConversionOps):  # type: ignore[misc] # see above
    def __init__(self, hf_quantizer: AoKernelsQuantizer) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self,
        input_dict: dict[str, Any],
        *_: Any,  # noqa: ANN401 - transformers'
        model: nn.Module,
        full_layer_name: str,
        missing_keys: set[str] | None = None,
        **__: Any,  # noqa: ANN401 - see above
    ) -> dict[str, Tensor]:
        (value,) = input_dict.values()
        module, name = get_module_from_name(model, full_layer_name)
        module._parameters[name] = nn.Parameter(value[0] if isinstance(value, list) else value, requires_grad=False)  # noqa: SLF001 - as its own quantizers do
        quantize_(module, self.hf_quantizer.quantization_config.make())
        if missing_keys is not None:
            missing_keys.discard(full_layer_name)
        module._is_hf_initialized = True  # noqa: SLF001 - see above
        return {}


class _Restore(ConversionOps):  # type: ignore[misc] # see above
    def __init__(self, hf_quantizer: AoKernelsQuantizer) -> None:
        self.hf_quantizer = hf_quantizer

    def convert(
        self,
        input_dict: dict[str, Any],
        *_: Any,  # noqa: ANN401 - transformers'
        model: nn.Module,
        full_layer_name: str,
        **__: Any,  # noqa: ANN401 - see above
    ) -> dict[str, Tensor]:
        if set(input_dict) == {"weight"}:  # of a module that is not quantized
            value = input_dict["weight"]
            return {full_layer_name: value[0] if isinstance(value, list) else value}
        layer = full_layer_name.rpartition(".")[0]
        parts = {f"{layer}.{name}": value[0] for name, value in input_dict.items()}
        metadata = {**self.hf_quantizer.metadata, NAMES: json.dumps([full_layer_name])}
        restored, left = unflatten_tensor_state_dict(parts, metadata)
        if left:
            message = f"{full_layer_name} must be stored as one quantized weight, got {', '.join(sorted(left))} besides"
            raise ValueError(message)
        module, _ = get_module_from_name(model, full_layer_name)
        module._is_hf_initialized = True  # noqa: SLF001 - see above
        return restored
