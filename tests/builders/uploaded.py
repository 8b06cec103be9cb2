"""A release of a demo to an index that takes uploads: its files, and its publishers."""

from __future__ import annotations

import os
from pathlib import Path

from ci_tools.publish.targets.pypi import PyPITarget
from tests.builders.forked import Forked, upload
from tests.builders.sources import world
from tests.builders.wheels import make
from tests.servers.uploads import Server, sdist

PURE, SDIST, NATIVE = "demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz", "demo-1.0-cp310-abi3-linux_x86_64.whl"
CUDA = "demo-1.0+cu130-py3-none-any.whl"
ORDER = [NATIVE, PURE, SDIST]


def files(folder: Path, content: bytes = b"ANSWER = 42\n") -> list[Path]:
    """Make wheels, one of them native and one of an accelerator, and an sdist."""
    wheels = [make(folder, name, {"demo.py": content}) for name in (PURE, NATIVE, CUDA)]
    return [*wheels, sdist(folder)]


def target(folder: Path, server: Server, uploader: str = "uv", **environ: str) -> PyPITarget:
    """Return an index; uv starts in a tenth of twine's time, so tests take twine where an uploader matters."""
    outside = world(folder, **{**server.environ, **environ})
    return PyPITarget(server.upload, outside, uploader=uploader, patience=5.0)


def publishing(folder: Path, server: Server, uploader: str) -> Forked:
    """Publish the files of a folder in a process."""
    environ = {"PATH": os.environ["PATH"], **server.environ}
    return Forked(upload, folder, server.upload, uploader, env=environ)
