"""`torch.ops`: torch's own operators are not simulated; those of another library are there once it is loaded."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from ci_tools.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from torch._C import Schema

# The namespaces that torch 2.13 has operators in; a test asks the real torch for them.
OF_TORCH = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "_c10d_functional _c10d_functional_autograd _dtensor _native _quantized _test aten c10d cuda debug_mode_ops "
    "debugprims export fsdp higher_order inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn onnx prepacked "
    "prim prims profiler quantization quantized quantized_decomposed rngprims sparse static_runtime symm_mem".split()
)
ATEN = "aten"
# Operators whose schemas build scripts compare; a test asks the real torch for them.
OPERATORS = frozenset(
    "_efficient_attention_backward _efficient_attention_forward _flash_attention_backward "
    "_flash_attention_forward".split()
)
MAX_SAID = 50  # characters of a schema in a question
FUNCTIONS = frozenset({"import_module", "load_library", "loaded_libraries"})


class _Schema:
    """The schema of one of torch's operators: whether it takes the calls of another one, no cell says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_backward_compatible_with(self, other: Schema) -> bool:
        """Whether each call that fits the other schema fits this one."""
        FACTS.ask("torch")
        said = hashlib.sha256(other.text.encode()).hexdigest()[:8]
        return FACTS.suppose(f"torch's {self.name} takes calls of the schema {other.text[:MAX_SAID]}… ({said})")

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"the schema of torch.ops.{self.name}, and of it {name}")


class _Operator:
    """One of torch's operators, of which the schema may be asked."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "default":
            return self
        if name == "_schema":
            return _Schema(self._name)
        return FACTS.unknown(f"torch.ops.{self._name}.{name}")


class _Namespace:
    """The operators under one name; torch makes one for each name that it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, operator: str) -> Any:
        if self.name == ATEN and operator in OPERATORS:
            return _Operator(f"{self.name}.{operator}")
        if self.name in OF_TORCH:
            return FACTS.unknown(f"torch.ops.{self.name}.{operator}")
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{operator}'")


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.ops.{name}") if name in FUNCTIONS or name.startswith("__") else _Namespace(name)
