from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from ci_tools.formats.relabel import Label, relabel
from tests.builders import wheels
from tests.builders.installers import run_client

if TYPE_CHECKING:
    from pathlib import Path

CUDA = "demo-1.0+cu130-py3-none-any.whl"


def label(wheel: Path, *, local: str = "cu130", requires_torch: str = "") -> Path:
    relabel(wheel, wheel.parent / "out" / CUDA, Label(local, requires_torch))
    return wheel.parent / "out" / CUDA


# ---------------------------------------------------------------- installers


@pytest.mark.slow
def test_pip_and_uv_take_the_result(tmp_path: Path) -> None:
    wheel = label(wheels.make(tmp_path, files={"demo.py": b"x = 1\n", "demo-1.0.data/scripts/demo": b"#!python\n"}))
    environ = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_NO_CONFIG": "1"}
    there, env = tmp_path / "there", tmp_path / "env"
    by_pip = run_client("pip", ["install", "--no-deps", "--no-index", "--target", there, wheel], environ)
    assert by_pip.returncode == 0, by_pip.stderr
    frozen = run_client("pip", ["freeze", "--path", there], environ).stdout
    for words in (["venv", env], ["pip", "install", "--no-deps", wheel], ["pip", "check"], ["pip", "freeze"]):
        python = sys.executable if words[0] == "venv" else env / "bin" / "python"
        by_uv = run_client("uv", [*words, "--python", python], environ)
        assert by_uv.returncode == 0, by_uv.stderr
    for listed, folder in ((frozen, there), (by_uv.stdout, env)):
        assert listed.split()[0].startswith("demo")
        assert (folder / "bin" / "demo").is_file()
