import torch  # noqa: F401 - its libraries come first

from classic._C import scale

__all__ = ["scale"]
