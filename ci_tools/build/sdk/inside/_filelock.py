"""In place of torch.utils._filelock, which torch.utils.cpp_extension imports from 2.14 on, to lock what it loads.

The real one needs the package filelock and a compiled part of torch. A build that loads what it compiles needs both.
"""

from __future__ import annotations

from torch._fatwheel import FACTS

__all__ = ["FileLock"]


class FileLock:
    """A lock that no build can take here."""

    def __init__(self, *_: object, **__: object) -> None:
        raise FACTS.missing("torch.utils._filelock.FileLock")
