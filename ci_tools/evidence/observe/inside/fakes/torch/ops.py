"""`torch.ops`: torch's own operators are not simulated; those of another library are there once it is loaded."""

from __future__ import annotations

from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS

# The namespaces that torch 2.13 has operators in; a test asks the real torch for them.
OF_TORCH = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "_c10d_functional _c10d_functional_autograd _dtensor _native _quantized _test aten c10d cuda debug_mode_ops "
    "debugprims export fsdp higher_order inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn onnx prepacked "
    "prim prims profiler quantization quantized quantized_decomposed rngprims sparse static_runtime symm_mem".split()
)
FUNCTIONS = frozenset({"import_module", "load_library", "loaded_libraries"})


class _Namespace:
    """The operators under one name; torch makes one for each name that it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, operator: str) -> Any:
        if self.name in OF_TORCH:
            return FACTS.unknown(f"torch.ops.{self.name}.{operator}")
        msg = f"'_OpNamespace' '{self.name}' object has no attribute '{operator}'"
        raise AttributeError(msg)


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.ops.{name}") if name in FUNCTIONS or name.startswith("__") else _Namespace(name)
