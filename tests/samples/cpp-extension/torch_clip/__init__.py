import torch

from torch_clip._C import clip
