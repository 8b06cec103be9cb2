"""Projects that setuptools builds, for tests of what is observed of them: their setup.py, and the plan of each."""

from __future__ import annotations

from pathlib import Path

from ci_tools.model.plan import Plan
from tests.builders.sources import plan_of, write

HEAD = "import os, subprocess, sys\nfrom setuptools import Extension, setup\n"
TORCH = "from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension\n"
CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.12", "3.14t"]
torch: ["2.10", "2.13"]
build: {env: {SHARED: "1"}}
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], env: {ON_CUDA: "1"}}
  linux-cpu: {owner: "@demo/cpu"}
  windows: {owner: "@demo/windows"}
"""
STABLE = "#include <torch/csrc/stable/library.h>\n"


def setup(keywords: str, before: str = "") -> str:
    """Return a setup.py that gives setup() these keywords besides the usual."""
    return f"{HEAD}{before}setup(name='demo', version='1.0', packages=['demo'], {keywords})\n"


def only(*platforms: str) -> str:
    """Return the config with some of its platforms: each is observed, also where nobody asks for its wheels."""
    lines = CONFIG.splitlines(keepends=True)
    return "".join(line for line in lines if "@demo" not in line or line.strip().startswith(platforms))


def planned(folder: Path, files: dict[str, str | bytes], config: str = CONFIG) -> Plan:
    """Return the plan of a project with these files."""
    return plan_of(write(folder / "a", {"fatwheel.yml": config, "demo/__init__.py": "", **files}))


def jobs_of(plan: Plan, platform: str) -> set[str]:
    """Return the names of the jobs that serve a platform's cells."""
    return {item.job for item in plan.covered if item.cell.platform == platform}
