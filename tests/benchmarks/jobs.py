"""How many wheels a release builds, beside the rows of test-infra's generator for the same request.

TEST_INFRA names a checkout of pytorch/test-infra; without one there is nothing to compare with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GENERATOR = "tools/scripts/generate_binary_build_matrix.py"
# The reference package, asked for what the generator's channel `release` has of itself: the versions of torch 2.13.
CONFIG = """\
package: ao-kernels
source: {{path: {root}, subdirectory: package, include: [/package/, /kernels/]}}
python: {pythons}
torch: ["2.13"]
platforms:
  linux-cuda:
    owner: "@fatwheel/cuda"
    native: ["kernels/**/*.cu", "kernels/**/*.cuh", "kernels/**/*.cpp"]
    cuda: ["12.6", "13.0", "13.2"]
    archs: ["9.0"]
    env: {{AO_KERNELS_CUDA: "1"}}
  linux-rocm: {{native: ["kernels/**/*.hip"], rocm: ["7.1", "7.2"]}}
  linux-xpu: {{native: ["kernels/**/*.sycl"]}}
  linux-cpu:
"""


class Asked(NamedTuple):
    """A request, as both are asked it."""

    what: str
    pythons: tuple[str, ...]
    systems: tuple[str, ...]
    platforms: str  # besides those of x86-64


ALL = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
KEPT = (
    "3.10",
    "3.14t",
)  # by `python-abi3: enable`, of these (pytorch/test-infra#8708): the oldest, and free-threaded ones
REST = "  linux-aarch64:\n  windows:\n  macos-arm64:\n"
REQUESTS = (
    Asked("Linux x86-64, one Python", ALL[:1], ("linux",), ""),
    Asked("Linux x86-64, six Pythons", ALL, ("linux",), ""),
    Asked("every platform, six Pythons", ALL, ("linux", "linux-aarch64", "windows", "macos-arm64"), REST),
)


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit): the wheels we build for one row of theirs."""
    checkout = Path(os.environ.get("TEST_INFRA", ""), GENERATOR)
    if not checkout.is_file():
        sys.stderr.write(f"jobs: nothing to compare with, TEST_INFRA names no folder that has {GENERATOR}\n")
        return
    for asked in REQUESTS:
        theirs, ours = sum(_rows(checkout, system, asked.pythons) for system in asked.systems), _wheels(asked)
        kept = tuple(python for python in asked.pythons if python in KEPT)
        with_abi3 = sum(_rows(checkout, system, kept) for system in asked.systems)
        yield f"{asked.what}: test-infra's builds", theirs, "", float("inf")
        yield f"{asked.what}: test-infra's builds with python-abi3", with_abi3, "", float("inf")
        yield f"{asked.what}: ours", ours, "", float("inf")
        yield f"{asked.what}: ours for one of its builds", ours / theirs, "x", 1.0


def _rows(generator: Path, system: str, pythons: tuple[str, ...]) -> int:
    """Return the rows that its generator makes for a release; a row is a job that builds, and one that uploads."""
    linux = "enable" if system == "linux" else "disable"
    accelerators = [f"--with-{kind}={linux}" for kind in ("cuda", "rocm", "xpu")]
    asked = ["--channel=release", "--build-python-only=disable", f"--python-versions={json.dumps(pythons)}"]
    command = [sys.executable, generator, f"--operating-system={system}", *accelerators, *asked]
    return len(json.loads(subprocess.check_output(command))["include"])


def _wheels(asked: Asked) -> int:
    return count(asked)[0]


def count(asked: Asked) -> tuple[int, int]:
    """Return how many wheels our plan builds for a request, and at how many places it tries them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fatwheel.yml")
        path.write_text(CONFIG.format(root=json.dumps(str(ROOT)), pythons=json.dumps(asked.pythons)) + asked.platforms)
        command = [sys.executable, "-m", "ci_tools", "plan", path, "--format", "json"]
        plan = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
        return len(plan["jobs"]), len(plan["validate"])
