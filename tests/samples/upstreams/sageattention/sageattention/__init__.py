from .core import KERNELS
