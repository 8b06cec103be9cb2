"""From `pip install` of an sdist to a working import: a smart sdist beside FlashAttention's own logic, in one run.

The peer is the setup.py of flash-attn's own sdist, fetched by its hash. Two of its lines are changed, or it could not
be measured here: the address of its wheels is a local server, and torch says that it is for CUDA 13.0. Both
install the same library, and are held against `pip install` of its wheel by the address.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from ci_tools.formats.tar import tarfile
from ci_tools.machine import package_index
from ci_tools.model.names import Sha256
from tests.builders.smart_sdists import environ_of, locked, smart_sdist
from tests.builders.wheels import make
from tests.proof.truth import projects
from tests.servers.assets import Assets, assets
from tests.servers.uploads import UV

PEER = "flash-attn"
SIZE = 64 << 20  # bytes of the library
REPETITIONS = 3
MAX_ABOVE = 3.0  # seconds that choosing may take above the download
MAX_ADDED = 0.1  # megabytes
ADDRESS = "https://github.com/Dao-AILab/flash-attention/releases/download/{tag_name}/{wheel_name}"
TAGS = f"cp{sys.version_info.major}{sys.version_info.minor}-cp{sys.version_info.major}{sys.version_info.minor}"


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit)."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-installing-") as name:
        folder = Path(name)
        (folder / "assets").mkdir()
        with assets(folder / "assets") as server:
            yield from _compare(folder, server)


def _compare(folder: Path, server: Assets) -> Iterator[tuple[str, float, str, float]]:
    wheel = make(folder / "assets", f"demo-1.0+cu130-{TAGS}-linux_{platform.machine()}.whl", _library("demo"))
    ours = smart_sdist([locked(wheel, server.url, cuda="13.0")], folder)
    peer, environ = _peer(folder, server)
    plain = f"demo @ {server.url}/{wheel.name}"
    ways = {
        "wheel": (plain, "demo", {}),
        "ours": (str(ours), "demo", {"DEMO_FOR_TORCH": f"{torch.__version__.partition('+')[0]}+cu130"}),
        "peer": (str(peer), "flash_attn", environ),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(REPETITIONS):
        for way, (what, module, variables) in ways.items():
            asked = len(server.asked)
            seconds[way].append(_install(what, module, folder / f"{way}{number}", variables))
            if len(server.asked) != asked + 1:
                raise ValueError(f"{what}: expected one download, got {server.asked[asked:]}")
    yield from _weigh(ours, folder)
    least = {way: min(found) for way, found in seconds.items()}
    above = least["ours"] - least["wheel"]
    yield "smart sdist to import, above its wheel by address", above, "s", MAX_ABOVE
    yield "flash-attn's setup.py to import, above the same", least["peer"] - least["wheel"], "s", float("inf")
    yield "smart sdist beside flash-attn's setup.py", least["ours"] / least["peer"], "x", 1.0


def _weigh(ours: Path, folder: Path) -> Iterator[tuple[str, float, str, float]]:
    """Yield what either way fetches beside a wheel and the sources: the lock and the backend, or build requirements."""
    added = ours.stat().st_size - (folder / "plain" / ours.name).stat().st_size
    needs = sum(path.stat().st_size for path in (folder / "needs").rglob("*") if path.is_file())
    yield "smart sdist, its lock and backend", added / 1e6, "MB", MAX_ADDED
    yield "flash-attn's setup.py, what it needs beside torch, installed", needs / 1e6, "MB", float("inf")


def _library(module: str) -> dict[str, bytes]:
    return {f"{module}/__init__.py": b"", f"{module}/library.bin": os.urandom(SIZE)}


def _install(what: str, module: str, target: Path, variables: dict[str, str]) -> float:
    """Install into an empty folder, with empty caches, and import; return the seconds."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-deps",
        "--quiet",
    ]
    isolation = ["--no-build-isolation"] if module == "flash_attn" else []  # its users need it: setup.py imports torch
    environ = environ_of(target, variables)
    started = time.perf_counter()
    subprocess.run([*pip, *isolation, "--target", target / "there", what], env=environ, check=True)
    subprocess.run([sys.executable, "-c", f"import {module}"], cwd=target / "there", check=True)
    return time.perf_counter() - started


def _peer(folder: Path, server: Assets) -> tuple[Path, dict[str, str]]:
    """Return the peer's source, with its wheel at the server, and the variables that its build takes."""
    known = next(project for project in projects() if project["name"] == PEER)
    file = f"flash_attn-{known['version']}.tar.gz"
    archive = folder / file
    index = package_index.users_index(os.environ)
    package_index.download(PEER, file, Sha256(known["sha256"]), archive, index=index, progress=lambda *_: None)
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "peer", filter="data")
    source = folder / "peer" / file.removesuffix(".tar.gz")
    script = (source / "setup.py").read_text(encoding="utf-8")
    own = f'"{server.url}/{{wheel_name}}"'
    changed = script.replace(f'"{ADDRESS}"', own).replace(
        "import torch\n", "import torch; torch.version.cuda = '13.0'\n", 1
    )
    if changed.count(own) != 1 or "= '13.0'" not in changed:
        raise ValueError(f"{PEER} {known['version']}: its setup.py is not as this benchmark knows it")
    (source / "setup.py").write_text(changed, encoding="utf-8")
    abi = str(torch.compiled_with_cxx11_abi()).upper()
    minor = ".".join(torch.__version__.split(".")[:2])
    version = str(known["version"])
    made = make(folder / "made", f"flash_attn-{version}-{TAGS}-linux_{platform.machine()}.whl", _library("flash_attn"))
    label = f"+cu13torch{minor}cxx11abi{abi}"
    made.rename(folder / "assets" / made.name.replace(version, f"{version}{label}"))
    needs = folder / "needs"
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--target", needs, "setuptools<81", "wheel<0.46", "psutil"], check=True
    )
    return source, {"PYTHONPATH": str(needs), "FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"}
