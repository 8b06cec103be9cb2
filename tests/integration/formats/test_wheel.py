from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.formats.relabel import Label, relabel
from tests.builders import wheels

CUDA = "demo-1.0+cu130-py3-none-any.whl"


def label(wheel: Path, *, local: str = "cu130", requires_torch: str = "") -> Path:
    relabel(wheel, wheel.parent / "out" / CUDA, Label(local, requires_torch))
    return wheel.parent / "out" / CUDA


# ---------------------------------------------------------------- installers


@pytest.mark.slow
def test_pip_and_uv_take_the_result(tmp_path: Path) -> None:
    wheel = label(wheels.make(tmp_path, files={"demo.py": b"x = 1\n", "demo-1.0.data/scripts/demo": b"#!python\n"}))
    uv = str(Path(sys.executable).with_name("uv"))
    environ = {"PATH": os.environ["PATH"], "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_NO_CONFIG": "1"}
    for number, install in enumerate(
        ([uv, "pip", "install", "--no-deps", "--python"], [sys.executable, "-m", "pip", "--python"])
    ):
        python = tmp_path / str(number) / "bin" / "python"
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(python.parents[1])], env=environ, check=True)
        rest = ["install", "--no-deps", "--no-index"] if "-m" in install else []
        subprocess.run([*install, str(python), *rest, str(wheel)], env=environ, check=True, capture_output=True)
        check = [sys.executable, "-m", "pip", "--python", str(python)]
        subprocess.run([*check, "check"], env=environ, check=True, capture_output=True)
        listed = subprocess.run([*check, "freeze"], env=environ, check=True, capture_output=True, text=True).stdout
        assert listed.split()[0].startswith("demo")
        assert (python.parent / "demo").is_file()
