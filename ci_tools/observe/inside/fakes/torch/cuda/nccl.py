"""`torch.cuda.nccl`: NCCL comes with torch for CUDA on Linux."""

from __future__ import annotations

from ci_tools.observe.inside.facts import FACTS


def version() -> tuple[int, ...]:
    """Return the version of NCCL; raise where torch has none, as torch does."""
    kind = FACTS.ask("accelerator")["kind"]
    if kind not in {"cuda", "rocm"} or FACTS.ask("os") != "linux":
        raise AttributeError("module 'torch._C' has no attribute '_nccl_version'")
    if not FACTS.ask("nccl"):
        FACTS.doubt("asks for torch.cuda.nccl.version(), which no wheel on the package index says for this torch")
    return tuple(map(int, filter(None, FACTS.ask("nccl").split("."))))
