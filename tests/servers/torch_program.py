"""A Python that has imported torch, as a program that `tests.servers.prepared` forks.

What a fork finds imported is torch only: its devices, which torch loads when it is imported, are those of the fork.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

COMMAND = ()
WITHOUT_DEVICES = (
    "TORCH_DEVICE_BACKEND_AUTOLOAD"  # https://docs.pytorch.org/tutorials/unstable/python_extension_autoload.html
)


def load() -> None:
    """Import torch without the devices that are installed, and what `torch.compile` imports."""
    os.environ[WITHOUT_DEVICES] = "0"
    import torch._dynamo  # noqa: PLC0415 - the client needs none of it
    import torch._dynamo.backends.debugging  # noqa: PLC0415, F401 - the client needs none of it


def run(arguments: Sequence[str]) -> int:
    """Run Python with these arguments: `-c` and a text, `-m` and a module, or a script."""
    import torch  # noqa: PLC0415 - the client needs none of it

    kind, *rest = arguments
    sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    torch._import_device_backends()  # noqa: SLF001 - as torch/__init__.py ends
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})  # noqa: S102 - the text of `python -c`
    elif kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *rest]
        runpy.run_path(kind, run_name="__main__")
    return 0
