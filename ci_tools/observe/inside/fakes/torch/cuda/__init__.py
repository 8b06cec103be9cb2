"""`torch.cuda` on a builder: there is a GPU only where the question is what one would change."""

from __future__ import annotations

from typing import Any

from torch.cuda import nccl

from ci_tools.observe.inside.facts import FACTS

__all__ = ["nccl"]


def is_available() -> bool:
    """Whether the builder has a GPU."""
    return bool(FACTS.ask("gpu"))


def device_count() -> int:
    """Return how many GPUs the builder has."""
    return int(is_available())


def init() -> None:
    """Raise where there is no GPU, as torch does."""
    if not _is_compiled():
        raise AssertionError("Torch not compiled with CUDA enabled")
    if not is_available():
        raise RuntimeError("No CUDA GPUs are available")


def current_device() -> int:
    """Return the number of the GPU in use; raise where there is none."""
    init()
    return 0


def get_device_name(_device: object = None) -> Any:
    """Raise where there is no GPU; the name of one is not known."""
    init()
    return FACTS.unknown("torch.cuda.get_device_name")


def get_device_capability(_device: object = None) -> tuple[int, int]:
    """Return the GPU's compute capability; raise where there is none."""
    init()
    major, _, minor = str(FACTS.ask("capability")).partition(".")
    return int(major), int(minor)


class _Properties:
    """The properties of a GPU: its compute capability is known; its name and its memory are not."""

    def __init__(self) -> None:
        self.major, self.minor = get_device_capability()

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"torch.cuda.get_device_properties().{name}")


def get_device_properties(_device: object = None) -> _Properties:
    """Return the GPU's properties; raise where there is none."""
    return _Properties()


def get_arch_list() -> list[str]:
    """Return the architectures torch was built for: where there is no GPU, none."""
    return [f"sm_{major}{minor}" for major, minor in [get_device_capability()]] if is_available() else []


def _is_compiled() -> bool:
    return bool(FACTS.ask("accelerator")["kind"] in {"cuda", "rocm"})
