from pathlib import Path

import torch

torch.ops.load_library(next(Path(__file__).parent.glob("libfast_scan_ops.*")))
scan = torch.ops.fast_scan.scan
