"""Between torchao and this package: its configs by our `quantize_`, its files, and ours by its functions.

Importing this module lets torchao's own `quantize_` take our configs, where torchao is installed.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ao_kernels.quantize import Float8WeightOnlyConfig, Int4WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

if TYPE_CHECKING:
    from torch import nn

    from ao_kernels.quantize import Config

CONFIGS = (Int4WeightOnlyConfig, Int8WeightOnlyConfig, Float8WeightOnlyConfig)


def _transform(module: nn.Module, config: Config) -> nn.Module:
    quantize_(module, config)
    return module


def register() -> None:
    """Let torchao's `quantize_` take our configs."""
    from torchao.core.config import AOBaseConfig  # type: ignore[import-not-found] # noqa: PLC0415 - only where it is installed
    from torchao.quantization import transform_module  # type: ignore[import-not-found] # noqa: PLC0415 - see above

    for config in CONFIGS:
        AOBaseConfig.register(config)
        transform_module.register_quantize_module_handler(config)(_transform)


if importlib.util.find_spec("torchao"):
    register()
