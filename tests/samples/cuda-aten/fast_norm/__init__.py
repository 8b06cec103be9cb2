import torch

from fast_norm._C import rms_norm
